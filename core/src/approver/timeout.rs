//! A timeout for questions.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stockade_protocol::{ApprovalRequest, ReviewDecision};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::{Answer, Approver, LateAnswer, LateAnswers, Unanswered, ask};

/// Waits for another approver up to a timeout. A missing answer counts as `TimedOut`, which is a denial, unless
/// another default is set.
///
/// At the timeout the other approver is no longer asked: a prompt is removed, a hook is killed, and a
/// [`Channel`](super::Channel) reports a later reply. For an approver that can't, see
/// [`report_late`](Self::report_late).
///
/// ```
/// use std::time::Duration;
/// use stockade_core::{ApproverExt as _, Channel, ChannelLimits, WithTimeout};
/// use stockade_protocol::ReviewDecision;
///
/// let (person, _app) = Channel::open(ChannelLimits::default());
/// let approver: WithTimeout = person
///     .within(Duration::from_secs(60))
///     .or_decide(ReviewDecision::Denied { reason: Some(String::from("nobody answered within a minute")) });
/// # drop(approver);
/// ```
pub struct WithTimeout {
    approver: Arc<dyn Approver>,
    limit: Duration,
    silence: Silence,
    late: Option<Late>,
}

/// The meaning of a missing answer.
enum Silence {
    Decides(ReviewDecision),
    IsNoAnswer,
}

#[derive(Clone)]
struct Late {
    observer: Arc<dyn LateAnswers>,
    patience: Duration,
}

impl WithTimeout {
    /// Waits for the approver up to the timeout. A missing answer counts as `TimedOut`.
    pub fn new(approver: impl Approver + 'static, limit: Duration) -> Self {
        let silence = Silence::Decides(ReviewDecision::TimedOut);
        Self { approver: Arc::new(approver), limit, silence, late: None }
    }

    /// Replaces a missing answer by this decision. An approval has to be among the offered answers.
    #[must_use]
    pub fn or_decide(self, decision: ReviewDecision) -> Self {
        Self { silence: Silence::Decides(decision), ..self }
    }

    /// Reports a missing answer as none, so that a [`Fallback`](super::Fallback) asks the next one.
    #[must_use]
    pub fn or_unanswered(self) -> Self {
        Self { silence: Silence::IsNoAnswer, ..self }
    }

    /// Waits for `patience` after the timeout, and reports a late answer.
    ///
    /// The other approver continues to ask during that time, so this is for those that can't be stopped anyway. It
    /// needs a tokio runtime.
    #[must_use]
    pub fn report_late(self, observer: Arc<dyn LateAnswers>, patience: Duration) -> Self {
        Self { late: Some(Late { observer, patience }), ..self }
    }

    fn silence(&self, request: &ApprovalRequest) -> Result<Answer, Unanswered> {
        match &self.silence {
            Silence::Decides(decision) => Answer::from(decision.clone()).usable_for(request),
            Silence::IsNoAnswer => Err(Unanswered::Gone { why: format!("no answer came within {:?}", self.limit) }),
        }
    }

    async fn review_and_listen_on(&self, request: Arc<ApprovalRequest>, late: Late) -> Result<Answer, Unanswered> {
        let asked = Instant::now();
        let approver = Arc::clone(&self.approver);
        let question = Arc::clone(&request);
        let mut asking = Asking(tokio::spawn(async move { approver.review(question).await }));
        match timeout(self.limit, &mut asking.0).await {
            Ok(Ok(result)) => result?.usable_for(&request),
            Ok(Err(failure)) => Err(Unanswered::Gone { why: format!("the approver failed: {failure}") }),
            Err(_) => {
                let question = Arc::clone(&request);
                tokio::spawn(async move {
                    if let Ok(Ok(Ok(answer))) = timeout(late.patience, &mut asking.0).await {
                        let after = asked.elapsed();
                        late.observer.answered_late(LateAnswer { request: question, answer, after });
                    }
                });
                self.silence(&request)
            }
        }
    }
}

#[async_trait]
impl Approver for WithTimeout {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        if let Some(late) = self.late.clone() {
            return self.review_and_listen_on(request, late).await;
        }
        match timeout(self.limit, ask(&*self.approver, &request)).await {
            Ok(result) => result,
            Err(_) => self.silence(&request),
        }
    }
}

/// A question in a separate task, which ends when it is no longer awaited.
struct Asking(JoinHandle<Result<Answer, Unanswered>>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}
