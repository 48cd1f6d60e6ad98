//! The supervisor: host rules for every program, with or without proxy support.
//!
//! The command runs in an isolated network namespace. Its `connect` raises a notification here; the gatekeeper
//! decides, this program opens a socket outside, and that socket replaces the command's. From then on the data goes
//! straight through the kernel.
//!
//! Why this is safe:
//!
//! - The command's memory is read once, and exactly the read address is decided on and dialled.
//! - No call is ever continued by the command itself (its arguments could have changed by then): a connection inside
//!   the sandbox is made from here, too, on the same socket.
//! - A socket outside is only handed out connected, or connecting, to an allowed address. It can't be connected to
//!   another peer: that takes `connect` or `listen`, which are notified; a message with `MSG_FASTOPEN`, which the
//!   filter refuses; or an option that chooses an interface or a route, which can't be set (`options`).
//! - Only streams are handed out, since a datagram socket takes another address with each message. The command's
//!   datagram sockets stay in its own network: `connect` is made there, on the same socket, and their datagrams are
//!   captured there and relayed (`relay`). If the descriptor has been replaced by the time the call is examined, the
//!   new socket is connected inside if it is for datagrams or decided on if it is a stream: nothing relies on what a
//!   descriptor meant before.
//! - If this program dies, waiting calls fail, and so does every later one.

mod call;
mod caller;
mod dial;
mod dns;
mod filter;
mod granted;
mod mailbox;
mod names;
mod options;
mod own_sockets;
mod packet;
mod places;
mod relay;
mod socket;
mod sockets;
pub(crate) mod supervision;
mod table;
mod tap;
#[cfg(test)]
mod tests;
pub(crate) mod waiting_call;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use serde::Serialize;
use stockade_protocol::{AbsPath, NetworkProtocol};
use stockade_sandboxing::{Answer, Attempt, Gatekeeper, Verdict};

use crate::sys::notify::{self, Notification};

use self::call::{Act, Call};
use self::dial::{Dial, Progress};
use self::granted::Granted;
use self::mailbox::{Mailbox, Message, TakenCall, Watched};
use self::names::{Meaning, Names};
use self::own_sockets::OwnSockets;
use self::places::Places;
use self::relay::{Destination, Relay};
use self::table::Table;

pub(crate) use self::caller::{Caller, group_of, program_of};
pub(crate) use self::dns::{Kind as QueryKind, Query};
pub(crate) use self::filter::answers;
pub(crate) use self::mailbox::{Feed, Receiving};
pub(crate) use self::socket::{Address, datagrams_to, nature, read_address};
pub(crate) use self::sockets::{Sockets, Tap};
pub(crate) use self::tap::{Requests, filter as datagram_filter, routes, routes_v6};

/// The answer of a resolver without names; for the fuzzer, which has no access to internals.
pub fn answer_query(message: &[u8]) -> Option<Vec<u8>> {
    let query = dns::Query::read(message)?;
    Some(query.answer(&Names::default().answer(&query)))
}

/// The number of datagrams in a packet, and their total size; for the fuzzer, which has no access to internals.
pub fn read_packet(frame: &[u8]) -> Option<(usize, usize)> {
    let packet = packet::Packet::read(frame)?;
    Some((packet.datagrams().count(), packet.datagrams().map(<[u8]>::len).sum()))
}

/// Supervises the connections of one sandbox. When dropped, it refuses all that follow.
#[derive(Debug)]
pub(crate) struct Supervisor {
    mailbox: Mailbox,
}

/// The host's endpoints that can be reached without a decision by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Reach {
    /// Unix sockets, by resolved path.
    pub(crate) unix_sockets: BTreeSet<AbsPath>,
    /// The host's loopback endpoints, which hide the command's own.
    pub(crate) host_loopback: BTreeSet<SocketAddr>,
}

impl Supervisor {
    /// Starts a supervisor without commands.
    pub(crate) fn start(reach: Reach) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, messages) = channel();
        let mailbox = Mailbox { sender, bell };
        let watch = Watch::new(reach, mailbox.clone(), messages)?;
        thread::Builder::new().name(String::from("stockade-supervisor")).spawn(move || watch.run())?;
        Ok(Self { mailbox })
    }

    /// Handles the calls of one command from `listener`, and its sockets in the command's network. Its gatekeeper decides on
    /// its connections; datagrams of a network with several commands are decided on by that of the first.
    pub(crate) fn watch(
        &self,
        listener: Arc<OwnedFd>,
        sockets: Sockets,
        receiving: Receiving,
        gatekeeper: Arc<dyn Gatekeeper>,
    ) -> io::Result<Feed> {
        let Sockets { resolver, datagrams } = sockets;
        let resolver = resolver.ok_or(io::ErrorKind::NotConnected)?;
        let network = socket::network_of(resolver.as_fd())?;
        let feed = Feed { mailbox: self.mailbox.clone(), listener: Arc::clone(&listener) };
        self.mailbox.send(Message::Watch(Watched { gatekeeper, listener, resolver, datagrams, network, receiving }));
        Ok(feed)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.mailbox.send(Message::Stop);
    }
}

const BELL: u64 = 0;
const FIRST_FREE: u64 = 2;
/// Limit on the length of a query; ordinary resolvers send shorter ones.
const LONGEST_QUERY: usize = 1024;
/// Limit on calls that wait for a verdict or a peer. Each has up to three descriptors.
const MOST_CALLS: usize = 256;

/// The state of the supervisor's thread.
struct Watch {
    epoll: OwnedFd,
    names: Names,
    reach: Reach,
    mailbox: Mailbox,
    messages: Receiver<Message>,
    table: Table,
    /// By the even token of their calls; their queries have the next odd one.
    commands: HashMap<u64, Watched>,
    /// Calls that wait for a verdict.
    waiting: HashMap<u64, Call>,
    dials: HashMap<u64, Dial>,
    granted: Granted,
    /// Unix sockets at which commands of this sandbox listen.
    own: OwnSockets,
    places: Places,
    /// One relay per network, kept for the next command of a session, and what decides on its datagrams.
    relays: HashMap<u64, (Relay, Arc<dyn Gatekeeper>)>,
    next: u64,
}

impl Watch {
    fn new(reach: Reach, mailbox: Mailbox, messages: Receiver<Message>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*mailbox.bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            names: Names::default(),
            granted: Granted::hold(&reach.unix_sockets),
            own: OwnSockets::default(),
            places: Places::default(),
            reach,
            mailbox,
            messages,
            table: Table::start()?,
            commands: HashMap::new(),
            waiting: HashMap::new(),
            dials: HashMap::new(),
            relays: HashMap::new(),
            next: FIRST_FREE,
        })
    }

    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let timeout = self.next_deadline().map(|left| left.try_into().unwrap_or_default());
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // Without it nothing can be watched; ending refuses everything.
                Err(_) => return,
            }
            for event in &events {
                let (data, flags) = (event.data.u64(), event.flags);
                match data {
                    BELL => {
                        if self.read_messages().is_err() {
                            return;
                        }
                    }
                    token if self.dials.contains_key(&token) => self.on_dial(token, Dial::on_event),
                    token if self.relays.contains_key(&token) => self.on_relay(token),
                    token if token % 2 == 0 => self.on_listener(token, flags),
                    token => self.answer_queries(token - 1),
                }
            }
            let now = Instant::now();
            let late: Vec<u64> =
                self.dials.iter().filter(|(_, dial)| dial.is_late(now)).map(|(token, _)| *token).collect();
            for token in late {
                self.on_dial(token, Dial::on_deadline);
            }
            self.relays.values_mut().for_each(|(relay, _)| relay.sweep(now));
        }
    }

    fn next_deadline(&self) -> Option<std::time::Duration> {
        let relays = self.relays.values().filter_map(|(relay, _)| relay.deadline());
        let first = self.dials.values().filter_map(Dial::deadline).chain(relays).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    fn token(&mut self) -> u64 {
        self.next += 2;
        self.next
    }

    /// Handles messages. Fails when the supervisor is to end.
    fn read_messages(&mut self) -> Result<(), ()> {
        rustix::io::read(&self.mailbox.bell, &mut [0; 8]).ok();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return Err(()),
                Message::Watch(command) => self.begin(command),
                Message::Call(taken) => self.on_taken(taken),
                Message::Verdict(token, verdict) => {
                    if let Some(call) = self.waiting.remove(&token) {
                        self.on_verdict(call, verdict);
                    }
                }
                Message::DatagramVerdict(token, destination, verdict) => {
                    if let Some((relay, _)) = self.relays.get_mut(&token) {
                        relay.decided(&destination, verdict, Instant::now());
                    }
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, mut command: Watched) {
        let (token, data) = (self.token(), EventData::new_u64);
        let is_known = self.relays.values().any(|(relay, _)| relay.network == command.network);
        if let Some(tap) = command.datagrams.take().filter(|_| !is_known) {
            // Without it datagrams go nowhere.
            self.begin_relay(command.network, tap, Arc::clone(&command.gatekeeper)).ok();
        }
        // Its end is always reported.
        let calls = match command.receiving {
            Receiving::Here => EventFlags::IN,
            Receiving::ByObserver => EventFlags::empty(),
        };
        let added = epoll::add(&self.epoll, &*command.listener, data(token), calls)
            .and_then(|()| epoll::add(&self.epoll, &command.resolver, data(token + 1), EventFlags::IN));
        // A listener that can't be watched is dropped, and its calls fail.
        if added.is_ok() {
            self.commands.insert(token, command);
        }
    }

    fn begin_relay(&mut self, network: u64, tap: Tap, gatekeeper: Arc<dyn Gatekeeper>) -> io::Result<()> {
        let (relay, token) = (Relay::new(network, tap, Instant::now())?, self.token());
        epoll::add(&self.epoll, &relay, EventData::new_u64(token), EventFlags::IN)?;
        self.relays.insert(token, (relay, gatekeeper));
        Ok(())
    }

    fn on_relay(&mut self, token: u64) {
        let Some((relay, gatekeeper)) = self.relays.get_mut(&token) else { return };
        let gatekeeper = Arc::clone(gatekeeper);
        let Ok(asked) = relay.turn(&self.names, Instant::now()) else {
            // It would fail again and again. Without a relay datagrams go nowhere.
            self.relays.remove(&token);
            return;
        };
        for destination in asked {
            let Destination { host, port } = destination.clone();
            // The sender of a datagram is unknown.
            let attempt = Attempt { host, port, protocol: Some(NetworkProtocol::Udp), pid: None, program: None };
            let mailbox = self.mailbox.clone();
            let answer =
                Answer::new(move |verdict| mailbox.send(Message::DatagramVerdict(token, destination, verdict)));
            gatekeeper.decide(attempt, answer);
        }
    }

    fn answer_queries(&mut self, token: u64) {
        let Some(Watched { resolver, .. }) = self.commands.get(&token) else { return };
        let mut query = [0; LONGEST_QUERY];
        while let Ok((_, length, Some(from))) = recvfrom(resolver, &mut query, RecvFlags::DONTWAIT) {
            let Some(query) = query.get(..length).and_then(dns::Query::read) else { continue };
            let answer = self.names.answer(&query);
            // The client may be gone, and retries if not.
            sendto(resolver, &query.answer(&answer), SendFlags::DONTWAIT, &from).ok();
        }
    }

    fn on_listener(&mut self, token: u64, flags: EventFlags) {
        let Some(Watched { listener, network, gatekeeper, .. }) = self.commands.get(&token) else { return };
        if flags.contains(EventFlags::IN) {
            let (listener, network, gatekeeper) = (Arc::clone(listener), *network, Arc::clone(gatekeeper));
            match notify::receive(listener.as_fd()) {
                Ok(notification) => self.on_call(&listener, network, &gatekeeper, &notification),
                // Its process has ended or was interrupted.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
                // The listener is broken and would fail for ever: its calls fail.
                Err(_) => self.forget(token),
            }
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // The last process of the listener has ended.
            self.forget(token);
        }
    }

    /// Handles a call taken by the observer. A call of an unknown command fails.
    fn on_taken(&mut self, taken: TakenCall) {
        let is_its = |command: &&Watched| Arc::ptr_eq(&command.listener, &taken.listener);
        let Some(Watched { listener, network, gatekeeper, .. }) = self.commands.values().find(is_its) else { return };
        let (listener, network, gatekeeper) = (Arc::clone(listener), *network, Arc::clone(gatekeeper));
        if let Some(notification) = taken.take() {
            self.on_call(&listener, network, &gatekeeper, &notification);
        }
    }

    fn on_call(
        &mut self,
        listener: &Arc<OwnedFd>,
        network: u64,
        gatekeeper: &Arc<dyn Gatekeeper>,
        notification: &Notification,
    ) {
        if let Some((call, act)) = call::decide_on(listener, notification, network, &self.reach, &mut self.own) {
            self.act(call, act, gatekeeper);
        }
    }

    fn forget(&mut self, token: u64) {
        let Some(Watched { listener, resolver, .. }) = self.commands.remove(&token) else { return };
        // A pending dial may keep it open.
        epoll::delete(&self.epoll, &*listener).ok();
        // Other commands may share it, so it has to be removed explicitly.
        epoll::delete(&self.epoll, &resolver).ok();
    }

    fn act(&mut self, call: Call, act: Act, gatekeeper: &Arc<dyn Gatekeeper>) {
        match act {
            Act::Inside(address) => call.connect_inside(address, &self.places),
            Act::Unix(path) => {
                if let Some(violation) = call.connect_unix(&path, (&self.granted, &self.own), &self.places) {
                    gatekeeper.refused(violation);
                }
            }
            Act::Outside(_) if !self.has_room() => call.answer(libc::EAGAIN),
            Act::Outside(address) => match self.names.meaning(address.ip()) {
                Meaning::Unknown => call.answer(libc::EHOSTUNREACH),
                Meaning::Host(host) => {
                    let token = self.token();
                    let attempt = Attempt {
                        host,
                        port: address.port(),
                        protocol: None,
                        pid: u32::try_from(call.caller.thread()).ok(),
                        program: call.caller.program(),
                    };
                    let (mailbox, is_waiting) = (self.mailbox.clone(), call.waiting_check());
                    self.waiting.insert(token, call);
                    let answer = Answer::new(move |verdict| mailbox.send(Message::Verdict(token, verdict)));
                    gatekeeper.decide(attempt, answer.wanted_while(is_waiting));
                }
            },
        }
    }

    /// Whether one more call can be decided on. Abandoned ones make room.
    fn has_room(&mut self) -> bool {
        if self.waiting.len() + self.dials.len() >= MOST_CALLS {
            self.waiting.retain(|_, call| call.is_waiting());
            self.dials.retain(|_, dial| dial.call.is_waiting());
        }
        self.waiting.len() + self.dials.len() < MOST_CALLS
    }

    fn on_verdict(&mut self, call: Call, verdict: Verdict) {
        match verdict {
            Verdict::Refuse => call.answer(libc::EACCES),
            Verdict::Unreachable => call.answer(libc::EHOSTUNREACH),
            Verdict::Use(stream) => call.place(&stream, 0, &self.table),
            Verdict::Connect(addresses) => {
                let token = self.token();
                self.dials.insert(token, Dial::new(call, addresses));
                self.on_dial(token, Dial::advance);
            }
        }
    }

    /// Advances a dial, and ends it if it is done.
    fn on_dial(&mut self, token: u64, go_on: impl Fn(&mut Dial) -> Progress) {
        let Some(mut dial) = self.dials.remove(&token) else { return };
        if let Some(watched) = dial.current() {
            // It is added again if it is still pending.
            epoll::delete(&self.epoll, watched).ok();
        }
        match go_on(&mut dial) {
            Progress::Done(stream, errno) => dial.call.place(&stream, errno, &self.table),
            Progress::Failed(errno) => dial.call.answer(errno),
            Progress::Waits => {
                let flags = EventFlags::OUT | EventFlags::ONESHOT;
                let watched =
                    dial.current().map(|socket| epoll::add(&self.epoll, socket, EventData::new_u64(token), flags));
                match watched {
                    Some(Ok(())) => drop(self.dials.insert(token, dial)),
                    Some(Err(errno)) => dial.call.answer(errno.raw_os_error()),
                    None => dial.call.answer(libc::EIO),
                }
            }
        }
    }
}
