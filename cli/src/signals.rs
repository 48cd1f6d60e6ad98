//! Signals that this program gets are meant for the command.

use std::convert::Infallible;
use std::sync::Arc;

use stockade_core::Cancellation;

use crate::relay::Relay;

/// Passes signals on for as long as it is polled. A person who interrupts a third time means it.
#[cfg(unix)]
pub(crate) async fn pass_on(command: Cancellation, relay: Option<Arc<Relay>>) -> Infallible {
    use tokio::signal::unix::{Signal, SignalKind, signal};

    // A signal that can't be watched does what it always does, which ends the command too.
    let watch = |kind| signal(kind).ok();
    async fn next(signal: &mut Option<Signal>) {
        match signal {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    }
    let mut interrupt = watch(SignalKind::interrupt());
    let mut quit = watch(SignalKind::quit());
    let mut terminate = watch(SignalKind::terminate());
    let mut hangup = watch(SignalKind::hangup());
    let mut resized = watch(SignalKind::window_change());
    let mut interrupts = 0;
    loop {
        let signal = tokio::select! {
            () = next(&mut interrupt) => SignalKind::interrupt(),
            () = next(&mut quit) => SignalKind::quit(),
            () = next(&mut terminate) => SignalKind::terminate(),
            () = next(&mut hangup) => SignalKind::hangup(),
            () = next(&mut resized) => {
                if let Some(relay) = &relay {
                    relay.resize();
                }
                continue;
            }
        };
        interrupts += usize::from(signal == SignalKind::interrupt());
        if interrupts >= 3 {
            command.cancel();
        }
        // The signals above have small numbers on every system.
        if let Ok(number) = u8::try_from(signal.as_raw_value()) {
            command.signal(number);
        }
    }
}

/// Here the system ends the command together with this program.
#[cfg(not(unix))]
pub(crate) async fn pass_on(_: Cancellation, _: Option<Arc<Relay>>) -> Infallible {
    std::future::pending().await
}
