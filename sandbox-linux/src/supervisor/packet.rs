//! Datagrams captured on the sandbox's loopback, and those injected there.
//!
//! Captured packets were built by the kernel for a command's `send`, but the untrusted command chooses addresses,
//! ports, options and sizes. So a packet is accepted in its plainest form or not at all: no options, no fragments, no
//! inconsistent lengths.
//!
//! The kernel's layouts: `struct virtio_net_hdr` in front (from `PACKET_VNET_HDR`, since one packet may contain
//! several datagrams), then an Ethernet header, then IPv4 (RFC 791) or IPv6 (RFC 8200).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A datagram, or several of the same size from one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet<'a> {
    pub(crate) way: Way,
    payload: &'a [u8],
    /// The length of each datagram, if there are several.
    segment: Option<usize>,
}

/// The source and destination of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Way {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
}

/// Why a datagram did not arrive, as the sender's kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is not allowed: `EHOSTUNREACH` for IPv4, `EACCES` for IPv6.
    Prohibited,
    /// No listener: `ECONNREFUSED`.
    NobodyThere,
}

/// The offload header in front of every packet.
const OFFLOAD: usize = 10;
const ETHERNET: usize = 14;
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const UDP_HEADER: usize = 8;
const ICMP_HEADER: usize = 8;
const IPV4_TYPE: u16 = 0x0800;
const IPV6_TYPE: u16 = 0x86dd;
const ICMP: u8 = 1;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;
const HOPS: u8 = 64;
/// The longest packet, with all headers.
pub(crate) const LONGEST: usize = OFFLOAD + ETHERNET + IPV6_HEADER + u16::MAX as usize;

impl<'a> Packet<'a> {
    /// Parses a packet that the command has sent outside.
    pub(crate) fn read(frame: &'a [u8]) -> Option<Self> {
        let ([_, offload, _, _, low, high, ..], rest) = frame.split_first_chunk::<OFFLOAD>()?;
        let segment = match offload {
            0 => None,
            // `VIRTIO_NET_HDR_GSO_UDP_L4`: a call with `UDP_SEGMENT`.
            5 => Some(usize::from(u16::from_ne_bytes([*low, *high]))).filter(|length| *length > 0).map(Some)?,
            _ => return None,
        };
        let (ethernet, packet) = rest.split_first_chunk::<ETHERNET>()?;
        let (from, to, datagram) = match ethernet {
            [.., 0x08, 0x00] => read_v4(packet)?,
            [.., 0x86, 0xdd] => read_v6(packet)?,
            _ => return None,
        };
        // The checksum may be missing, if the kernel leaves it to the card. The packet came through memory alone.
        let ([from0, from1, to0, to1, length0, length1, ..], payload) = datagram.split_first_chunk::<UDP_HEADER>()?;
        let [from_port, to_port, length] =
            [[*from0, *from1], [*to0, *to1], [*length0, *length1]].map(u16::from_be_bytes);
        if usize::from(length) != datagram.len() || from_port == 0 || to_port == 0 {
            return None;
        }
        // A command can forge the sender, but its own sockets have these addresses.
        let is_outside = !to.is_loopback() && !to.is_unspecified() && !to.is_multicast() && to != Ipv4Addr::BROADCAST;
        if !from.is_loopback() || !is_outside {
            return None;
        }
        Some(Self { way: Way { from: (from, from_port).into(), to: (to, to_port).into() }, payload, segment })
    }

    /// The datagrams, each of which is relayed separately.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let length = self.segment.unwrap_or(self.payload.len()).max(1);
        // An empty datagram counts, too.
        let empty = self.payload.is_empty().then_some(self.payload);
        self.payload.chunks(length).chain(empty)
    }
}

fn read_v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, datagram) = packet.split_first_chunk::<IPV4_HEADER>()?;
    // A header without options, of an unfragmented packet.
    let [0x45, _, length0, length1, _, _, fragment, 0, _, UDP, _, _, addresses @ ..] = header else { return None };
    let [f0, f1, f2, f3, t0, t1, t2, t3] = addresses;
    const DO_NOT_FRAGMENT: u8 = 0x40;
    if fragment & !DO_NOT_FRAGMENT != 0 || usize::from(u16::from_be_bytes([*length0, *length1])) != packet.len() {
        return None;
    }
    Some((Ipv4Addr::new(*f0, *f1, *f2, *f3).into(), Ipv4Addr::new(*t0, *t1, *t2, *t3).into(), datagram))
}

fn read_v6(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let (header, datagram) = packet.split_first_chunk::<IPV6_HEADER>()?;
    // A fragment, or options, would have another next header.
    let [version, _, _, _, length0, length1, UDP, _, addresses @ ..] = header else { return None };
    if version >> 4 != 6 || usize::from(u16::from_be_bytes([*length0, *length1])) != datagram.len() {
        return None;
    }
    let (from, to) = addresses.split_first_chunk::<16>()?;
    let to = Ipv6Addr::from(*to.first_chunk::<16>()?);
    // The kernel sends datagrams to a mapped address as IPv4.
    let is_plain = to.to_ipv4_mapped().is_none();
    is_plain.then_some((Ipv6Addr::from(*from).into(), to.into(), datagram))
}

/// A reply datagram in the format for the loopback; `None` if it is too long.
pub(crate) fn datagram(way: Way, payload: &[u8]) -> Option<Vec<u8>> {
    frame(way, UDP, udp(way, payload)?)
}

/// An ICMP error for a datagram on this way.
pub(crate) fn failure(way: Way, failure: Failure) -> Option<Vec<u8>> {
    // The kernel finds the socket by the quoted beginning of the packet.
    let quoted = frame(way, UDP, udp(way, &[])?)?.split_off(OFFLOAD + ETHERNET);
    let (protocol, kind, code) = match (way.to, failure) {
        (SocketAddr::V4(_), Failure::Prohibited) => (ICMP, 3, 13),
        (SocketAddr::V4(_), Failure::NobodyThere) => (ICMP, 3, 3),
        (SocketAddr::V6(_), Failure::Prohibited) => (ICMP_V6, 1, 1),
        (SocketAddr::V6(_), Failure::NobodyThere) => (ICMP_V6, 1, 4),
    };
    let back = Way { from: way.to, to: way.from };
    let mut message = Vec::with_capacity(ICMP_HEADER + quoted.len());
    message.extend([kind, code, 0, 0, 0, 0, 0, 0]);
    message.extend(quoted);
    let mut sum = Sum::default();
    if protocol == ICMP_V6 {
        sum.add_pseudo_header(back, protocol, message.len());
    }
    sum.add(&message);
    put(&mut message, 2, sum.finish());
    frame(back, protocol, message)
}

fn udp(way: Way, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(UDP_HEADER + payload.len()).ok()?;
    let mut datagram = Vec::with_capacity(usize::from(length));
    for number in [way.from.port(), way.to.port(), length, 0] {
        datagram.extend(number.to_be_bytes());
    }
    datagram.extend(payload);
    let mut sum = Sum::default();
    sum.add_pseudo_header(way, UDP, datagram.len());
    sum.add(&datagram);
    // Zero would mean no checksum; all ones is equivalent.
    let [high, low] = sum.finish();
    put(&mut datagram, 6, if [high, low] == [0, 0] { [0xff, 0xff] } else { [high, low] });
    Some(datagram)
}

fn frame(way: Way, protocol: u8, content: Vec<u8>) -> Option<Vec<u8>> {
    let mut frame = vec![0; OFFLOAD + ETHERNET - 2];
    match (way.from.ip(), way.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            frame.extend(IPV4_TYPE.to_be_bytes());
            let [high, low] = u16::try_from(IPV4_HEADER + content.len()).ok()?.to_be_bytes();
            let mut header = vec![0x45, 0, high, low, 0, 0, 0x40, 0, HOPS, protocol, 0, 0];
            header.extend(from.octets().into_iter().chain(to.octets()));
            let mut sum = Sum::default();
            sum.add(&header);
            put(&mut header, 10, sum.finish());
            frame.extend(header);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            frame.extend(IPV6_TYPE.to_be_bytes());
            let [high, low] = u16::try_from(content.len()).ok()?.to_be_bytes();
            frame.extend([0x60, 0, 0, 0, high, low, protocol, HOPS]);
            frame.extend(from.octets().into_iter().chain(to.octets()));
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => return None,
    }
    frame.extend(content);
    Some(frame)
}

fn put(bytes: &mut [u8], at: usize, [high, low]: [u8; 2]) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&[high, low]);
    }
}

/// The Internet checksum (RFC 1071). Each part except the last must have an even length.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        let (pairs, odd) = bytes.as_chunks::<2>();
        self.0 += pairs.iter().map(|pair| u64::from(u16::from_be_bytes(*pair))).sum::<u64>();
        self.0 += odd.iter().map(|byte| u64::from(*byte) << 8).sum::<u64>();
    }

    fn add_pseudo_header(&mut self, way: Way, protocol: u8, length: usize) {
        for address in [way.from.ip(), way.to.ip()] {
            match address {
                IpAddr::V4(address) => self.add(&address.octets()),
                IpAddr::V6(address) => self.add(&address.octets()),
            }
        }
        self.0 += u64::from(protocol) + length as u64;
    }

    fn finish(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        let [.., high, low] = (!sum).to_be_bytes();
        [high, low]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn way(from: &str, to: &str) -> Way {
        Way { from: from.parse().unwrap(), to: to.parse().unwrap() }
    }

    fn v4() -> Way {
        way("127.0.0.1:40000", "198.18.0.1:53")
    }

    fn v6() -> Way {
        way("[::1]:40000", "[fd53:746f:636b::c612:1]:53")
    }

    /// Whether it sums to zero, as a receiver checks it.
    fn is_right(parts: &[&[u8]], (way, protocol): (Way, Option<u8>)) -> bool {
        let mut sum = Sum::default();
        if let Some(protocol) = protocol {
            sum.add_pseudo_header(way, protocol, parts.iter().map(|part| part.len()).sum());
        }
        parts.iter().for_each(|part| sum.add(part));
        sum.finish() == [0, 0]
    }

    #[test]
    fn a_packet_is_as_the_kernel_has_it() {
        // As captured on the loopback: "hello" from port 53533 to 198.18.0.1:53, checksum left to the card.
        let seen = "01000000000022000600000000000000000000000000080045000021\
            26f240004011cec57f000001c6120001d11d0035000d453368656c6c6f";
        let seen: Vec<u8> =
            (0..seen.len()).step_by(2).map(|at| u8::from_str_radix(&seen[at..at + 2], 16).unwrap()).collect();
        let packet = Packet::read(&seen).unwrap();
        assert_eq!(packet.way, way("127.0.0.1:53533", "198.18.0.1:53"));
        assert_eq!(packet.datagrams().collect::<Vec<_>>(), [b"hello"]);
        // The built packet differs only in its identification and checksums.
        let built = datagram(packet.way, b"hello").unwrap();
        assert_eq!((built.len(), &built[26..28], &built[32..34]), (seen.len(), &seen[26..28], &seen[32..34]));
        assert!(is_right(&[&built[24..44]], (packet.way, None)));
        assert!(is_right(&[&built[44..]], (packet.way, Some(UDP))));
    }

    #[test]
    fn one_call_may_send_several() {
        let mut frame = datagram(v4(), &[7; 25]).unwrap();
        (frame[1], frame[4]) = (5, 10);
        let lengths = |frame: &[u8]| Packet::read(frame).unwrap().datagrams().map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(&frame), [10, 10, 5]);
        frame[4] = 0;
        assert_eq!(Packet::read(&frame), None, "of no length");
        for other in [1, 3, 4, 0x81] {
            frame[1] = other;
            assert_eq!(Packet::read(&frame), None, "offload {other}");
        }
        assert_eq!(lengths(&datagram(v6(), b"").unwrap()), [0], "an empty datagram is one");
    }

    #[test]
    fn only_the_plainest_form_is_taken() {
        let refused = |what: &str, way: Way, change: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = datagram(way, b"hello").unwrap();
            assert!(Packet::read(&frame).is_some());
            change(&mut frame);
            assert_eq!(Packet::read(&frame), None, "{what}");
        };
        refused("another kind of frame", v4(), &|frame| frame[23] = 6);
        refused("options", v4(), &|frame| frame[24] = 0x46);
        refused("another version", v4(), &|frame| frame[24] = 0x65);
        refused("another version", v6(), &|frame| frame[24] = 0x40);
        refused("more fragments", v4(), &|frame| frame[30] = 0x20);
        refused("a later fragment", v4(), &|frame| frame[31] = 1);
        refused("a fragment", v6(), &|frame| frame[30] = 44);
        refused("another protocol", v4(), &|frame| frame[33] = 136);
        for way in [v4(), v6()] {
            refused("a byte more", way, &|frame| frame.push(0));
            refused("a byte less", way, &|frame| frame.truncate(frame.len() - 1));
        }
        refused("the datagram's own length", v4(), &|frame| frame[49] += 1);
        refused("no port", v4(), &|frame| frame[46..48].fill(0));
        refused("no port to answer", v4(), &|frame| frame[44..46].fill(0));
        for (from, to) in [
            ("192.0.2.1:1", "198.18.0.1:53"),
            ("198.18.0.1:1", "198.18.0.1:53"),
            ("127.0.0.1:1", "127.0.0.2:53"),
            ("127.0.0.1:1", "0.0.0.0:53"),
            ("127.0.0.1:1", "224.0.0.251:5353"),
            ("127.0.0.1:1", "255.255.255.255:67"),
            ("[fd00::1]:1", "[fd53:746f:636b::c612:1]:53"),
            ("[::1]:1", "[::1]:53"),
            ("[::1]:1", "[ff02::fb]:5353"),
            ("[::1]:1", "[::ffff:198.18.0.1]:53"),
        ] {
            assert_eq!(Packet::read(&datagram(way(from, to), b"x").unwrap()), None, "{from} {to}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_built() {
        assert!(datagram(v4(), &vec![0; 65_507]).is_some());
        assert!(datagram(v4(), &vec![0; 65_508]).is_none());
        assert_eq!(datagram(v6(), &vec![0; 65_527]).unwrap().len(), LONGEST);
        assert!(datagram(v6(), &vec![0; 65_528]).is_none());
    }

    #[test]
    fn a_failure_quotes_what_failed() {
        for (way, header, protocol) in [(v4(), 20, None), (v6(), 40, Some(ICMP_V6))] {
            let back = Way { from: way.to, to: way.from };
            let sent = datagram(way, b"").unwrap();
            for kind in [Failure::Prohibited, Failure::NobodyThere] {
                let frame = failure(way, kind).unwrap();
                assert!(frame.ends_with(&sent[24..]));
                assert!(is_right(&[&frame[24 + header..]], (back, protocol)));
                assert_eq!(Packet::read(&frame), None);
            }
        }
        assert_eq!(failure(v4(), Failure::Prohibited).unwrap()[44..46], [3, 13]);
        assert_eq!(failure(v6(), Failure::NobodyThere).unwrap()[64..66], [1, 4]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(packet) = Packet::read(&bytes) {
                prop_assert!(packet.datagrams().map(<[u8]>::len).sum::<usize>() < bytes.len());
            }
        }

        /// A frame corrupted in one byte is dropped, or still a datagram from inside to outside.
        #[test]
        fn a_spoiled_packet_stays_a_plain_one(
            is_v6: bool, payload in prop::collection::vec(any::<u8>(), 0..80), at in 0_usize..150, byte: u8,
        ) {
            let mut frame = datagram(if is_v6 { v6() } else { v4() }, &payload).unwrap();
            let length = frame.len();
            frame[at % length] = byte;
            if let Some(packet) = Packet::read(&frame) {
                prop_assert!(packet.way.from.ip().is_loopback() && !packet.way.to.ip().is_loopback());
                prop_assert_eq!(packet.way.from.is_ipv6(), packet.way.to.is_ipv6());
                prop_assert_eq!(packet.datagrams().flatten().count(), payload.len());
            }
        }

        #[test]
        fn datagrams_survive(is_v6: bool, port in 1_u16.., payload in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut way = if is_v6 { v6() } else { v4() };
            way.from.set_port(port);
            let frame = datagram(way, &payload).unwrap();
            let packet = Packet::read(&frame).unwrap();
            prop_assert_eq!(packet.way, way);
            prop_assert_eq!(packet.datagrams().collect::<Vec<_>>(), [payload.as_slice()]);
            let header = if is_v6 { 64 } else { 44 };
            prop_assert!(is_right(&[&frame[header..]], (way, Some(UDP))));
        }
    }
}
