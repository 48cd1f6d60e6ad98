//! The relay with a socket pair instead of the socket in a sandbox's network: the command's datagrams go in at one
//! end, and its replies come out there.

use std::net::UdpSocket;
use std::os::unix::net::UnixDatagram;

use super::super::dns::Query;
use super::*;

/// A relay, the command's end of it, and the names that it knows.
struct Sandbox {
    relay: Relay,
    inside: UnixDatagram,
    names: Names,
    now: Instant,
}

impl Sandbox {
    fn new() -> Self {
        let (inside, tap) = UnixDatagram::pair().unwrap();
        inside.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut names = Names::default();
        for name in ["good", "evil"] {
            let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4];
            message.extend(name.bytes().chain(*b"\x04test\0\0\x01\0\x01"));
            names.answer(&Query::read(&message).unwrap());
        }
        let now = Instant::now();
        let (_, lease) = UnixDatagram::pair().unwrap();
        let tap = Tap { socket: tap.into(), lease: lease.into() };
        Self { relay: Relay::new(1, tap, now).unwrap(), inside, names, now }
    }

    /// Sends to `good.test` (1) or `evil.test` (2), and returns the destinations to ask about.
    fn send(&mut self, from: u16, to: u8, port: u16, payload: &[u8]) -> Vec<Destination> {
        self.inside.send(&packet::datagram(way(from, to, port), payload).unwrap()).unwrap();
        self.turn()
    }

    fn turn(&mut self) -> Vec<Destination> {
        self.relay.turn(&self.names, self.now).unwrap()
    }

    fn decide(&mut self, name: &str, port: u16, verdict: Verdict) {
        self.relay.decided(&destination(name, port), verdict, self.now);
    }

    /// The next packet for the command, without the offload header.
    fn next(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; packet::LONGEST];
        let length = self.inside.recv(&mut buffer).ok()?;
        Some(buffer[24..length].to_vec())
    }

    /// The next answer: its source port, its port inside and what it says. Waits for the peer outside.
    fn answer(&mut self) -> (u16, u16, Vec<u8>) {
        for _ in 0..500 {
            self.turn();
            self.inside.set_nonblocking(true).unwrap();
            let found = self.next();
            self.inside.set_nonblocking(false).unwrap();
            if let Some(packet) = found {
                assert_eq!(packet[9], 17, "no datagram: {packet:?}");
                let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
                return (port(20), port(22), packet[28..].to_vec());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no answer");
    }
}

fn way(from: u16, to: u8, port: u16) -> Way {
    Way { from: ([127, 0, 0, 1], from).into(), to: ([198, 18, 0, to], port).into() }
}

fn destination(name: &str, port: u16) -> Destination {
    Destination { host: name.parse().unwrap(), port }
}

/// A peer outside, and its address.
fn peer() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

fn heard(peer: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2048];
    let (length, from) = peer.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

fn is_silent(peer: &UdpSocket) -> bool {
    peer.set_nonblocking(true).unwrap();
    let silent = peer.recv(&mut [0; 10]).is_err();
    peer.set_nonblocking(false).unwrap();
    silent
}

/// Datagrams sent during a question arrive after the answer, in order, and replies go to the sending socket.
#[test]
fn what_is_allowed_goes_out_and_comes_back() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    assert_eq!(sandbox.send(1000, 1, 53, b"one"), [destination("good.test", 53)]);
    assert_eq!(sandbox.send(1000, 1, 53, b"two"), [], "it is being asked for");
    assert_eq!(sandbox.send(2000, 1, 53, b"three"), [], "by whomever it is sent");
    assert!(is_silent(&outside));
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    let (one, first) = heard(&outside);
    assert_eq!((one, heard(&outside)), (b"one".to_vec(), (b"two".to_vec(), first)));
    let (three, second) = heard(&outside);
    assert_eq!(three, b"three");
    assert_ne!(first, second, "each of the command's sockets has one outside");
    outside.send_to(b"to the second", second).unwrap();
    assert_eq!(sandbox.answer(), (53, 2000, b"to the second".to_vec()));
    outside.send_to(b"", first).unwrap();
    assert_eq!(sandbox.answer(), (53, 1000, Vec::new()));
    assert_eq!(sandbox.send(1000, 1, 53, b"four"), [], "it is known");
    assert_eq!(heard(&outside), (b"four".to_vec(), first));
}

/// Only the allowed peer is received.
#[test]
fn a_stranger_outside_is_not_heard() {
    let (outside, address) = peer();
    let (stranger, _) = peer();
    let mut sandbox = Sandbox::new();
    sandbox.send(1000, 1, 53, b"one");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    let (_, own) = heard(&outside);
    stranger.send_to(b"forged", own).ok();
    outside.send_to(b"real", own).unwrap();
    assert_eq!(sandbox.answer(), (53, 1000, b"real".to_vec()));
}

#[test]
fn another_port_or_name_is_another_question() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    sandbox.send(1000, 1, 53, b"one");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    heard(&outside);
    assert_eq!(sandbox.send(1000, 1, 54, b"x"), [destination("good.test", 54)]);
    assert_eq!(sandbox.send(1000, 2, 53, b"x"), [destination("evil.test", 53)]);
    sandbox.decide("evil.test", 53, Verdict::Refuse);
    sandbox.decide("good.test", 54, Verdict::Unreachable);
    let mut kinds =
        [sandbox.next().unwrap(), sandbox.next().unwrap()].map(|packet| [packet[9], packet[20], packet[21]]);
    kinds.sort_unstable();
    assert_eq!(kinds, [[1, 3, 3], [1, 3, 13]]);
    // A refusal holds without another question, until it is forgotten.
    assert_eq!(sandbox.send(3000, 2, 53, b"again"), []);
    assert_eq!(sandbox.next().unwrap()[20..22], [3, 13]);
    sandbox.now += REFUSED;
    sandbox.relay.sweep(sandbox.now);
    assert_eq!(sandbox.send(3000, 2, 53, b"again"), [destination("evil.test", 53)]);
    assert!(is_silent(&outside));
}

/// An address without a name, and one that now means another.
#[test]
fn an_address_means_what_it_stands_for_now() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    assert_eq!(sandbox.send(1000, 99, 53, b"x"), []);
    assert_eq!(sandbox.next().unwrap()[20..22], [3, 3]);
    sandbox.send(1000, 1, 53, b"one");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    heard(&outside);
    let other = Sandbox::new();
    sandbox.names = Names::default();
    let mut message = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 5];
    message.extend(*b"other\x04test\0\0\x01\0\x01");
    sandbox.names.answer(&Query::read(&message).unwrap());
    drop(other);
    assert_eq!(sandbox.send(1000, 1, 53, b"two"), [destination("other.test", 53)]);
    assert!(is_silent(&outside));
}

#[test]
fn what_waits_has_a_bound() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    for number in 0..40 {
        sandbox.send(1000, 1, 53, &[number]);
    }
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    for number in 0..16 {
        assert_eq!(heard(&outside).0, [number]);
    }
    assert!(is_silent(&outside));
    assert_eq!(sandbox.relay.bytes_waiting, 0);
    // Long ones have a bound for all together.
    for port in 0..40 {
        sandbox.send(1000, 1, 100 + port, &vec![0; 60_000]);
    }
    assert!(sandbox.relay.bytes_waiting <= MOST_BYTES_WAITING);
    assert!(sandbox.relay.bytes_waiting > MOST_BYTES_WAITING - 60_000);
}

#[test]
fn flows_have_a_bound_and_an_end() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    sandbox.send(1, 1, 53, b"x");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    let (_, first) = heard(&outside);
    for port in 2..=1000 {
        sandbox.now += Duration::from_micros(1);
        sandbox.send(port, 1, 53, b"x");
        heard(&outside);
        assert!(sandbox.relay.flows.len() <= MOST_FLOWS);
        assert_eq!(sandbox.relay.flows.len(), sandbox.relay.ways.len());
    }
    // The newest are there, and the oldest starts anew.
    sandbox.send(1000, 1, 53, b"x");
    heard(&outside);
    assert_eq!(sandbox.relay.flows.len(), MOST_FLOWS);
    sandbox.send(1, 1, 53, b"x");
    assert_ne!(heard(&outside).1, first);
    sandbox.now += IDLE / 2;
    sandbox.send(1, 1, 53, b"x");
    sandbox.now += IDLE / 2;
    sandbox.relay.sweep(sandbox.now);
    assert_eq!(sandbox.relay.flows.len(), 1, "the one that was used");
    assert_eq!(sandbox.relay.standings.len(), 1);
    sandbox.now += IDLE;
    sandbox.relay.sweep(sandbox.now);
    assert!(sandbox.relay.flows.is_empty() && sandbox.relay.standings.is_empty());
    assert_eq!(sandbox.relay.deadline(), None);
    assert_eq!(sandbox.send(1, 1, 53, b"x"), [destination("good.test", 53)], "it is asked for anew");
}

/// A command that sends everywhere is refused, and does not evict destinations in use.
#[test]
fn destinations_have_a_bound() {
    let (outside, address) = peer();
    let mut sandbox = Sandbox::new();
    sandbox.send(1, 1, 53, b"x");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    let mut asked = 0;
    for port in 1000..2000 {
        asked += sandbox.send(1, 2, port, b"x").len();
        sandbox.decide("evil.test", port, Verdict::Refuse);
        sandbox.next().unwrap();
    }
    assert_eq!(asked, MOST_DESTINATIONS - 1);
    assert!(sandbox.relay.standings.len() <= MOST_DESTINATIONS);
    heard(&outside);
    sandbox.send(1, 1, 53, b"still");
    assert_eq!(heard(&outside).0, b"still");
    sandbox.now += SWEEP;
    assert_eq!(sandbox.send(1, 2, 3000, b"x").len(), 1, "an older no makes room");
}

/// Without a listener outside the command gets an error, and the next datagram is still sent.
#[test]
fn a_peer_that_is_gone_is_told_of() {
    // An address of its own: the port must stay free when other tests take theirs.
    let address = UdpSocket::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let mut sandbox = Sandbox::new();
    sandbox.send(1000, 1, 53, b"one");
    sandbox.decide("good.test", 53, Verdict::Connect(vec![address]));
    for _ in 0..100 {
        sandbox.turn();
        std::thread::sleep(Duration::from_millis(2));
    }
    let told = sandbox.next().unwrap();
    assert_eq!((told[9], &told[20..22]), (1, &[3, 3][..]));
    let outside = UdpSocket::bind(address).unwrap();
    outside.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    sandbox.send(1000, 1, 53, b"two");
    assert_eq!(heard(&outside).0, b"two");
}
