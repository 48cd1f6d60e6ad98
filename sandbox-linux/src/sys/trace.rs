//! Has a thread that waits in a system call make another one, by its registers alone: not a byte of its memory is
//! written, which a parent that has only split it off (`vfork`), or another thread, would see.
//!
//! A tracer is a thread, not a process: all of this is done by one thread, and when it ends the kernel lets go of
//! whatever it still traces.
//!
//! <https://man7.org/linux/man-pages/man2/ptrace.2.html>

#[cfg_attr(target_arch = "x86_64", path = "trace/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "trace/aarch64.rs")]
mod registers;

use std::io;
use std::time::{Duration, Instant};

use self::registers::Registers;
use super::notify::Notification;

/// How long a thread may take to stop. It is on its way out of a call.
const LONGEST_STOP: Duration = Duration::from_secs(5);
/// How long is slept between two looks, at first.
const FIRST_LOOK: Duration = Duration::from_micros(20);
const LAST_LOOK: Duration = Duration::from_millis(5);

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
        if !registers.are_behind(call) {
            self.release(0)?;
            return Ok(Redirected::No);
        }
        registers.make(number, arguments);
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

    fn registers(&self) -> io::Result<Registers> {
        // SAFETY: all-zero bytes are a valid value of a structure of numbers.
        let mut registers: Registers = unsafe { std::mem::zeroed() };
        let filled = self.exchange(libc::PTRACE_GETREGSET, &mut registers)?;
        if filled != size_of::<Registers>() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(registers)
    }

    fn set_registers(&self, registers: &mut Registers) -> io::Result<()> {
        self.exchange(libc::PTRACE_SETREGSET, registers).map(drop)
    }

    /// Reads or writes the general registers, and tells how many bytes that were.
    fn exchange(&self, request: libc::c_uint, registers: &mut Registers) -> io::Result<usize> {
        const GENERAL: usize = libc::NT_PRSTATUS as usize;
        let kind = std::ptr::without_provenance_mut::<libc::c_void>(GENERAL);
        let mut place = libc::iovec { iov_base: std::ptr::from_mut(registers).cast(), iov_len: size_of::<Registers>() };
        // SAFETY: the kernel reads or fills at most the length that is given for the structure, which lives through the
        // call.
        check(unsafe { libc::ptrace(request, self.thread, kind, &raw mut place) })?;
        Ok(place.iov_len)
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
