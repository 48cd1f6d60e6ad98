//! Answers that came after the requester had given up. They change nothing, but are recorded.

use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::ApprovalRequest;

use super::Answer;

/// Receives late answers.
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
    /// Called once for each late answer; should return soon.
    fn answered_late(&self, late: LateAnswer);
}

impl<F: Fn(LateAnswer) + Send + Sync> LateAnswers for F {
    fn answered_late(&self, late: LateAnswer) {
        self(late);
    }
}

/// An answer that was no longer awaited.
#[derive(Clone, Debug, PartialEq)]
pub struct LateAnswer {
    /// The question.
    pub request: Arc<ApprovalRequest>,
    /// The answer, not checked against the question.
    pub answer: Answer,
    /// The time since the question.
    pub after: Duration,
}
