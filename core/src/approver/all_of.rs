//! Asks several approvers at once; all must agree.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use stockade_protocol::{ApprovalRequest, ReviewDecision};

use super::{Answer, Approver, Unanswered, ask_each, newly_answered};

/// Asks several approvers at once and approves only if all of them do.
///
/// - A denial overrides everything, and the others are no longer asked. Of several at the same time the strictest
///   counts: `Abort`, then `DeniedForRun`, then `Denied`, then a saved refusal, then `TimedOut`.
/// - An approver that does not answer has not agreed. The others are still awaited: their denial counts, while a
///   missing answer could still become an approval by [`Fallback`](super::Fallback).
/// - Of approvals the narrowest counts: `Approved`, then `ApprovedForRun`, then `ApprovedForSession`, then a saved
///   rule. Two different rules come to `ApprovedForSession`, which is what both include.
/// - Different answers to a server's question are not an agreement.
///
/// Laws: associative, idempotent, commutative except for the text of a reason.
///
/// ```
/// use stockade_core::{AllOf, Approver as _, ApproverExt as _, Fixed};
/// # use stockade_protocol::ApprovalRequest;
/// # let request: std::sync::Arc<ApprovalRequest> = std::sync::Arc::new(serde_json::from_str(r#"{
/// #     "id": "1", "thread_id": "t",
/// #     "subject": {"network": {"host": "example.com", "protocol": "https", "port": 443}},
/// #     "available_decisions": ["approved", "denied"]}"#)?);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let hook_says_yes_policy_says_no: AllOf = Fixed::allow().and(Fixed::deny("the company's policy"));
/// let answer = hook_says_yes_policy_says_no.review(request).await?;
/// assert!(!answer.decision.is_approval());
/// # Ok::<(), stockade_core::Unanswered>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AllOf(Vec<Arc<dyn Approver>>);

impl AllOf {
    /// Starts with one approver.
    pub fn new(first: impl Approver + 'static) -> Self {
        Self(vec![Arc::new(first)])
    }

    /// Adds an approver.
    #[must_use]
    pub fn and(mut self, other: impl Approver + 'static) -> Self {
        self.0.push(Arc::new(other));
        self
    }
}

#[async_trait]
impl Approver for AllOf {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let mut asking = ask_each(&self.0, &request);
        let mut results: Vec<Option<Result<Answer, Unanswered>>> = self.0.iter().map(|_| None).collect();
        let agreed = poll_fn(|context| {
            let mut refused = false;
            for (place, result) in newly_answered(&mut asking, context) {
                refused |= result.as_ref().is_ok_and(|answer| !answer.decision.is_approval());
                if let Some(slot) = results.get_mut(place) {
                    *slot = Some(result);
                }
            }
            if !refused && asking.iter().any(Option::is_some) {
                return Poll::Pending;
            }
            // In the approvers' order, so that a reason does not depend on timing.
            Poll::Ready(results.iter_mut().filter_map(Option::take).reduce(agreement))
        });
        let nobody = || Err(Unanswered::Gone { why: String::from("there is no approver") });
        agreed.await.unwrap_or_else(nobody)?.usable_for(&request)
    }
}

/// The stricter of two results; the first if they are equal.
fn agreement(one: Result<Answer, Unanswered>, other: Result<Answer, Unanswered>) -> Result<Answer, Unanswered> {
    let (own, others) = (strictness(&one), strictness(&other));
    match (one, other) {
        (Ok(one), Ok(other)) if one.decision.is_approval() && other.decision.is_approval() => {
            let content = match (one.content, other.content) {
                (Some(a), Some(b)) if a != b => {
                    let why = "the approvers answered the server's question differently";
                    return Err(Unanswered::Unusable { why: why.to_owned() });
                }
                (a, b) => a.or(b),
            };
            let decision = if own != others {
                if own > others { one.decision } else { other.decision }
            } else if one.decision == other.decision {
                one.decision
            } else {
                ReviewDecision::ApprovedForSession
            };
            Ok(Answer { decision, content })
        }
        (Err(one), Err(other)) => Err(one.or(other)),
        (one, other) => {
            if others > own {
                other
            } else {
                one
            }
        }
    }
}

/// The order of precedence of results.
fn strictness(result: &Result<Answer, Unanswered>) -> u8 {
    let Ok(answer) = result else { return 4 };
    match &answer.decision {
        ReviewDecision::ApprovedExecpolicyAmendment { .. } | ReviewDecision::ApprovedProfileAmendment { .. } => 0,
        ReviewDecision::NetworkPolicyAmendment { .. } if answer.decision.is_approval() => 0,
        ReviewDecision::ApprovedForSession => 1,
        ReviewDecision::ApprovedForRun => 2,
        ReviewDecision::Approved => 3,
        ReviewDecision::TimedOut => 5,
        ReviewDecision::NetworkPolicyAmendment { .. } => 6,
        ReviewDecision::Denied { .. } => 7,
        ReviewDecision::DeniedForRun => 8,
        ReviewDecision::Abort => 9,
    }
}
