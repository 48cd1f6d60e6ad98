//! Host patterns of network rules.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Host, HostName, Invalid, IpNetwork, RawText};

/// One host, the names below a domain, or the addresses of a network.
///
/// ```
/// use stockade_protocol::HostPattern;
///
/// let matches = |pattern: &str, host: &str| Ok::<_, stockade_protocol::Invalid>(
///     pattern.parse::<HostPattern>()?.matches(&host.parse()?));
/// assert!(matches("*.example.com", "api.example.com")?);
/// assert!(!matches("*.example.com", "example.com")?);
/// assert!(matches("**.example.com", "example.com")?);
/// assert!(!matches("**.example.com", "badexample.com")?);
/// assert!(matches("localhost", "127.0.0.1")?, "the name of an address, not a host beside it");
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum HostPattern {
    /// `example.com` or `192.0.2.1`: this host alone. `localhost` is every name of this machine's loopback and
    /// the addresses that those names have, since a connection may show nothing but the address.
    Exact(Host),
    /// `*.example.com`: every name below the domain, at any depth, but not the domain itself.
    Below(HostName),
    /// `**.example.com`: the domain and every name below it.
    Within(HostName),
    /// `10.0.0.0/8`: every address of the network, also one that a name leads to, but no name.
    Network(IpNetwork),
}

impl HostPattern {
    /// Whether the pattern matches this host. A wildcard never matches an address.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(exact), host) => exact == host || is_loopback_of(exact, host),
            (Self::Below(domain), Host::Name(name)) => is_below(name, domain),
            (Self::Within(domain), Host::Name(name)) => name == domain || is_below(name, domain),
            (Self::Network(network), Host::Address(address)) => network.contains(*address),
            (Self::Below(_) | Self::Within(_), Host::Address(_)) | (Self::Network(_), Host::Name(_)) => false,
        }
    }

    /// The pattern in the form before a port: an IPv6 address in brackets.
    pub fn bracketed(&self) -> String {
        match self {
            Self::Exact(host) => host.bracketed(),
            Self::Network(network) if network.is_ipv6() => format!("[{network}]"),
            Self::Below(_) | Self::Within(_) | Self::Network(_) => self.to_string(),
        }
    }

    /// The pattern of exactly the hosts that both patterns match; `None` if there are none. Two patterns are always
    /// disjoint, or one contains the other.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            // Of two exact patterns one may be an address of the other.
            (Self::Exact(own), pattern) if pattern.matches(own) => Some(Self::Exact(own.clone())),
            (pattern, Self::Exact(host)) => pattern.matches(host).then(|| Self::Exact(host.clone())),
            (Self::Exact(_), _) => None,
            (Self::Network(a), Self::Network(b)) => {
                let narrower = if a.holds(b) { Some(other) } else { b.holds(a).then_some(self) };
                narrower.cloned()
            }
            (Self::Network(_), _) | (_, Self::Network(_)) => None,
            (Self::Below(a) | Self::Within(a), Self::Below(b) | Self::Within(b)) if a == b => {
                Some(if matches!(self, Self::Below(_)) { self.clone() } else { other.clone() })
            }
            (Self::Below(a) | Self::Within(a), Self::Below(b) | Self::Within(b)) => {
                if is_below(a, b) {
                    Some(self.clone())
                } else {
                    is_below(b, a).then(|| other.clone())
                }
            }
        }
    }
}

fn is_loopback_of(name: &Host, host: &Host) -> bool {
    let addresses = name.named_loopback();
    match host {
        Host::Name(other) => !addresses.is_empty() && other.is_this_machine(),
        Host::Address(address) => addresses.contains(address),
    }
}

fn is_below(name: &HostName, domain: &HostName) -> bool {
    name.as_str().strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
}

impl FromStr for HostPattern {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |why| Invalid::Host { host: RawText::from(text), why };
        let domain = |rest: &str| match rest.parse::<Host>()? {
            Host::Name(name) => Ok(name),
            Host::Address(_) => Err(invalid("puts a wildcard in front of an address")),
        };
        if let Some(rest) = text.strip_prefix("**.") {
            return domain(rest).map(Self::Within).map(one_form);
        }
        if let Some(rest) = text.strip_prefix("*.") {
            return domain(rest).map(Self::Below).map(one_form);
        }
        if text.contains('/') {
            let network = IpNetwork::parse(text).map_err(invalid)?;
            return Ok(network.single().map_or(Self::Network(network), |address| Self::Exact(address.into())));
        }
        // The scope of a destination may be dropped, but a rule without its scope would cover more than it says.
        if text.contains('%') {
            return Err(invalid("names a scope, which a rule cannot hold to: name the address alone"));
        }
        if text.contains('*') {
            return Err(invalid("has a wildcard that is not a leading `*.` or `**.`"));
        }
        text.parse().map(Self::Exact).map(one_form)
    }
}

/// The names of this machine are one host, so that no two patterns overlap in part.
fn one_form(pattern: HostPattern) -> HostPattern {
    match &pattern {
        HostPattern::Exact(Host::Name(name)) | HostPattern::Below(name) | HostPattern::Within(name) => {
            name.this_machine().map_or(pattern, |name| HostPattern::Exact(Host::Name(name)))
        }
        HostPattern::Exact(Host::Address(_)) | HostPattern::Network(_) => pattern,
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(domain) => write!(f, "*.{domain}"),
            Self::Within(domain) => write!(f, "**.{domain}"),
            Self::Network(network) => network.fmt(f),
        }
    }
}

impl Serialize for HostPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn wildcards_stand_in_front_of_a_domain_only() {
        for text in ["*", "**", "*.", "a.*.b", "*a.test", "***.a", "*.10.0.0.1", "fe80::1%eth0", "*.*.a"] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }

    /// A connection to a name of this machine shows an address, so a rule for one has to cover the other.
    #[test]
    fn localhost_is_its_addresses() {
        for rule in ["localhost", "LOCALHOST.", "*.localhost", "**.localhost", "app.localhost", "*.app.localhost"] {
            for host in ["localhost", "app.localhost", "x.app.localhost", "127.0.0.1", "0x7f.1", "::1"] {
                assert!(pattern(rule).matches(&host.parse().unwrap()), "{rule} and {host}");
            }
            for host in ["127.0.0.2", "0.0.0.0", "::", "10.0.0.1", "notlocalhost", "localhost.test"] {
                assert!(!pattern(rule).matches(&host.parse().unwrap()), "{rule} and {host}");
            }
            assert_eq!(pattern(rule).to_string(), "localhost");
        }
        assert!(!pattern("127.0.0.1").matches(&"localhost".parse().unwrap()), "it has another address besides");
    }

    #[test]
    fn the_intersection_is_the_narrower_one_or_nothing() {
        for (a, b, both) in [
            ("*.a.test", "**.a.test", Some("*.a.test")),
            ("**.a.test", "**.x.a.test", Some("**.x.a.test")),
            ("*.a.test", "**.x.a.test", Some("**.x.a.test")),
            ("*.a.test", "x.a.test", Some("x.a.test")),
            ("*.a.test", "a.test", None),
            ("*.a.test", "*.b.test", None),
            ("10.0.0.1", "10.0.0.1", Some("10.0.0.1")),
            ("localhost", "127.0.0.1", Some("127.0.0.1")),
            ("localhost", "::1", Some("::1")),
            ("localhost", "127.0.0.2", None),
            ("localhost", "*.localhost", Some("localhost")),
            ("10.0.0.0/8", "10.1.0.0/16", Some("10.1.0.0/16")),
            ("10.0.0.0/8", "10.1.2.3", Some("10.1.2.3")),
            ("10.0.0.0/8", "10.1.2.3/32", Some("10.1.2.3")),
            ("10.0.0.0/8", "11.0.0.0/8", None),
            ("10.0.0.0/8", "fd00::/8", None),
            ("10.0.0.0/8", "*.a.test", None),
            ("10.0.0.0/8", "localhost", None),
        ] {
            assert_eq!(pattern(a).intersect(&pattern(b)), both.map(pattern), "{a} and {b}");
            assert_eq!(pattern(b).intersect(&pattern(a)), both.map(pattern), "{b} and {a}");
        }
    }
}
