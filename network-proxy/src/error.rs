//! The errors of this crate.

use stockade_protocol::{DenyingRule, Destination};

/// Why a connection was denied. It names the host, the protocol and the port, never a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// A rule, the policy or the reviewer denies it.
    #[error("the connection to `{destination}` is not allowed: {why}")]
    Refused {
        /// The destination.
        destination: Destination,
        /// The rule that denies it.
        rule: DenyingRule,
        /// The reason, as text.
        why: String,
    },
    /// The destination is allowed, but its name has no address.
    #[error("`{}` can't be reached: {why}", .destination.host)]
    Unreachable {
        /// The destination.
        destination: Destination,
        /// The resolver's error.
        why: String,
    },
}

impl Denied {
    /// The destination.
    pub fn destination(&self) -> &Destination {
        match self {
            Self::Refused { destination, .. } | Self::Unreachable { destination, .. } => destination,
        }
    }
}
