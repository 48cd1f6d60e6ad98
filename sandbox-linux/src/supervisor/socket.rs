//! Inspects a command's socket, and creates its replacement outside.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

use crate::sys::notify::{set_socket_option, socket_option};

/// The properties of a command's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    pub(crate) family: i32,
    pub(crate) is_stream: bool,
    pub(crate) is_datagram: bool,
    pub(crate) is_blocking: bool,
    /// Its network namespace.
    pub(crate) network: u64,
}

/// The connection state of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Fresh,
    Connecting,
    Connected,
}

const SO_NETNS_COOKIE: i32 = 71;
const IPPROTO_MPTCP: u32 = 262;

fn number(socket: BorrowedFd<'_>, level: i32, name: i32) -> io::Result<u32> {
    let mut value = [0; 4];
    socket_option(socket, level, name, &mut value)?;
    Ok(u32::from_ne_bytes(value))
}

/// The network namespace of a socket.
pub(crate) fn network_of(socket: BorrowedFd<'_>) -> io::Result<u64> {
    let mut value = [0; 8];
    socket_option(socket, libc::SOL_SOCKET, SO_NETNS_COOKIE, &mut value)?;
    Ok(u64::from_ne_bytes(value))
}

/// The properties of a socket; an error for another file.
pub(crate) fn nature(socket: BorrowedFd<'_>) -> io::Result<Nature> {
    let read = |name| number(socket, libc::SOL_SOCKET, name);
    let family = i32::try_from(read(libc::SO_DOMAIN)?).map_err(io::Error::other)?;
    let (kind, protocol) = (read(libc::SO_TYPE)?, read(libc::SO_PROTOCOL)?);
    let is_tcp = [libc::IPPROTO_TCP as u32, IPPROTO_MPTCP].contains(&protocol);
    let is_internet = [libc::AF_INET, libc::AF_INET6].contains(&family);
    let flags = rustix::fs::fcntl_getfl(socket)?;
    Ok(Nature {
        family,
        is_stream: kind == libc::SOCK_STREAM as u32 && is_tcp && is_internet,
        is_datagram: kind == libc::SOCK_DGRAM as u32 && is_internet,
        is_blocking: !flags.contains(OFlags::NONBLOCK),
        network: network_of(socket)?,
    })
}

/// Whether a stream is connected, or about to be.
pub(crate) fn life(socket: BorrowedFd<'_>) -> Life {
    const SYN_SENT: u8 = 2;
    const CLOSED: u8 = 7;
    let mut state = [CLOSED];
    // The first byte of `struct tcp_info`.
    let known = socket_option(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut state);
    match (known, state) {
        (Ok(_), [SYN_SENT]) => Life::Connecting,
        (Ok(_), [CLOSED]) | (Err(_), _) => Life::Fresh,
        (Ok(_), [_]) => Life::Connected,
    }
}

/// Takes the pending error of a socket.
pub(crate) fn pending_error(socket: BorrowedFd<'_>) -> i32 {
    number(socket, libc::SOL_SOCKET, libc::SO_ERROR)
        .ok()
        .and_then(|errno| i32::try_from(errno).ok())
        .unwrap_or(libc::EIO)
}

/// A non-blocking stream socket in this program's own network that can reach the address, of the command's family if
/// possible. Also returns the address in that family's form.
pub(crate) fn outside(family: i32, address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let make = |family| {
        socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(ipproto::TCP))
    };
    match address.ip().to_canonical() {
        // A program with an IPv6 socket expects IPv6 addresses from it later.
        IpAddr::V4(v4) if family == libc::AF_INET6 => match make(AddressFamily::INET6) {
            Ok(socket) => {
                let off = 0_i32.to_ne_bytes();
                set_socket_option(socket.as_fd(), libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &off)?;
                Ok((socket, SocketAddr::new(v4.to_ipv6_mapped().into(), address.port())))
            }
            Err(_) => Ok((make(AddressFamily::INET)?, SocketAddr::new(v4.into(), address.port()))),
        },
        IpAddr::V4(v4) => Ok((make(AddressFamily::INET)?, SocketAddr::new(v4.into(), address.port()))),
        IpAddr::V6(v6) => Ok((make(AddressFamily::INET6)?, SocketAddr::new(v6.into(), address.port()))),
    }
}

/// A non-blocking datagram socket in this program's own network, connected to the address.
pub(crate) fn datagrams_to(address: SocketAddr) -> io::Result<OwnedFd> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(ipproto::UDP))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket)
}

/// Enlarges the receive buffer, as far as the kernel allows.
pub(crate) fn make_room(socket: BorrowedFd<'_>, bytes: i32) {
    let set = |name| set_socket_option(socket, libc::SOL_SOCKET, name, &bytes.to_ne_bytes());
    // More than the limit needs a privilege.
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF)).ok();
}

/// Options that a program may have set before it connected: (level, name).
const CARRIED: &[(i32, i32)] = &[
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
    (libc::SOL_SOCKET, libc::SO_OOBINLINE),
    (libc::SOL_SOCKET, libc::SO_LINGER),
    (libc::SOL_SOCKET, libc::SO_PRIORITY),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
    (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
    (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
    (libc::SOL_SOCKET, libc::SO_TIMESTAMP),
    (libc::SOL_SOCKET, libc::SO_ZEROCOPY),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR),
    (libc::IPPROTO_TCP, libc::TCP_NODELAY),
    (libc::IPPROTO_TCP, libc::TCP_CORK),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
    (libc::IPPROTO_TCP, libc::TCP_SYNCNT),
    (libc::IPPROTO_TCP, libc::TCP_LINGER2),
    (libc::IPPROTO_TCP, libc::TCP_QUICKACK),
    (libc::IPPROTO_TCP, libc::TCP_CONGESTION),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
    (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT),
    (libc::IPPROTO_IP, libc::IP_TOS),
    (libc::IPPROTO_IP, libc::IP_TTL),
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
    (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
];
/// Sizes, which the kernel doubles when they are set.
const SIZES: &[i32] = &[libc::SO_SNDBUF, libc::SO_RCVBUF];

/// Copies the options of an old socket to a new one, if they differ. An option that does not apply to the new family
/// can't be lost.
pub(crate) fn carry_options(old: BorrowedFd<'_>, new: BorrowedFd<'_>) {
    for (level, name) in CARRIED {
        let (mut had, mut has) = ([0; 64], [0; 64]);
        let had = socket_option(old, *level, *name, &mut had).ok().and_then(|length| had.get(..length));
        let has = socket_option(new, *level, *name, &mut has).ok().and_then(|length| has.get(..length));
        if let (Some(had), Some(has)) = (had, has)
            && had != has
        {
            // Refused if it needs a privilege that the command did not have either.
            set_socket_option(new, *level, *name, had).ok();
        }
    }
    for name in SIZES {
        let read = |socket| number(socket, libc::SOL_SOCKET, *name);
        if let (Ok(had), Ok(has)) = (read(old), read(new))
            && had != has
        {
            set_socket_option(new, libc::SOL_SOCKET, *name, &(had / 2).to_ne_bytes()).ok();
        }
    }
}

/// The timeout of a blocking connect, if the program has set one.
pub(crate) fn send_limit(socket: BorrowedFd<'_>) -> Option<std::time::Duration> {
    let mut value = [0; 16];
    socket_option(socket, libc::SOL_SOCKET, libc::SO_SNDTIMEO, &mut value).ok()?;
    let (seconds, microseconds) = value.split_at(8);
    let seconds = u64::try_from(i64::from_ne_bytes(seconds.try_into().ok()?)).ok()?;
    let microseconds = u64::try_from(i64::from_ne_bytes(microseconds.try_into().ok()?)).ok()?;
    let limit = std::time::Duration::from_secs(seconds) + std::time::Duration::from_micros(microseconds);
    (!limit.is_zero()).then_some(limit)
}

/// The address of a `connect`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Internet(SocketAddr),
    /// A unix socket by its path.
    Unix(Vec<u8>),
    /// A unix socket by an abstract name.
    Abstract,
    /// Anything else: `AF_UNSPEC` (which disconnects), another family.
    Other,
}

/// Reads a `struct sockaddr`.
pub(crate) fn read_address(bytes: &[u8]) -> Address {
    let Some((family, rest)) = bytes.split_first_chunk::<2>() else { return Address::Other };
    let family = i32::from(u16::from_ne_bytes(*family));
    match (family, rest) {
        (libc::AF_INET, [high, low, a, b, c, d, ..]) => {
            let port = u16::from_be_bytes([*high, *low]);
            Address::Internet(SocketAddr::new(Ipv4Addr::new(*a, *b, *c, *d).into(), port))
        }
        (libc::AF_INET6, [high, low, _, _, _, _, rest @ ..]) => {
            let port = u16::from_be_bytes([*high, *low]);
            match rest.first_chunk::<16>() {
                Some(bytes) => Address::Internet(SocketAddr::new(Ipv6Addr::from(*bytes).into(), port)),
                None => Address::Other,
            }
        }
        (libc::AF_UNIX, [first, ..]) if *first != 0 => {
            Address::Unix(rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec())
        }
        (libc::AF_UNIX, [0, _, ..]) => Address::Abstract,
        _ => Address::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_are_others() {
        let v4 = [2, 0, 0x1f, 0x90, 198, 18, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(read_address(&v4), Address::Internet("198.18.0.1:8080".parse().unwrap()));
        assert_eq!(read_address(&v4[..8]), Address::Internet("198.18.0.1:8080".parse().unwrap()));
        let v6 = [&[10, 0, 0, 80, 0, 0, 0, 0][..], &[0; 15], &[1], &[0; 4]].concat();
        assert_eq!(read_address(&v6), Address::Internet("[::1]:80".parse().unwrap()));
        assert_eq!(read_address(b"\x01\0/run/a.sock\0junk"), Address::Unix(b"/run/a.sock".to_vec()));
        assert_eq!(read_address(b"\x01\0\0abstract"), Address::Abstract);
        for other in [&b""[..], b"\x01", b"\x01\0", b"\x01\0\0", b"\0\0", &v4[..7], &v6[..20], b"\x10\0aaaa"] {
            assert_eq!(read_address(other), Address::Other, "{other:?}");
        }
    }

    #[test]
    fn options_come_along() {
        let address = "127.0.0.1:1".parse().unwrap();
        let ((old, _), (new, _)) = (outside(libc::AF_INET, address).unwrap(), outside(libc::AF_INET, address).unwrap());
        let set = [
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1_i32),
            (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
            (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 77),
            (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4321),
            (libc::IPPROTO_IP, libc::IP_TOS, 0x10),
            (libc::SOL_SOCKET, libc::SO_RCVBUF, 40_000),
        ];
        for (level, name, value) in set {
            set_socket_option(old.as_fd(), level, name, &value.to_ne_bytes()).unwrap();
        }
        carry_options(old.as_fd(), new.as_fd());
        for (level, name, _) in set {
            assert_eq!(number(old.as_fd(), level, name).unwrap(), number(new.as_fd(), level, name).unwrap(), "{name}");
        }
        assert_ne!(number(new.as_fd(), libc::IPPROTO_TCP, libc::TCP_KEEPIDLE).unwrap(), 7200);
    }

    #[test]
    fn an_ipv6_socket_reaches_ipv4_too() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, address) = outside(libc::AF_INET6, listener.local_addr().unwrap()).unwrap();
        assert!(address.is_ipv6());
        rustix::net::connect(&socket, &address).ok();
        listener.accept().unwrap();
        assert_eq!(nature(socket.as_fd()).unwrap().family, libc::AF_INET6);
    }
}
