//! A waiting call: read once, decided on what was read, answered once.

use std::ffi::OsStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::thread;

use rustix::fs::OFlags;
use stockade_protocol::{AbsPath, DenyingRule, Evidence, Operation, PermissionAmendment, Violation, ViolationTarget};

use super::Reach;
use super::caller::Caller;
use super::granted::{Granted, Refusal};
use super::options;
use super::own_sockets::{self, OwnSockets};
use super::places::Places;
use super::socket::{self, Address, Life, Nature};
use super::table::{self, Table};
use crate::sys::notify::{self, Notification};

/// A waiting `connect`.
#[derive(Debug)]
pub(super) struct Call {
    listener: Arc<OwnedFd>,
    id: u64,
    pub(super) caller: Caller,
    number: i32,
    /// The command's own socket.
    pub(super) socket: OwnedFd,
    pub(super) nature: Nature,
}

/// The action for a call.
#[derive(Debug)]
pub(super) enum Act {
    /// Connect inside the sandbox, to a `sockaddr`.
    Inside(Vec<u8>),
    /// Connect to a unix socket, by its path.
    Unix(Vec<u8>),
    /// Ask, and connect outside.
    Outside(SocketAddr),
}

/// The kernel's limit on addresses.
const LONGEST_ADDRESS: usize = 128;
/// Limit on an option's value: a group with some sixty sources.
const LONGEST_OPTION: usize = 8192;

/// The stack of a thread that makes one call.
const STACK: usize = 128 * 1024;

/// The action for a call. A call that needs none is answered.
pub(super) fn decide_on(
    listener: &Arc<OwnedFd>,
    notification: &Notification,
    network: u64,
    reach: &Reach,
    own: &mut OwnSockets,
) -> Option<(Call, Act)> {
    let errno = match notification.call {
        libc::SYS_connect => match read(listener, notification, network, reach) {
            Ok(read) => return Some(read),
            Err(errno) => errno,
        },
        libc::SYS_listen => listen(listener, notification, network, own).err().unwrap_or(0),
        libc::SYS_setsockopt => set_option(listener, notification, network).err().unwrap_or(0),
        _ => libc::ENOSYS,
    };
    // The process may have ended.
    notify::answer(listener.as_fd(), notification.id, errno).ok();
    None
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn descriptor(argument: u64) -> i32 {
    // The kernel uses the lower half.
    argument as i32
}

/// Handles `listen`. A socket outside never listens: it would accept connections from the host's network. A unix
/// socket created inside is recorded as the command's own.
fn listen(listener: &Arc<OwnedFd>, notification: &Notification, network: u64, own: &mut OwnSockets) -> Result<(), i32> {
    let [number, backlog, ..] = notification.arguments;
    let caller = Caller::new(notification.thread).map_err(|error| errno(&error))?;
    let socket = caller.file(descriptor(number)).map_err(|error| errno(&error))?;
    if socket::network_of(socket.as_fd()).map_err(|error| errno(&error))? != network {
        return Err(libc::EACCES);
    }
    // Only now it is certain that the socket belongs to the calling process, and not to one with a reused pid.
    if !notify::is_waiting(listener.as_fd(), notification.id) {
        return Err(libc::EINTR);
    }
    rustix::net::listen(&socket, backlog as i32).map_err(rustix::io::Errno::raw_os_error)?;
    own.add(socket.as_fd());
    Ok(())
}

/// Sets an option that chooses an interface, a route or a group, only in the command's own network. It is set on the
/// socket that was checked, and its value is plain bytes.
fn set_option(listener: &Arc<OwnedFd>, notification: &Notification, network: u64) -> Result<(), i32> {
    let failed = |error: io::Error| errno(&error);
    let [number, level, name, value, length, ..] = notification.arguments;
    let (level, name) = (level as i32, name as i32);
    let length = usize::try_from(length as i32).ok().filter(|length| *length <= LONGEST_OPTION).ok_or(libc::EINVAL)?;
    let caller = Caller::new(notification.thread).map_err(failed)?;
    let socket = caller.file(descriptor(number)).map_err(failed)?;
    let value = caller.memory(value, length).map_err(failed)?;
    let is_waiting = notify::is_waiting(listener.as_fd(), notification.id);
    let is_inside = socket::network_of(socket.as_fd()).map_err(failed)? == network;
    if !is_waiting || !is_inside || !options::is_decided(level, name) {
        return Err(libc::EPERM);
    }
    notify::set_socket_option(socket.as_fd(), level, name, &value).map_err(failed)
}

/// Reads a `connect` completely before any decision.
fn read(listener: &Arc<OwnedFd>, notification: &Notification, network: u64, reach: &Reach) -> Result<(Call, Act), i32> {
    let failed = |error: io::Error| errno(&error);
    let [number, address, length, ..] = notification.arguments;
    let number = descriptor(number);
    let length = usize::try_from(length as i32).ok().filter(|length| *length <= LONGEST_ADDRESS).ok_or(libc::EINVAL)?;
    let caller = Caller::new(notification.thread).map_err(failed)?;
    let socket = caller.file(number).map_err(failed)?;
    let nature = socket::nature(socket.as_fd()).map_err(failed)?;
    let bytes = caller.memory(address, length).map_err(failed)?;
    // Only now it is certain that all of this belongs to the calling process, and not to one with a reused pid.
    if !notify::is_waiting(listener.as_fd(), notification.id) {
        return Err(libc::EINTR);
    }
    let act = decide(&nature, socket.as_fd(), bytes, network, reach)?;
    Ok((Call { listener: Arc::clone(listener), id: notification.id, caller, number, socket, nature }, act))
}

fn decide(nature: &Nature, socket: BorrowedFd<'_>, bytes: Vec<u8>, network: u64, reach: &Reach) -> Result<Act, i32> {
    let is_outside = nature.network != network;
    match (socket::read_address(&bytes), nature.family) {
        (Address::Internet(address), libc::AF_INET | libc::AF_INET6) if nature.is_stream => {
            // An IPv4 socket does not accept an IPv6 address, nor vice versa without mapping.
            let is_v6 = nature.family == libc::AF_INET6;
            if address.is_ipv6() && !is_v6 {
                return Err(libc::EAFNOSUPPORT);
            }
            match socket::life(socket) {
                Life::Connected => return Err(libc::EISCONN),
                Life::Connecting => return Err(libc::EALREADY),
                Life::Fresh => {}
            }
            if is_outside {
                // A repeated `connect` asks for the result.
                match socket::pending_error(socket) {
                    0 => {}
                    errno => return Err(errno),
                }
            }
            let ip = address.ip().to_canonical();
            // Loopback is the command's own, except for the host's endpoints in the policy.
            let is_named = reach.host_loopback.contains(&SocketAddr::new(ip, address.port()));
            let is_inside = (ip.is_loopback() || ip.is_unspecified()) && !is_named;
            match (is_inside, is_outside) {
                (true, false) => Ok(Act::Inside(bytes)),
                // It was replaced for another peer, which did not answer.
                (true, true) => Err(libc::ENETUNREACH),
                (false, _) if address.port() == 0 => Err(libc::ECONNREFUSED),
                (false, _) => Ok(Act::Outside(address)),
            }
        }
        (Address::Unix(path), libc::AF_UNIX) => Ok(Act::Unix(path)),
        // Abstract names belong to the socket's own network.
        (Address::Abstract, libc::AF_UNIX) if !is_outside => Ok(Act::Inside(bytes)),
        (_, libc::AF_UNIX) => Err(libc::EACCES),
        // A socket of the host's network is connected to nothing else.
        _ if is_outside => Err(libc::EACCES),
        _ => Ok(Act::Inside(bytes)),
    }
}

impl Call {
    /// Ends the call with success, or this error number.
    pub(super) fn answer(self, errno: i32) {
        // The process may have ended.
        notify::answer(self.listener.as_fd(), self.id, errno).ok();
    }

    /// Connects the command's own socket inside its network.
    pub(super) fn connect_inside(self, address: Vec<u8>, places: &Places) {
        let connect = move |call: Self| {
            let errno = notify::connect(call.socket.as_fd(), &address);
            call.answer(errno);
        };
        // A datagram socket does not block. For others the command can change blocking mode meanwhile.
        if self.nature.is_datagram {
            return connect(self);
        }
        self.connect_aside(places, connect);
    }

    /// Connects to a granted unix socket, by any path that leads to it. Returns the violation to report.
    pub(super) fn connect_unix(
        self,
        path: &[u8],
        (granted, own): (&Granted, &OwnSockets),
        places: &Places,
    ) -> Option<Violation> {
        if let Some(file) = own.find(&self.caller, path) {
            self.connect_to(file, places);
            return None;
        }
        let named = path;
        let path = match self.caller.directory() {
            Ok(directory) => directory.join(OsStr::from_bytes(path)),
            Err(error) => {
                self.answer(errno(&error));
                return None;
            }
        };
        match granted.find(&path) {
            Ok(file) => {
                self.connect_to(file, places);
                None
            }
            Err(Refusal::NotGranted(socket)) => {
                let violation = socket.map(|path| self.not_granted(path));
                // Programs start their server if there is none.
                let is_missing = own_sockets::is_missing(&self.caller, named);
                self.answer(if is_missing { libc::ENOENT } else { libc::EACCES });
                violation
            }
            Err(Refusal::Replaced(path)) => {
                let violation = self.replaced(path);
                self.answer(libc::ECONNREFUSED);
                Some(violation)
            }
        }
    }

    /// Connects to the unix socket of this file: the path may lead elsewhere by now.
    fn connect_to(self, file: OwnedFd, places: &Places) {
        let mut address = libc::AF_UNIX.to_ne_bytes().get(..2).unwrap_or_default().to_vec();
        address.extend(format!("/proc/self/fd/{}\0", file.as_raw_fd()).bytes());
        // The server may be busy.
        self.connect_aside(places, move |call: Self| {
            let errno = notify::connect(call.socket.as_fd(), &address);
            drop(file);
            call.answer(errno);
        });
    }

    fn replaced(&self, path: AbsPath) -> Violation {
        let reason = "the socket is not the one that was there when the run started: if its service was restarted, \
            start the command again";
        self.denied_socket(path, DenyingRule::Layer { reason: String::from(reason) }, None)
    }

    fn not_granted(&self, path: AbsPath) -> Violation {
        let amendment = PermissionAmendment::UnixSocket(path.clone());
        self.denied_socket(path, DenyingRule::NotGranted, Some(amendment))
    }

    fn denied_socket(&self, path: AbsPath, rule: DenyingRule, amendment: Option<PermissionAmendment>) -> Violation {
        Violation {
            operation: Operation::Connect,
            target: ViolationTarget::UnixSocket(path),
            evidence: Evidence::Observed,
            pid: u32::try_from(self.caller.thread()).ok(),
            program: self.caller.program(),
            rule: Some(rule),
            amendment,
        }
    }

    /// Connects in a thread: it may block on a server. Without a permit or a thread the call fails for now.
    fn connect_aside(self, places: &Places, connect: impl FnOnce(Self) + Send + 'static) {
        let Some(place) = places.take() else { return self.answer(libc::EAGAIN) };
        let (listener, id) = (Arc::clone(&self.listener), self.id);
        let connect = move || {
            connect(self);
            drop(place);
        };
        let thread = thread::Builder::new().name(String::from("stockade-connect")).stack_size(STACK);
        if thread.spawn(connect).is_err() {
            // The closure owned the call.
            notify::answer(listener.as_fd(), id, libc::EAGAIN).ok();
        }
    }

    /// Whether the process still waits for an answer.
    pub(super) fn is_waiting(&self) -> bool {
        notify::is_waiting(self.listener.as_fd(), self.id)
    }

    /// A check for `is_waiting` from another thread.
    pub(super) fn waiting_check(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (listener, id) = (Arc::clone(&self.listener), self.id);
        move || notify::is_waiting(listener.as_fd(), id)
    }

    /// Replaces the command's socket under every descriptor of the process, and ends the call.
    pub(super) fn place(self, stream: &OwnedFd, errno: i32, table: &Table) {
        let answer =
            self.try_place(stream, table).map_or_else(|error| error.raw_os_error().unwrap_or(libc::EIO), |()| errno);
        self.answer(answer);
    }

    fn try_place(&self, stream: &OwnedFd, table: &Table) -> io::Result<()> {
        let mut flags = rustix::fs::fcntl_getfl(stream)?;
        flags.set(OFlags::NONBLOCK, !self.nature.is_blocking);
        rustix::fs::fcntl_setfl(stream, flags)?;
        let places = self.caller.places(self.socket.as_fd(), self.number);
        let watched = places.iter().filter(|place| !place.registrations.is_empty());
        for place in watched.clone() {
            table.change(self.caller.thread(), place, table::Act::Remove)?;
        }
        for place in &places {
            notify::put_descriptor(self.listener.as_fd(), self.id, stream.as_fd(), place.number, place.close_on_exec)?;
        }
        for place in watched {
            table.change(self.caller.thread(), place, table::Act::Add)?;
        }
        Ok(())
    }
}
