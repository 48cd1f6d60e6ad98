//! Combinators for approvers.

use std::time::Duration;

use super::{AllOf, Approver, Fallback, FirstOf, WithTimeout};

/// Combines approvers.
///
/// ```
/// use std::time::Duration;
/// use stockade_core::{ApproverExt as _, Channel, ChannelLimits, Fixed};
///
/// let (phone, _phone_app) = Channel::open(ChannelLimits::default());
/// let (desktop, _desktop_app) = Channel::open(ChannelLimits::default());
/// // Whichever screen is answered first, within a minute, unless the policy objects.
/// let approver = phone.race(desktop).within(Duration::from_secs(60)).and(Fixed::allow());
/// # drop(approver);
/// ```
pub trait ApproverExt: Approver + Sized + 'static {
    /// Asks both at once; both must agree.
    fn and(self, other: impl Approver + 'static) -> AllOf {
        AllOf::new(self).and(other)
    }

    /// Asks both at once; the first answer counts.
    fn race(self, other: impl Approver + 'static) -> FirstOf {
        FirstOf::new(self).race(other)
    }

    /// Asks the other if this one does not answer.
    fn or_else(self, next: impl Approver + 'static) -> Fallback {
        Fallback::new(self).or_else(next)
    }

    /// Sets a timeout, after which the answer is [`TimedOut`](stockade_protocol::ReviewDecision::TimedOut).
    fn within(self, limit: Duration) -> WithTimeout {
        WithTimeout::new(self, limit)
    }
}

impl<A: Approver + Sized + 'static> ApproverExt for A {}
