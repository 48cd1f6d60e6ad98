//! The supervisor: network by host for every program, whether or not it knows of proxies.
//!
//! The command runs in a network namespace that leads nowhere. Its `connect` raises a notification
//! here; the gatekeeper decides, this program opens a socket of its own outside, and that socket takes
//! the place of the command's. From then on nothing is in the way: the data goes straight through the
//! kernel.
//!
//! What makes it hold:
//!
//! - The command's memory is read once, and what was read is what is decided and dialled.
//! - No call is ever let through to be made by the command itself (its arguments could have changed by
//!   then): a connection inside the sandbox is made from here, too, on the very same socket.
//! - A socket outside is only handed out connected, or connecting, to what was allowed. It can't be
//!   turned to another peer: that takes `connect`, which comes here; `listen`, which comes here; or a
//!   message with `MSG_FASTOPEN`, which the filter refuses. Only streams are handed out, since a
//!   datagram socket takes another address with each message.
//! - If this program dies, the calls that wait fail, and so does every later one.

mod call;
mod caller;
mod dial;
mod dns;
mod filter;
mod names;
mod socket;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{RecvFlags, SendFlags, recvfrom, sendto};
use stockade_protocol::AbsPath;
use stockade_sandboxing::{Answer, Attempt, Gatekeeper, Verdict};

use self::call::{Act, Call};
use self::dial::{Dial, Progress};
use self::names::{Meaning, Names};
use self::table::Table;

pub(crate) use self::filter::filter;

/// The answer of a resolver that knows no name yet; for the fuzzer, which can't see inside.
pub fn answer_query(message: &[u8]) -> Option<Vec<u8>> {
    let query = dns::Query::read(message)?;
    Some(query.answer(&Names::default().answer(&query)))
}

/// Watches over the connections of one sandbox. Dropped, it refuses all that follow.
#[derive(Debug)]
pub(crate) struct Supervisor {
    mailbox: Mailbox,
}

/// Where the supervisor's thread hears of things.
#[derive(Clone, Debug)]
struct Mailbox {
    sender: Sender<Message>,
    bell: Arc<OwnedFd>,
}

enum Message {
    Watch(OwnedFd),
    Verdict(u64, Verdict),
    Stop,
}

impl Mailbox {
    fn send(&self, message: Message) {
        // A supervisor that is gone has answered everything with its end.
        if self.sender.send(message).is_ok() {
            rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
        }
    }
}

impl Supervisor {
    /// Starts one for the sandbox in whose network `resolver` was bound, a datagram socket to which the
    /// command's queries go.
    pub(crate) fn start(
        resolver: OwnedFd,
        gatekeeper: Arc<dyn Gatekeeper>,
        unix_sockets: BTreeSet<AbsPath>,
    ) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (sender, messages) = channel();
        let mailbox = Mailbox { sender, bell };
        let watch = Watch::new(resolver, gatekeeper, unix_sockets, mailbox.clone(), messages)?;
        thread::Builder::new().name(String::from("stockade-supervisor")).spawn(move || watch.run())?;
        Ok(Self { mailbox })
    }

    /// Answers the calls of one command, which come through this descriptor.
    pub(crate) fn watch(&self, listener: OwnedFd) {
        self.mailbox.send(Message::Watch(listener));
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.mailbox.send(Message::Stop);
    }
}

const BELL: u64 = 0;
const RESOLVER: u64 = 1;
const FIRST_FREE: u64 = 2;
/// The longest query that is answered; one that is longer comes from no ordinary resolver.
const LONGEST_QUERY: usize = 1024;

/// The supervisor's thread.
struct Watch {
    epoll: OwnedFd,
    resolver: OwnedFd,
    /// The sandbox's network namespace.
    network: u64,
    names: Names,
    gatekeeper: Arc<dyn Gatekeeper>,
    unix_sockets: BTreeSet<AbsPath>,
    mailbox: Mailbox,
    messages: Receiver<Message>,
    table: Table,
    listeners: HashMap<u64, Arc<OwnedFd>>,
    /// Calls that wait for a verdict.
    waiting: HashMap<u64, Call>,
    dials: HashMap<u64, Dial>,
    next: u64,
}

impl Watch {
    fn new(
        resolver: OwnedFd,
        gatekeeper: Arc<dyn Gatekeeper>,
        unix_sockets: BTreeSet<AbsPath>,
        mailbox: Mailbox,
        messages: Receiver<Message>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &*mailbox.bell, EventData::new_u64(BELL), EventFlags::IN)?;
        epoll::add(&epoll, &resolver, EventData::new_u64(RESOLVER), EventFlags::IN)?;
        Ok(Self {
            epoll,
            network: socket::network_of(resolver.as_fd())?,
            resolver,
            names: Names::default(),
            gatekeeper,
            unix_sockets,
            mailbox,
            messages,
            table: Table::start()?,
            listeners: HashMap::new(),
            waiting: HashMap::new(),
            dials: HashMap::new(),
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
                // Without it nothing can be watched: ending refuses everything.
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
                    RESOLVER => self.answer_queries(),
                    token if self.listeners.contains_key(&token) => self.on_listener(token, flags),
                    token => self.on_dial(token, Dial::on_event),
                }
            }
            let now = Instant::now();
            let late: Vec<u64> =
                self.dials.iter().filter(|(_, dial)| dial.is_late(now)).map(|(token, _)| *token).collect();
            for token in late {
                self.on_dial(token, Dial::on_deadline);
            }
        }
    }

    fn next_deadline(&self) -> Option<std::time::Duration> {
        let first = self.dials.values().filter_map(Dial::deadline).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    fn token(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Fails when the supervisor is to end.
    fn read_messages(&mut self) -> Result<(), ()> {
        rustix::io::read(&self.mailbox.bell, &mut [0; 8]).ok();
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return Err(()),
                Message::Watch(listener) => {
                    let token = self.token();
                    // One that can't be watched is dropped, and every call behind it fails.
                    if epoll::add(&self.epoll, &listener, EventData::new_u64(token), EventFlags::IN).is_ok() {
                        self.listeners.insert(token, Arc::new(listener));
                    }
                }
                Message::Verdict(token, verdict) => {
                    if let Some(call) = self.waiting.remove(&token) {
                        self.on_verdict(call, verdict);
                    }
                }
            }
        }
        Ok(())
    }

    fn answer_queries(&mut self) {
        let mut query = [0; LONGEST_QUERY];
        while let Ok((_, length, Some(from))) = recvfrom(&self.resolver, &mut query, RecvFlags::DONTWAIT) {
            let Some(query) = query.get(..length).and_then(dns::Query::read) else { continue };
            let answer = self.names.answer(&query);
            // Who asked may be gone, and asks again if not.
            sendto(&self.resolver, &query.answer(&answer), SendFlags::DONTWAIT, &from).ok();
        }
    }

    fn on_listener(&mut self, token: u64, flags: EventFlags) {
        let Some(listener) = self.listeners.get(&token).map(Arc::clone) else { return };
        if flags.contains(EventFlags::IN) {
            match call::next(&listener, self.network) {
                Ok(Some((call, act))) => self.act(call, act),
                // A call that has been answered, or whose process is gone.
                Ok(None) | Err(_) => {}
            }
        } else if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            // The last process behind it has ended.
            epoll::delete(&self.epoll, &*listener).ok();
            self.listeners.remove(&token);
        }
    }

    fn act(&mut self, call: Call, act: Act) {
        match act {
            Act::Inside(address) => call.connect_inside(address),
            Act::Unix(path) => call.connect_unix(&path, &self.unix_sockets),
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
                    self.waiting.insert(token, call);
                    let mailbox = self.mailbox.clone();
                    let answer = Answer::new(move |verdict| mailbox.send(Message::Verdict(token, verdict)));
                    self.gatekeeper.decide(attempt, answer);
                }
            },
        }
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

    /// Lets a dial go on, and ends it if it is done.
    fn on_dial(&mut self, token: u64, go_on: impl Fn(&mut Dial) -> Progress) {
        let Some(mut dial) = self.dials.remove(&token) else { return };
        if let Some(watched) = dial.current() {
            // It is added again where it is still waited for.
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
