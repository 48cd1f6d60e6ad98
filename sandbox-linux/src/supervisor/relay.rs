//! Sending a command's datagrams on to where they are allowed to go, and the answers back.
//!
//! The command's sockets stay in its own network, where every datagram to the outside passes a socket of
//! ours (see [`tap`](super::tap)). Here each is read, its destination decided on, and what it holds sent
//! on by a socket outside that is connected to an address that was checked. An answer is put back on the
//! command's loopback as if it came from where the command sent to. So however a message was addressed,
//! the only way out is through this table.
//!
//! Everything has a bound, since a command can send faster than anybody decides: what there is no room
//! for is lost, as datagrams may be.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use stockade_protocol::Host;
use stockade_sandboxing::Verdict;

use super::Tap;
use super::names::{Meaning, Names};
use super::packet::{self, Failure, Packet, Way};
use super::socket;

/// How many sockets outside there are at once. The one that was used least lately makes room.
const MOST_FLOWS: usize = 512;
/// How many destinations are known at once.
const MOST_DESTINATIONS: usize = 256;
/// How many datagrams wait while somebody is asked about their destination, and how many bytes for all.
const MOST_WAITING: usize = 16;
const MOST_BYTES_WAITING: usize = 1024 * 1024;
/// How long a flow may be idle: what RFC 4787 (REQ-5) recommends to whoever translates addresses.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How long a no holds without asking again. A program that does not hear it sends again and again.
const REFUSED: Duration = Duration::from_secs(60);
/// How often what is over is looked for.
const SWEEP: Duration = Duration::from_secs(10);
/// How many datagrams are taken before somebody else has a turn.
const MOST_AT_ONCE: usize = 64;
/// How much may wait to be read. The kernel gives less to those who may not have so much.
const ROOM: i32 = 4 * 1024 * 1024;
/// The number under which what the command sends is waited for; answers have the others.
const SENT: u64 = 0;

/// The way out of one network.
#[derive(Debug)]
pub(super) struct Relay {
    /// Tells one network from another.
    pub(super) network: u64,
    epoll: OwnedFd,
    tap: Tap,
    buffer: Vec<u8>,
    standings: HashMap<Destination, Standing>,
    bytes_waiting: usize,
    flows: HashMap<u64, Flow>,
    ways: HashMap<Way, u64>,
    next: u64,
    swept: Instant,
}

/// Where datagrams are sent, as the policy knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// What is known of a destination.
#[derive(Debug)]
enum Standing {
    /// Somebody is being asked.
    Asked(Vec<(Way, Vec<u8>)>),
    /// These addresses were checked.
    Allowed {
        addresses: Vec<SocketAddr>,
        used: Instant,
    },
    Refused {
        failure: Failure,
        since: Instant,
    },
}

/// One socket of the command, and its peer outside.
#[derive(Debug)]
struct Flow {
    way: Way,
    destination: Destination,
    /// Connected to the peer: nobody else's answers arrive.
    socket: OwnedFd,
    used: Instant,
}

impl Relay {
    /// For a network whose datagrams come out of `tap`.
    pub(super) fn new(network: u64, tap: Tap, now: Instant) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &tap.socket, EventData::new_u64(SENT), EventFlags::IN)?;
        socket::make_room(tap.socket.as_fd(), ROOM);
        Ok(Self {
            network,
            epoll,
            tap,
            buffer: vec![0; packet::LONGEST],
            standings: HashMap::new(),
            bytes_waiting: 0,
            flows: HashMap::new(),
            ways: HashMap::new(),
            next: SENT,
            swept: now,
        })
    }

    /// Does what can be done now, and says which destinations have to be asked for. Fails if nothing can be
    /// heard any more.
    pub(super) fn turn(&mut self, names: &Names, now: Instant) -> io::Result<Vec<Destination>> {
        let mut asked = Vec::new();
        let mut events = Vec::with_capacity(64);
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::io::retry_on_intr(|| epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&at_once)))?;
        let mut buffer = mem::take(&mut self.buffer);
        for event in &events {
            match event.data.u64() {
                SENT => self.take_in(names, &mut buffer, &mut asked, now),
                token => self.give_back(token, &mut buffer, now),
            }
        }
        self.buffer = buffer;
        Ok(asked)
    }

    /// Takes what the command has sent.
    fn take_in(&mut self, names: &Names, buffer: &mut [u8], asked: &mut Vec<Destination>, now: Instant) {
        for _ in 0..MOST_AT_ONCE {
            let Ok((length, _)) = recv(&self.tap.socket, &mut *buffer, RecvFlags::DONTWAIT) else { return };
            let Some(packet) = buffer.get(..length).and_then(Packet::read) else { continue };
            let host = match names.meaning(packet.way.to.ip()) {
                Meaning::Host(host) => host,
                Meaning::Unknown => {
                    self.fail(packet.way, Failure::NobodyThere);
                    continue;
                }
            };
            let destination = Destination { host, port: packet.way.to.port() };
            for datagram in packet.datagrams() {
                let asks = self.forward(&destination, packet.way, datagram, now);
                asked.extend(asks.then(|| destination.clone()));
            }
        }
    }

    /// Sends a datagram on, or has it wait. Whether its destination has to be asked for.
    fn forward(&mut self, destination: &Destination, way: Way, datagram: &[u8], now: Instant) -> bool {
        if let Some(token) = self.flow(destination, way) {
            self.send(token, datagram, now);
            return false;
        }
        let is_new = !self.standings.contains_key(destination);
        if is_new {
            if !self.has_room(now) {
                self.fail(way, Failure::Prohibited);
                return false;
            }
            self.standings.insert(destination.clone(), Standing::Asked(Vec::new()));
        }
        match self.standings.get_mut(destination) {
            Some(Standing::Asked(waiting)) => {
                let bytes = self.bytes_waiting + datagram.len();
                if waiting.len() < MOST_WAITING && bytes <= MOST_BYTES_WAITING {
                    self.bytes_waiting = bytes;
                    waiting.push((way, datagram.to_vec()));
                }
            }
            Some(Standing::Refused { failure, .. }) => {
                let failure = *failure;
                self.fail(way, failure);
            }
            Some(Standing::Allowed { addresses, used }) => {
                *used = now;
                let addresses = mem::take(addresses);
                let opened = self.open(destination, way, &addresses, now);
                if let Some(Standing::Allowed { addresses: kept, .. }) = self.standings.get_mut(destination) {
                    *kept = addresses;
                }
                match opened {
                    Ok(token) => self.send(token, datagram, now),
                    Err(_) => self.fail(way, Failure::NobodyThere),
                }
            }
            None => {}
        }
        is_new
    }

    /// Somebody has decided on a destination.
    pub(super) fn decided(&mut self, destination: &Destination, verdict: Verdict, now: Instant) {
        let Some(Standing::Asked(waiting)) = self.standings.remove(destination) else { return };
        self.bytes_waiting -= waiting.iter().map(|(_, datagram)| datagram.len()).sum::<usize>();
        let standing = match verdict {
            Verdict::Connect(addresses) => Standing::Allowed { addresses, used: now },
            Verdict::Unreachable => Standing::Refused { failure: Failure::NobodyThere, since: now },
            // A stream is of no use here.
            Verdict::Refuse | Verdict::Use(_) => Standing::Refused { failure: Failure::Prohibited, since: now },
        };
        self.standings.insert(destination.clone(), standing);
        for (way, datagram) in waiting {
            self.forward(destination, way, &datagram, now);
        }
    }

    /// The flow that a datagram belongs to. A name's address may stand for another name by now.
    fn flow(&mut self, destination: &Destination, way: Way) -> Option<u64> {
        let token = *self.ways.get(&way)?;
        if self.flows.get(&token).is_some_and(|flow| flow.destination == *destination) {
            return Some(token);
        }
        self.close(token);
        None
    }

    fn open(&mut self, destination: &Destination, way: Way, addresses: &[SocketAddr], now: Instant) -> io::Result<u64> {
        while self.flows.len() >= MOST_FLOWS {
            self.close_oldest();
        }
        let mut made = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
        for address in addresses {
            made = socket::datagrams_to(*address);
            if made.is_ok() {
                break;
            }
        }
        // This program may have more files open than it is allowed to.
        if made.is_err() && self.close_oldest() {
            made = addresses.first().map_or(made, |address| socket::datagrams_to(*address));
        }
        let (socket, token) = (made?, self.next + 1);
        epoll::add(&self.epoll, &socket, EventData::new_u64(token), EventFlags::IN)?;
        self.next = token;
        self.ways.insert(way, token);
        self.flows.insert(token, Flow { way, destination: destination.clone(), socket, used: now });
        Ok(token)
    }

    fn close(&mut self, token: u64) {
        if let Some(flow) = self.flows.remove(&token) {
            self.ways.remove(&flow.way);
        }
    }

    fn close_oldest(&mut self) -> bool {
        let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.used).map(|(token, _)| *token);
        oldest.into_iter().for_each(|token| self.close(token));
        oldest.is_some()
    }

    fn send(&mut self, token: u64, datagram: &[u8], now: Instant) {
        let Some(flow) = self.flows.get_mut(&token) else { return };
        flow.used = now;
        let attempt = || send(&flow.socket, datagram, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        // It speaks of an earlier datagram, and this one was not sent.
        if attempt().is_err_and(is_telling) {
            attempt().ok();
            let way = flow.way;
            self.fail(way, Failure::NobodyThere);
        }
    }

    /// Puts what has come from outside on the command's loopback.
    fn give_back(&mut self, token: u64, buffer: &mut [u8], now: Instant) {
        for _ in 0..MOST_AT_ONCE {
            let Some(flow) = self.flows.get_mut(&token) else { return };
            let way = flow.way;
            match recv(&flow.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    flow.used = now;
                    let back = Way { from: way.to, to: way.from };
                    self.put(buffer.get(..length).and_then(|payload| packet::datagram(back, payload)));
                }
                Err(errno) if is_telling(errno) => self.fail(way, Failure::NobodyThere),
                Err(_) => return,
            }
        }
    }

    fn fail(&self, way: Way, failure: Failure) {
        self.put(packet::failure(way, failure));
    }

    /// What the command has no room for is lost.
    fn put(&self, frame: Option<Vec<u8>>) {
        if let Some(frame) = frame {
            send(&self.tap.socket, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
        }
    }

    /// When there is something to look for again; never while nothing is known.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.standings.is_empty()).then(|| self.swept + SWEEP)
    }

    /// Ends what has been idle for too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now < self.swept + SWEEP {
            return;
        }
        self.swept = now;
        let is_over = |since: Instant, limit: Duration| now.saturating_duration_since(since) >= limit;
        let idle: Vec<u64> =
            self.flows.iter().filter(|(_, flow)| is_over(flow.used, IDLE)).map(|(token, _)| *token).collect();
        idle.into_iter().for_each(|token| self.close(token));
        let in_use: HashSet<&Destination> = self.flows.values().map(|flow| &flow.destination).collect();
        self.standings.retain(|destination, standing| match standing {
            Standing::Asked(_) => true,
            Standing::Allowed { used, .. } => in_use.contains(destination) || !is_over(*used, IDLE),
            Standing::Refused { since, .. } => !is_over(*since, REFUSED),
        });
    }

    /// Whether one more destination can be known. What is not in use makes room for it.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.standings.len() < MOST_DESTINATIONS {
            return true;
        }
        let in_use: HashSet<&Destination> = self.flows.values().map(|flow| &flow.destination).collect();
        let age = |(destination, standing): (&Destination, &Standing)| match standing {
            Standing::Allowed { used, .. } if !in_use.contains(destination) => Some((*used, destination.clone())),
            Standing::Refused { since, .. } => Some((*since, destination.clone())),
            Standing::Asked(_) | Standing::Allowed { .. } => None,
        };
        let oldest = self.standings.iter().filter_map(age).min_by_key(|(since, _)| *since);
        // One that has been decided just now is kept: a command that names ever new hosts is refused.
        let oldest = oldest.filter(|(since, _)| now.saturating_duration_since(*since) >= SWEEP);
        oldest.is_some_and(|(_, destination)| self.standings.remove(&destination).is_some())
    }
}

impl AsFd for Relay {
    /// Readable when there is something to do.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Whether an error says that datagrams do not arrive, and not that there is no room for this one now.
fn is_telling(errno: Errno) -> bool {
    [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::ACCESS, Errno::PERM].contains(&errno)
}
