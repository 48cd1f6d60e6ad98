//! Which destinations a command may reach.

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
    /// The protocol; every protocol if absent.
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
    /// Whether the rule speaks of this destination.
    pub fn matches(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> bool {
        self.host.matches(host)
            && self.protocol.is_none_or(|own| own == protocol)
            && self.port.is_none_or(|own| own == port)
    }

    /// The rule for the destinations that both speak of, with the stricter answer.
    fn intersect(&self, other: &Self) -> Option<Self> {
        fn both<T: PartialEq + Copy>(a: Option<T>, b: Option<T>) -> Option<Option<T>> {
            match (a, b) {
                (Some(a), Some(b)) => (a == b).then_some(Some(a)),
                (a, b) => Some(a.or(b)),
            }
        }
        Some(Self {
            host: self.host.intersect(&other.host)?,
            protocol: both(self.protocol, other.protocol)?,
            port: both(self.port, other.port)?,
            decision: self.decision.max(other.decision),
        })
    }

    fn covers(&self, other: &Self) -> bool {
        self.intersect(other)
            .is_some_and(|both| (&both.host, both.protocol, both.port) == (&other.host, other.protocol, other.port))
    }

    fn names_special_address(&self) -> bool {
        matches!(&self.host, HostPattern::Exact(host) if host.is_special())
    }
}

impl HostRules {
    /// The answer for one destination.
    pub fn decide(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Decision {
        let named = self.rules.iter().filter(|rule| rule.matches(host, protocol, port)).map(|rule| rule.decision).max();
        named.unwrap_or(if host.is_special() { Decision::Forbidden } else { Decision::Prompt })
    }

    /// Adds what was granted on top: a granted destination is no longer asked for, a forbidden one
    /// stays forbidden.
    fn merge(&self, granted: &Self) -> Self {
        let settled = |rule: &HostRule| {
            let granting = |grant: &&HostRule| grant.decision == Decision::Allow;
            rule.decision == Decision::Prompt && granted.rules.iter().filter(granting).any(|grant| grant.covers(rule))
        };
        let kept = self.rules.iter().filter(|rule| !settled(rule)).cloned();
        Self::normal(kept.chain(granted.rules.iter().cloned()), self.methods.max(granted.methods))
    }

    /// The rules that answer with the stricter of both answers, for every destination.
    fn intersect(&self, bound: &Self) -> Self {
        let lenient = |rule: &&HostRule| rule.decision != Decision::Forbidden;
        let paired = self
            .rules
            .iter()
            .filter(lenient)
            .flat_map(|own| bound.rules.iter().filter(lenient).filter_map(move |other| own.intersect(other)));
        // A restriction holds alone. Asking does too, since what no rule names is asked for anyway;
        // but a special address that only one side names stays refused.
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
    /// The answer for one destination: the only definition of what a network policy means.
    pub fn decide(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Decision {
        match self {
            Self::Off => Decision::Forbidden,
            Self::Hosts(rules) => rules.decide(host, protocol, port),
            Self::Full => Decision::Allow,
        }
    }

    /// Adds what was granted on top.
    pub fn merge(&self, granted: &Self) -> Self {
        match (self, granted) {
            (Self::Full, _) | (_, Self::Full) => Self::Full,
            (Self::Off, other) | (other, Self::Off) => other.clone(),
            (Self::Hosts(own), Self::Hosts(granted)) => Self::Hosts(own.merge(granted)),
        }
    }

    /// Takes away what the bound does not allow.
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

    #[test]
    fn a_grant_settles_a_question_but_not_a_prohibition() {
        let base = rules(&[("a.test", None, Decision::Prompt), ("b.test", None, Decision::Forbidden)]);
        let grant = rules(&[("a.test", None, Decision::Allow), ("b.test", None, Decision::Allow)]);
        let merged = base.merge(&grant);
        assert_eq!(decide(&merged, "a.test", 443), Decision::Allow);
        assert_eq!(decide(&merged, "b.test", 443), Decision::Forbidden);
    }
}
