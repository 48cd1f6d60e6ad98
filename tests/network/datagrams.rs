//! Datagrams: relayed where they are allowed, refused where not, whatever call they are sent with. The
//! command's sockets never leave its own network.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use stockade_protocol::{
    DenyingRule, HostRule, HttpMethods, NetworkPolicy, NetworkProtocol, PermissionAmendment, ReviewDecision,
    ViolationTarget,
};

use crate::world::{Ended, Engine, World, again_as_nobody, allow};

/// Answers each datagram with what it says, and keeps the beginning of what it heard.
fn echo(address: IpAddr) -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    let (port, heard) = (socket.local_addr().unwrap().port(), Arc::new(Mutex::new(Vec::new())));
    let kept = Arc::clone(&heard);
    thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            kept.lock().unwrap().push(buffer[..length.min(64)].to_vec());
            socket.send_to(&buffer[..length], from).ok();
        }
    });
    (port, heard)
}

fn local() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

fn datagrams(host: &str, port: u16) -> HostRule {
    HostRule { protocol: Some(NetworkProtocol::Udp), ..allow(host, port) }
}

/// Datagrams to `good.test` may be sent to this port, and lead to loopback.
fn world(port: u16) -> World {
    World { rules: vec![datagrams("good.test", port), datagrams("127.0.0.1", port)], ..World::good(port) }
}

const BEGINNING: &str = "import ctypes, errno, os, select, socket, struct, sys, threading, time\n\
    def own(family=socket.AF_INET):\n    s = socket.socket(family, socket.SOCK_DGRAM); s.settimeout(10); return s\n\
    def name(e): return errno.errorcode.get(e.errno, str(e)) if isinstance(e, OSError) else str(e)\n";

fn python(port: u16, script: &str) -> String {
    format!("timeout 60 python3 - <<'END'\n{BEGINNING}PORT = {port}\n{script}\nEND")
}

/// In a sandbox of each kind, and in a session.
fn in_each(world: impl Fn(Engine) -> World, line: &str, check: impl Fn(&str, &World, &Ended)) {
    for (kind, engine) in [("native", Engine::Native), ("bwrap", Engine::Bwrap)] {
        let world = world(engine);
        let ended = world.run(line);
        check(kind, &world, &ended);
    }
    let world = world(Engine::Native);
    let (session, run) = world.session();
    // The second command of a session has the same way out.
    for _ in 0..2 {
        check("session", &world, &run(&session, line));
    }
}

const EVERY_CALL: &str = r#"
where = (socket.gethostbyname("good.test"), PORT)
six = [a[4] for a in socket.getaddrinfo("good.test", PORT, socket.AF_INET6, socket.SOCK_DGRAM)][0]
# an address with each message
s = own(); s.sendto(b"sendto", where); print(s.recvfrom(100) == (b"sendto", where))
s.sendmsg([b"send", b"msg"], [], 0, where); print(s.recvfrom(100)[0].decode())
# several messages with one call, each with its address
libc = ctypes.CDLL(None, use_errno=True)
raw = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), socket.inet_aton(where[0]))
texts = [ctypes.create_string_buffer(b"mmsg%d" % n, 5) for n in range(3)]
address = ctypes.create_string_buffer(raw, 16)
vectors = [ctypes.create_string_buffer(struct.pack("QQ", ctypes.addressof(t), 5)) for t in texts]
heads = b"".join(struct.pack("QI4xQQQQI4xI4x", ctypes.addressof(address), 16, ctypes.addressof(v), 1, 0, 0, 0, 0) for v in vectors)
print(libc.sendmmsg(s.fileno(), ctypes.create_string_buffer(heads), 3, 0), [s.recv(100).decode() for _ in range(3)])
# connected: send, write, and an end to it
c = own(); c.connect(where); c.send(b"connected"); print(c.recv(100).decode(), c.getpeername() == where)
os.write(c.fileno(), b"written"); select.select([c], [], [], 10); print(os.read(c.fileno(), 100).decode())
libc.connect(c.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16); c.sendto(b"freed", where); print(c.recv(100).decode())
# bound to a port of its own
b = own(); b.bind(("127.0.0.1", 0)); b.sendto(b"bound", where); print(b.recvfrom(100)[0].decode())
# IPv6, and IPv4 through an IPv6 socket
v = own(socket.AF_INET6); v.sendto(b"six", six); print(v.recvfrom(100) == (b"six", six))
v.connect(six); v.send(b"six connected"); print(v.recv(100).decode())
v = own(socket.AF_INET6); v.sendto(b"mapped", ("::ffff:" + where[0], PORT)); print(v.recv(100).decode())
# nothing, a lot, and as much as there can be
s.sendto(b"", where); print(s.recv(100) == b"")
for family, to, sizes in ((socket.AF_INET, where, (8192, 60000, 65507)), (socket.AF_INET6, six, (8192, 60000, 65507))):
    for size in sizes:
        s = own(family); data = os.urandom(size); s.sendto(data, to); print(s.recv(70000) == data)
# one call, many datagrams
g = own(); g.connect(where); g.setsockopt(socket.IPPROTO_UDP, 103, 1000); g.send(bytes(2500)); print([len(g.recv(9000)) for _ in range(3)])
# not waiting, with epoll
n = own(); n.setblocking(False); ep = select.epoll(); ep.register(n, select.EPOLLIN); n.sendto(b"epoll", where)
print(ep.poll(10) == [(n.fileno(), select.EPOLLIN)], n.recv(100).decode())
# many at once, each in order
def talk(results):
    s = own(); s.connect(where)
    for start in range(0, 50, 5):
        numbers = [b"%d" % n for n in range(start, start + 5)]
        for number in numbers: s.send(number)
        results.append([s.recv(100) for _ in numbers] == numbers)
results = []; threads = [threading.Thread(target=talk, args=(results,)) for _ in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]; print(results.count(True))
# a child has its parent's sockets
sys.stdout.flush(); s = own()
if os.fork() == 0: s.sendto(b"child", where); os._exit(0 if s.recv(100) == b"child" else 1)
print(os.wait()[1])
"#;
const EVERY_CALL_WORKS: &str = "True\nsendmsg\n3 ['mmsg0', 'mmsg1', 'mmsg2']\nconnected True\nwritten\nfreed\nbound\nTrue\n\
    six connected\nmapped\nTrue\nTrue\nTrue\nTrue\nTrue\nTrue\nTrue\n[1000, 1000, 500]\nTrue epoll\n100\n0\n";

#[test]
fn every_call_is_relayed() {
    let (port, heard) = echo(local());
    in_each(
        |engine| World { engine, ..world(port) },
        &python(port, EVERY_CALL),
        |kind, world, ended| {
            assert_eq!(ended.stdout, EVERY_CALL_WORKS, "{kind}: {ended:?}");
            assert!(world.trail.violations.lock().unwrap().is_empty());
            let allowed = format!("good.test:{port} Allow");
            assert!(world.trail.lines().iter().all(|line| *line == allowed), "{:?}", world.trail.lines());
        },
    );
    assert!(heard.lock().unwrap().contains(&b"mmsg2".to_vec()));
}

#[test]
fn netcat() {
    let (port, _) = echo(local());
    in_each(
        |engine| World { engine, ..world(port) },
        &format!("echo hello | nc -4 -u -w 2 good.test {port}; echo six | nc -6 -u -w 2 good.test {port}"),
        |kind, _, ended| assert_eq!(ended.stdout, "hello\nsix\n", "{kind}: {ended:?}"),
    );
}

/// A name whose address outside is of the other kind than the command's socket.
#[test]
fn the_outside_may_be_of_another_kind() {
    let (port, _) = echo(Ipv6Addr::LOCALHOST.into());
    let world = World {
        rules: vec![datagrams("six.test", port), datagrams("::1", port)],
        names: HashMap::from([("six.test", Ipv6Addr::LOCALHOST.into())]),
        ..World::good(port)
    };
    let ended = world
        .run(&python(port, r#"s = own(); s.sendto(b"x", (socket.gethostbyname("six.test"), PORT)); print(s.recv(9))"#));
    assert_eq!(ended.stdout, "b'x'\n", "{ended:?}");
}

/// A rule for streams is none for datagrams, nor is one for another port. What is denied fails at once, and
/// says which rule would allow it.
#[test]
fn what_is_not_allowed_fails_and_is_recorded() {
    let (port, heard) = echo(local());
    let script = r#"
def attempt(family, host):
    s = own(family); s.connect((host, PORT)); start = time.time()
    try: s.send(b"x"); s.recv(10); print("answered")
    except Exception as e: print(name(e), time.time() - start < 3)
attempt(socket.AF_INET, socket.gethostbyname("good.test"))
attempt(socket.AF_INET6, socket.getaddrinfo("good.test", PORT, socket.AF_INET6)[0][4][0])
# again, and without another record
attempt(socket.AF_INET, socket.gethostbyname("good.test"))
attempt(socket.AF_INET, "192.0.2.7")
attempt(socket.AF_INET, "198.18.99.99")
"#;
    in_each(
        |engine| World { engine, rules: vec![allow("good.test", port), allow("127.0.0.1", port)], ..World::good(port) },
        &python(port, script),
        |kind, world, ended| {
            let wanted = "EHOSTUNREACH True\nEACCES True\nEHOSTUNREACH True\nEHOSTUNREACH True\nECONNREFUSED True\n";
            assert_eq!(ended.stdout, wanted, "{kind}: {ended:?}");
            let wanted = [format!("good.test:{port} Forbidden"), format!("192.0.2.7:{port} Forbidden")];
            assert_eq!(world.trail.lines(), wanted);
            let violations = world.trail.violations.lock().unwrap();
            let [violation, _] = violations.as_slice() else { panic!("{violations:?}") };
            assert_eq!(violation.rule, Some(DenyingRule::NotGranted));
            assert_eq!(violation.amendment, Some(PermissionAmendment::Network(datagrams("good.test", port))));
            let ViolationTarget::Destination(to) = &violation.target else { panic!("{violation:?}") };
            assert_eq!((to.host.to_string().as_str(), to.protocol), ("good.test", NetworkProtocol::Udp));
        },
    );
    assert!(heard.lock().unwrap().is_empty());
}

/// A name may lead to an address that may not be dialled, or to none.
#[test]
fn an_address_that_may_not_be_dialled_is_not() {
    let (port, heard) = echo(local());
    let world =
        World { rules: vec![datagrams("good.test", port), datagrams("nowhere.test", port)], ..World::good(port) };
    let script = r#"
for host in "good.test", "nowhere.test":
    s = own(); s.connect((socket.gethostbyname(host), PORT))
    try: s.send(b"x"); print(s.recv(10))
    except Exception as e: print(name(e))
"#;
    let ended = world.run(&python(port, script));
    assert_eq!(ended.stdout, "EHOSTUNREACH\nECONNREFUSED\n", "{ended:?}");
    assert!(heard.lock().unwrap().is_empty());
}

#[test]
fn the_unknown_is_asked_for_once_and_nothing_else_waits() {
    let (port, _) = echo(local());
    let mut world = World { person: Some(ReviewDecision::Approved), ..world(port) };
    let script = r#"
new, good = [(socket.gethostbyname(host), PORT) for host in ("new.test", "good.test")]
sockets = [own() for _ in range(3)]
for n, s in enumerate(sockets): s.sendto(b"first %d" % n, new); s.sendto(b"second %d" % n, new)
start = time.time(); other = own(); other.sendto(b"other", good); print(other.recv(99).decode(), time.time() - start < 0.25)
for s in sockets: print(s.recv(99).decode(), s.recv(99).decode())
"#;
    let ended = world.run(&python(port, script));
    let wanted = "other True\nfirst 0 second 0\nfirst 1 second 1\nfirst 2 second 2\n";
    assert_eq!(ended.stdout, wanted, "{ended:?}");
    {
        let questions = world.trail.questions.lock().unwrap();
        let [question] = questions.as_slice() else { panic!("{questions:?}") };
        assert_eq!((question.protocol, question.port), (NetworkProtocol::Udp, port));
    }
    world.person = Some(ReviewDecision::Denied { reason: None });
    let no = r#"
s = own(); s.connect((socket.gethostbyname("new.test"), PORT)); s.send(b"x")
try: print(s.recv(10))
except Exception as e: print(name(e))
"#;
    assert_eq!(world.run(&python(port, no)).stdout, "EHOSTUNREACH\n");
}

/// A process that has got an answer can't reach anybody else: however it addresses, binds or turns its
/// sockets, they are of its own network.
#[test]
fn a_socket_reaches_nobody_else() {
    let (port, _) = echo(local());
    let (other, heard) = echo(Ipv4Addr::UNSPECIFIED.into());
    let script = format!(
        r#"
OTHER = {other}
def network(s): return s.getsockopt(socket.SOL_SOCKET, 71, 8)
where = (socket.gethostbyname("good.test"), PORT)
s = own(); before = network(s); s.sendto(b"hello", where); print(s.recv(9).decode())
c = own(); c.connect(where); c.send(b"hello"); c.recv(9)
evil = socket.gethostbyname("evil.test")
hosts = ["127.0.0.1", "127.0.0.2", "0.0.0.0", where[0], evil, "192.0.2.1", "255.255.255.255", "224.0.0.1"] + HOSTS
sent = 0
for one in (s, c):
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    for host in hosts:
        for how in (lambda: one.sendto(b"evil", (host, OTHER)), lambda: one.sendmsg([b"evil"], [], 0, (host, OTHER)),
                    lambda: one.sendmsg([b"evil"], [(socket.IPPROTO_IP, 8, struct.pack("=I4s4s", 1, socket.inet_aton("127.0.0.1"), bytes(4)))], 0, (host, OTHER)),
                    lambda: one.sendto(b"evil", 0x20000000, (host, OTHER))):
            try: how(); sent += 1
            except OSError: pass
print(sent > 10, network(s) == before == network(c))
# a sender of its choice, which nobody answers
for source in (where[0], "192.0.2.9", evil):
    f = own(); f.settimeout(0.3); f.setsockopt(socket.IPPROTO_IP, 15, 1); f.bind((source, PORT))
    try: f.sendto(b"spoofed", where); print(f.recv(9))
    except OSError: print("no answer")
# another socket in its place while it is connected
stop = False; spot = os.dup(c.fileno())
def swap():
    while not stop:
        t = socket.socket(); os.dup2(t.fileno(), spot); os.dup2(c.fileno(), spot); t.close()
t = threading.Thread(target=swap); t.start(); libc = ctypes.CDLL(None); end = time.time() + 2
loop = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(OTHER), socket.inet_aton("127.0.0.1"))
while time.time() < end: libc.connect(spot, loop, 16); libc.write(spot, b"evil", 4)
stop = True; t.join()
# packets, and changes to the network
for family, kind, protocol in ((17, 3, 0), (17, 2, 3), (2, 3, 17), (10, 3, 17), (16, 3, 0)):
    try: socket.socket(family, kind, protocol); print("made", family)
    except OSError as e: print(name(e))
print(open("/proc/net/packet").read().count("\n") < 3)
"#
    );
    let addresses = own_addresses();
    let script = script.replace("HOSTS\n", &format!("{addresses:?}\n"));
    in_each(
        |engine| World { engine, ..world(port) },
        &python(port, &script),
        |kind, _, ended| {
            let start = "hello\nTrue True\nno answer\nno answer\nno answer\n";
            assert!(ended.stdout.starts_with(start), "{kind}: {ended:?}");
            assert!(!ended.stdout.contains("made"), "{kind}: {ended:?}");
        },
    );
    assert!(heard.lock().unwrap().is_empty(), "{:?}", heard.lock().unwrap());
}

/// The addresses of this machine, which a command must not reach under them either.
fn own_addresses() -> Vec<String> {
    #[expect(clippy::disallowed_methods, reason = "a test asks for the machine's addresses")]
    let output = Command::new("hostname").arg("-I").output().unwrap();
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .filter(|one| !one.contains(':'))
        .map(str::to_owned)
        .collect()
}

/// What the command's own processes say to each other is theirs, even on a port that a rule names.
#[test]
fn loopback_is_the_commands_own() {
    let (port, heard) = echo(local());
    let script = r#"
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    l = own(family); l.bind((host, PORT)); c = own(family)
    for n in range(200): c.sendto(b"%d" % n, (host, PORT)); data, back = l.recvfrom(99); l.sendto(data, back); assert c.recv(99) == data
    l.close(); c.connect((host, PORT)); c.send(b"x")
    try: c.recv(9)
    except OSError as e: print(name(e))
"#;
    in_each(
        |engine| World { engine, ..world(port) },
        &python(port, script),
        |kind, world, ended| {
            assert_eq!(ended.stdout, "ECONNREFUSED\nECONNREFUSED\n", "{kind}: {ended:?}");
            assert!(world.trail.lines().is_empty());
        },
    );
    assert!(heard.lock().unwrap().is_empty());
}

/// A thousand sockets that stay open: each is answered, and there is an end to what is kept for them.
#[test]
fn a_thousand_flows() {
    let (port, _) = echo(local());
    let world = world(port);
    let script = r#"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
where = (socket.gethostbyname("good.test"), PORT)
kept = []; answered = 0
for n in range(1000):
    s = own(); s.sendto(b"%d" % n, where); answered += s.recv(99) == b"%d" % n; kept.append(s)
print(answered, flush=True); time.sleep(1)
# the first ones again
for n in range(100): kept[n].sendto(b"again", where); answered += kept[n].recv(99) == b"again"
print(answered)
"#;
    let before = open_files();
    let most = Arc::new(Mutex::new(0));
    let watched = Arc::clone(&most);
    let watcher = thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(4);
        while Instant::now() < end {
            let now = open_files();
            let mut most = watched.lock().unwrap();
            *most = now.max(*most);
            drop(most);
            thread::sleep(Duration::from_millis(20));
        }
    });
    let ended = world.run(&python(port, script));
    watcher.join().unwrap();
    assert_eq!(ended.stdout, "1000\n1100\n", "{ended:?}");
    // Other tests of this file have files open, too.
    assert!(*most.lock().unwrap() < before + 800, "{before} {:?}", most.lock().unwrap());
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Where only reading is allowed there is no request to look at, and without hosts there is no way at all.
#[test]
fn other_modes_have_none() {
    let (port, heard) = echo(local());
    let script = r#"
s = own(); s.settimeout(3)
try: s.connect((HOST, PORT)); s.send(b"x"); print(s.recv(9))
except OSError as e: print(name(e))
"#;
    let limited = World { methods: HttpMethods::ReadOnly, ..world(port) };
    let ended = limited.run(&python(port, &script.replace("HOST", "socket.gethostbyname('good.test')")));
    assert_eq!(ended.stdout, "EHOSTUNREACH\n", "{ended:?}");
    assert_eq!(limited.trail.lines(), [format!("good.test:{port} Forbidden")]);
    let off = World { network: Some(NetworkPolicy::Off), ..world(port) };
    let ended = off.run(&python(port, &script.replace("HOST", "'192.0.2.7'")));
    assert_eq!(ended.stdout, "ENETUNREACH\n", "{ended:?}");
    assert!(heard.lock().unwrap().is_empty());
}

/// The tests of this file once more, by a user who is not root.
#[test]
fn for_an_ordinary_user() {
    again_as_nobody("datagrams::", 10);
}
