//! The running time of a command, without the time of questions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A clock that is paused while a [`Pause`] is held. Clones share the clock.
#[derive(Clone, Debug, Default)]
pub struct Clock(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// The time counted up to the last change.
    counted: Duration,
    /// The start of the current period; `None` before the start and while paused.
    since: Option<Instant>,
    started: bool,
    pauses: usize,
}

/// Pauses the clock until dropped. Several may be held at once.
#[derive(Debug)]
pub struct Pause(Clock);

impl Clock {
    /// A clock that has not been started.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it.
    pub(crate) fn start(&self) {
        let mut state = self.state();
        state.started = true;
        if state.pauses == 0 && state.since.is_none() {
            state.since = Some(Instant::now());
        }
    }

    /// Stops it until the value is dropped.
    pub fn pause(&self) -> Pause {
        let mut state = self.state();
        state.pauses += 1;
        if let Some(since) = state.since.take() {
            state.counted += since.elapsed();
        }
        Pause(self.clone())
    }

    /// The time counted.
    pub fn elapsed(&self) -> Duration {
        let state = self.state();
        state.counted + state.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.pauses = state.pauses.saturating_sub(1);
        if state.pauses == 0 && state.started {
            state.since = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A_WHILE: Duration = Duration::from_millis(30);

    #[test]
    fn it_stands_still_while_anybody_holds_a_pause() {
        let clock = Clock::new();
        std::thread::sleep(A_WHILE);
        assert_eq!(clock.elapsed(), Duration::ZERO, "not started");
        clock.start();
        let (first, second) = (clock.pause(), clock.pause());
        let before = clock.elapsed();
        std::thread::sleep(A_WHILE);
        drop(first);
        std::thread::sleep(A_WHILE);
        assert_eq!(clock.elapsed(), before, "the second still holds it");
        drop(second);
        std::thread::sleep(A_WHILE);
        assert!(clock.elapsed() >= before + A_WHILE);
    }

    #[test]
    fn a_pause_before_the_start_does_not_start_it() {
        let clock = Clock::new();
        drop(clock.pause());
        std::thread::sleep(A_WHILE);
        assert_eq!(clock.elapsed(), Duration::ZERO);
    }
}
