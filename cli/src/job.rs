//! A command as a job of the shell: it is suspended and continued together with this program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use stockade_core::{Cancellation, Clock};

use crate::sys::{self, Stops};

/// This many interrupts within [`AT_ONCE`] end the command.
const INTERRUPTS: usize = 3;
const AT_ONCE: Duration = Duration::from_secs(3);

/// The time for the command to stop before this program does.
const PASSED_ON: Duration = Duration::from_millis(500);

/// Counts a person's interrupts.
#[derive(Debug, Default)]
pub(crate) struct Interrupts(Vec<Instant>);

impl Interrupts {
    /// Counts one, and returns whether the command is to be ended.
    pub(crate) fn add(&mut self) -> bool {
        self.0.retain(|time| time.elapsed() < AT_ONCE);
        self.0.push(Instant::now());
        let ends = self.0.len() >= INTERRUPTS;
        ENDED.fetch_or(ends, Ordering::Relaxed);
        ends
    }
}

/// Whether interrupts ended the command of this program.
static ENDED: AtomicBool = AtomicBool::new(false);

/// Whether repeated interrupts ended the command.
pub(crate) fn was_interrupted() -> bool {
    ENDED.load(Ordering::Relaxed)
}

/// Stops the command and then this program, until it is continued. The command's clock is paused.
pub(crate) fn suspend(command: &Cancellation, clock: &Clock, what: Stops) {
    let pause = clock.pause();
    pass(command, Signal::TSTP);
    let start = Instant::now();
    while !command.is_passed_on() && start.elapsed() < PASSED_ON {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The launcher needs a moment to reach the processes.
    std::thread::sleep(Duration::from_millis(20));
    sys::stop(what);
    pass(command, Signal::CONT);
    drop(pause);
}

fn pass(command: &Cancellation, signal: Signal) {
    // The numbers fit on every system.
    if let Ok(number) = u8::try_from(signal.as_raw()) {
        command.signal(number);
    }
}

/// Whether a process has the default reaction to Ctrl-Z.
pub(crate) fn is_stopped_by_key(process: Pid) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", process.as_raw_nonzero())) else {
        return true;
    };
    let bit = 1_u64 << (Signal::TSTP.as_raw() - 1);
    let has = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & bit != 0)
    };
    !has("SigIgn:") && !has("SigCgt:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_interrupts_at_once_are_meant() {
        let mut interrupts = Interrupts::default();
        assert_eq!([interrupts.add(), interrupts.add(), interrupts.add()], [false, false, true]);
        let Some(long_ago) = Instant::now().checked_sub(AT_ONCE) else { return };
        let mut interrupts = Interrupts(vec![long_ago, long_ago]);
        assert!(!interrupts.add());
    }
}
