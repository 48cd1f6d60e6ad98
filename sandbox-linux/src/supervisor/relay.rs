//! Relays a command's datagrams to allowed destinations, and the replies back.
//!
//! The command's sockets stay in its own network, where every outgoing datagram passes the supervisor's socket (see
//! [`tap`](super::tap)). Here each is parsed, its destination decided on, and its payload sent by a socket outside
//! that is connected to a checked address. A reply is injected into the command's loopback as if it came from the
//! original destination. So this table is the only way out, for any kind of address.
//!
//! Everything is bounded, since a command can send faster than decisions are made: excess datagrams are dropped.

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

/// Limit on sockets outside. The least recently used one makes room.
const MOST_FLOWS: usize = 512;
/// Limit on known destinations.
const MOST_DESTINATIONS: usize = 256;
/// Limits on the datagrams buffered while their destination is asked about, and on the bytes of all.
const MOST_WAITING: usize = 16;
const MOST_BYTES_WAITING: usize = 1024 * 1024;
/// The idle timeout of a flow: the recommendation of RFC 4787 (REQ-5) for NAT.
const IDLE: Duration = Duration::from_secs(5 * 60);
/// How long a refusal is remembered. Programs that ignore it send again and again.
const REFUSED: Duration = Duration::from_secs(60);
/// The interval of sweeps.
const SWEEP: Duration = Duration::from_secs(10);
/// Datagrams per turn, for fairness.
const MOST_AT_ONCE: usize = 64;
/// The receive buffer. The kernel grants less without privileges.
const ROOM: i32 = 4 * 1024 * 1024;
/// The token of the command's datagrams; replies have the others.
const SENT: u64 = 0;

/// The relay of one network.
#[derive(Debug)]
pub(super) struct Relay {
    /// Identifies the network.
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

/// A destination, as the policy names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Destination {
    pub(super) host: Host,
    pub(super) port: u16,
}

/// The state of a destination.
#[derive(Debug)]
enum Standing {
    /// A decision is pending, with the packets buffered for it.
    Asked(Vec<(Way, Vec<u8>)>),
    /// Allowed, with the checked addresses.
    Allowed {
        addresses: Vec<SocketAddr>,
        used: Instant,
    },
    Refused {
        failure: Failure,
        since: Instant,
    },
}

/// One socket of the command and its peer outside.
#[derive(Debug)]
struct Flow {
    way: Way,
    destination: Destination,
    /// Connected to the peer: other senders are not received.
    socket: OwnedFd,
    used: Instant,
}

impl Relay {
    /// A relay for the network of `tap`.
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

    /// Handles all pending events, and returns the destinations to ask about. Fails if the socket is broken.
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

    /// Reads the command's datagrams.
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

    /// Relays a datagram, or buffers it. Returns whether its destination has to be asked about.
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

    /// Applies the verdict on a destination.
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

    /// The flow of a datagram. A synthetic address may mean another name by now.
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
        // The limit on open files may be reached.
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
        // The error belongs to an earlier datagram, and this one was not sent.
        if attempt().is_err_and(is_telling) {
            attempt().ok();
            let way = flow.way;
            self.fail(way, Failure::NobodyThere);
        }
    }

    /// Injects replies into the command's loopback.
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

    /// Injects a frame; it is dropped if the command has no room.
    fn put(&self, frame: Option<Vec<u8>>) {
        if let Some(frame) = frame {
            send(&self.tap.socket, &frame, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).ok();
        }
    }

    /// The time of the next sweep; `None` while nothing is known.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.standings.is_empty()).then(|| self.swept + SWEEP)
    }

    /// Removes idle flows and destinations.
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

    /// Whether there is room for one more destination. Unused ones make room.
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
        // Recent decisions are kept: a command that names ever new hosts is refused.
        let oldest = oldest.filter(|(since, _)| now.saturating_duration_since(*since) >= SWEEP);
        oldest.is_some_and(|(_, destination)| self.standings.remove(&destination).is_some())
    }
}

impl AsFd for Relay {
    /// Readable when events are pending.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// Whether an error means that datagrams do not arrive, and not a full buffer.
fn is_telling(errno: Errno) -> bool {
    [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH, Errno::ACCESS, Errno::PERM].contains(&errno)
}
