//! Judges in a child process, so that a crash has an answer, too.
//!
//! Claude Code and gemini-cli go on without a hook that dies by a signal or ends with an unknown code. A stack overflow, an
//! allocation that fails and, in a release build, a panic end the whole process; no thread can answer then. So the process
//! that the agent has started does nothing but wait for a copy of itself. A copy costs less than starting the program
//! again: nothing is loaded or linked a second time.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::sys::{self, Forked};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEnd {
    Code(u8),
    Signal(i32),
    /// It did not end in time, and was killed.
    Late,
}

/// Runs `work` in a child process, which ends with its result.
pub(super) fn run(limit: Duration, work: impl FnOnce() -> u8) -> io::Result<ChildEnd> {
    let until = Instant::now() + limit;
    // The child keeps its end until it is gone; programs that it starts don't inherit it.
    let (ending, held) = io::pipe()?;
    let child = match sys::fork()? {
        Forked::Child => {
            drop(ending);
            let code = work();
            // Without what the parent does at its end.
            std::process::exit(code.into());
        }
        Forked::Parent { child } => child,
    };
    drop(held);
    let is_late = !wait_for_end(&ending, until)?;
    if is_late {
        rustix::process::kill_process(child, Signal::KILL)?;
    }
    let end = status(child)?;
    Ok(if is_late { ChildEnd::Late } else { end })
}

/// Whether the other end of the pipe is closed in time.
fn wait_for_end(ending: &io::PipeReader, until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
        match rustix::event::poll(&mut [PollFd::new(ending, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn status(child: Pid) -> io::Result<ChildEnd> {
    loop {
        match rustix::process::waitpid(Some(child), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                let code = status.exit_status().and_then(|code| u8::try_from(code).ok());
                return Ok(
                    code.map_or(ChildEnd::Signal(status.terminating_signal().unwrap_or_default()), ChildEnd::Code)
                );
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
