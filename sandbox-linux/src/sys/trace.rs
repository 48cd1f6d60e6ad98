//! Has a thread that waits in a system call make another one, by its registers alone: not a byte of its memory is
//! written, which a parent that has only split it off (`vfork`), or another thread, would see.
//!
//! A tracer is a thread, not a process: all of this is done by one thread, and when it ends the kernel lets go of
//! whatever it still traces.
//!
//! <https://man7.org/linux/man-pages/man2/ptrace.2.html>

use std::io;
use std::time::{Duration, Instant};

use super::notify::Notification;

/// How long a thread may take to stop. It is on its way out of a call.
const LONGEST_STOP: Duration = Duration::from_secs(5);
/// How long is slept between two looks, at first.
const FIRST_LOOK: Duration = Duration::from_micros(20);
const LAST_LOOK: Duration = Duration::from_millis(5);
/// The length of the instruction that makes a call (`syscall`).
const CALL_LENGTH: u64 = 2;

/// A thread that this one traces.
pub(crate) struct Traced {
    thread: i32,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirected {
    /// The thread makes the other call next.
    Yes,
    /// It goes on as if nothing had happened: it was on its way elsewhere.
    No,
}

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

impl Traced {
    /// Begins to trace a thread, which notices nothing of it.
    pub(crate) fn seize(thread: i32) -> io::Result<Self> {
        let (none, options) = (std::ptr::null_mut::<libc::c_void>(), std::ptr::null_mut::<libc::c_void>());
        // SAFETY: the request reads no memory.
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, thread, none, options) })?;
        Ok(Self { thread })
    }

    /// Has it stop when it leaves the call that it is in.
    pub(crate) fn interrupt(&self) -> io::Result<()> {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the request reads no memory.
        check(unsafe { libc::ptrace(libc::PTRACE_INTERRUPT, self.thread, none, none) }).map(drop)
    }

    /// Waits until it has left `call`, puts another one into its registers, and lets it go. If it stands elsewhere
    /// nothing is changed.
    pub(crate) fn redirect(self, call: &Notification, number: i64, arguments: [u64; 5]) -> io::Result<Redirected> {
        let stop = self.stop()?;
        if stop.signal != 0 {
            // A signal came first: the call was left, and may be made again.
            self.release(stop.signal)?;
            return Ok(Redirected::No);
        }
        let mut registers = self.registers()?;
        let given = [registers.rdi, registers.rsi, registers.rdx];
        let is_there = registers.orig_rax == call.call.cast_unsigned() && call.arguments.starts_with(&given);
        if !is_there {
            self.release(0)?;
            return Ok(Redirected::No);
        }
        registers.rip = registers.rip.wrapping_sub(CALL_LENGTH);
        registers.rax = number.cast_unsigned();
        // No call is to be made again.
        registers.orig_rax = u64::MAX;
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8] = arguments;
        self.set_registers(&mut registers)?;
        self.release(0)?;
        Ok(Redirected::Yes)
    }

    fn stop(&self) -> io::Result<Stop> {
        const EVENT_STOP: i32 = 128;
        let (from, mut look) = (Instant::now(), FIRST_LOOK);
        loop {
            let mut status = 0;
            // SAFETY: the status is a live number.
            let found = unsafe { libc::waitpid(self.thread, &raw mut status, libc::__WALL | libc::WNOHANG) };
            match check(i64::from(found))? {
                0 if from.elapsed() > LONGEST_STOP => return Err(io::ErrorKind::TimedOut.into()),
                0 => {
                    std::thread::sleep(look);
                    look = (look * 2).min(LAST_LOOK);
                }
                _ if !libc::WIFSTOPPED(status) => return Err(io::ErrorKind::NotFound.into()),
                _ if status >> 16 == EVENT_STOP => return Ok(Stop { signal: 0 }),
                _ => return Ok(Stop { signal: libc::WSTOPSIG(status) }),
            }
        }
    }

    fn registers(&self) -> io::Result<libc::user_regs_struct> {
        // SAFETY: all-zero bytes are a valid value of a structure of numbers.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel fills the structure of this request, which lives through the call.
        check(unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.thread, none, &raw mut registers) })?;
        Ok(registers)
    }

    fn set_registers(&self, registers: &mut libc::user_regs_struct) -> io::Result<()> {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: the kernel reads the structure of this request, which lives through the call.
        check(unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.thread, none, std::ptr::from_mut(registers)) }).map(drop)
    }

    /// Lets a stopped thread go, with a signal if there is one for it.
    fn release(&self, signal: i32) -> io::Result<()> {
        let none = std::ptr::null_mut::<libc::c_void>();
        let signal = usize::try_from(signal).map_err(io::Error::other)?;
        let signal = std::ptr::without_provenance_mut::<libc::c_void>(signal);
        // SAFETY: the request reads no memory.
        check(unsafe { libc::ptrace(libc::PTRACE_DETACH, self.thread, none, signal) }).map(drop)
    }
}

/// Where a thread has stopped.
struct Stop {
    /// The signal that it is about to get; 0 if it stopped because it was asked to.
    signal: i32,
}
