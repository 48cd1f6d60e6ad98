//! DNS messages, as far as a stub resolver needs them (RFC 1035).
//!
//! An invalid query is dropped; an answer consists of the query's own first part, so it contains no other foreign
//! data.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    head: &'a [u8],
    /// The name as it was written, with dots between its labels.
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// The requested record type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
    /// The name of an address.
    Pointer,
    /// Another type, which has no records.
    Other,
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This address.
    Address(IpAddr),
    /// This name.
    Name(String),
    /// The name exists, but has no such record.
    Nothing,
    /// There is no such name.
    NoSuchName,
}

const HEADER: usize = 12;
/// A name on the wire is at most this long.
const LONGEST_NAME: usize = 255;
/// The time to live, in seconds: as long as a command usually runs.
const TIME_TO_LIVE: u32 = 60;
const ANSWERED: u8 = 0x80;
const RECURSION_WANTED: u8 = 0x01;
const RECURSION_AVAILABLE: u8 = 0x80;
const NO_SUCH_NAME: u8 = 3;

impl<'a> Query<'a> {
    /// Parses a query with one question; anything else is not answered.
    pub(crate) fn read(message: &'a [u8]) -> Option<Self> {
        let [_, _, flags, _, 0, 1, ..] = message else { return None };
        // An answer, or something else than a plain question.
        if flags & 0xf8 != 0 {
            return None;
        }
        let mut rest = message.get(HEADER..)?;
        let mut name = String::new();
        loop {
            let (length, after) = rest.split_first()?;
            let length = usize::from(*length);
            if length == 0 {
                rest = after;
                break;
            }
            // A label is at most 63 bytes long; larger values are pointers, which a question does not need.
            let label = after.get(..length).filter(|_| length < 64)?;
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(std::str::from_utf8(label).ok().filter(|label| !label.contains('.'))?);
            if name.len() > LONGEST_NAME {
                return None;
            }
            rest = after.get(length..)?;
        }
        let [high, low, 0, 1, after @ ..] = rest else { return None };
        let kind = match u16::from_be_bytes([*high, *low]) {
            1 => Kind::A,
            28 => Kind::Aaaa,
            12 => Kind::Pointer,
            _ => Kind::Other,
        };
        Some(Self { head: message.get(..message.len() - after.len())?, name, kind })
    }

    /// The message that answers it.
    pub(crate) fn answer(&self, answer: &Answer) -> Vec<u8> {
        let mut message = self.head.to_vec();
        if let [_, _, flags, code, ..] = message.as_mut_slice() {
            *flags = ANSWERED | (*flags & RECURSION_WANTED);
            *code = RECURSION_AVAILABLE | if *answer == Answer::NoSuchName { NO_SUCH_NAME } else { 0 };
        }
        let (kind, data) = match answer {
            Answer::Address(IpAddr::V4(address)) => (1_u16, address.octets().to_vec()),
            Answer::Address(IpAddr::V6(address)) => (28, address.octets().to_vec()),
            Answer::Name(name) => (12, labels(name)),
            Answer::Nothing | Answer::NoSuchName => (0, Vec::new()),
        };
        let count = u8::from(kind != 0);
        // One question, the answers, and no other sections.
        if let Some(counts) = message.get_mut(6..HEADER) {
            counts.copy_from_slice(&[0, count, 0, 0, 0, 0]);
        }
        if kind != 0 {
            // The name is the question's, by a pointer to it.
            message.extend([0xc0, 12]);
            message.extend(kind.to_be_bytes());
            message.extend([0, 1]);
            message.extend(TIME_TO_LIVE.to_be_bytes());
            message.extend(u16::try_from(data.len()).unwrap_or(0).to_be_bytes());
            message.extend(data);
        }
        message
    }

    /// The address whose name is asked for.
    pub(crate) fn pointed_at(&self) -> Option<IpAddr> {
        let name = self.name.to_ascii_lowercase();
        if let Some(numbers) = name.strip_suffix(".in-addr.arpa") {
            let mut bytes: Vec<u8> = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
            bytes.reverse();
            return <[u8; 4]>::try_from(bytes).ok().map(|bytes| Ipv4Addr::from(bytes).into());
        }
        let digits = name.strip_suffix(".ip6.arpa")?;
        let digits: Vec<u8> = digits
            .split('.')
            .rev()
            .map(|digit| u8::from_str_radix(digit, 16).ok().filter(|digit| *digit < 16))
            .collect::<Option<_>>()?;
        let bytes: Vec<u8> =
            digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect();
        <[u8; 16]>::try_from(bytes).ok().filter(|_| digits.len() == 32).map(|bytes| Ipv6Addr::from(bytes).into())
    }
}

/// A name on the wire. Host names have no label that is too long.
fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap_or(0));
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ask(name: &str, kind: u16) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 1];
        message.extend(labels(name));
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        // EDNS, as every resolver sends it.
        message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        message
    }

    #[test]
    fn a_question_is_answered_with_its_own_words() {
        let message = ask("Good.test", 1);
        let query = Query::read(&message).unwrap();
        assert_eq!((query.name.as_str(), query.kind), ("Good.test", Kind::A));
        let answer = query.answer(&Answer::Address("198.18.0.1".parse().unwrap()));
        assert_eq!(answer[..12], [0xab, 0xcd, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(answer[12..12 + 15], message[12..12 + 15]);
        assert_eq!(answer[27..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 198, 18, 0, 1]);
        let none = query.answer(&Answer::NoSuchName);
        assert_eq!((none[3], none[7], none.len()), (0x83, 0, 27));
    }

    #[test]
    fn names_of_addresses_are_read_backwards() {
        let pointed = |name: &str| Query::read(&ask(name, 12)).unwrap().pointed_at();
        assert_eq!(pointed("7.0.18.198.in-addr.arpa"), Some("198.18.0.7".parse().unwrap()));
        let v6 = "1.0.0.0.".to_owned() + &"0.".repeat(24) + "0.0.d.f.ip6.arpa";
        assert_eq!(pointed(&v6), Some("fd00::1".parse().unwrap()));
        for wrong in ["a.in-addr.arpa", "1.2.3.in-addr.arpa", "1.2.3.4.5.in-addr.arpa", "0.ip6.arpa", "x.test"] {
            assert_eq!(pointed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_plain_question_is_dropped() {
        let good = ask("a.test", 1);
        let with = |at: usize, byte: u8| {
            let mut message = good.clone();
            message[at] = byte;
            message
        };
        for message in [with(2, 0x81), with(2, 0x10), with(5, 2), with(5, 0), with(12, 64), with(12, 0xc0), with(23, 3)]
        {
            assert_eq!(Query::read(&message), None, "{message:?}");
        }
        for cut in 0..good.len() - 11 {
            assert_eq!(Query::read(&good[..cut]), None, "{cut}");
        }
        assert_eq!(Query::read(&ask(&"abcdefg.".repeat(40), 1)), None, "too long");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_dropped(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(query) = Query::read(&bytes) {
                for answer in [Answer::Nothing, Answer::NoSuchName, Answer::Name("a.test".into())] {
                    prop_assert!(query.answer(&answer).len() < 600);
                }
                query.pointed_at();
            }
        }

        #[test]
        fn names_survive(name in "[a-z0-9-]{1,20}(\\.[a-z0-9-]{1,20}){0,5}", kind: u16) {
            let message = ask(&name, kind);
            prop_assert_eq!(Query::read(&message).map(|query| query.name), Some(name));
        }
    }
}
