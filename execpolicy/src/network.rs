//! Network rules: which host may be reached how.
//!
//! This crate only reads, keeps and saves them; a proxy or a sandbox enforces them.

use std::fmt;

use stockade_protocol::{Decision, Host};

use crate::Origin;

/// What a connection speaks, as far as a gate can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NetworkProtocol {
    /// Plain HTTP.
    Http,
    /// TLS, usually HTTP inside it.
    Https,
    /// Any other stream.
    Tcp,
    /// Datagrams.
    Udp,
}

impl NetworkProtocol {
    /// The words of codex's rules files, and our own.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "http" => Some(Self::Http),
            "https" | "https_connect" | "http-connect" => Some(Self::Https),
            "tcp" | "socks5_tcp" => Some(Self::Tcp),
            "udp" | "socks5_udp" => Some(Self::Udp),
            _ => None,
        }
    }
}

/// Written so that codex reads it too.
impl fmt::Display for NetworkProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "socks5_tcp",
            Self::Udp => "socks5_udp",
        })
    }
}

/// Connections to a host get a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    pub(crate) host: Host,
    pub(crate) protocol: NetworkProtocol,
    pub(crate) decision: Decision,
    pub(crate) justification: Option<String>,
    pub(crate) origin: Origin,
}

impl NetworkRule {
    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The protocol.
    pub fn protocol(&self) -> NetworkProtocol {
        self.protocol
    }

    /// What happens to such a connection.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Why, in the words of whoever wrote the rule.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// Where the rule was written.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(crate) fn matches(&self, host: &Host, protocol: NetworkProtocol) -> bool {
        self.host == *host && self.protocol == protocol
    }
}
