//! Ends a run from outside, and forwards signals to it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stockade_protocol::CancelToken;
use tokio::sync::Notify;
#[cfg(unix)]
use tokio::sync::futures::Notified;

use crate::run_answers::RunAnswers;

/// Cancels the run it was given to. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<State>);

#[derive(Debug, Default)]
struct State {
    cancelled: AtomicBool,
    why: OnceLock<String>,
    signals: Mutex<Vec<u8>>,
    told: Notify,
    /// The signal to which the end is attributed; zero for none.
    ended_by: AtomicU8,
    /// Whether one of the signals is a terminating one.
    told_to_end: AtomicBool,
    /// The number of signals that end open questions.
    ending: AtomicUsize,
    /// The number of commands that currently take signals.
    running: AtomicUsize,
}

/// The signals that suspend and continue a command.
#[cfg(unix)]
const JOB_CONTROL: [i32; 2] = [rustix::process::Signal::TSTP.as_raw(), rustix::process::Signal::CONT.as_raw()];
#[cfg(not(unix))]
const JOB_CONTROL: [i32; 0] = [];

/// The signals that end open questions: HUP, INT, QUIT and TERM, with the same numbers on every system.
const ENDING_QUESTIONS: [u8; 4] = [1, 2, 3, 15];

/// While this exists, a command takes signals.
#[derive(Debug)]
pub(crate) struct TakesSignals(Cancellation);

impl Drop for TakesSignals {
    fn drop(&mut self) {
        self.0.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Cancellation {
    /// A new one, not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the command.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Release);
        self.0.told.notify_waiters();
    }

    /// Ends the command, or the wait for its approval, because of a signal that did not end it. Its outcome and its
    /// record name that signal.
    pub fn end_by(&self, signal: u8) {
        self.0.ended_by.store(signal, Ordering::Release);
        self.cancel();
    }

    /// The signal that ended it, if one did.
    pub(crate) fn ended_by(&self) -> Option<u8> {
        Some(self.0.ended_by.load(Ordering::Acquire)).filter(|signal| *signal > 0)
    }

    /// Ends the command with a reason for its outcome. The first reason counts.
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

    /// Forwards a signal to the command.
    pub fn signal(&self, signal: u8) {
        if !JOB_CONTROL.contains(&i32::from(signal)) {
            self.0.told_to_end.store(true, Ordering::Release);
        }
        if ENDING_QUESTIONS.contains(&signal) {
            self.0.ending.fetch_add(1, Ordering::AcqRel);
        }
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).push(signal);
        self.0.told.notify_waiters();
    }

    /// Ends the open questions of the command, for a terminating signal that reaches it in another way: by its terminal.
    pub fn end_questions(&self) {
        self.0.ending.fetch_add(1, Ordering::AcqRel);
        self.0.told.notify_waiters();
    }

    /// Whether a running command takes signals. Before it and between two runs of it, a signal is for the caller.
    pub fn has_command(&self) -> bool {
        self.0.running.load(Ordering::Acquire) > 0
    }

    /// Whether every signal has been forwarded.
    pub fn is_passed_on(&self) -> bool {
        self.0.signals.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Whether a terminating signal was forwarded.
    pub(crate) fn is_told_to_end(&self) -> bool {
        self.0.told_to_end.load(Ordering::Acquire)
    }

    pub(crate) fn takes_signals(&self) -> TakesSignals {
        self.0.running.fetch_add(1, Ordering::AcqRel);
        TakesSignals(self.clone())
    }

    /// Ends the open questions of a command at each signal that is to end it, and never completes: the program may block
    /// the signal while its call waits, and a question that stays open would keep it so.
    pub(crate) async fn interrupts(&self, answers: Option<Arc<RunAnswers>>) -> Infallible {
        let Some(answers) = answers else { return std::future::pending().await };
        let mut known = self.0.ending.load(Ordering::Acquire);
        loop {
            let told = self.0.told.notified();
            let ending = self.0.ending.load(Ordering::Acquire);
            if ending != known {
                known = ending;
                answers.interrupt();
            }
            told.await;
        }
    }

    /// Completes at the next change after this call.
    #[cfg(unix)]
    pub(crate) fn told(&self) -> Notified<'_> {
        self.0.told.notified()
    }

    /// Takes the pending signals, for forwarding.
    pub fn take_signals(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.signals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Running commands that can be cancelled by name.
#[derive(Debug, Default)]
pub(crate) struct Cancellable(Mutex<HashMap<CancelToken, Vec<Cancellation>>>);

/// A registered name, removed on drop.
pub(crate) struct Named<'a> {
    all: &'a Cancellable,
    token: CancelToken,
    cancellation: Cancellation,
}

impl Cancellable {
    fn all(&self) -> MutexGuard<'_, HashMap<CancelToken, Vec<Cancellation>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a command under a name, which others may have too.
    pub(crate) fn name(&self, token: CancelToken, cancellation: Cancellation) -> Named<'_> {
        self.all().entry(token.clone()).or_default().push(cancellation.clone());
        Named { all: self, token, cancellation }
    }

    /// Cancels every command of this name, and returns how many there were.
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
