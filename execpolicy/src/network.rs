//! Network rules: decisions by host, protocol and port.
//!
//! This crate only parses, stores and saves them; a proxy or a sandbox enforces them.

use stockade_protocol::{Decision, Host, HostPattern, HostRule, NetworkProtocol};

use crate::Origin;

/// Accepts the protocol names of codex's rules files, and Stockade's own.
pub(crate) fn parse_protocol(text: &str) -> Option<NetworkProtocol> {
    match text {
        "http" => Some(NetworkProtocol::Http),
        "https" | "https_connect" | "http-connect" => Some(NetworkProtocol::Https),
        "tcp" | "socks5_tcp" => Some(NetworkProtocol::Tcp),
        "udp" | "socks5_udp" => Some(NetworkProtocol::Udp),
        _ => None,
    }
}

/// The name of a protocol in a rules file, which codex accepts too.
pub(crate) fn protocol_word(protocol: NetworkProtocol) -> &'static str {
    match protocol {
        NetworkProtocol::Http => "http",
        NetworkProtocol::Https => "https",
        NetworkProtocol::Tcp => "socks5_tcp",
        NetworkProtocol::Udp => "socks5_udp",
    }
}

/// A decision for connections to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRule {
    pub(crate) host: HostPattern,
    pub(crate) protocol: NetworkProtocol,
    pub(crate) port: Option<u16>,
    pub(crate) decision: Decision,
    pub(crate) justification: Option<String>,
    pub(crate) origin: Origin,
}

impl NetworkRule {
    /// The host, or the names below a domain.
    pub fn host(&self) -> &HostPattern {
        &self.host
    }

    /// The protocol.
    pub fn protocol(&self) -> NetworkProtocol {
        self.protocol
    }

    /// The port; every port if absent, as in codex, whose rules have none.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The decision for such a connection.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The justification by the rule's author.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// The rule's origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the rule covers this port of a host, or all its ports.
    pub(crate) fn covers(&self, host: &Host, protocol: NetworkProtocol, port: Option<u16>) -> bool {
        self.host.matches(host) && self.protocol == protocol && (self.port.is_none() || self.port == port)
    }
}

impl From<&NetworkRule> for HostRule {
    fn from(rule: &NetworkRule) -> Self {
        Self { host: rule.host.clone(), protocol: Some(rule.protocol), port: rule.port, decision: rule.decision }
    }
}
