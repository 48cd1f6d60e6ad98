//! Which hosts a network rule speaks of.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Host, HostName, Invalid, RawText};

/// One host, or the names below a domain.
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
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum HostPattern {
    /// `example.com` or `192.0.2.1`: this host alone.
    Exact(Host),
    /// `*.example.com`: every name below the domain, at any depth, but not the domain itself.
    Below(HostName),
    /// `**.example.com`: the domain and every name below it.
    Within(HostName),
}

impl HostPattern {
    /// Whether the rule speaks of this host. A wildcard never matches an address.
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(exact), host) => exact == host,
            (Self::Below(domain), Host::Name(name)) => is_below(name, domain),
            (Self::Within(domain), Host::Name(name)) => name == domain || is_below(name, domain),
            (Self::Below(_) | Self::Within(_), Host::Address(_)) => false,
        }
    }

    /// The pattern of exactly those hosts that both patterns match; `None` where there is none.
    /// Two patterns are always disjoint, or one holds the other.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact(host), pattern) | (pattern, Self::Exact(host)) => {
                pattern.matches(host).then(|| Self::Exact(host.clone()))
            }
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
            return domain(rest).map(Self::Within);
        }
        if let Some(rest) = text.strip_prefix("*.") {
            return domain(rest).map(Self::Below);
        }
        // A destination may lose its scope, but a rule that did would cover more than it says.
        if text.contains('%') {
            return Err(invalid("names a scope, which a rule cannot hold to: name the address alone"));
        }
        if text.contains('*') {
            return Err(invalid("has a wildcard that is not a leading `*.` or `**.`"));
        }
        text.parse().map(Self::Exact)
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(host) => host.fmt(f),
            Self::Below(domain) => write!(f, "*.{domain}"),
            Self::Within(domain) => write!(f, "**.{domain}"),
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
        ] {
            assert_eq!(pattern(a).intersect(&pattern(b)), both.map(pattern), "{a} and {b}");
            assert_eq!(pattern(b).intersect(&pattern(a)), both.map(pattern), "{b} and {a}");
        }
    }
}
