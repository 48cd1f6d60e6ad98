//! Signals.

use super::number as nr;
use super::{Result, call, fd};

pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGKILL: i32 = 9;
pub(crate) const SIGCONT: i32 = 18;
pub(crate) const SIGSTOP: i32 = 19;
pub(crate) const SIGTSTP: i32 = 20;

/// Has this process ignore `SIGPIPE`, and the program that it becomes.
pub(crate) fn ignore_broken_pipes() -> Result<usize> {
    const SIGPIPE: usize = 13;
    const IGNORE: u64 = 1;
    // `struct kernel_sigaction`: the handler, flags, a restorer, and the mask.
    let action = [IGNORE, 0, 0, 0];
    call(nr::RT_SIGACTION, [SIGPIPE, &raw const action as usize, 0, size_of::<u64>(), 0, 0])
}

pub(crate) fn kill(pid: i32, signal: i32) -> Result<usize> {
    call(nr::KILL, [pid as usize, signal as usize, 0, 0, 0, 0])
}

pub(crate) fn signal_process(process: i32, signal: i32) -> Result<usize> {
    call(nr::PIDFD_SEND_SIGNAL, [process as usize, signal as usize, 0, 0, 0, 0])
}

/// Blocks every signal, or none.
pub(crate) fn block_signals(all: bool) -> Result<usize> {
    const SET: usize = 2;
    let mask: u64 = if all { u64::MAX } else { 0 };
    call(nr::RT_SIGPROCMASK, [SET, &raw const mask as usize, 0, size_of_val(&mask), 0, 0])
}

/// Waits for any signal and takes it.
pub(crate) fn next_signal() -> Result<i32> {
    let mask = u64::MAX;
    call(nr::RT_SIGTIMEDWAIT, [&raw const mask as usize, 0, 0, size_of_val(&mask), 0, 0]).map(fd)
}
