//! The same answer to every question.

use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::{ApprovalRequest, ReviewDecision};

use super::{Answer, Approver, Unanswered};

/// Gives the same answer to every question, or none.
///
/// ```
/// use stockade_core::{Approver as _, Fixed};
/// # use stockade_protocol::{ApprovalRequest, ReviewDecision};
/// # let request: std::sync::Arc<ApprovalRequest> = std::sync::Arc::new(serde_json::from_str(r#"{
/// #     "id": "1", "thread_id": "t",
/// #     "subject": {"network": {"host": "example.com", "protocol": "https", "port": 443}},
/// #     "available_decisions": ["approved", "denied"]}"#)?);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let answer = Fixed::deny("the build machine asks nobody").review(request).await?;
/// assert!(!answer.decision.is_approval());
/// # Ok::<(), stockade_core::Unanswered>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fixed(Result<Answer, Unanswered>);

impl Fixed {
    /// Approves each question once. If that answer is not offered, it does not answer.
    pub fn allow() -> Self {
        Self(Ok(ReviewDecision::Approved.into()))
    }

    /// Denies every question, with a reason.
    pub fn deny(reason: impl Into<String>) -> Self {
        Self(Ok(ReviewDecision::Denied { reason: Some(reason.into()) }.into()))
    }

    /// Never answers.
    pub fn gone(why: impl Into<String>) -> Self {
        Self(Err(Unanswered::Gone { why: why.into() }))
    }
}

#[async_trait]
impl Approver for Fixed {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        self.0.clone()?.usable_for(&request)
    }
}
