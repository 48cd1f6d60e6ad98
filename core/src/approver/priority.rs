//! Who is responsible for which question.

use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::ApprovalRequest;

use super::{Answer, Approver, Unanswered, ask};

type Responsible = Box<dyn Fn(&ApprovalRequest) -> bool + Send + Sync>;

/// Leaves each question to the first approver that is responsible for it, and to that one alone: if
/// it does not answer, there is no answer.
///
/// Laws: an approver that is never responsible changes nothing; behind one that always is, nobody is
/// asked.
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
    /// No approver is responsible yet, and nothing is answered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves what no approver before is responsible for to this one, where the condition holds.
    #[must_use]
    pub fn when(
        mut self,
        responsible: impl Fn(&ApprovalRequest) -> bool + Send + Sync + 'static,
        approver: impl Approver + 'static,
    ) -> Self {
        self.0.push((Box::new(responsible), Arc::new(approver)));
        self
    }

    /// Leaves everything else to this approver.
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
