//! Network permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Decision, Host, HostPattern};

/// What goes over a connection, as far as a rule cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkProtocol {
    /// Plain HTTP, whose requests can be seen.
    Http,
    /// TLS, usually HTTP inside it.
    #[serde(alias = "https_connect", alias = "http-connect")]
    Https,
    /// Any other stream.
    #[serde(alias = "socks5_tcp")]
    Tcp,
    /// Datagrams.
    #[serde(alias = "socks5_udp")]
    Udp,
}

/// The network of a command. Nothing is reachable that is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicy {
    /// None at all.
    #[default]
    Off,
    /// The hosts that the rules name.
    Hosts(HostRules),
    /// Whatever the host itself can reach.
    Full,
}

/// Rules by host. The strictest matching rule decides; a destination that no rule names has to be
/// asked for, and an address on this machine or its local network is refused unless it is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRules {
    /// The rules; their order means nothing.
    pub rules: Vec<HostRule>,
    /// Which HTTP requests may be sent to an allowed host.
    #[serde(default, skip_serializing_if = "HttpMethods::is_any")]
    pub methods: HttpMethods,
}

/// One destination, or several, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRule {
    /// The host or hosts.
    pub host: HostPattern,
    /// The protocol. If absent, every stream for a rule that allows, which has to say `udp` to let datagrams
    /// through, and every protocol for one that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<NetworkProtocol>,
    /// The port; every port if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The answer.
    pub decision: Decision,
}

/// Which HTTP requests pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HttpMethods {
    /// Only `GET`, `HEAD` and `OPTIONS`. Where the method can't be seen, the connection is refused.
    ReadOnly,
    /// Every method.
    #[default]
    Any,
}

impl HttpMethods {
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

impl HostRule {
    /// Whether the rule covers this destination.
    pub fn matches(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> bool {
        self.host.matches(host) && self.speaks_of(protocol) && self.port.is_none_or(|own| own == port)
    }

    /// The rule's destinations: `example.com:443`, `[2001:db8::1]`, `*.example.com:123/udp`.
    pub fn destinations(&self) -> String {
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        let suffix = if self.protocol == Some(NetworkProtocol::Udp) { "/udp" } else { "" };
        format!("{}{port}{suffix}", self.host.bracketed())
    }

    /// Whether the rule covers this protocol. A rule for a web server's port does not cover datagrams to the same
    /// number.
    fn speaks_of(&self, protocol: NetworkProtocol) -> bool {
        match self.protocol {
            Some(own) => own == protocol,
            None => protocol != NetworkProtocol::Udp || self.decision != Decision::Allow,
        }
    }

    /// The rules for the destinations that both cover, with the stricter decision.
    fn intersect(&self, other: &Self) -> Vec<Self> {
        let port = match (self.port, other.port) {
            (Some(own), Some(other)) if own != other => return Vec::new(),
            (own, other) => own.or(other),
        };
        let Some(host) = self.host.intersect(&other.host) else { return Vec::new() };
        let decision = self.decision.max(other.decision);
        let protocols = match (self.protocol, other.protocol) {
            (None, None) if self.decision == other.decision => vec![None],
            // Without a protocol the stricter decision would cover datagrams as well.
            (None, None) => vec![
                Some(NetworkProtocol::Http),
                Some(NetworkProtocol::Https),
                Some(NetworkProtocol::Tcp),
                Some(NetworkProtocol::Udp),
            ],
            (own, other) => vec![own.or(other)],
        };
        let is_of_both = |protocol: &Option<NetworkProtocol>| {
            protocol.is_none_or(|protocol| self.speaks_of(protocol) && other.speaks_of(protocol))
        };
        let rule = |protocol| Self { host: host.clone(), protocol, port, decision };
        protocols.into_iter().filter(is_of_both).map(rule).collect()
    }

    /// Whether this grant covers everything that another rule does, or as much as a grant without a protocol can.
    fn covers(&self, other: &Self) -> bool {
        let is_wider = |own: Option<u16>, other| own.is_none() || own == other;
        let is_for_protocol = match (self.protocol, other.protocol) {
            (None, Some(protocol)) => self.speaks_of(protocol),
            (None, None) => true,
            (Some(own), other) => Some(own) == other,
        };
        self.host.intersect(&other.host).as_ref() == Some(&other.host)
            && is_for_protocol
            && is_wider(self.port, other.port)
    }

    fn names_special_address(&self) -> bool {
        match &self.host {
            HostPattern::Exact(host) => host.is_special(),
            HostPattern::Network(_) => true,
            HostPattern::Below(_) | HostPattern::Within(_) => false,
        }
    }
}

impl HostRules {
    /// The decision for one destination.
    pub fn decide(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Decision {
        let named = self.rules.iter().filter(|rule| rule.matches(host, protocol, port)).map(|rule| rule.decision).max();
        named.unwrap_or(if host.is_special() { Decision::Forbidden } else { Decision::Prompt })
    }

    /// Adds a grant: a granted destination is no longer asked for, a forbidden one stays forbidden.
    fn merge(&self, granted: &Self) -> Self {
        let settled = |rule: &HostRule| {
            let granting = |grant: &&HostRule| grant.decision == Decision::Allow;
            rule.decision == Decision::Prompt && granted.rules.iter().filter(granting).any(|grant| grant.covers(rule))
        };
        let kept = self.rules.iter().filter(|rule| !settled(rule)).cloned();
        Self::normal(kept.chain(granted.rules.iter().cloned()), self.methods.max(granted.methods))
    }

    /// The rules that give the stricter of both decisions for every destination.
    fn intersect(&self, bound: &Self) -> Self {
        let lenient = |rule: &&HostRule| rule.decision != Decision::Forbidden;
        let paired = self
            .rules
            .iter()
            .filter(lenient)
            .flat_map(|own| bound.rules.iter().filter(lenient).flat_map(move |other| own.intersect(other)));
        // A restriction of one side applies. So does a prompt, since an unnamed destination is asked for anyway; but a
        // special address that only one side names stays refused.
        let alone = self.rules.iter().chain(&bound.rules).filter(|rule| match rule.decision {
            Decision::Forbidden => true,
            Decision::Prompt => !rule.names_special_address(),
            Decision::Allow => false,
        });
        Self::normal(paired.chain(alone.cloned()), self.methods.min(bound.methods))
    }

    fn normal(rules: impl Iterator<Item = HostRule>, methods: HttpMethods) -> Self {
        let mut rules: Vec<_> = rules.collect();
        rules.sort();
        rules.dedup();
        Self { rules, methods }
    }
}

impl NetworkPolicy {
    /// The decision for one destination: the only definition of what a network policy means.
    pub fn decide(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Decision {
        match self {
            Self::Off => Decision::Forbidden,
            Self::Hosts(rules) => rules.decide(host, protocol, port),
            Self::Full => Decision::Allow,
        }
    }

    /// Adds a grant.
    pub fn merge(&self, granted: &Self) -> Self {
        match (self, granted) {
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (Self::Off, other) | (other, Self::Off) => other.clone(),
            (Self::Hosts(own), Self::Hosts(granted)) => Self::Hosts(own.merge(granted)),
        }
    }

    /// Restricts the policy to the bound.
    pub fn intersect(&self, bound: &Self) -> Self {
        match (self, bound) {
            (Self::Off, _) | (_, Self::Off) => Self::Off,
            (Self::Full, other) | (other, Self::Full) => other.clone(),
            (Self::Hosts(own), Self::Hosts(bound)) => Self::Hosts(own.intersect(bound)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(list: &[(&str, Option<u16>, Decision)]) -> HostRules {
        let rule = |(host, port, decision): &(&str, Option<u16>, Decision)| HostRule {
            host: host.parse().unwrap(),
            protocol: None,
            port: *port,
            decision: *decision,
        };
        HostRules { rules: list.iter().map(rule).collect(), methods: HttpMethods::Any }
    }

    fn decide(rules: &HostRules, host: &str, port: u16) -> Decision {
        rules.decide(&host.parse().unwrap(), NetworkProtocol::Https, port)
    }

    #[test]
    fn deny_wins_and_nothing_means_nothing() {
        let wide = rules(&[("*.test", None, Decision::Allow), ("evil.test", None, Decision::Forbidden)]);
        assert_eq!(decide(&wide, "good.test", 443), Decision::Allow);
        assert_eq!(decide(&wide, "evil.test", 443), Decision::Forbidden);
        assert_eq!(decide(&rules(&[]), "example.com", 443), Decision::Prompt);
        assert_eq!(decide(&rules(&[]), "169.254.169.254", 80), Decision::Forbidden);
    }

    #[test]
    fn an_approval_is_for_one_port() {
        let one = rules(&[("a.test", Some(443), Decision::Allow)]);
        assert_eq!(decide(&one, "a.test", 443), Decision::Allow);
        assert_eq!(decide(&one, "a.test", 22), Decision::Prompt);
    }

    /// Datagrams have to be named, and are denied with everything else.
    #[test]
    fn a_rule_for_a_port_is_not_one_for_datagrams() {
        let datagrams = |rules: &HostRules, host: &str| rules.decide(&host.parse().unwrap(), NetworkProtocol::Udp, 443);
        let streams = rules(&[("a.test", Some(443), Decision::Allow), ("10.0.0.1", None, Decision::Allow)]);
        assert_eq!(decide(&streams, "a.test", 443), Decision::Allow);
        assert_eq!(datagrams(&streams, "a.test"), Decision::Prompt);
        assert_eq!(datagrams(&streams, "10.0.0.1"), Decision::Forbidden);
        let named = |decision| HostRule {
            protocol: Some(NetworkProtocol::Udp),
            ..rules(&[("a.test", Some(443), decision)]).rules.remove(0)
        };
        let mut both = streams.clone();
        both.rules.push(named(Decision::Allow));
        assert_eq!((datagrams(&both, "a.test"), decide(&both, "a.test", 443)), (Decision::Allow, Decision::Allow));
        both.rules.push(rules(&[("a.test", None, Decision::Forbidden)]).rules.remove(0));
        assert_eq!(datagrams(&both, "a.test"), Decision::Forbidden);
        // A grant for streams leaves the question about datagrams open.
        let asked = HostRules { rules: vec![named(Decision::Prompt)], methods: HttpMethods::Any };
        assert_eq!(datagrams(&asked.merge(&streams), "a.test"), Decision::Prompt);
        // A maximum that allows only streams never allows more.
        let wide = HostRules { rules: vec![named(Decision::Allow)], methods: HttpMethods::Any };
        assert_eq!(datagrams(&wide.intersect(&streams), "a.test"), Decision::Prompt);
    }

    #[test]
    fn a_grant_settles_a_question_but_not_a_prohibition() {
        let base = rules(&[("a.test", None, Decision::Prompt), ("b.test", None, Decision::Forbidden)]);
        let grant = rules(&[("a.test", None, Decision::Allow), ("b.test", None, Decision::Allow)]);
        let merged = base.merge(&grant);
        assert_eq!(decide(&merged, "a.test", 443), Decision::Allow);
        assert_eq!(decide(&merged, "b.test", 443), Decision::Forbidden);
    }
}
