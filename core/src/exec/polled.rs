//! Waits for a command in the caller's own event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use stockade_sandboxing::{Running, SpawnError};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::streams::Captures;
use super::{Ended, Limits, TICK};

/// Waits for the end of the command, or ends it when a limit is reached. Meanwhile it forwards signals, and starts the
/// reader of a stream at its first output.
pub(super) async fn wait(
    mut running: Box<dyn Running>,
    limits: &Limits,
    captures: &mut Captures,
) -> Result<(Box<dyn Running>, Ended), SpawnError> {
    let lost = |source: io::Error| SpawnError::Launcher { doing: "waiting for the command", source };
    let readable = running.readable().try_clone_to_owned().map_err(lost)?;
    #[expect(deprecated, reason = "unsound for types whose descriptor changes, which that of an `OwnedFd` does not")]
    let readable = AsyncFd::with_interest(readable, Interest::READABLE).map_err(lost)?;
    loop {
        // From here on no change is missed.
        let told = limits.cancellation.told();
        tokio::pin!(told);
        told.as_mut().enable();
        for signal in limits.cancellation.take_signals() {
            running.signal(signal)?;
        }
        if limits.are_reached() {
            break;
        }
        tokio::select! {
            status = end(&mut *running, &readable) => return Ok((running, status?)),
            started = captures.first_output() => started.map_err(lost)?,
            () = told => {}
            () = runs_out(limits) => {}
        }
    }
    let ended = limits.end();
    running.kill()?;
    end(&mut *running, &readable).await?;
    Ok((running, ended))
}

async fn end(running: &mut dyn Running, readable: &AsyncFd<OwnedFd>) -> Result<Ended, SpawnError> {
    loop {
        let guard = readable.readable().await;
        let mut guard = guard.map_err(|source| SpawnError::Launcher { doing: "waiting for the command", source })?;
        if let Some(status) = running.wait(Some(Duration::ZERO))? {
            return Ok(status.into());
        }
        guard.clear_ready();
    }
}

/// Waits for the remaining time, regardless of pauses.
async fn runs_out(limits: &Limits) {
    match limits.left() {
        Some(left) => tokio::time::sleep(left.max(TICK)).await,
        None => std::future::pending().await,
    }
}
