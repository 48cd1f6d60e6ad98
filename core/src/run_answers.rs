//! An answer that holds for everything that one request asks while its command runs.
//!
//! The questions come from different places, such as connections that wait; all of them look here before they ask, and
//! end as a no when the rest is declined. The second run of a request, after a denial, is still the same request.

use std::sync::{Mutex, PoisonError};

use stockade_protocol::AbsPath;
use tokio::sync::watch;

/// Whether everything else that a request asks was declined.
#[derive(Debug)]
pub(crate) struct RunAnswers {
    declined: watch::Sender<bool>,
    /// Where nothing is to be written, as far as that was asked.
    unwritten: Mutex<Vec<AbsPath>>,
}

impl Default for RunAnswers {
    fn default() -> Self {
        Self { declined: watch::Sender::new(false), unwritten: Mutex::default() }
    }
}

impl RunAnswers {
    /// The answer to everything else is no, also to questions that wait.
    pub(crate) fn decline_rest(&self) {
        self.declined.send_replace(true);
    }

    /// Whether the answer to everything else is no.
    pub(crate) fn declines_rest(&self) -> bool {
        *self.declined.borrow()
    }

    /// Nothing is to be written at these paths or below them.
    pub(crate) fn decline_writes(&self, paths: Vec<AbsPath>) {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
    }

    /// Whether a person has said no to writing this path.
    pub(crate) fn declines_write(&self, path: &AbsPath) -> bool {
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|declined| path.starts_with(declined))
    }

    /// Waits until the rest is declined.
    pub(crate) async fn declined(&self) {
        // The sender is here, so it is not gone.
        self.declined.subscribe().wait_for(|declined| *declined).await.ok();
    }
}
