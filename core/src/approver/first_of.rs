//! Asks several approvers at once; the first answer counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use stockade_protocol::ApprovalRequest;

use super::{Answer, Approver, Unanswered, ask_each, newly_answered};

/// Asks several approvers at once. The first answer wins, approval or denial, and the others are no longer asked.
///
/// An approver that does not answer does not block the others. Of simultaneous answers that of the earlier approver
/// counts. If a denial has to win, use [`AllOf`](super::AllOf).
///
/// Laws: associative; [`Fixed::gone`](super::Fixed::gone) is its identity with respect to answers.
///
/// ```
/// use stockade_core::{ApproverExt as _, Channel, ChannelLimits, FirstOf};
///
/// let (phone, _phone_app) = Channel::open(ChannelLimits::default());
/// let (desktop, _desktop_app) = Channel::open(ChannelLimits::default());
/// let person: FirstOf = phone.race(desktop);
/// # drop(person);
/// ```
pub struct FirstOf(Vec<Arc<dyn Approver>>);

impl FirstOf {
    /// Starts with one approver.
    pub fn new(first: impl Approver + 'static) -> Self {
        Self(vec![Arc::new(first)])
    }

    /// Adds an approver.
    #[must_use]
    pub fn race(mut self, other: impl Approver + 'static) -> Self {
        self.0.push(Arc::new(other));
        self
    }
}

#[async_trait]
impl Approver for FirstOf {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let mut asking = ask_each(&self.0, &request);
        let mut reasons: Vec<Option<Unanswered>> = self.0.iter().map(|_| None).collect();
        poll_fn(|context| {
            for (place, result) in newly_answered(&mut asking, context) {
                match result {
                    Ok(answer) => return Poll::Ready(Ok(answer)),
                    Err(reason) => {
                        if let Some(slot) = reasons.get_mut(place) {
                            *slot = Some(reason);
                        }
                    }
                }
            }
            if asking.iter().any(Option::is_some) {
                return Poll::Pending;
            }
            // In the approvers' order, so that the reason does not depend on timing.
            let reason = reasons.iter_mut().filter_map(Option::take).reduce(Unanswered::or);
            Poll::Ready(Err(reason.unwrap_or_else(|| Unanswered::Gone { why: String::from("there is no approver") })))
        })
        .await
    }
}
