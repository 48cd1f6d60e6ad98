//! An answer that holds for everything that one request asks while its command runs.
//!
//! The questions come from different places, such as connections that wait; all of them look here before they ask, and
//! end as a no when the rest is declined. The second run of a request, after a denial, is still the same request.

use tokio::sync::watch;

/// Whether everything else that a request asks was declined.
#[derive(Debug)]
pub(crate) struct RunAnswers {
    declined: watch::Sender<bool>,
}

impl Default for RunAnswers {
    fn default() -> Self {
        Self { declined: watch::Sender::new(false) }
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

    /// Waits until the rest is declined.
    pub(crate) async fn declined(&self) {
        // The sender is here, so it is not gone.
        self.declined.subscribe().wait_for(|declined| *declined).await.ok();
    }
}
