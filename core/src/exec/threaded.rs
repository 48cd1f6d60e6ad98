//! Waits for a command on a thread, on systems without pollable descriptors.

use std::sync::mpsc;

use stockade_sandboxing::{Running, SpawnError};
use tokio::sync::oneshot;

use super::streams::Captures;
use super::{Ended, Limits, TICK};
use crate::Cancellation;

/// Waits for the end of the command, or ends it when a limit is reached. Meanwhile it forwards signals.
pub(super) async fn wait(
    running: Box<dyn Running>,
    limits: &Limits,
    _: &mut Captures,
) -> Result<(Box<dyn Running>, Ended), SpawnError> {
    let (done, finished) = oneshot::channel();
    // Dropped together with this future, which tells the thread to stop.
    let (_alive, dropped) = mpsc::channel::<()>();
    let Limits { limit, clock, cancellation } = limits;
    let limits = Limits { limit: *limit, clock: clock.clone(), cancellation: cancellation.clone() };
    let thread = std::thread::Builder::new().name(String::from("stockade-run"));
    let watch = move || {
        // The receiver is gone if the future was dropped.
        done.send(watch(running, &limits, &dropped)).ok();
    };
    thread.spawn(watch).map_err(|source| SpawnError::Launcher { doing: "starting a thread", source })?;
    finished.await.unwrap_or_else(|_| {
        let source = std::io::Error::other("the thread that waits for the command died");
        Err(SpawnError::Launcher { doing: "waiting for the command", source })
    })
}

fn watch(
    mut running: Box<dyn Running>,
    limits: &Limits,
    dropped: &mpsc::Receiver<()>,
) -> Result<(Box<dyn Running>, Ended), SpawnError> {
    let is_dropped = || dropped.try_recv() == Err(mpsc::TryRecvError::Disconnected);
    loop {
        match running.wait(Some(TICK))? {
            Some(status) => return Ok((running, status.into())),
            None if limits.are_reached() || is_dropped() => break,
            None => pass_signals(&mut *running, &limits.cancellation)?,
        }
    }
    let ended = limits.end();
    running.kill()?;
    running.wait(None)?;
    Ok((running, ended))
}

fn pass_signals(running: &mut dyn Running, cancellation: &Cancellation) -> Result<(), SpawnError> {
    cancellation.take_signals().into_iter().try_for_each(|signal| running.signal(signal))
}
