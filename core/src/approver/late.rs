//! Answers that came after the requester had given up. They change nothing, but the trail says so.

use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::ApprovalRequest;

use super::Answer;

/// Hears of late answers.
///
/// Any function that takes a [`LateAnswer`] does:
///
/// ```
/// use std::sync::Arc;
/// use stockade_core::{LateAnswer, LateAnswers};
///
/// let observer: Arc<dyn LateAnswers> =
///     Arc::new(|late: LateAnswer| eprintln!("too late for `{}`", late.request.id));
/// ```
pub trait LateAnswers: Send + Sync {
    /// Is called once for each late answer, and should return soon.
    fn answered_late(&self, late: LateAnswer);
}

impl<F: Fn(LateAnswer) + Send + Sync> LateAnswers for F {
    fn answered_late(&self, late: LateAnswer) {
        self(late);
    }
}

/// An answer that no requester waited for any more.
#[derive(Clone, Debug, PartialEq)]
pub struct LateAnswer {
    /// What had been asked.
    pub request: Arc<ApprovalRequest>,
    /// The answer, as it came: it was not checked whether the question offers it.
    pub answer: Answer,
    /// How long after the question it came.
    pub after: Duration,
}
