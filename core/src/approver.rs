//! Approvers, which answer questions: a person at a terminal, a program, a fixed answer, or several of them.
//!
//! | approver | answers with |
//! | --- | --- |
//! | [`Fixed`] | the same decision, always |
//! | [`Channel`] | what the holder of its [`Consumer`] replies |
//! | [`Hook`] | what a program prints |
//! | [`FirstOf`] | the first answer of several |
//! | [`AllOf`] | what all of several agree on |
//! | [`Fallback`] | the first of several, in their order, that answers at all |
//! | [`Priority`] | the first of several that is responsible |
//! | [`WithTimeout`] | another's answer, or a default when that takes too long |

mod all_of;
mod channel;
mod error;
mod fallback;
mod first_of;
mod fixed;
mod fluent;
mod hook;
mod late;
mod priority;
mod queue;
mod timeout;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::{
    ApprovalReply, ApprovalRequest, ApprovalSubject, ElicitationForm, NetworkPolicyRuleAction, ReviewDecision,
};

pub use all_of::AllOf;
pub use channel::{Channel, ChannelLimits, Consumer, RateLimit};
pub use error::ApproverError;
pub use fallback::Fallback;
pub use first_of::FirstOf;
pub use fixed::Fixed;
pub use fluent::ApproverExt;
pub use hook::Hook;
pub use late::{LateAnswer, LateAnswers};
pub use priority::Priority;
pub use timeout::WithTimeout;

/// Answers questions.
///
/// An approver has no time limit of its own: the requester sets it. It may be asked several questions at once. The
/// requester gives up by dropping the future; the approver then stops asking.
///
/// ```
/// use std::sync::Arc;
/// use stockade_core::{Answer, Approver, Unanswered};
/// use stockade_protocol::{ApprovalRequest, ApprovalSubject, ReviewDecision};
///
/// /// Says yes to web pages, and leaves everything else to others.
/// struct Web;
///
/// #[async_trait::async_trait]
/// impl Approver for Web {
///     async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
///         match &request.subject {
///             ApprovalSubject::Network(network) if network.port == 443 => Ok(ReviewDecision::Approved.into()),
///             _ => Err(Unanswered::Gone { why: String::from("only web pages are known") }),
///         }
///     }
/// }
/// ```
#[async_trait]
pub trait Approver: Send + Sync {
    /// Answers one question. An error is never an approval: the requester treats it as a denial, or asks another
    /// approver.
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered>;
}

#[async_trait]
impl<A: Approver + ?Sized> Approver for Arc<A> {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        (**self).review(request).await
    }
}

#[async_trait]
impl<A: Approver + ?Sized> Approver for Box<A> {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        (**self).review(request).await
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The decision.
    pub decision: ReviewDecision,
    /// The answer to an MCP server's question.
    pub content: Option<BTreeMap<String, serde_json::Value>>,
}

impl From<ReviewDecision> for Answer {
    fn from(decision: ReviewDecision) -> Self {
        Self { decision, content: None }
    }
}

impl From<ApprovalReply> for Answer {
    fn from(reply: ApprovalReply) -> Self {
        Self { decision: reply.decision, content: reply.content }
    }
}

impl Answer {
    /// Checks the answer against those that the question offers.
    ///
    /// An approval that was not offered, such as a rule that was not proposed, is unusable. A denial is always usable:
    /// otherwise the next approver could approve instead. A denial that would save a rule that was not proposed
    /// becomes a plain denial.
    pub fn usable_for(self, request: &ApprovalRequest) -> Result<Self, Unanswered> {
        if !self.decision.is_approval() {
            return Ok(refusal(self.decision, request).into());
        }
        if !request.available_decisions.contains(&self.decision) {
            return Err(Unanswered::Unusable { why: not_offered(&self.decision) });
        }
        self.fitting(request)
    }

    /// Checks the answer against the form. A form that is unknown here may be known to the approver.
    pub(crate) fn fitting(self, request: &ApprovalRequest) -> Result<Self, Unanswered> {
        let unusable = |why: String| Unanswered::Unusable { why };
        let ApprovalSubject::Elicitation(question) = &request.subject else {
            return match self.content {
                None => Ok(self),
                Some(_) => Err(unusable(String::from("it carries content, which only a server's question takes"))),
            };
        };
        let form = question.requested_schema.as_ref().map(ElicitationForm::parse);
        match (form, &self.content) {
            (Some(Ok(form)), content) if self.decision.is_approval() => {
                let nothing = BTreeMap::new();
                form.check(content.as_ref().unwrap_or(&nothing)).map_err(unusable)?;
                Ok(self)
            }
            (Some(_) | None, _) => Ok(self),
        }
    }
}

fn refusal(decision: ReviewDecision, request: &ApprovalRequest) -> ReviewDecision {
    let saves_rule = matches!(decision, ReviewDecision::NetworkPolicyAmendment { .. });
    if saves_rule && !request.available_decisions.contains(&decision) {
        let reason = "refused; the rule that came with it was not proposed, so it is not saved";
        return ReviewDecision::Denied { reason: Some(reason.to_owned()) };
    }
    decision
}

fn not_offered(decision: &ReviewDecision) -> String {
    let word = match decision {
        ReviewDecision::Approved => "approved",
        ReviewDecision::ApprovedForRun => "approved_for_run",
        ReviewDecision::ApprovedForSession => "approved_for_session",
        ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment: rule } => {
            return format!("no rule to allow `{}` was proposed", rule.0);
        }
        ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment: profile } => {
            return format!("no profile for `{}` was proposed", profile.command);
        }
        ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: rule } => {
            let verb = match rule.action {
                NetworkPolicyRuleAction::Allow => "allow",
                NetworkPolicyRuleAction::Deny => "deny",
            };
            return format!("no rule to {verb} `{}` was proposed", rule.host);
        }
        ReviewDecision::Denied { .. } => "denied",
        ReviewDecision::DeniedForRun => "denied_for_run",
        ReviewDecision::TimedOut => "timed_out",
        ReviewDecision::Abort => "abort",
    };
    format!("`{word}` is not among the answers to this question")
}

/// Why there is no answer. It counts as a denial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unanswered {
    /// The approver is gone: the channel was closed, the program died, the terminal hung up.
    #[error("the question can't be answered: {why}")]
    Gone {
        /// The cause.
        why: String,
    },
    /// Too many questions wait already, or too many were asked in a short time.
    #[error("too many questions: {why}")]
    Busy {
        /// The limit that was reached.
        why: String,
    },
    /// The answer was invalid.
    #[error("the answer can't be used: {why}")]
    Unusable {
        /// What was wrong with it.
        why: String,
    },
    /// The person dismissed the question on purpose and leaves it to others.
    #[error("the question was left to another client")]
    Left,
}

impl Unanswered {
    /// The more informative reason of two; the first one's if they are equal.
    fn or(self, other: Self) -> Self {
        let telling = |reason: &Self| match reason {
            Self::Gone { .. } | Self::Left => 0,
            Self::Busy { .. } => 1,
            Self::Unusable { .. } => 2,
        };
        if telling(&other) > telling(&self) { other } else { self }
    }
}

/// Asks, and accepts only an answer that the question offers.
async fn ask(approver: &dyn Approver, request: &Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
    approver.review(Arc::clone(request)).await?.usable_for(request)
}

/// A pending question.
type Asking<'a> = Pin<Box<dyn Future<Output = Result<Answer, Unanswered>> + Send + 'a>>;

/// Asks several at once.
fn ask_each<'a>(approvers: &'a [Arc<dyn Approver>], request: &'a Arc<ApprovalRequest>) -> Vec<Option<Asking<'a>>> {
    approvers.iter().map(|approver| Some(Box::pin(ask(&**approver, request)) as Asking<'a>)).collect()
}

/// Polls several pending questions for a new answer, in order.
fn newly_answered(
    asking: &mut [Option<Asking<'_>>],
    context: &mut std::task::Context<'_>,
) -> Vec<(usize, Result<Answer, Unanswered>)> {
    let mut answers = Vec::new();
    for (place, slot) in asking.iter_mut().enumerate() {
        let ready = slot.as_mut().map(|future| future.as_mut().poll(context));
        if let Some(std::task::Poll::Ready(answer)) = ready {
            *slot = None;
            answers.push((place, answer));
        }
    }
    answers
}
