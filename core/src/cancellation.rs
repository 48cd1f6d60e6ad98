//! Ending a run from outside, and passing signals on to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Cancels whatever it was given to. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    signals: Mutex<Vec<u8>>,
}

impl Cancellation {
    /// One that nothing has been done with.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the command.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Passes a signal on to the command.
    pub fn signal(&self, signal: u8) {
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
    }

    pub(crate) fn take_signals(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.signals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
