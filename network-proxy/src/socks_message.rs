//! Parser for the messages of SOCKS version 5 (RFC 1928) and its password authentication (RFC 1929).
//!
//! Each function takes the bytes received so far and reports whether the message is complete.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use stockade_protocol::Host;

/// The result of parsing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The message and its length in bytes.
    Whole(T, usize),
    /// More bytes are needed.
    Incomplete,
}

/// The bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a SOCKS5 message: {0}")]
pub struct Malformed(pub &'static str);

/// User name and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: Vec<u8>,
    /// The password.
    pub password: Vec<u8>,
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The command.
    pub command: Command,
    /// The host; `None` if it is not valid.
    pub host: Option<Host>,
    /// The port.
    pub port: u16,
}

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// A stream.
    Connect,
    /// Unsupported: `BIND`, `UDP ASSOCIATE`.
    Other,
}

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;

/// Reads the authentication methods that a client offers.
pub fn greeting(bytes: &[u8]) -> Result<Parsed<Vec<u8>>, Malformed> {
    match bytes {
        [] | [VERSION] => Ok(Parsed::Incomplete),
        [VERSION, count, rest @ ..] => match rest.get(..usize::from(*count)) {
            Some(methods) => Ok(Parsed::Whole(methods.to_vec(), 2 + methods.len())),
            None => Ok(Parsed::Incomplete),
        },
        [_, ..] => Err(Malformed("another version")),
    }
}

/// Reads a user's name and password.
pub fn credentials(bytes: &[u8]) -> Result<Parsed<Credentials>, Malformed> {
    let (version, rest) = match bytes {
        [] => return Ok(Parsed::Incomplete),
        [version, rest @ ..] => (*version, rest),
    };
    if version != PASSWORD_VERSION {
        return Err(Malformed("another version of passwords"));
    }
    let text = |bytes: &[u8]| -> Option<Vec<u8>> {
        let (length, rest) = bytes.split_first()?;
        rest.get(..usize::from(*length)).map(<[u8]>::to_vec)
    };
    let Some(user) = text(rest) else { return Ok(Parsed::Incomplete) };
    let Some(password) = rest.get(1 + user.len()..).and_then(text) else { return Ok(Parsed::Incomplete) };
    let length = 3 + user.len() + password.len();
    Ok(Parsed::Whole(Credentials { user, password }, length))
}

/// Reads a client's request. An invalid host name gives `host: None`.
pub fn request(bytes: &[u8]) -> Result<Parsed<Request>, Malformed> {
    const IPV4: u8 = 1;
    const NAME: u8 = 3;
    const IPV6: u8 = 4;
    match bytes {
        [version, ..] if *version != VERSION => return Err(Malformed("another version")),
        [_, _, reserved, ..] if *reserved != 0 => return Err(Malformed("the reserved byte is not zero")),
        [_, _, _, kind, ..] if ![IPV4, NAME, IPV6].contains(kind) => return Err(Malformed("another kind of address")),
        _ => {}
    }
    let [_, command, _, kind, rest @ ..] = bytes else { return Ok(Parsed::Incomplete) };
    let (skipped, length) = match *kind {
        IPV4 => (0, 4),
        IPV6 => (0, 16),
        _ => match rest.first() {
            Some(0) => return Err(Malformed("the name is empty")),
            Some(length) => (1, usize::from(*length)),
            None => return Ok(Parsed::Incomplete),
        },
    };
    let end = skipped + length;
    let (Some(address), Some([high, low])) = (rest.get(skipped..end), rest.get(end..end + 2)) else {
        return Ok(Parsed::Incomplete);
    };
    let host = match *kind {
        IPV4 => <[u8; 4]>::try_from(address).ok().map(|bytes| IpAddr::from(Ipv4Addr::from(bytes)).into()),
        IPV6 => <[u8; 16]>::try_from(address).ok().map(|bytes| IpAddr::from(Ipv6Addr::from(bytes)).into()),
        _ => std::str::from_utf8(address).ok().and_then(|name| name.parse().ok()),
    };
    let command = if *command == 1 { Command::Connect } else { Command::Other };
    Ok(Parsed::Whole(Request { command, host, port: u16::from_be_bytes([*high, *low]) }, 4 + end + 2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn asked(kind: u8, address: &[u8], port: u16) -> Vec<u8> {
        [&[5, 1, 0, kind], address, &port.to_be_bytes()].concat()
    }

    fn named(name: &[u8]) -> Vec<u8> {
        [&[u8::try_from(name.len()).unwrap()], name].concat()
    }

    #[test]
    fn hosts_are_read_in_their_one_form() {
        for (kind, address, host) in [
            (1, vec![127, 0, 0, 1], Some("127.0.0.1")),
            (3, named(b"A.Test."), Some("a.test")),
            (3, named(b"0x7f.1"), Some("127.0.0.1")),
            (3, named(b"evil.test\0.allowed.test"), None),
            (3, named(b"a b"), None),
            (3, named(b"a.test:80"), None),
            (3, named(b"\xff"), None),
            (4, [&[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1]].concat(), Some("127.0.0.1")),
            (4, [&[0; 15][..], &[1]].concat(), Some("::1")),
        ] {
            let bytes = asked(kind, &address, 80);
            let Ok(Parsed::Whole(found, length)) = request(&bytes) else { panic!("{address:?}") };
            assert_eq!(found.host.map(|host| host.to_string()).as_deref(), host, "{address:?}");
            assert_eq!((found.port, length), (80, bytes.len()));
        }
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [&[4, 1, 0, 1][..], &[5, 1, 1], &[5, 1, 0, 2], &[5, 1, 0, 3, 0]] {
            assert!(request(bytes).is_err(), "{bytes:?}");
        }
        assert!(greeting(&[4, 1]).is_err());
        assert!(credentials(&[5]).is_err());
        assert_eq!(
            request(&[5, 3, 0, 1, 1, 1, 1, 1, 0, 53]).map(|found| match found {
                Parsed::Whole(found, _) => found.command,
                Parsed::Incomplete => Command::Connect,
            }),
            Ok(Command::Other)
        );
    }

    proptest! {
        /// Every proper prefix of a message is incomplete, and the whole is one message.
        #[test]
        fn a_message_is_whole_or_incomplete(name in "[a-z]{1,20}\\.test", port: u16, more: Vec<u8>) {
            let whole = asked(3, &named(name.as_bytes()), port);
            for cut in 0..whole.len() {
                prop_assert_eq!(request(&whole[..cut]), Ok(Parsed::Incomplete));
            }
            let longer = [whole.as_slice(), &more].concat();
            prop_assert_eq!(request(&longer), request(&whole));
        }

        #[test]
        fn a_password_is_whole_or_incomplete(user: [u8; 8], password: [u8; 32]) {
            let whole = [&[1, 8], &user[..], &[32], &password].concat();
            for cut in 0..whole.len() {
                prop_assert_eq!(credentials(&whole[..cut]), Ok(Parsed::Incomplete));
            }
            prop_assert_eq!(credentials(&whole), Ok(Parsed::Whole(Credentials { user: user.to_vec(), password: password.to_vec() }, whole.len())));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            for length in [greeting(&bytes).map(length), credentials(&bytes).map(length), request(&bytes).map(length)].into_iter().flatten() {
                prop_assert!(length <= bytes.len());
            }
        }
    }

    fn length<T>(parsed: Parsed<T>) -> usize {
        match parsed {
            Parsed::Whole(_, length) => length,
            Parsed::Incomplete => 0,
        }
    }
}
