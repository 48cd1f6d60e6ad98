//! Assigns questions to responsible approvers.

use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::ApprovalRequest;

use super::{Answer, Approver, Unanswered, ask};

type Responsible = Box<dyn Fn(&ApprovalRequest) -> bool + Send + Sync>;

/// Passes each question to the first approver that is responsible for it, and to no other: if it does not answer,
/// there is no answer.
///
/// Laws: an approver that is never responsible changes nothing; after one that always is, no other is asked.
///
/// ```
/// use stockade_core::{Fixed, Priority};
/// use stockade_protocol::ApprovalSubject;
///
/// let approver = Priority::new()
///     .when(|request| matches!(request.subject, ApprovalSubject::Network(_)), Fixed::deny("no network here"))
///     .otherwise(Fixed::allow());
/// # drop(approver);
/// ```
#[derive(Default)]
pub struct Priority(Vec<(Responsible, Arc<dyn Approver>)>);

impl Priority {
    /// Without any approver; nothing is answered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes this approver responsible for questions that satisfy the condition and that no earlier one is responsible
    /// for.
    #[must_use]
    pub fn when(
        mut self,
        responsible: impl Fn(&ApprovalRequest) -> bool + Send + Sync + 'static,
        approver: impl Approver + 'static,
    ) -> Self {
        self.0.push((Box::new(responsible), Arc::new(approver)));
        self
    }

    /// Makes this approver responsible for everything else.
    #[must_use]
    pub fn otherwise(self, approver: impl Approver + 'static) -> Self {
        self.when(|_| true, approver)
    }
}

#[async_trait]
impl Approver for Priority {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        match self.0.iter().find(|(responsible, _)| responsible(&request)) {
            Some((_, approver)) => ask(&**approver, &request).await,
            None => Err(Unanswered::Gone { why: String::from("no approver is responsible for this question") }),
        }
    }
}
