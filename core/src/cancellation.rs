//! Ending a run from outside, and passing signals on to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

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
    why: OnceLock<String>,
    signals: Mutex<Vec<u8>>,
    told: Notify,
    /// The signal that the end is put down to; zero if to none.
    ended_by: AtomicU8,
    /// Whether one of the signals ends a program.
    told_to_end: AtomicBool,
    /// The commands that take signals at the moment.
    running: AtomicUsize,
}

/// Suspend and continue a command.
#[cfg(unix)]
const JOB_CONTROL: [i32; 2] = [rustix::process::Signal::TSTP.as_raw(), rustix::process::Signal::CONT.as_raw()];
#[cfg(not(unix))]
const JOB_CONTROL: [i32; 0] = [];

/// A command takes signals as long as this lives.
#[derive(Debug)]
pub(crate) struct TakesSignals(Cancellation);

impl Drop for TakesSignals {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::AcqRel);
    }
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

    /// Ends the command, or the wait for its approval, because of a signal that it did not end by itself for. Its outcome and its
    /// record name that signal.
    pub fn end_by(&self, signal: u8) {
        self.0.ended_by.store(signal, Ordering::Release);
        self.cancel();
    }

    /// The signal that ended it, if one did.
    pub(crate) fn ended_by(&self) -> Option<u8> {
        Some(self.0.ended_by.load(Ordering::Acquire)).filter(|signal| *signal > 0)
    }

    /// Ends the command, and has its outcome say why. The first reason counts.
    pub fn cancel_because(&self, why: impl Into<String>) {
        self.0.why.get_or_init(|| why.into());
        self.cancel();
    }

    /// Why it was cancelled.
    pub(crate) fn reason(&self) -> String {
        self.0.why.get().cloned().unwrap_or_else(|| String::from("it was cancelled"))
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Passes a signal on to the command.
    pub fn signal(&self, signal: u8) {
        if !JOB_CONTROL.contains(&i32::from(signal)) {
            self.0.told_to_end.store(true, Ordering::Release);
        }
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        self.0.told.notify_waiters();
    }

    /// Whether a command runs that takes signals. Before it and between two runs of it, a signal is for the caller.
    pub fn has_command(&self) -> bool {
        self.0.running.load(Ordering::Acquire) > 0
    }

    /// Whether every signal has been passed on.
    pub fn is_passed_on(&self) -> bool {
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether a signal was passed on that ends a program.
    pub(crate) fn is_told_to_end(&self) -> bool {
        self.0.told_to_end.load(Ordering::Acquire)
    }

    pub(crate) fn takes_signals(&self) -> TakesSignals {
        self.0.running.fetch_add(1, Ordering::AcqRel);
        TakesSignals(self.clone())
    }

    /// Ends when something is said that has not been looked at before it was made.
    #[cfg(unix)]
    pub(crate) fn told(&self) -> Notified<'_> {
        self.0.told.notified()
    }

    /// Takes the signals that have not been passed on yet, to pass them on.
    pub fn take_signals(&self) -> Vec<u8> {
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
