//! The path of a command's datagrams: routes in its network that lead to the loopback and end there, and a filter for
//! the socket that captures them.
//!
//! A datagram has an address per message, so it can't be decided on when it is sent: not by inspecting the call
//! (`sendmsg` has the address in memory), and not by handing out a socket of the host's network, which would accept
//! any address. So it is sent into an isolated network and captured there, independent of the call. Whether it is
//! relayed is decided outside.
//!
//! Messages are those of rtnetlink: <https://man7.org/linux/man-pages/man7/rtnetlink.7.html>.

use serde::Serialize;

use crate::plan::bpf::{Instruction, Part, Take, Test};
use crate::plan::step::Filter;

/// Requests to the kernel.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    count: usize,
}

impl Requests {
    fn of(requests: &[Vec<u8>]) -> Self {
        Self { bytes: requests.concat(), count: requests.len() }
    }

    /// Concatenated, in the kernel's format.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests", self.count)
    }
}

/// The loopback's index in every network.
const LOOPBACK: u32 = 1;
const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
const CREATE: u16 = 0x400;
const NESTED: u16 = 0x8000;

/// For IPv4.
///
/// The route is an ordinary one, so that the kernel sends matching datagrams and discards them when they come back in:
/// such a route is not for delivery. With a `local` one it would look for a listening socket, and report that there is
/// none.
pub(crate) fn routes() -> Requests {
    const INET: u8 = 2;
    // A reply is a packet for 127.0.0.1 that the kernel has not sent itself, which it treats as forged
    // (`route_localnet`). Only the supervisor can inject packets into this loopback.
    let allow_answers = attribute(26, &1_u32.to_ne_bytes());
    let in_inet = attribute(NESTED | u16::from(INET), &attribute(NESTED | 1, &allow_answers));
    let interface = set_loopback(&attribute(NESTED | 26, &in_inet));
    let route = new_route(INET, 253, &[attribute(4, &LOOPBACK.to_ne_bytes()), attribute(7, &[127, 0, 0, 1])].concat());
    Requests::of(&[interface, route])
}

/// For IPv6. If the kernel has none, or lacks nexthop objects, such datagrams have no route and fail at once.
///
/// A route that names the loopback becomes a rejecting one; a route with a nexthop object for the loopback does not.
pub(crate) fn routes_v6() -> Requests {
    const INET6: u8 = 10;
    const NEW_NEXT_HOP: u16 = 104;
    const NUMBER: u32 = 1;
    /// The longest datagram of all goes in one packet.
    const LONGEST: u32 = 65_575;
    let interface = set_loopback(&attribute(4, &LONGEST.to_ne_bytes()));
    let next_hop = [attribute(1, &NUMBER.to_ne_bytes()), attribute(5, &LOOPBACK.to_ne_bytes())].concat();
    let next_hop = request(NEW_NEXT_HOP, CREATE, &[INET6, 0, STATIC, 0, 0, 0, 0, 0], &next_hop);
    let own = std::net::Ipv6Addr::LOCALHOST.octets();
    let route = new_route(INET6, 0, &[attribute(30, &NUMBER.to_ne_bytes()), attribute(7, &own)].concat());
    Requests::of(&[interface, next_hop, route])
}

/// The origin of a route: an administrator, not the kernel.
const STATIC: u8 = 4;

fn set_loopback(attributes: &[u8]) -> Vec<u8> {
    const SET_LINK: u16 = 19;
    let mut header = [0; 16];
    if let Some(number) = header.get_mut(4..8) {
        number.copy_from_slice(&LOOPBACK.to_ne_bytes());
    }
    request(SET_LINK, 0, &header, attributes)
}

/// A default route.
fn new_route(family: u8, scope: u8, attributes: &[u8]) -> Vec<u8> {
    const NEW_ROUTE: u16 = 24;
    const MAIN: u8 = 254;
    const UNICAST: u8 = 1;
    request(NEW_ROUTE, CREATE, &[family, 0, 0, 0, MAIN, STATIC, scope, UNICAST, 0, 0, 0, 0], attributes)
}

fn request(kind: u16, flags: u16, header: &[u8], attributes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + header.len() + attributes.len()).unwrap_or(0);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((REQUEST_AND_ACKNOWLEDGE | flags).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(header);
    bytes.extend(attributes);
    bytes
}

/// Every value's length is a multiple of four, as the kernel requires.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(0);
    [&length.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
}

const OUTGOING: u32 = 4;
const ETHERNET: u32 = 14;
const UDP: u32 = 17;

/// Captures outgoing datagrams; those between the command's own processes are ignored.
pub(crate) fn filter() -> Filter {
    let load = Instruction::load_packet;
    let is = |value, if_true, if_false| Instruction::jump(Test::Equal(value), if_true, if_false);
    Filter(vec![
        load(Part::Direction),
        is(OUTGOING, 0, 17),
        load(Part::Half(12)),
        is(0x0800, 0, 4),
        load(Part::Byte(ETHERNET + 9)),
        is(UDP, 0, 13),
        load(Part::Byte(ETHERNET + 16)),
        is(127, 11, 12),
        is(0x86dd, 0, 10),
        load(Part::Byte(ETHERNET + 6)),
        is(UDP, 0, 8),
        // The address ::1, a word at a time.
        load(Part::Word(ETHERNET + 24)),
        is(0, 0, 7),
        load(Part::Word(ETHERNET + 28)),
        is(0, 0, 5),
        load(Part::Word(ETHERNET + 32)),
        is(0, 0, 3),
        load(Part::Word(ETHERNET + 36)),
        is(1, 0, 1),
        Instruction::take(Take::Nothing),
        Instruction::take(Take::All),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Failure, Way, datagram, failure};
    use super::*;
    use crate::plan::bpf::takes;

    #[test]
    fn what_goes_outside_is_seen_and_nothing_else() {
        let frame = |from: &str, to: &str| {
            let way = Way { from: from.parse().unwrap(), to: to.parse().unwrap() };
            // Without the offload header, which the filter does not see.
            (datagram(way, b"x").unwrap().split_off(10), failure(way, Failure::Prohibited).unwrap().split_off(10))
        };
        for (from, to, wanted) in [
            ("127.0.0.1:1", "198.18.0.1:53", true),
            ("127.0.0.1:1", "1.1.1.1:53", true),
            ("127.0.0.1:1", "127.0.0.1:53", false),
            ("127.0.0.1:1", "127.9.9.9:53", false),
            ("[::1]:1", "[fd53:746f:636b::c612:1]:53", true),
            ("[::1]:1", "[::2]:53", true),
            ("[::1]:1", "[1::1]:53", true),
            ("[::1]:1", "[0:0:1::1]:53", true),
            ("[::1]:1", "[0:0:0:0:1::1]:53", true),
            ("[::1]:1", "[::1]:53", false),
        ] {
            let (sent, refusal) = frame(from, to);
            assert_eq!(takes(&filter().0, OUTGOING, &sent), wanted, "{from} {to}");
            assert!(!takes(&filter().0, 0, &sent), "received: {from} {to}");
            assert!(!takes(&filter().0, OUTGOING, &refusal), "not a datagram: {from} {to}");
            for length in 0..38 {
                takes(&filter().0, OUTGOING, &sent[..length.min(sent.len())]);
            }
        }
    }

    /// Every request and every attribute has its correct length.
    #[test]
    fn requests_are_as_long_as_they_say() {
        for requests in [routes(), routes_v6()] {
            let (mut rest, mut count) = (requests.bytes(), 0);
            while !rest.is_empty() {
                let length = u32::from_ne_bytes(rest[..4].try_into().unwrap()) as usize;
                assert!(length >= 24 && length.is_multiple_of(4) && length <= rest.len(), "{length}");
                rest = &rest[length..];
                count += 1;
            }
            assert_eq!(count, requests.count());
        }
    }
}
