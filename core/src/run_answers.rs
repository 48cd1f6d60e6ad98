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
    /// The paths for which writing was declined.
    unwritten: Mutex<Vec<AbsPath>>,
}

impl Default for RunAnswers {
    fn default() -> Self {
        Self { declined: watch::Sender::new(false), unwritten: Mutex::default() }
    }
}

impl RunAnswers {
    /// Declines all further questions, including open ones.
    pub(crate) fn decline_rest(&self) {
        self.declined.send_replace(true);
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
}
