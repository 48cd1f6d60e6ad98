//! Network hosts in one canonical form, and patterns of them.
//!
//! A rule is useless if another spelling of a host evades it. Names are mapped by UTS #46 (case, width, IDN to
//! `xn--`), lose their trailing dot, and addresses in every spelling that a resolver accepts (`0x7f.1`, `2130706433`,
//! `[::ffff:127.0.0.1]`) become the one address.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use idna::AsciiDenyList;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Invalid, RawText};

/// The host of a destination.
///
/// ```
/// use stockade_protocol::Host;
///
/// let host = |text: &str| text.parse::<Host>().map(|host| host.to_string());
/// assert_eq!(host("ALLOWED.test.")?, "allowed.test");
/// assert_eq!(host("b\u{fc}cher.example")?, "xn--bcher-kva.example");
/// assert_eq!(host("0x7f.1")?, "127.0.0.1");
/// assert_eq!(host("[FE80::1%eth0]")?, "fe80::1");
/// assert!(host("evil.test\0.allowed.test").is_err());
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum Host {
    /// A name, in lower-case ASCII, without a trailing dot.
    Name(HostName),
    /// An address. IPv4 inside IPv6 is kept as IPv4, and a scope is dropped: it says which
    /// interface to use, not which host is meant.
    Address(IpAddr),
}

/// A DNS name in its canonical form; only parsing a [`Host`] makes one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `localhost` or a name below it: all of them denote this machine's loopback.
    pub fn is_this_machine(&self) -> bool {
        self.this_machine().is_some()
    }

    /// The canonical name for all of those.
    pub(crate) fn this_machine(&self) -> Option<Self> {
        let rest = self.0.strip_suffix(LOCALHOST)?;
        (rest.is_empty() || rest.ends_with('.')).then(|| Self(String::from(LOCALHOST)))
    }
}

impl Host {
    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(_) => None,
        }
    }

    /// Whether the address belongs to this machine, its local network or a cloud's metadata service rather than to the
    /// public internet. Such an address is reachable only if a rule names it.
    pub fn is_special(&self) -> bool {
        match self {
            Self::Address(address) => is_special(*address),
            Self::Name(name) => name.is_this_machine(),
        }
    }

    /// The host with a port, as it is written: `example.com:443`, `[2001:db8::1]:443`.
    pub fn with_port(&self, port: u16) -> String {
        format!("{}:{port}", self.bracketed())
    }

    /// The host in the form before a port: an IPv6 address in brackets.
    pub fn bracketed(&self) -> String {
        match self {
            Self::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Self::Address(IpAddr::V4(_)) | Self::Name(_) => self.to_string(),
        }
    }

    /// The addresses of this machine's names; empty for another name, or for an address.
    pub fn named_loopback(&self) -> &'static [IpAddr] {
        match self {
            Self::Name(name) if name.is_this_machine() => &LOOPBACK,
            Self::Name(_) | Self::Address(_) => &[],
        }
    }
}

/// <https://www.rfc-editor.org/rfc/rfc6761#section-6.3>
const LOCALHOST: &str = "localhost";
const LOOPBACK: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

impl From<IpAddr> for Host {
    fn from(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |why| Invalid::Host { host: RawText::from(text), why };
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or_else(|| invalid("has `[` without `]`"))?;
            return parse_ipv6(inner).ok_or_else(|| invalid("is not an IPv6 address"));
        }
        if text.contains(':') {
            return parse_ipv6(text).ok_or_else(|| invalid("is not a host: a port belongs in its own field"));
        }
        parse_name(text).map_err(invalid)
    }
}

fn parse_ipv6(text: &str) -> Option<Host> {
    let (address, scope) = text.split_once('%').map_or((text, None), |(address, scope)| (address, Some(scope)));
    let scope_is_sane = scope.is_none_or(|scope| {
        !scope.is_empty() && scope.chars().all(|c| c.is_ascii_alphanumeric() || "-_.%".contains(c))
    });
    let address: Ipv6Addr = address.parse().ok()?;
    scope_is_sane.then(|| IpAddr::V6(address).into())
}

fn parse_name(text: &str) -> Result<Host, &'static str> {
    let ascii = idna::domain_to_ascii_cow(text.as_bytes(), AsciiDenyList::URL).map_err(|_| "is not a valid name")?;
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    if name.is_empty() {
        return Err("is empty");
    }
    let labels: Vec<&str> = name.split('.').collect();
    // A host that ends in a number is an address to every resolver, or invalid.
    if labels.last().is_some_and(|last| is_number(last)) {
        return parse_ipv4(&labels).map(|address| IpAddr::from(address).into()).ok_or("is not an IPv4 address");
    }
    let usable = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    match () {
        () if name.len() > 253 => Err("is longer than 253 characters"),
        () if labels.iter().any(|label| label.is_empty()) => Err("has an empty label"),
        () if labels.iter().any(|label| label.len() > 63) => Err("has a label longer than 63 characters"),
        () if !labels.iter().all(|label| label.chars().all(usable)) => {
            Err("may only have letters, digits, `-`, `_` and dots")
        }
        () => Ok(Host::Name(HostName(name.to_owned()))),
    }
}

fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x").is_some_and(|digits| digits.chars().all(|c| c.is_ascii_hexdigit()));
    hexadecimal || (!label.is_empty() && label.chars().all(|c| c.is_ascii_digit()))
}

/// Reads an address as `inet_aton` does: one to four numbers, each decimal, octal or hexadecimal,
/// the last one filling all bytes that remain.
fn parse_ipv4(labels: &[&str]) -> Option<Ipv4Addr> {
    let number = |label: &str| match label.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if label.len() > 1 && label.starts_with('0') => u64::from_str_radix(label, 8).ok(),
        None => label.parse().ok(),
    };
    let numbers = labels.iter().map(|label| number(label)).collect::<Option<Vec<u64>>>()?;
    let (last, leading) = numbers.split_last()?;
    let free_bytes = 4_u32.checked_sub(u32::try_from(leading.len()).ok()?).filter(|bytes| *bytes > 0)?;
    let mut address = (*last < 1 << (8 * free_bytes)).then_some(*last)?;
    for (position, byte) in leading.iter().enumerate() {
        address |= (*byte < 256).then_some(byte << (24 - 8 * position))?;
    }
    u32::try_from(address).ok().map(Ipv4Addr::from)
}

fn is_special(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_special_v4(v4),
        IpAddr::V6(v6) => is_special_v6(v6),
    }
}

/// <https://www.iana.org/assignments/iana-ipv4-special-registry>
fn is_special_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_unspecified()
        || a == 0
        || address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 198 && (18..20).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || address == WIRE_SERVER
}

/// The metadata and agent service of Azure's virtual machines, at an address that looks public. Those of other
/// clouds are at link-local, private or shared ones.
/// <https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16>
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// <https://www.iana.org/assignments/iana-ipv6-special-registry>
fn is_special_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| is_special_v4(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match segments {
        // Unspecified, loopback, and the old IPv4-compatible form.
        [0, 0, 0, 0, 0, 0, _, _] => true,
        // NAT64 and 6to4 carry an IPv4 address that decides; local-use NAT64 never leaves.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x64, 0xff9b, ..] => true,
        [0x2002, high, low, ..] => embedded(high, low),
        // Teredo, benchmarking, documentation, and the rest of 2001::/23 that is not routed.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => true,
        [0x3fff, second, ..] if second < 0x1000 => true,
        // Only 2000::/3 is handed out as global unicast.
        [first, ..] => first & 0xe000 != 0x2000,
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Serialize for Host {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Host {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Result<String, Invalid> {
        text.parse::<Host>().map(|host| host.to_string())
    }

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        for spelling in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "0x7f.1",
            "0177.0.0.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.1.",
            "[::ffff:127.0.0.1]",
            "::ffff:7f00:1",
            "\u{ff11}27.0.0.1",
        ] {
            assert_eq!(host(spelling).as_deref(), Ok("127.0.0.1"), "{spelling}");
        }
        for spelling in ["::1", "[::1]", "0:0:0:0:0:0:0:1", "[::1%lo]", "[::1%25lo]"] {
            assert_eq!(host(spelling).as_deref(), Ok("::1"), "{spelling}");
        }
    }

    #[test]
    fn names_have_one_form() {
        for (given, canonical) in [
            ("Example.COM.", "example.com"),
            ("_dmarc.a-b.test", "_dmarc.a-b.test"),
            ("\u{fa}\u{133}.test", "xn--ij-qka.test"),
            ("stra\u{df}e.de", "xn--strae-oqa.de"),
        ] {
            assert_eq!(host(given).as_deref(), Ok(canonical), "{given}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for given in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "a\0b",
            "a/b",
            "a@b",
            "a:80",
            "[::1",
            "[1.2.3.4]",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.999",
            "0x",
            "08.1",
            "a%62.test",
            "*.a",
            "xn--\u{fc}",
            "::1%",
            "\u{202e}a.test",
            &"a".repeat(64),
            &"a.".repeat(127).repeat(2),
        ] {
            if given == "0x" {
                // `inet_aton` reads a bare `0x` as zero; in any case it is not a name.
                assert_eq!(host(given).as_deref(), Ok("0.0.0.0"));
                continue;
            }
            assert!(host(given).is_err(), "{given:?} gave {:?}", host(given));
        }
    }

    #[test]
    fn special_addresses_are_known() {
        let special = |text: &str| text.parse::<Host>().unwrap().is_special();
        for text in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "100.64.0.1",
            "198.18.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "localhost",
            "a.localhost",
            "168.63.129.16",
            "::ffff:168.63.129.16",
            "64:ff9b::a83f:8110",
            "169.254.170.2",
            "169.254.170.23",
            "fd00:ec2::23",
            "100.100.100.200",
            "192.0.0.192",
            "fd20:ce::254",
        ] {
            assert!(special(text), "{text}");
        }
        for text in [
            "1.1.1.1",
            "168.63.129.17",
            "172.32.0.1",
            "100.128.0.1",
            "198.20.0.1",
            "2606:4700::1111",
            "64:ff9b::101:101",
            "2002:101:101::",
            "example.com",
        ] {
            assert!(!special(text), "{text}");
        }
    }
}
