//! The network of a sandbox: its loopback, routes, and sockets in it for whoever decides on connections.

use super::confine::Program;
use super::file::{close, read, write};
use super::number as nr;
use super::{EPROTO, Errno, Result, call, fd};

/// What `socket` takes for one that sends datagrams.
const INET_DATAGRAM: [usize; 6] = [2, 2 | 0o2_000_000, 0, 0, 0, 0];

/// A datagram socket at 127.0.0.1:53.
pub(crate) fn bind_resolver() -> Result<i32> {
    const ADDRESS_LEVEL: usize = 0;
    const FREE_BIND: usize = 15;
    // `struct sockaddr_in`: the family, and the port and the address in the network's order.
    const ADDRESS: [u8; 16] = [2, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let socket = call(nr::SOCKET, INET_DATAGRAM)?;
    let on = 1_i32;
    // Where somebody else makes the network, its loopback may not be up yet.
    let free = call(nr::SETSOCKOPT, [socket, ADDRESS_LEVEL, FREE_BIND, &raw const on as usize, size_of_val(&on), 0]);
    let bound = free.and_then(|_| call(nr::BIND, [socket, ADDRESS.as_ptr() as usize, ADDRESS.len(), 0, 0, 0]));
    bound.map(|_| fd(socket)).inspect_err(|_| close(fd(socket)))
}

/// A socket that takes requests to change this network.
pub(crate) fn network_control() -> Result<i32> {
    const ROUTE_REQUESTS: [usize; 6] = [16, 3 | 0o2_000_000, 0, 0, 0, 0];
    call(nr::SOCKET, ROUTE_REQUESTS).map(fd)
}

/// Makes requests, which come one behind the other, and fails with the first that the kernel refuses.
pub(crate) fn change_network(control: i32, requests: &[u8], count: usize) -> Result<()> {
    const ANSWER: u8 = 2;
    const HEADER: usize = 16;
    write(control, requests)?;
    let mut done = Ok(());
    for _ in 0..count {
        // `struct nlmsghdr`, whose fifth byte is the kind, then the error number below zero, then the request.
        let mut answer = [0; 1024];
        let length = read(control, &mut answer)?;
        let error = answer.get(HEADER..HEADER + 4).and_then(|error| error.try_into().ok()).map(i32::from_ne_bytes);
        let answered = match (answer[4], error) {
            (ANSWER, Some(0)) if length >= HEADER + 4 => Ok(()),
            (ANSWER, Some(error @ ..0)) => Err(Errno(-error)),
            _ => Err(EPROTO),
        };
        done = done.and(answered);
    }
    done
}

/// Waits until the loopback is up, which whoever has made the network sees to.
pub(crate) fn wait_for_loopback(socket: i32) -> Result<()> {
    const GET_FLAGS: usize = 0x8913;
    const UP: u8 = 1;
    const NETWORK_IS_DOWN: Errno = Errno(100);
    // Every tenth of a millisecond for five seconds.
    const TRIES: usize = 50_000;
    const A_MOMENT: [u64; 2] = [0, 100_000];
    for _ in 0..TRIES {
        let mut request = loopback_request(0);
        call(nr::IOCTL, [socket as usize, GET_FLAGS, request.as_mut_ptr() as usize, 0, 0, 0])?;
        if request[16] & UP != 0 {
            return Ok(());
        }
        // Nothing to wait for but the time.
        call(nr::PPOLL, [0, 0, A_MOMENT.as_ptr() as usize, 0, 0, 0])?;
    }
    Err(NETWORK_IS_DOWN)
}

/// `struct ifreq` for the loopback: a name of 16 bytes, then a union whose first two bytes are the flags.
fn loopback_request(flags: u8) -> [u8; 40] {
    let mut request = [0; 40];
    (request[0], request[1], request[16]) = (b'l', b'o', flags);
    request
}

/// A socket that sees what a filter takes of the packets on the loopback, and puts packets there.
pub(crate) fn see_datagrams(filter: &[u8]) -> Result<i32> {
    // No kind of packet yet: nothing is seen before the filter is there.
    const PACKETS: [usize; 6] = [17, 3 | 0o2_000_000, 0, 0, 0, 0];
    const SOCKET_LEVEL: usize = 1;
    const ATTACH_FILTER: usize = 26;
    const PACKET_LEVEL: usize = 263;
    const OFFLOAD_HEADER: usize = 15;
    // `struct sockaddr_ll`: the family, every kind of packet in the network's order, the interface's number.
    const ADDRESS: [u8; 20] = [17, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let program = Program::new(filter)?;
    let socket = call(nr::SOCKET, PACKETS)?;
    let on = 1_i32;
    let set = |level, name, value: usize, length| call(nr::SETSOCKOPT, [socket, level, name, value, length, 0]);
    let bound = set(SOCKET_LEVEL, ATTACH_FILTER, &raw const program as usize, size_of_val(&program))
        .and_then(|_| set(PACKET_LEVEL, OFFLOAD_HEADER, &raw const on as usize, size_of_val(&on)))
        .and_then(|_| call(nr::BIND, [socket, ADDRESS.as_ptr() as usize, ADDRESS.len(), 0, 0, 0]));
    bound.map(|_| fd(socket)).inspect_err(|_| close(fd(socket)))
}

/// Brings the loopback interface of this network namespace up, and gives a descriptor of the namespace.
pub(crate) fn loopback_up() -> Result<i32> {
    const OWN_NAMESPACE: usize = 0x894c;
    const SET_FLAGS: usize = 0x8914;
    const UP: u8 = 1;
    let socket = call(nr::SOCKET, INET_DATAGRAM)?;
    let mut request = loopback_request(UP);
    let up = call(nr::IOCTL, [socket, SET_FLAGS, request.as_mut_ptr() as usize, 0, 0, 0]);
    let namespace = up.and_then(|_| call(nr::IOCTL, [socket, OWN_NAMESPACE, 0, 0, 0, 0]));
    close(fd(socket));
    namespace.map(fd)
}
