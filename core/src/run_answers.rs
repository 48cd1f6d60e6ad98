//! Answers for all questions of one request while its command runs.
//!
//! The questions have different origins, such as waiting connections; all of them check here before they ask, and are
//! denied when the rest is declined. The second run of a request, after a denial, belongs to the same request.

use std::sync::{Mutex, PoisonError};

use stockade_protocol::AbsPath;
use tokio::sync::watch;

/// Whether all further questions of a request were declined.
#[derive(Debug)]
pub(crate) struct RunAnswers {
    declined: watch::Sender<bool>,
    /// Counts the signals that ended open questions.
    interrupted: watch::Sender<u64>,
    /// The paths for which writing was declined.
    unwritten: Mutex<Vec<AbsPath>>,
}

impl Default for RunAnswers {
    fn default() -> Self {
        Self { declined: watch::Sender::new(false), interrupted: watch::Sender::new(0), unwritten: Mutex::default() }
    }
}

impl RunAnswers {
    /// Declines all further questions, including open ones.
    pub(crate) fn decline_rest(&self) {
        self.declined.send_replace(true);
    }

    /// Ends the questions that are open, without an answer: a signal for the command came meanwhile, which a command that
    /// waits for an answer may not get.
    pub(crate) fn interrupt(&self) {
        self.interrupted.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Whether a signal has ended questions: the command is to end, so that no wider run is asked for.
    pub(crate) fn is_interrupted(&self) -> bool {
        *self.interrupted.borrow() > 0
    }

    /// Waits until open questions are ended by a signal.
    pub(crate) async fn interrupted(&self) {
        // `self` owns the sender, so this can't fail.
        self.interrupted.subscribe().changed().await.ok();
    }

    /// Whether all further questions are declined.
    pub(crate) fn declines_rest(&self) -> bool {
        *self.declined.borrow()
    }

    /// Declines writing these paths and everything below them.
    pub(crate) fn decline_writes(&self, paths: Vec<AbsPath>) {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// Whether writing this path was declined.
    pub(crate) fn declines_write(&self, path: &AbsPath) -> bool {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|declined| path.starts_with(declined))
    }

    /// Waits until the rest is declined.
    pub(crate) async fn declined(&self) {
        // `self` owns the sender, so this can't fail.
        self.declined.subscribe().wait_for(|declined| *declined).await.ok();
    }

    /// Waits until an open question is given up: the rest is declined, or a signal for the command came.
    pub(crate) async fn given_up(&self) {
        tokio::select! {
            () = self.declined() => {}
            () = self.interrupted() => {}
        }
    }
}
