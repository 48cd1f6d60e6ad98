//! Why a connection was not made.

use stockade_protocol::{DenyingRule, Destination};

/// Why a connection was not made. It names the host, the protocol and the port, never a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// A rule, the policy or whoever was asked is against it.
    #[error("the connection to `{destination}` is not allowed: {why}")]
    Refused {
        /// Where to.
        destination: Destination,
        /// What stood against it.
        rule: DenyingRule,
        /// The same in words.
        why: String,
    },
    /// The destination is allowed, but its name has no address.
    #[error("`{}` can't be reached: {why}", .destination.host)]
    Unreachable {
        /// Where to.
        destination: Destination,
        /// What the resolver said.
        why: String,
    },
}

impl Denied {
    /// Where to.
    pub fn destination(&self) -> &Destination {
        match self {
            Self::Refused { destination, .. } | Self::Unreachable { destination, .. } => destination,
        }
    }
}
