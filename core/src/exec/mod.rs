//! Runs a plan: captures and forwards output, measures time with a pausable clock, and ends in any case.
//!
//! On systems with pollable descriptors, the caller's own event loop waits for the command (`polled`); elsewhere a
//! thread does (`threaded`). A captured stream has its own thread from the first output on, since its consumer may
//! block. Dropping the future ends the command.

mod capture;
mod clock;
mod input;
#[cfg(unix)]
mod polled;
mod reader;
mod streams;
#[cfg(not(unix))]
mod threaded;

use std::time::{Duration, Instant};

use stockade_protocol::{CapturedOutput, Enforcement};
use stockade_sandboxing::{Deciders, Plan, SpawnError, WaitStatus};

pub use clock::{Clock, Pause};
pub use input::{InputPipe, InputWriter};
pub use streams::{CommandTerminal, Input, Output, OutputSink, StreamName, Streaming};

use crate::evidence::Seen;
use crate::session::OutputLimit;
use crate::{Cancellation, Grant};
use capture::Patience;
#[cfg(unix)]
use polled::wait;
use streams::Opened;
#[cfg(not(unix))]
use threaded::wait;

/// How long to wait for output after the command has ended. In a sandbox no process is left to write; without one, a
/// detached process may hold the pipe for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// The polling interval for a clock that may be paused just before its end, and for a thread's stop flag.
const TICK: Duration = Duration::from_millis(20);

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    pub(crate) stdout: CapturedOutput,
    pub(crate) stderr: CapturedOutput,
    pub(crate) duration: Duration,
    pub(crate) enforcement: Enforcement,
    /// The backend's observations, if any.
    pub(crate) seen: Option<Seen>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signaled(i32),
    /// The clock ran out.
    TimedOut,
    /// It was cancelled.
    Cancelled,
}

/// The parameters of a run besides its plan.
pub(crate) struct Setting {
    pub(crate) streaming: Streaming,
    pub(crate) output: OutputLimit,
    pub(crate) limit: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) cancellation: Cancellation,
    /// The deciders while the command runs.
    pub(crate) deciders: Deciders,
}

/// The limits that end a command early.
struct Limits {
    limit: Option<Duration>,
    clock: Clock,
    cancellation: Cancellation,
}

impl Limits {
    /// The remaining time.
    fn left(&self) -> Option<Duration> {
        self.limit.map(|limit| limit.saturating_sub(self.clock.elapsed()))
    }

    fn are_reached(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero()) || self.cancellation.is_cancelled()
    }

    /// The reason for ending the command now.
    fn end(&self) -> Ended {
        if self.cancellation.is_cancelled() { Ended::Cancelled } else { Ended::TimedOut }
    }

    /// Whether a limit is reached, or a terminating signal was sent.
    fn are_to_end(&self) -> bool {
        self.are_reached() || self.cancellation.is_told_to_end()
    }
}

/// Starts the plan and waits for its end. The grant proves the decision.
pub(crate) async fn spawn(plan: Box<dyn Plan>, _grant: &Grant, setting: Setting) -> Result<Finished, SpawnError> {
    let Setting { streaming, output, limit, clock, cancellation, deciders } = setting;
    let Opened { stdio, mut captures } = streaming.open(output)?;
    let _running = cancellation.takes_signals();
    let running = plan.spawn_guarded(stdio, deciders)?;
    let started = Instant::now();
    clock.start();
    let limits = Limits { limit, clock, cancellation };
    let (running, ended) = wait(running, &limits, &mut captures).await?;
    let duration = limits.clock.elapsed().min(started.elapsed());
    let (stdout, stderr) = captures.finish(&Patience { idle: LAST_OUTPUT, limits: &limits }).await;
    let seen = running.observations().map(|notes| {
        if notes.left_out() > 0 {
            tracing::debug!(left_out = notes.left_out(), "more was denied than is kept");
        }
        let permissions = plan.permissions().clone();
        Seen { permissions, coverage: notes.coverage(), observations: notes.kept() }
    });
    Ok(Finished { ended, stdout, stderr, duration, enforcement: running.enforcement().clone(), seen })
}

impl From<WaitStatus> for Ended {
    fn from(status: WaitStatus) -> Self {
        match status {
            WaitStatus::Exited(code) => Self::Exited(code),
            WaitStatus::Signaled(signal) => Self::Signaled(signal),
        }
    }
}
