//! Sockets, keys and shared memory.
//!
//! SAFETY, for every block here: the calls get pointers to live values of this function, or none.
#![expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all of them, above")]

use std::io::{self, IoSliceMut};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::{Attempt, answer, c_text, one};

pub(crate) fn run(name: &str, arguments: &[&str]) -> Option<Vec<Attempt>> {
    match (name, arguments) {
        ("connect", [address]) => one(name, std::net::TcpStream::connect(address).map(|_| String::new())),
        ("udp", [address]) => one(name, udp(address)),
        ("udp-on-input", [address]) => one(name, udp_on_input(address)),
        ("cut-passed-file", []) => one(name, passed_file().and_then(cut)),
        ("unix-connect", [path]) => one(name, connect(path)),
        ("unix-sendmsg", [path]) => {
            one(name, new_socket(libc::SOCK_DGRAM).and_then(|socket| send_message(socket, path)))
        }
        ("unix-sendto", [path]) => one(name, new_socket(libc::SOCK_DGRAM).and_then(|socket| send_to(socket, path))),
        ("unix-pair-sendto", [path]) => Some(from_pairs(path)),
        ("pairs", []) => Some(pairs()),
        ("socket", [family, kind]) => one(name, socket(family, kind)),
        ("shared-memory", [key]) => one(name, shared_memory(key)),
        ("key", [description]) => one(name, key(description)),
        ("write-descriptor", [number, text]) => one(name, write_to(number, text)),
        _ => None,
    }
}

fn invalid<E>(_: E) -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

fn number(text: &str) -> io::Result<i32> {
    text.parse().map_err(invalid)
}

fn udp(address: &str) -> io::Result<String> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(b"exfil", address).map(|count| count.to_string())
}

/// A file that comes through standard input.
fn passed_file() -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(io::stdin(), &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::empty())?;
    let mut messages = ancillary.drain();
    let file = messages.find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut files) = message else { return None };
        files.next()
    });
    file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// No right to write is asked for, and yet the file is empty afterwards.
fn cut(file: OwnedFd) -> io::Result<String> {
    let path = c_text(format!("/proc/self/fd/{}", file.as_raw_fd()).as_bytes())?;
    answer(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_TRUNC) })
        .or_else(|_| answer(unsafe { libc::truncate(path.as_ptr(), 0) }))
}

/// Uses a socket that was passed on as standard input.
fn udp_on_input(address: &str) -> io::Result<String> {
    let socket = std::net::UdpSocket::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.send_to(b"exfil", address).map(|count| count.to_string())
}

fn socket(family: &str, kind: &str) -> io::Result<String> {
    answer(unsafe { libc::socket(number(family)?, number(kind)?, 0) })
}

fn new_socket(kind: i32) -> io::Result<i32> {
    answer(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?.parse().map_err(invalid)
}

/// An address, where a leading `@` stands for the NUL of an abstract one.
fn address(path: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.bytes().enumerate().map(|(index, byte)| if index == 0 && byte == b'@' { 0 } else { byte });
    address.sun_path.iter_mut().zip(bytes).for_each(|(to, from)| *to = libc::c_char::from_ne_bytes([from]));
    let end = if path.starts_with('@') { 0 } else { 1 };
    let length = offset_of!(libc::sockaddr_un, sun_path) + path.len() + end;
    Ok((address, u32::try_from(length).map_err(invalid)?))
}

fn connect(path: &str) -> io::Result<String> {
    let (address, length) = address(path)?;
    let socket = new_socket(libc::SOCK_STREAM)?;
    answer(unsafe { libc::connect(socket, (&raw const address).cast(), length) })?;
    answer(unsafe { libc::send(socket, b"exfil".as_ptr().cast(), 5, libc::MSG_NOSIGNAL) } as i64)
}

fn send_to(socket: i32, path: &str) -> io::Result<String> {
    let (address, length) = address(path)?;
    answer(unsafe { libc::sendto(socket, b"exfil".as_ptr().cast(), 5, 0, (&raw const address).cast(), length) } as i64)
}

fn send_message(socket: i32, path: &str) -> io::Result<String> {
    let (mut address, length) = address(path)?;
    let mut text = *b"exfil";
    let mut part = libc::iovec { iov_base: text.as_mut_ptr().cast(), iov_len: text.len() };
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_name, message.msg_namelen) = ((&raw mut address).cast(), length);
    (message.msg_iov, message.msg_iovlen) = (&raw mut part, 1);
    answer(unsafe { libc::sendmsg(socket, &raw const message, 0) } as i64)
}

/// A pair of connected sockets reaches no other process, unless it is of a kind that takes an address with
/// each message, or can be connected anew.
fn from_pairs(path: &str) -> Vec<Attempt> {
    let kinds = [
        ("stream", libc::SOCK_STREAM),
        ("datagram", libc::SOCK_DGRAM),
        ("raw", libc::SOCK_RAW),
        ("packet", libc::SOCK_SEQPACKET),
    ];
    let mut attempts = Vec::new();
    for (name, kind) in kinds {
        let mut pair = [0; 2];
        let made = answer(unsafe { libc::socketpair(libc::AF_UNIX, kind | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr()) });
        let [first, second] = pair;
        attempts.push((format!("sendto-{name}"), made.and_then(|_| send_to(first, path))));
        attempts.push((format!("sendmsg-{name}"), send_message(first, path)));
        attempts.push((
            format!("connect-{name}"),
            address(path).and_then(|(address, length)| {
                answer(unsafe { libc::connect(second, (&raw const address).cast(), length) })?;
                answer(unsafe { libc::send(second, b"exfil".as_ptr().cast(), 5, libc::MSG_NOSIGNAL) } as i64)
            }),
        ));
    }
    attempts
}

/// Pairs of the kinds that reach no other process.
fn pairs() -> Vec<Attempt> {
    let kinds = [("stream", libc::SOCK_STREAM), ("packet", libc::SOCK_SEQPACKET)];
    kinds
        .map(|(name, kind)| {
            let mut pair = [0; 2];
            (name.to_owned(), answer(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, pair.as_mut_ptr()) }))
        })
        .into()
}

fn shared_memory(key: &str) -> io::Result<String> {
    let segment = answer(unsafe { libc::shmget(number(key)?, 0, 0) })?.parse().map_err(invalid)?;
    let address = unsafe { libc::shmat(segment, std::ptr::null(), libc::SHM_RDONLY) };
    if address as isize == -1 {
        return Err(io::Error::last_os_error());
    }
    let bytes = unsafe { std::slice::from_raw_parts(address.cast::<u8>(), 6) };
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// Looks a key up in the session's keyring, and reads it.
fn key(description: &str) -> io::Result<String> {
    const SEARCH: i64 = 10;
    const READ: i64 = 11;
    const SESSION: i64 = -3;
    let description = c_text(description.as_bytes())?;
    let key =
        answer(unsafe { libc::syscall(libc::SYS_keyctl, SEARCH, SESSION, c"user".as_ptr(), description.as_ptr(), 0) })?;
    let mut bytes = [0_u8; 64];
    let key: i64 = key.parse().map_err(invalid)?;
    let length = answer(unsafe { libc::syscall(libc::SYS_keyctl, READ, key, bytes.as_mut_ptr(), bytes.len(), 0) })?;
    let length: usize = length.parse().map_err(invalid)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

fn write_to(descriptor: &str, text: &str) -> io::Result<String> {
    answer(unsafe { libc::write(number(descriptor)?, text.as_ptr().cast(), text.len()) } as i64)
}
