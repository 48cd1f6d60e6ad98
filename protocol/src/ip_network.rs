//! A network of addresses: `10.0.0.0/8`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpNetwork {
    /// The host bits are zero.
    address: IpAddr,
    prefix: u8,
}

impl IpNetwork {
    /// Parses `10.0.0.0/8` or `fd00::/8`. An ambiguous network is an error, and so is one that no host rule can cover.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let (address, prefix) = text.split_once('/').ok_or("has no prefix such as `/8`")?;
        let address: IpAddr = address.parse().map_err(|_| "is no network such as `10.0.0.0/8` or `[fd00::/8]`")?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse::<u8>().ok().filter(|prefix| is_number && *prefix <= width(address));
        let prefix = prefix.ok_or("has a prefix that is no number of bits of its address")?;
        if prefix == 0 {
            return Err("is every address there is: that is the network `full`");
        }
        if address.to_canonical() != address {
            return Err("is a network of IPv4 addresses in the form of IPv6: write it as IPv4");
        }
        let network = Self { address, prefix };
        if network.first() != address {
            return Err(
                "is an address and a network at once: the bits behind the prefix have to be zero, as in `10.0.0.0/8`",
            );
        }
        let holds = |other: Self| network.contains(other.address) || other.contains(address);
        if LOOPBACK.into_iter().any(holds) {
            return Err("holds loopback, of which single ports are named, as in `localhost:5432`");
        }
        Ok(network)
    }

    /// Whether its addresses are of IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.address.is_ipv6()
    }

    /// The address of a network with a single address.
    pub(crate) fn single(&self) -> Option<IpAddr> {
        (self.prefix == width(self.address)).then_some(self.address)
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let other = Self { address: address.to_canonical(), prefix: self.prefix };
        self.address.is_ipv4() == other.address.is_ipv4() && other.first() == self.address
    }

    /// Whether it contains another network.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    /// The address with its host bits cleared.
    fn first(&self) -> IpAddr {
        let behind = u32::from(width(self.address) - self.prefix.min(width(self.address)));
        match self.address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(behind).unwrap_or(0)).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(behind).unwrap_or(0)).into(),
        }
    }
}

/// Not for host rules: a command has its own loopback.
const LOOPBACK: [IpNetwork; 2] = [
    IpNetwork { address: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 },
    IpNetwork { address: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
];

/// How many bits an address has.
fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for IpNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_its_prefix() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"][..], &["11.0.0.0", "9.255.255.255"][..]),
            ("192.168.4.0/22", &["192.168.7.255"], &["192.168.8.0", "192.168.3.255", "::c0a8:400"]),
            ("fd00::/8", &["fd12::1", "fdff::"], &["fc00::1", "fe80::1", "10.0.0.1"]),
            ("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.2"]),
        ] {
            let parsed = IpNetwork::parse(network).unwrap();
            assert_eq!(parsed.to_string(), network);
            for text in inside {
                assert!(parsed.contains(text.parse().unwrap()), "{text} in {network}");
            }
            for text in outside {
                assert!(!parsed.contains(text.parse().unwrap()), "{text} in {network}");
            }
        }
    }

    #[test]
    fn what_is_ambiguous_is_no_network() {
        for text in [
            "10.0.0.1/8",
            "fd00::1/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "0.0.0.0/0",
            "::/0",
            "::ffff:10.0.0.0/104",
            "127.0.0.0/8",
            "127.0.0.0/16",
            "64.0.0.0/2",
            "::/64",
            "example.com/8",
            "[fd00::]/8",
        ] {
            assert!(IpNetwork::parse(text).is_err(), "{text}");
        }
    }
}
