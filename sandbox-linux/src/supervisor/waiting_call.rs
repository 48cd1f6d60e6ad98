//! The system call in which a thread waits, from `/proc`: its number, its arguments, the stack pointer and the
//! instruction pointer, all but the first in hexadecimal.
//!
//! The kernel reports it for a sleeping thread, and `running` otherwise. A thread that has sent a request to this
//! program (a notification, a FUSE request) is about to sleep, as soon as it is scheduled. How long that takes depends
//! on the load, so this waits.
//!
//! [proc_pid_syscall(5)](https://man7.org/linux/man-pages/man5/proc_pid_syscall.5.html)

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Far longer than scheduling delays. It is bounded because this program serves other threads, too.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The polling interval: at first a context switch, at the end a time slice.
const FIRST_PAUSE: Duration = Duration::from_micros(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// The waiting call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitingCall {
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 6],
    pub(crate) stack_pointer: u64,
}

impl WaitingCall {
    /// The call of a thread that waits for this program's answer, while `waits` confirms that. `None` for a thread
    /// that can't be inspected.
    pub(crate) fn of(thread: u32, waits: impl Fn() -> bool) -> Option<Self> {
        let path = format!("/proc/{thread}/syscall");
        let (end, mut pause) = (Instant::now() + LONGEST_WAIT, FIRST_PAUSE);
        loop {
            let told = fs::read_to_string(&path).ok()?;
            if told.trim() != "running" {
                return Self::read(&told);
            }
            if !waits() || Instant::now() >= end {
                return None;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// A thread that sleeps outside of a call has fewer words.
    fn read(told: &str) -> Option<Self> {
        let mut words = told.split_ascii_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let arguments = [next()?, next()?, next()?, next()?, next()?, next()?];
        Some(Self { number, arguments, stack_pointer: next()? })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_call_is_read_as_the_kernel_tells_it() {
        let told = "257 0xffffff9c 0x7ffc 0x80000 0x0 0x1 0x2 0x7fff10 0x7f\n";
        let arguments = [0xffff_ff9c, 0x7ffc, 0x80000, 0, 1, 2];
        let call = WaitingCall { number: 257, arguments, stack_pointer: 0x7f_ff10 };
        assert_eq!(WaitingCall::read(told), Some(call));
        for other in ["", "running", "257", "-1 0x7ffc 0x7f", "257 a b c d e f g h"] {
            assert_eq!(WaitingCall::read(other), None, "{other}");
        }
    }

    /// A thread that does not sleep yet is waited for.
    #[test]
    fn a_thread_that_does_not_sleep_yet_is_waited_for() {
        let (own, number) = mpsc::channel();
        let (_held, end) = mpsc::channel::<()>();
        let busy = thread::spawn(move || {
            own.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let until = Instant::now() + Duration::from_millis(200);
            while Instant::now() < until {}
            end.recv().ok();
        });
        let call = WaitingCall::of(number.recv().unwrap().cast_unsigned(), || true).unwrap();
        assert_eq!(call.number, libc::SYS_futex);
        drop(_held);
        busy.join().unwrap();
    }

    #[test]
    fn a_thread_that_is_gone_or_waits_no_more_is_not_waited_for() {
        assert_eq!(WaitingCall::of(u32::MAX, || true), None);
        let (own, number) = mpsc::channel();
        let busy = thread::spawn(move || {
            own.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let until = Instant::now() + Duration::from_millis(100);
            while Instant::now() < until {}
        });
        let number = number.recv().unwrap().cast_unsigned();
        let call = WaitingCall::of(number, || false);
        assert!(call.is_none_or(|call| call.number >= 0), "{call:?}");
        busy.join().unwrap();
    }
}
