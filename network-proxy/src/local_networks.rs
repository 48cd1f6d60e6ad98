//! The current addresses of this machine and the networks of its interfaces.
//!
//! A public address can belong to this machine or to its neighbours, and a server in a data centre may trust both.
//! Such addresses count as private ones do, which are known by their numbers alone ([`Host::is_special`]).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stockade_protocol::Host;

/// Cloud metadata services at private and shared addresses: Alibaba, Amazon, Google, Oracle and others.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// The networks that this machine has an address on, including its own addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalNetworks(Known);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Networks(Vec<Network>),
    /// The interfaces can't be read, so every address counts as local.
    Nothing,
}

impl Default for Known {
    fn default() -> Self {
        Self::Networks(Vec::new())
    }
}

/// An address and its prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    prefix: u32,
}

impl LocalNetworks {
    /// Reads the networks of all interfaces. If that fails, every address counts as local. On systems without a way to
    /// read them (Windows) the list is empty.
    pub fn now() -> Self {
        #[cfg(unix)]
        return Self(crate::sys::interface_addresses().map_or(Known::Nothing, |found| {
            let own = found.iter().map(|found| Network::new(found.address, found.netmask));
            let peers = found.iter().filter_map(|found| found.peer).map(|peer| Network::new(peer, None));
            Known::Networks(own.chain(peers).collect())
        }));
        #[cfg(not(unix))]
        Self::default()
    }

    /// One network, by an address on it and the length of its prefix.
    pub fn of(address: IpAddr, prefix: u32) -> Self {
        Self(Known::Networks(vec![Network { address, prefix }]))
    }

    /// Whether this is an address of this machine, or one on its networks.
    pub fn contain(&self, address: IpAddr) -> bool {
        match &self.0 {
            Known::Networks(networks) => networks.iter().any(|network| network.contains(address)),
            Known::Nothing => true,
        }
    }

    /// Whether a person may approve this address when a name resolves to it: it is on a private network or on one of
    /// this machine's networks. Loopback, link-local addresses, metadata services and the like need a rule.
    pub(crate) fn can_be_asked_for(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_private = match address {
            IpAddr::V4(v4) => {
                let [first, second, ..] = v4.octets();
                v4.is_private() || (first == 100 && second & 0xc0 == 64)
            }
            IpAddr::V6(v6) => v6.is_unique_local(),
        };
        let is_near = !Host::from(address).is_special() && self.contain(address);
        (is_private || is_near) && !METADATA.contains(&address)
    }

    /// Whether a host needs a rule that names it: it is on this machine, a local network or a metadata service.
    pub fn is_special(&self, host: &Host) -> bool {
        host.is_special() || host.address().is_some_and(|address| self.contain(address))
    }
}

impl Network {
    fn new(address: IpAddr, netmask: Option<IpAddr>) -> Self {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        let prefix = netmask.map_or(whole, |mask| bits(mask).leading_ones());
        // A prefix of 0 would make every address local.
        Self { address, prefix: if prefix == 0 { whole } else { prefix } }
    }

    fn contains(&self, address: IpAddr) -> bool {
        let (own, other) = (self.address.to_canonical(), address.to_canonical());
        own.is_ipv4() == other.is_ipv4() && (bits(own) ^ bits(other)).leading_zeros() >= self.prefix
    }
}

/// The address as bits, the network part in the high bits.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_its_prefix() {
        for (network, mask, inside, outside) in [
            ("11.22.33.44", "255.255.255.0", &["11.22.33.44", "11.22.33.0", "11.22.33.255"][..], &["11.22.34.1"][..]),
            ("11.22.33.44", "255.255.255.255", &["11.22.33.44", "::ffff:11.22.33.44"], &["11.22.33.45"]),
            ("11.22.33.44", "255.255.252.0", &["11.22.32.1", "11.22.35.9"], &["11.22.36.1", "11.22.31.1"]),
            // A netmask of 0 covers the address alone.
            ("11.22.33.44", "0.0.0.0", &["11.22.33.44"], &["1.1.1.1", "::b16:212c"]),
            ("2a0b::2", "ffff:ffff:ffff:ffff::", &["2a0b::2", "2a0b::9:9"], &["2a0b:0:0:1::2", "2a0c::2"]),
            ("2a0b::2", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", &["2a0b::2"], &["2a0b::3", "0.0.0.2"]),
        ] {
            let local = LocalNetworks(Known::Networks(vec![Network::new(address(network), Some(address(mask)))]));
            for text in inside {
                assert!(local.contain(address(text)), "{text} in {network} {mask}");
            }
            for text in outside {
                assert!(!local.contain(address(text)), "{text} in {network} {mask}");
            }
        }
        assert!(LocalNetworks(Known::Nothing).contain(address("1.1.1.1")), "what is not known may be local");
        assert!(!LocalNetworks::default().contain(address("1.1.1.1")));
    }

    #[cfg(unix)]
    #[test]
    fn this_machine_knows_its_own() {
        let local = LocalNetworks::now();
        assert!(matches!(local.0, Known::Networks(_)), "{local:?}");
        assert!(local.contain(address("127.0.0.1")), "{local:?}");
    }
}
