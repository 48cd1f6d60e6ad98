//! Running a plan: output captured and passed on, a clock that can stand still, an end in any case.
//!
//! Each run has a thread that waits for it and one for each stream that is captured. They block in
//! the operating system, need nothing of it but pipes, and are the same on every system. Whoever
//! drops the future ends the command.

mod capture;
mod clock;
mod streams;

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use stockade_protocol::{CapturedOutput, Enforcement};
use stockade_sandboxing::{Gatekeeper, Plan, Running, SpawnError, WaitStatus};
use tokio::sync::oneshot;

pub use clock::{Clock, Pause};
pub use streams::{Input, Output, OutputSink, StreamName, Streaming};

use crate::session::OutputLimit;
use crate::{Cancellation, Grant};
use streams::Opened;

/// How long output is waited for after the command has ended. In a sandbox nobody is left to write
/// any; without one, something that detached itself may hold the pipe for ever.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How often a waiting thread looks whether it has been told to stop.
const TICK: Duration = Duration::from_millis(20);

/// How a run ended, and what it left.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ended: Ended,
    pub(crate) stdout: CapturedOutput,
    pub(crate) stderr: CapturedOutput,
    pub(crate) duration: Duration,
    pub(crate) enforcement: Enforcement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    Signaled(i32),
    /// The clock ran out, or somebody cancelled it.
    Stopped,
}

/// What a run needs besides its plan.
pub(crate) struct Setting {
    pub(crate) streaming: Streaming,
    pub(crate) output: OutputLimit,
    pub(crate) limit: Option<Duration>,
    pub(crate) clock: Clock,
    pub(crate) cancellation: Cancellation,
    /// Decides on connections while the command runs.
    pub(crate) gatekeeper: Option<Arc<dyn Gatekeeper>>,
}

/// Starts the plan and waits for its end. The grant is the proof that somebody decided about it.
pub(crate) async fn spawn(plan: Box<dyn Plan>, _grant: &Grant, setting: Setting) -> Result<Finished, SpawnError> {
    let (done, finished) = oneshot::channel();
    // Dropped together with this future, which tells the thread to stop.
    let (_alive, dropped) = mpsc::channel::<()>();
    let thread = std::thread::Builder::new().name(String::from("stockade-run"));
    let watch = move || {
        // Nobody listens any more if the future was dropped.
        done.send(supervise(&*plan, setting, &dropped)).ok();
    };
    thread.spawn(watch).map_err(|source| SpawnError::Launcher { doing: "starting a thread", source })?;
    finished.await.unwrap_or_else(|_| {
        let source = std::io::Error::other("the thread that waits for the command died");
        Err(SpawnError::Launcher { doing: "waiting for the command", source })
    })
}

fn supervise(plan: &dyn Plan, setting: Setting, dropped: &mpsc::Receiver<()>) -> Result<Finished, SpawnError> {
    let Setting { streaming, output, limit, clock, cancellation, gatekeeper } = setting;
    let Opened { stdio, captures } = streaming.open(output)?;
    let mut running = match gatekeeper {
        Some(gatekeeper) => plan.spawn_guarded(stdio, gatekeeper)?,
        None => plan.spawn(stdio)?,
    };
    let started = Instant::now();
    clock.start();
    let stop = || {
        let expired = limit.is_some_and(|limit| clock.elapsed() >= limit);
        expired || cancellation.is_cancelled() || dropped.try_recv() == Err(mpsc::TryRecvError::Disconnected)
    };
    let ended = wait(&mut *running, stop, &cancellation)?;
    let duration = clock.elapsed().min(started.elapsed());
    let deadline = Instant::now() + LAST_OUTPUT;
    let (stdout, stderr) = captures.finish(deadline);
    Ok(Finished { ended, stdout, stderr, duration, enforcement: running.enforcement().clone() })
}

/// Waits for the end of the command, or ends it when `stop` says so. Signals that are passed on reach
/// it on the way.
fn wait(running: &mut dyn Running, stop: impl Fn() -> bool, cancellation: &Cancellation) -> Result<Ended, SpawnError> {
    loop {
        match running.wait(Some(TICK))? {
            Some(WaitStatus::Exited(code)) => return Ok(Ended::Exited(code)),
            Some(WaitStatus::Signaled(signal)) => return Ok(Ended::Signaled(signal)),
            None if stop() => break,
            None => {
                for signal in cancellation.take_signals() {
                    running.signal(signal)?;
                }
            }
        }
    }
    running.kill()?;
    running.wait(None)?;
    Ok(Ended::Stopped)
}
