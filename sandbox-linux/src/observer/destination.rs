//! Connections that a network which is off denies.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use stockade_protocol::{Host, NetworkProtocol};
use stockade_sandboxing::{DeniedAct, listens, listens_in};

use super::look_up::{self, Question};
use crate::plan::bpf::{Action, Field, Instruction, Test};
use crate::plan::seccomp::number;
use crate::supervisor::{Address, Caller, datagrams_to, nature, read_address};
use crate::sys::notify::Notification;

/// The longest address that the kernel takes.
const LONGEST_ADDRESS: usize = 128;

const NAME_SERVER: u16 = 53;

/// The longest query of a name that is looked at.
const LONGEST_QUERY: usize = 512;

/// The filter's answers: of what is sent, only what names where to.
pub(super) fn answers() -> [(u32, Vec<Instruction>); 2] {
    let notify = Instruction::answer(Action::Notify);
    let sent = vec![
        Instruction::load(Field::Argument(4)),
        Instruction::jump(Test::Equal(0), 0, 1),
        Instruction::answer(Action::Allow),
        notify,
    ];
    [(number(libc::SYS_connect), vec![notify]), (number(libc::SYS_sendto), sent)]
}

/// Whether a call is one of these.
pub(super) fn is_one(call: i64) -> bool {
    [libc::SYS_connect, libc::SYS_sendto].contains(&call)
}

/// The destination of a `connect`, if it is a stream to a host that this user could reach, that of a datagram, or what is asked
/// of a name server.
///
/// Datagram sockets that are only connected are left out: a program that sorts addresses connects one to each, and that is not
/// what it wants.
pub(super) fn denied(call: &Notification, waits: impl Fn() -> bool) -> Option<DeniedAct> {
    let [file, first, second, _, fifth, sixth] = call.arguments;
    let is_sent = call.call == libc::SYS_sendto;
    let (address, length) = if is_sent { (fifth, sixth) } else { (first, second) };
    let length = usize::try_from(length as i32).ok().filter(|length| *length <= LONGEST_ADDRESS)?;
    let caller = Caller::new(call.thread).ok()?;
    let Address::Internet(address) = read_address(&caller.memory(address, length).ok()?) else { return None };
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let nature = nature(caller.file(file as i32).ok()?.as_fd()).ok()?;
    if nature.is_datagram && address.port() == NAME_SERVER {
        let question = if is_sent {
            let length = usize::try_from(second).unwrap_or(LONGEST_QUERY).min(LONGEST_QUERY);
            look_up::sent(&caller.memory(first, length).ok()?)
        } else {
            look_up::question(call.thread, waits)
        };
        match question {
            Question::Host(host) => return Some(DeniedAct::LookUp(host)),
            Question::Other => return None,
            Question::Unknown if address.ip().is_loopback() => return None,
            Question::Unknown => {}
        }
    } else if !(nature.is_stream || is_sent && nature.is_datagram) {
        return None;
    }
    if !leads_somewhere(call.thread, address) {
        return None;
    }
    let protocol = match address.port() {
        _ if nature.is_datagram => NetworkProtocol::Udp,
        80 => NetworkProtocol::Http,
        443 => NetworkProtocol::Https,
        _ => NetworkProtocol::Tcp,
    };
    Some(DeniedAct::Connect { host: Host::Address(address.ip()), protocol, port: address.port() })
}

/// Whether a connection from outside could come about: a route leads there, or on this machine a service listens that the
/// sandbox does not have itself. Nothing is sent.
fn leads_somewhere(thread: i32, address: SocketAddr) -> bool {
    let (ip, port) = (address.ip(), address.port());
    if port == 0 {
        return false;
    }
    if ip.is_loopback() || ip.is_unspecified() {
        return listens(port) && !listens_in(&format!("/proc/{thread}/net"), port);
    }
    datagrams_to(address).is_ok()
}
