//! Names that a command has resolved, and their synthetic addresses inside.
//!
//! Every name gets its own address from an unrouted range (198.18.0.0/15, and the same inside a private IPv6 prefix).
//! When the command connects to such an address, the name is known, and the name is decided on. Nothing is resolved
//! before that: no query leaves the machine.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stockade_protocol::{Host, HostName};

use super::dns::{Answer, Kind, Query};

/// The first address that stands for a name.
const FIRST: u32 = u32::from_be_bytes([198, 18, 0, 1]);
/// Limit on names. The oldest makes room: a command that resolves more than this at once does not connect to them.
const MOST_NAMES: usize = 100_000;
/// `fd53:746f:636b::/96` (a local prefix, RFC 4193), with the IPv4 address behind it.
const PREFIX: [u16; 6] = [0xfd53, 0x746f, 0x636b, 0, 0, 0];

/// The names in order.
#[derive(Debug, Default)]
pub(crate) struct Names {
    places: HashMap<HostName, usize>,
    names: Vec<HostName>,
    next: usize,
}

/// The meaning of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A resolved name, or a literal address.
    Host(Host),
    /// An address of the synthetic range without a name.
    Unknown,
}

impl Names {
    /// The answer to a query.
    pub(crate) fn answer(&mut self, query: &Query<'_>) -> Answer {
        if query.kind == Kind::Pointer {
            return match query.pointed_at().map(|address| self.meaning(address)) {
                Some(Meaning::Host(Host::Name(name))) => Answer::Name(name.as_str().to_owned()),
                Some(Meaning::Host(Host::Address(_)) | Meaning::Unknown) | None => Answer::NoSuchName,
            };
        }
        match (query.name.parse::<Host>(), query.kind) {
            (Ok(Host::Name(name)), kind) if name.is_this_machine() => match kind {
                Kind::A => Answer::Address(Ipv4Addr::LOCALHOST.into()),
                Kind::Aaaa => Answer::Address(Ipv6Addr::LOCALHOST.into()),
                Kind::Pointer | Kind::Other => Answer::Nothing,
            },
            (Ok(Host::Name(name)), Kind::A) => Answer::Address(self.address(name).into()),
            (Ok(Host::Name(name)), Kind::Aaaa) => Answer::Address(in_prefix(self.address(name)).into()),
            (Ok(Host::Name(_)), Kind::Other | Kind::Pointer) => Answer::Nothing,
            (Ok(Host::Address(_)) | Err(_), _) => Answer::NoSuchName,
        }
    }

    /// The meaning of an address that a command connects to.
    pub(crate) fn meaning(&self, address: IpAddr) -> Meaning {
        let address = address.to_canonical();
        match in_range(address) {
            None => Meaning::Host(address.into()),
            Some(place) => {
                self.names.get(place).map_or(Meaning::Unknown, |name| Meaning::Host(Host::Name(name.clone())))
            }
        }
    }

    fn address(&mut self, name: HostName) -> Ipv4Addr {
        let place = match self.places.get(&name) {
            Some(place) => *place,
            None => self.add(name),
        };
        Ipv4Addr::from(FIRST + u32::try_from(place).unwrap_or(0))
    }

    fn add(&mut self, name: HostName) -> usize {
        let place = self.next;
        self.next = (self.next + 1) % MOST_NAMES;
        self.places.insert(name.clone(), place);
        match self.names.get_mut(place) {
            Some(oldest) => {
                let oldest = std::mem::replace(oldest, name);
                self.places.remove(&oldest);
            }
            None => self.names.push(name),
        }
        place
    }
}

fn in_prefix(address: Ipv4Addr) -> Ipv6Addr {
    let [a, b, c, d] = address.octets();
    let [p0, p1, p2, p3, p4, p5] = PREFIX;
    Ipv6Addr::new(p0, p1, p2, p3, p4, p5, u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
}

/// The index of an address in the synthetic range; `None` if it is outside.
fn in_range(address: IpAddr) -> Option<usize> {
    let v4 = match address {
        IpAddr::V4(v4) => v4,
        IpAddr::V6(v6) => {
            let [prefix @ .., high, low] = v6.segments();
            (prefix == PREFIX).then(|| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))?
        }
    };
    let [a, b, ..] = v4.octets();
    let in_range = a == 198 && (b == 18 || b == 19);
    in_range.then(|| usize::try_from(u32::from(v4).wrapping_sub(FIRST)).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.bytes());
        }
        message.extend([0, 0, u8::try_from(kind).unwrap(), 0, 1]);
        message
    }

    fn ask(names: &mut Names, name: &str, kind: u16) -> Answer {
        names.answer(&Query::read(&query(name, kind)).unwrap())
    }

    fn address(answer: Answer) -> IpAddr {
        match answer {
            Answer::Address(address) => address,
            other @ (Answer::Name(_) | Answer::Nothing | Answer::NoSuchName) => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_name_has_one_address_of_each_kind_and_back() {
        let mut names = Names::default();
        let a = address(ask(&mut names, "a.test", 1));
        let b = address(ask(&mut names, "b.test", 1));
        assert_eq!((a.to_string(), b.to_string()), ("198.18.0.1".into(), "198.18.0.2".into()));
        assert_eq!(address(ask(&mut names, "A.TEST", 1)), a);
        let a6 = address(ask(&mut names, "a.test", 28));
        assert_eq!(a6.to_string(), "fd53:746f:636b::c612:1");
        for address in [a, a6, "::ffff:198.18.0.1".parse().unwrap()] {
            assert_eq!(names.meaning(address), Meaning::Host("a.test".parse().unwrap()), "{address}");
        }
        assert_eq!(names.meaning("198.18.0.3".parse().unwrap()), Meaning::Unknown);
        assert_eq!(names.meaning("198.18.0.0".parse().unwrap()), Meaning::Unknown);
        assert_eq!(names.meaning("1.1.1.1".parse().unwrap()), Meaning::Host("1.1.1.1".parse().unwrap()));
        assert_eq!(ask(&mut names, "1.0.18.198.in-addr.arpa", 12), Answer::Name("a.test".into()));
        assert_eq!(ask(&mut names, "9.0.18.198.in-addr.arpa", 12), Answer::NoSuchName);
    }

    #[test]
    fn what_is_no_name_has_no_address() {
        let mut names = Names::default();
        assert_eq!(ask(&mut names, "a.test", 16), Answer::Nothing);
        assert_eq!(ask(&mut names, "1.2.3.4", 1), Answer::NoSuchName);
        assert_eq!(ask(&mut names, "a b.test", 1), Answer::NoSuchName);
        assert_eq!(address(ask(&mut names, "localhost", 1)).to_string(), "127.0.0.1");
        assert_eq!(address(ask(&mut names, "x.localhost", 28)).to_string(), "::1");
        assert!(names.names.is_empty());
    }

    #[test]
    fn the_oldest_name_makes_room() {
        let mut names = Names::default();
        for number in 0..=MOST_NAMES {
            ask(&mut names, &format!("n{number}.test"), 1);
        }
        assert_eq!((names.names.len(), names.places.len()), (MOST_NAMES, MOST_NAMES));
        let first = "198.18.0.1".parse().unwrap();
        assert_eq!(names.meaning(first), Meaning::Host(format!("n{MOST_NAMES}.test").parse().unwrap()));
        let last = address(ask(&mut names, &format!("n{}.test", MOST_NAMES - 1), 1));
        assert_eq!(last.to_string(), "198.19.134.160");
    }
}
