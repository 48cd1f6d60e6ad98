//! Asks approvers one after the other, until one answers.

use std::sync::Arc;

use async_trait::async_trait;
use stockade_protocol::ApprovalRequest;

use super::{Answer, Approver, Unanswered, ask};

/// Asks the next approver when the one before did not answer.
///
/// A denial is an answer, and so is the `TimedOut` of [`WithTimeout`](super::WithTimeout): to continue after a
/// timeout, let it end [without an answer](super::WithTimeout::or_unanswered).
///
/// Laws: associative; [`Fixed::gone`](super::Fixed::gone) is its identity with respect to answers.
///
/// ```
/// use std::time::Duration;
/// use stockade_core::{ApproverExt as _, Channel, ChannelLimits, Fallback, Fixed};
///
/// let (person, _app) = Channel::open(ChannelLimits::default());
/// let approver: Fallback = person
///     .within(Duration::from_secs(60))
///     .or_unanswered()
///     .or_else(Fixed::deny("nobody was at the desk"));
/// # drop(approver);
/// ```
pub struct Fallback(Vec<Arc<dyn Approver>>);

impl Fallback {
    /// Starts with one approver.
    pub fn new(first: impl Approver + 'static) -> Self {
        Self(vec![Arc::new(first)])
    }

    /// Asks this one if none before it answered.
    #[must_use]
    pub fn or_else(mut self, next: impl Approver + 'static) -> Self {
        self.0.push(Arc::new(next));
        self
    }
}

#[async_trait]
impl Approver for Fallback {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let mut reason: Option<Unanswered> = None;
        for approver in &self.0 {
            match ask(&**approver, &request).await {
                Ok(answer) => return Ok(answer),
                Err(next) => reason = Some(reason.map_or_else(|| next.clone(), |so_far| so_far.or(next.clone()))),
            }
        }
        Err(reason.unwrap_or_else(|| Unanswered::Gone { why: String::from("there is no approver") }))
    }
}
