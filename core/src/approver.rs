//! Whoever answers a question: a person at a terminal, a program, a fixed answer, or several of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::{ApprovalRequest, ReviewDecision};

/// Answers questions.
///
/// An approver may take as long as it likes: whoever asks sets the limit. It may be asked several
/// questions at once.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Answers one question. An error is never a yes: whoever asks treats it as a denial, or turns
    /// to another approver.
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered>;
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The decision.
    pub decision: ReviewDecision,
    /// What was answered to an MCP server's question.
    pub content: Option<BTreeMap<String, serde_json::Value>>,
}

impl From<ReviewDecision> for Answer {
    fn from(decision: ReviewDecision) -> Self {
        Self { decision, content: None }
    }
}

/// Why nobody answered. It counts as a denial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// Whoever answers is gone: the channel was closed, the program died, the terminal hung up.
    #[error("nobody is there to answer: {why}")]
    Gone {
        /// What happened.
        why: String,
    },
    /// Too many questions wait already, or too many were asked in a short time.
    #[error("too many questions: {why}")]
    Busy {
        /// Which bound was reached.
        why: String,
    },
    /// The answer made no sense.
    #[error("the answer can't be used: {why}")]
    Unusable {
        /// What was wrong with it.
        why: String,
    },
}
