//! Forwards this program's signals to the command.

use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::{AtomicU64, Ordering};

use stockade_core::{Cancellation, Clock};

use crate::relay::Relay;

/// The forwarded terminating signals.
#[cfg(unix)]
const ENDING: [i32; 6] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2];

/// The number of SIGINT.
#[cfg(unix)]
pub(crate) const INTERRUPT: u8 = 2;

/// The signals that have been watched, by their numbers.
#[cfg(unix)]
static WATCHED: AtomicU64 = AtomicU64::new(0);

/// Whether a signal has had a handler of this program, so that it was not ignored at the start.
#[cfg(unix)]
pub(crate) fn is_watched(number: i32) -> bool {
    WATCHED.load(Ordering::Relaxed) & bit(number) != 0
}

#[cfg(unix)]
fn bit(number: i32) -> u64 {
    u32::try_from(number).ok().and_then(|number| 1_u64.checked_shl(number)).unwrap_or(0)
}

/// Restores the default action of signals, once there is no command to forward them to.
pub(crate) fn end_by_default() {
    #[cfg(unix)]
    crate::sys::end_by_default(&ENDING);
}

/// A pipe with the numbers of terminating, suspending and terminal signals, for a caller without an event loop. A
/// signal that was ignored at the start stays ignored.
#[cfg(unix)]
pub(crate) fn watch() -> std::io::Result<std::io::PipeReader> {
    let watched: Vec<i32> = ENDING.into_iter().chain([libc::SIGTSTP, libc::SIGWINCH]).collect();
    crate::sys::tell_of(&watched)
}

/// Like `watch`, for terminating signals only.
#[cfg(unix)]
pub(crate) fn watch_ends() -> std::io::Result<std::io::PipeReader> {
    crate::sys::tell_of(&ENDING)
}

/// Forwards signals while it is polled; returns one without a command to forward it to. A signal that was ignored at
/// the start stays ignored, here and in the command.
#[cfg(unix)]
pub(crate) async fn pass_on(command: Cancellation, clock: Clock, relay: Option<Arc<Relay>>) -> u8 {
    use rustix::termios::SpecialCodeIndex;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    use crate::job::Interrupts;

    // A signal that can't be watched has its default effect, which ends the command too.
    let watch = |number: i32| {
        let kind = SignalKind::from_raw(number);
        let watched = if crate::sys::is_ignored(number) { None } else { signal(kind).ok() };
        WATCHED.fetch_or(watched.as_ref().map_or(0, |_| bit(number)), Ordering::Relaxed);
        watched
    };
    async fn next(signals: &mut [(i32, Option<Signal>)]) -> i32 {
        std::future::poll_fn(|context| {
            for (number, signal) in &mut *signals {
                if signal.as_mut().is_some_and(|signal| signal.poll_recv(context).is_ready()) {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
    let watched = ENDING.into_iter().chain([libc::SIGTSTP, libc::SIGWINCH]);
    let mut signals: Vec<(i32, Option<Signal>)> = watched.map(|number| (number, watch(number))).collect();
    let mut interrupts = Interrupts::default();
    loop {
        let number = next(&mut signals).await;
        match (number, &relay) {
            (libc::SIGWINCH, relay) => relay.iter().for_each(|relay| relay.resize()),
            (libc::SIGTSTP, relay) => suspend(&command, &clock, relay.clone()),
            // The numbers fit on every system.
            _ if !command.has_command() => {
                let number = u8::try_from(number).unwrap_or_default();
                command.end_by(number);
                return number;
            }
            (libc::SIGINT, Some(relay)) if relay.interrupt(SpecialCodeIndex::VINTR) => command.end_questions(),
            (libc::SIGQUIT, Some(relay)) if relay.interrupt(SpecialCodeIndex::VQUIT) => command.end_questions(),
            _ => command.signal(u8::try_from(number).unwrap_or_default()),
        }
        if number == libc::SIGINT && interrupts.add() {
            command.end_by(INTERRUPT);
        }
    }
}

/// Suspends on another thread, since this thread's event loop has to stop the command.
#[cfg(unix)]
pub(crate) fn suspend(command: &Cancellation, clock: &Clock, relay: Option<Arc<Relay>>) {
    let (command, clock) = (command.clone(), clock.clone());
    let suspend = move || {
        if let Some(relay) = relay {
            relay.restore();
        }
        crate::job::suspend(&command, &clock, crate::sys::Stops::Alone);
    };
    // Without a thread it is not stopped, and continues.
    std::thread::Builder::new().name(String::from("suspend")).spawn(suspend).ok();
}

/// Here the system ends the command together with this program.
#[cfg(not(unix))]
pub(crate) async fn pass_on(_: Cancellation, _: Clock, _: Option<Arc<Relay>>) -> u8 {
    std::future::pending().await
}
