//! Ending a run from outside, and passing signals on to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_protocol::CancelToken;
use tokio::sync::Notify;
#[cfg(unix)]
use tokio::sync::futures::Notified;

/// Cancels whatever it was given to. Copies are the same.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    signals: Mutex<Vec<u8>>,
    told: Notify,
}

impl Cancellation {
    /// One that nothing has been done with.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the command.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.told.notify_waiters();
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Passes a signal on to the command.
    pub fn signal(&self, signal: u8) {
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        self.0.told.notify_waiters();
    }

    /// Ends when something is said that has not been looked at before it was made.
    #[cfg(unix)]
    pub(crate) fn told(&self) -> Notified<'_> {
        self.0.told.notified()
    }

    pub(crate) fn take_signals(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.signals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Running commands that can be cancelled by name.
#[derive(Debug, Default)]
pub(crate) struct Cancellable(Mutex<HashMap<CancelToken, Vec<Cancellation>>>);

/// A command is known by its name until this is dropped.
pub(crate) struct Named<'a> {
    all: &'a Cancellable,
    token: CancelToken,
    cancellation: Cancellation,
}

impl Cancellable {
    fn all(&self) -> MutexGuard<'_, HashMap<CancelToken, Vec<Cancellation>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a command known by a name, which others may have too.
    pub(crate) fn name(&self, token: CancelToken, cancellation: Cancellation) -> Named<'_> {
        self.all().entry(token.clone()).or_default().push(cancellation.clone());
        Named { all: self, token, cancellation }
    }

    /// Cancels every command of this name, and says how many there were.
    pub(crate) fn cancel(&self, token: &CancelToken) -> usize {
        let commands = self.all().get(token).cloned().unwrap_or_default();
        commands.iter().for_each(Cancellation::cancel);
        commands.len()
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        let mut all = self.all.all();
        if let Some(commands) = all.get_mut(&self.token) {
            commands.retain(|other| !Arc::ptr_eq(&other.0, &self.cancellation.0));
            if commands.is_empty() {
                all.remove(&self.token);
            }
        }
    }
}
