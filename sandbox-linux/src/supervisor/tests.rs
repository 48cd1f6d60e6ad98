//! The supervisor with real programs on the real kernel, with a small program in place of the launcher.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};
use stockade_protocol::{AbsPath, DenyingRule, Violation};
use stockade_sandboxing::{Answer, Attempt, Gatekeeper, Verdict};

use super::filter::filter;
use super::{Reach, Receiving, Sockets, Supervisor};

/// Allows listed hosts, after a delay.
#[derive(Default)]
struct Doorman {
    allowed: BTreeMap<(String, u16), Vec<SocketAddr>>,
    after: Duration,
    asked: Mutex<Vec<String>>,
    refused: Mutex<Vec<Violation>>,
}

impl Gatekeeper for Doorman {
    fn decide(&self, attempt: Attempt, answer: Answer) {
        self.asked.lock().unwrap().push(format!("{}:{}", attempt.host, attempt.port));
        let verdict = match self.allowed.get(&(attempt.host.to_string(), attempt.port)) {
            Some(addresses) if addresses.is_empty() => Verdict::Unreachable,
            Some(addresses) => Verdict::Connect(addresses.clone()),
            None => Verdict::Refuse,
        };
        let after = self.after;
        if after.is_zero() {
            return answer.give(verdict);
        }
        thread::spawn(move || {
            thread::sleep(after);
            answer.give(verdict);
        });
    }

    fn refused(&self, violation: Violation) {
        self.refused.lock().unwrap().push(violation);
    }
}

/// The stand-in for the launcher, compiled once.
fn entering_program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap().keep();
        let program = directory.join("enter");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src/supervisor/tests/enter.c");
        let compiled = command("cc").args(["-O1", "-o"]).arg(&program).arg(source).status().unwrap();
        assert!(compiled.success());
        let instructions: Vec<u8> = filter().0.iter().flat_map(|instruction| instruction.bytes()).collect();
        std::fs::write(directory.join("filter"), instructions).unwrap();
        program
    })
}

#[expect(clippy::disallowed_methods, reason = "a test starts the programs that it watches")]
fn command(program: &str) -> Command {
    Command::new(program)
}

fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, RecvFlags::CMSG_CLOEXEC).ok()?;
    ancillary
        .drain()
        .find_map(|message| if let RecvAncillaryMessage::ScmRights(mut files) = message { files.next() } else { None })
}

/// Runs a program under a supervisor with this doorman.
fn run(doorman: &Arc<Doorman>, unix_sockets: BTreeSet<AbsPath>, arguments: &[&str]) -> Output {
    let program = entering_program();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    let mut starting = command(program.to_str().unwrap());
    starting.arg(program.with_file_name("filter")).args(arguments).stdin(theirs);
    starting.stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let child = starting.spawn().unwrap();
    drop(starting);
    let sockets = Sockets { resolver: receive(&ours), datagrams: None };
    let doorman: Arc<dyn Gatekeeper> = Arc::<Doorman>::clone(doorman);
    let supervisor = Supervisor::start(Reach { unix_sockets, ..Reach::default() }).unwrap();
    let listener = Arc::new(receive(&ours).expect("a listener"));
    drop(supervisor.watch(listener, sockets, Receiving::Here, doorman).unwrap());
    child.wait_with_output().unwrap()
}

/// A server outside that answers every connection with a page and counts them.
fn server(page: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut stream = stream;
                let mut request = [0; 4096];
                let read = stream.read(&mut request).unwrap_or(0);
                if request[..read].starts_with(b"echo") {
                    stream.write_all(&request[..read]).ok();
                    std::io::copy(&mut stream.try_clone().unwrap(), &mut stream).ok();
                } else {
                    let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{page}", page.len());
                    stream.write_all(head.as_bytes()).ok();
                }
            });
        }
    });
    port
}

/// `good.test` leads to the server.
fn good(port: u16) -> Arc<Doorman> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    Arc::new(Doorman {
        allowed: BTreeMap::from([((String::from("good.test"), port), vec![address])]),
        ..Doorman::default()
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs Python inside, with `PORT` set, and returns its output; it has to succeed.
fn python(doorman: &Arc<Doorman>, port: u16, script: &str) -> String {
    let script = format!("import socket, select, os, threading, errno, time, struct, sys\nPORT = {port}\n{script}");
    let output = run(doorman, BTreeSet::new(), &["timeout", "60", "python3", "-c", &script]);
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn a_program_that_knows_no_proxy_reaches_what_is_allowed_and_nothing_else() {
    let port = server("a page");
    let doorman = good(port);
    let script = format!(
        "curl -sS http://good.test:{port}/; echo; curl -sS http://evil.test:{port}/; curl -sS http://127.0.0.1:{port}/; \
         curl -sS -m 5 http://192.0.2.7:{port}/; exec 3<>/dev/tcp/good.test/{port} && echo tcp"
    );
    let output = run(&doorman, BTreeSet::new(), &["bash", "-c", &script]);
    assert_eq!(text(&output.stdout), "a page\ntcp\n", "{}", text(&output.stderr));
    let asked = doorman.asked.lock().unwrap().clone();
    assert!(asked.contains(&format!("evil.test:{port}")) && asked.contains(&format!("192.0.2.7:{port}")), "{asked:?}");
    assert!(text(&output.stderr).contains("evil.test"), "{}", text(&output.stderr));
}

#[test]
fn blocking_and_not_epoll_and_copies_work_as_usual() {
    let port = server("page");
    let doorman = good(port);
    let script = r#"
def get(s):
    s.setblocking(True)
    s.sendall(b"GET / HTTP/1.0\r\n\r\n")
    data = b""
    while True:
        more = s.recv(4096)
        if not more: return data.endswith(b"page")
        data += more
address = socket.gethostbyname("good.test")
# blocking
s = socket.socket(); s.connect((address, PORT)); print(get(s))
# not blocking, waited for with select
s = socket.socket(); s.setblocking(False)
e = s.connect_ex((address, PORT)); print(e in (0, errno.EINPROGRESS))
select.select([], [s], [], 5); print(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), get(s))
# in an epoll instance before it is connected, edge-triggered, and changed afterwards
ep = select.epoll(); s = socket.socket(); s.setblocking(False)
ep.register(s, select.EPOLLOUT | select.EPOLLIN | select.EPOLLET)
ep.poll(0)
e = s.connect_ex((address, PORT)); print(e in (0, errno.EINPROGRESS))
found = dict(ep.poll(5)); print(bool(found.get(s.fileno(), 0) & select.EPOLLOUT), bool(found.get(s.fileno(), 0) & select.EPOLLHUP))
ep.modify(s, select.EPOLLIN); s.send(b"GET / HTTP/1.0\r\n\r\n")
print(bool(dict(ep.poll(5))[s.fileno()] & select.EPOLLIN)); ep.unregister(s)
# a copy of the descriptor, made before
s = socket.socket(); copy = os.dup(s.fileno()); s.connect((address, PORT)); s.sendall(b"GET / HTTP/1.0\r\n\r\n")
print(os.read(copy, 4).decode())
# close-on-exec stays, and so does its absence
s = socket.socket(); s.connect((address, PORT)); print(os.get_inheritable(s.fileno()))
s = socket.socket(); s.set_inheritable(True); s.connect((address, PORT)); print(os.get_inheritable(s.fileno()))
# options
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 33); s.settimeout(7); s.connect((address, PORT))
print(s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), s.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
print(s.getpeername()[1] == PORT, s.connect_ex((address, PORT)) == errno.EISCONN)
# IPv6 sockets, by the address of the name and by a mapped one
six = [a for a in socket.getaddrinfo("good.test", PORT, type=socket.SOCK_STREAM) if a[0] == socket.AF_INET6][0]
s = socket.socket(socket.AF_INET6); s.connect(six[4]); print(s.family == socket.AF_INET6, len(s.getpeername()), get(s))
s = socket.socket(socket.AF_INET6); s.connect(("::ffff:" + address, PORT)); print(get(s))
# forks and threads
s = socket.socket()
if os.fork() == 0:
    s.connect((address, PORT)); os._exit(0 if get(s) else 1)
print(os.wait()[1])
results = []
def one():
    s = socket.create_connection(("good.test", PORT)); results.append(get(s))
threads = [threading.Thread(target=one) for _ in range(40)]
[t.start() for t in threads]; [t.join() for t in threads]; print(len(results), all(results))
"#;
    let wanted = "True\nTrue\n0 True\nTrue\nTrue False\nTrue\nHTTP\nFalse\nTrue\n1 1 33\nTrue True\nTrue 4 True\nTrue\n0\n40 True";
    assert_eq!(python(&doorman, port, script), wanted);
}

/// Options by their numbers: what ordinary programs set on a connection, what is for the command's own network
/// alone, and what does not exist. What the host's network sees of it: `tests/network/handed_in.rs`.
#[test]
fn an_option_is_set_where_it_changes_nothing_outside() {
    let port = server("page");
    let doorman = good(port);
    let script = r#"
def tried(s, level, name, value):
    value = struct.pack("=i", value) if isinstance(value, int) else value
    try: s.setsockopt(level, name, value); return "set"
    except OSError as e: return errno.errorcode[e.errno]
outside = socket.socket(); outside.connect((socket.gethostbyname("good.test"), PORT))
six = socket.socket(socket.AF_INET6); six.connect(("::ffff:" + socket.gethostbyname("good.test"), PORT))
ordinary = [(1, 9, 1), (1, 13, struct.pack("=ii", 1, 5)), (1, 7, 65536), (1, 8, 65536), (1, 20, struct.pack("=qq", 5, 0)), (1, 21, struct.pack("=qq", 5, 0))]
ordinary += [(1, 2, 1), (1, 15, 1), (1, 10, 1), (1, 12, 3), (1, 29, 1), (6, 1, 1), (6, 3, 0), (6, 4, 60), (6, 5, 10), (6, 6, 3), (6, 18, 5000), (6, 12, 1), (6, 25, 4096)]
ordinary += [(6, 13, b"reno"), (0, 1, 0x10), (0, 2, 64), (0, 10, 2), (0, 11, 1), (0, 24, 1)]
print(*{tried(s, *option) for option in ordinary for s in (outside, six)}, *{tried(six, *option) for option in [(41, 67, 0x10), (41, 25, 1), (41, 16, 64), (41, 49, 1)]})
group = socket.inet_aton("239.77.66.55"); own = socket.inet_aton("127.0.0.1")
inside = [(1, 25, b"lo\0"), (1, 62, 1), (1, 5, 1), (0, 32, own), (0, 33, 1), (0, 34, 1), (0, 35, group + own), (0, 36, group + own), (0, 39, group + own + own), (0, 42, struct.pack("=I4xHH4s120x", 1, 2, 0, group)), (0, 50, b"\0\0\0\1")]
inside6 = [(41, 17, 1), (41, 18, 1), (41, 19, 1), (41, 20, socket.inet_pton(10, "ff15::7766") + struct.pack("=i", 1)), (41, 50, b"\0" * 16 + struct.pack("=i", 1)), (41, 76, b"\0\0\0\1")]
print(*{tried(outside, *option) for option in inside + inside6}, *{tried(six, *option) for option in inside + inside6})
print(*{tried(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), *option) for option in inside if option[1] not in (36,)}, *{tried(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM), *option) for option in inside6})
absent = [(0, 4, b""), (0, 19, 1), (41, 57, b"\0" * 24), (41, 6, b""), (41, 32, b"\0" * 32), (1, 36, 7), (6, 31, b"tls"), (6, 19, 1), (132, 1, 1)]
print(*{tried(s, *option) for option in absent for s in (outside, six, socket.socket())})
# a value that is not there, and one that is too long
import ctypes
libc = ctypes.CDLL(None, use_errno=True); u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(libc.setsockopt(u.fileno(), 0, 35, ctypes.c_void_p(8), 8), errno.errorcode[ctypes.get_errno()], tried(u, 0, 41, b"x" * 9000))
# the descriptor becomes another socket's while it is being looked at
stop = False; spot = os.dup(u.fileno()); bound = []
def swap():
    while not stop: os.dup2(outside.fileno(), spot); os.dup2(u.fileno(), spot)
t = threading.Thread(target=swap); t.start(); end = time.time() + 2
device = ctypes.create_string_buffer(b"lo")
while time.time() < end: libc.setsockopt(spot, 1, 25, device, 3)
stop = True; t.join(); print(outside.getsockopt(1, 25, 16))
"#;
    let wanted = "set set\nEPERM EPERM\nset set\nENOPROTOOPT\n-1 EFAULT EINVAL\nb''";
    assert_eq!(python(&doorman, port, script), wanted);
}

#[test]
fn failures_are_the_ones_that_a_program_knows() {
    let port = server("page");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut doorman = Doorman { allowed: good(port).allowed.clone(), ..Doorman::default() };
    doorman.allowed.insert((String::from("closed.test"), closed.port()), vec![closed]);
    doorman.allowed.insert((String::from("nowhere.test"), 1), Vec::new());
    // The first address does not answer; the second does.
    let second = SocketAddr::from(([127, 0, 0, 1], port));
    doorman.allowed.insert((String::from("two.test"), port), vec![closed, second]);
    let script = format!(
        r#"
CLOSED = {closed}
def attempt(name, port, blocking=True):
    s = socket.socket(); s.setblocking(blocking)
    e = s.connect_ex((socket.gethostbyname(name), port))
    if e == errno.EINPROGRESS:
        select.select([], [s], [], 5); e = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode.get(e, e)
for blocking in (True, False):
    print(attempt("closed.test", CLOSED, blocking), attempt("evil.test", 80, blocking), attempt("nowhere.test", 1, blocking), attempt("two.test", PORT, blocking))
s = socket.socket(); print(errno.errorcode[s.connect_ex(("198.18.99.99", 80))])
# after a failure the same socket may be used again
s = socket.socket(); print(errno.errorcode[s.connect_ex((socket.gethostbyname("closed.test"), CLOSED))], s.connect_ex((socket.gethostbyname("good.test"), PORT)))
try: socket.gethostbyname("not a name")
except OSError: print("no name")
s = socket.socket(); print(errno.errorcode[s.connect_ex(("127.0.0.1", 9))])
"#,
        closed = closed.port()
    );
    let wanted = "ECONNREFUSED EACCES EHOSTUNREACH 0\nECONNREFUSED EACCES EHOSTUNREACH 0\nEHOSTUNREACH\nECONNREFUSED 0\nno name\nECONNREFUSED";
    assert_eq!(python(&Arc::new(doorman), port, &script), wanted);
}

#[test]
fn loopback_inside_is_the_commands_own() {
    let port = server("outside");
    let doorman = good(port);
    let script = r#"
def serve(l):
    c, _ = l.accept(); c.sendall(b"inside"); c.close()
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    l = socket.socket(family); l.bind((host, PORT)); l.listen(5)
    t = threading.Thread(target=serve, args=(l,)); t.start()
    print(socket.create_connection((host, PORT)).recv(10).decode()); t.join(); l.close()
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(("127.0.0.1", 0))
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); c.connect(u.getsockname()); c.send(b"hi"); print(u.recv(10).decode())
# a datagram to the outside goes nowhere
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: c.sendto(b"x", ("192.0.2.1", 53)); print("sent")
except OSError as e: print(errno.errorcode[e.errno])
"#;
    assert_eq!(python(&doorman, port, script), "inside\ninside\nhi\nENETUNREACH");
    assert!(doorman.asked.lock().unwrap().is_empty());
}

/// A socket of the host's network reaches only its allowed peer.
#[test]
fn a_socket_outside_is_not_turned_to_another_peer() {
    let port = server("page");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let (doorman, target) = (good(port), other.local_addr().unwrap().port());
    let script = format!(
        r#"
TARGET = {target}
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
address = socket.gethostbyname("good.test")
evil = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(TARGET), socket.inet_aton("127.0.0.1"))
def fast_open(s, how):
    try:
        if how == "sendto": s.sendto(b"x", 0x20000000, ("127.0.0.1", TARGET))
        else: s.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", TARGET))
        return "sent"
    except OSError as e: return errno.errorcode[e.errno]
# connected, and disconnected again
s = socket.socket(); s.connect((address, PORT))
print(libc.connect(s.fileno(), struct.pack("=H14x", socket.AF_UNSPEC), 16), errno.errorcode[ctypes.get_errno()])
print(fast_open(s, "sendto"), fast_open(s, "sendmsg"))
# still connecting, then shut down, which leaves it free
s = socket.socket(); s.setblocking(False); s.connect_ex((address, PORT))
try: s.shutdown(2)
except OSError: pass
try: s.listen(5); print("listens")
except OSError as e: print(errno.errorcode[e.errno])
print(fast_open(s, "sendto"), fast_open(s, "sendmsg"))
# a message with an address on a connected stream goes to its own peer
s = socket.socket(); s.connect((address, PORT)); s.sendmsg([b"GET / HTTP/1.0\r\n\r\n"], [], 0, ("127.0.0.1", TARGET)); print(s.recv(4).decode())
# its packets are not sent by way of another machine
def detour(s, level, name, value):
    try: s.setsockopt(level, name, value); return "set"
    except OSError as e: return errno.errorcode[e.errno]
through = socket.inet_pton(socket.AF_INET6, "::1") + socket.inet_pton(socket.AF_INET6, "fd99::9")
s = socket.socket(socket.AF_INET6); s.connect(("::ffff:" + address, PORT))
print(detour(s, 41, 57, bytes([0, 4, 4, 1, 1, 0, 0, 0]) + through), detour(s, 41, 6, b"\0" * 16), detour(s, 0, 4, bytes([131, 7, 4, 10, 9, 9, 9, 0])))
# the address is changed while it is being looked at, and so is the descriptor
stop = False
allowed = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(PORT), socket.inet_aton(address))
loop = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(TARGET), socket.inet_aton("127.0.0.1"))
buffer = ctypes.create_string_buffer(16)
held = socket.socket(); held.connect((address, PORT))
spot = os.dup(held.fileno())
def flip():
    while not stop:
        ctypes.memmove(buffer, loop, 16); ctypes.memmove(buffer, allowed, 16)
def swap():
    while not stop:
        fresh = socket.socket(); os.dup2(fresh.fileno(), spot); os.dup2(held.fileno(), spot); fresh.close()
threads = [threading.Thread(target=flip), threading.Thread(target=swap)]
[t.start() for t in threads]
end = time.time() + 3; tries = 0
while time.time() < end:
    s = socket.socket(); libc.connect(s.fileno(), buffer, 16); libc.connect(spot, buffer, 16); s.close(); tries += 1
stop = True; [t.join() for t in threads]; print(tries > 50)
"#
    );
    let wanted = "-1 EACCES\nENOTSUP ENOTSUP\nEACCES\nENOTSUP ENOTSUP\nHTTP\nENOPROTOOPT ENOPROTOOPT ENOPROTOOPT\nTrue";
    assert_eq!(python(&doorman, port, &script), wanted);
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "somebody reached a port that nobody allowed");
}

#[test]
fn an_answer_may_take_a_while_and_a_process_may_not_wait_for_it() {
    let port = server("page");
    let doorman =
        Doorman { allowed: good(port).allowed.clone(), after: Duration::from_millis(700), ..Doorman::default() };
    let doorman = Arc::new(doorman);
    let script = r#"
import signal
address = socket.gethostbyname("good.test")
start = time.time(); s = socket.create_connection((address, PORT)); print(time.time() - start > 0.6)
# killed while it waits
child = os.fork()
if child == 0:
    socket.create_connection((address, PORT)); os._exit(0)
time.sleep(0.2); os.kill(child, signal.SIGKILL); print(os.waitpid(child, 0)[1])
# others do not wait for it
ticks = []
def tick():
    for _ in range(10): time.sleep(0.02); ticks.append(1)
t = threading.Thread(target=tick); t.start()
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen(1)
other = threading.Thread(target=lambda: socket.create_connection((address, PORT))); other.start()
start = time.time(); socket.create_connection(l.getsockname()); print(time.time() - start < 0.4)
t.join(); other.join(); print(len(ticks))
"#;
    assert_eq!(python(&doorman, port, script), "True\n9\nTrue\n10");
}

#[test]
fn nothing_is_lost_under_load() {
    let port = server("page");
    let doorman = good(port);
    let script = r#"
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)) if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096 else None
address = socket.gethostbyname("good.test")
# a thousand at once
kept = []
ep = select.epoll()
for _ in range(1000):
    s = socket.socket(); s.setblocking(False); s.connect_ex((address, PORT)); ep.register(s, select.EPOLLOUT); kept.append(s)
ready = set()
end = time.time() + 30
while len(ready) < 1000 and time.time() < end:
    for fd, flags in ep.poll(1):
        if flags == select.EPOLLOUT: ready.add(fd); ep.unregister(fd)
print(len(ready))
for n, s in enumerate(kept): s.send(b"echo" + struct.pack("!I", n))
back = 0
for n, s in enumerate(kept):
    s.settimeout(10); back += s.recv(8) == b"echo" + struct.pack("!I", n); s.close()
print(back)
# ten thousand in turn
done = 0
def many():
    global done
    for _ in range(2500):
        s = socket.socket(); s.connect((address, PORT)); s.send(b"echo"); ok = s.recv(4) == b"echo"; s.close()
        with lock: done += ok
lock = threading.Lock()
threads = [threading.Thread(target=many) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(done)
"#;
    assert_eq!(python(&doorman, port, script), "1000\n1000\n10000");
}

/// A granted unix socket is reached by its resolved path, over any path that leads there.
#[test]
fn a_unix_socket_is_reached_by_its_own_path_alone() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for name in ["granted.sock", "other.sock"] {
        let listener = std::os::unix::net::UnixListener::bind(at(name)).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                stream.write_all(b"unix").ok();
            }
        });
    }
    std::os::unix::fs::symlink(at("granted.sock"), at("link.sock")).unwrap();
    std::os::unix::fs::symlink(at("other.sock"), at("tempting.sock")).unwrap();
    let script = format!(
        r#"
import socket, errno, os
os.chdir({:?})
def reach(path):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(path); return s.recv(4).decode()
    except OSError as e: return errno.errorcode[e.errno]
print(reach({:?}), reach("granted.sock"), reach("link.sock"), reach("./x/../granted.sock"))
print(reach({:?}), reach("tempting.sock"), reach("missing.sock"), reach("\0abstract"))
"#,
        at(""),
        at("granted.sock"),
        at("other.sock")
    );
    let granted =
        BTreeSet::from([AbsPath::parse(std::fs::canonicalize(at("granted.sock")).unwrap().to_str().unwrap()).unwrap()]);
    let output = run(&Arc::default(), granted, &["timeout", "20", "python3", "-c", &script]);
    assert_eq!(
        text(&output.stdout),
        "unix unix unix ENOENT\nEACCES EACCES ENOENT ECONNREFUSED\n",
        "{}",
        text(&output.stderr)
    );
}

/// A grant is for the existing service: one moved to its path, or created later, is another.
#[test]
fn a_grant_is_for_the_socket_that_was_there() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    for name in ["agent.sock", "docker.sock", "new.sock"] {
        let listener = std::os::unix::net::UnixListener::bind(at(name)).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                stream.write_all(&name.as_bytes()[..3]).ok();
            }
        });
    }
    let script = format!(
        r#"
import socket, errno, os
os.chdir({:?})
def reach(path):
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(path); return s.recv(3).decode()
    except OSError as e: return errno.errorcode[e.errno]
print(reach("agent.sock"), reach("late.sock"))
# another service is moved there
os.rename("agent.sock", "kept.sock"); os.rename("docker.sock", "agent.sock"); print(reach("agent.sock"), reach("kept.sock"))
# a link, a second name, and what is bound there anew
os.rename("agent.sock", "docker.sock"); os.symlink("docker.sock", "agent.sock"); print(reach("agent.sock")); os.unlink("agent.sock")
os.link("docker.sock", "agent.sock"); print(reach("agent.sock")); os.unlink("agent.sock")
l = socket.socket(socket.AF_UNIX); l.bind("agent.sock"); print(reach("agent.sock"))
# it is the command's own once it listens
l.listen(5); s = socket.socket(socket.AF_UNIX); print(s.connect_ex("agent.sock")); os.unlink("agent.sock")
# one that was not there yet
os.rename("new.sock", "late.sock"); print(reach("late.sock"))
# the one that was there is back
os.rename("kept.sock", "agent.sock"); print(reach("agent.sock"))
"#,
        at("")
    );
    let granted = ["agent.sock", "late.sock"].map(|name| AbsPath::parse(at(name)).unwrap());
    let doorman = Arc::new(Doorman::default());
    let output = run(&doorman, granted.clone().into(), &["timeout", "20", "python3", "-c", &script]);
    let wanted = "age ENOENT\nECONNREFUSED EACCES\nEACCES\nECONNREFUSED\nECONNREFUSED\n0\nECONNREFUSED\nage\n";
    assert_eq!(text(&output.stdout), wanted, "{}", text(&output.stderr));
    let refused = doorman.refused.lock().unwrap();
    let (replaced, others): (Vec<&Violation>, Vec<&Violation>) =
        refused.iter().partition(|violation| matches!(violation.rule, Some(DenyingRule::Layer { .. })));
    let targets = |violations: &[&Violation]| -> BTreeSet<String> {
        violations.iter().map(|violation| format!("{:?}", violation.target)).collect()
    };
    let named = |names: [&str; 2]| names.map(|name| format!("UnixSocket(`{}`)", at(name))).into();
    assert_eq!(targets(&replaced), named(["agent.sock", "late.sock"]));
    let is_told = |violation: &&Violation| matches!(&violation.rule, Some(DenyingRule::Layer { reason }) if reason.contains("start the command again"));
    assert!(replaced.iter().all(is_told), "{refused:?}");
    assert_eq!(targets(&others), named(["docker.sock", "kept.sock"]), "those that nothing grants are named as well");
    assert!(others.iter().all(|violation| violation.amendment.is_some()), "{refused:?}");
}

/// Processes killed while they connect leave nothing behind that blocks others.
#[test]
fn calls_of_processes_that_are_gone_have_a_bound() {
    let port = server("page");
    let after = Duration::from_millis(1500);
    let doorman = Arc::new(Doorman { allowed: good(port).allowed.clone(), after, ..Doorman::default() });
    let script = r#"
import signal
address = socket.gethostbyname("good.test")
busy = socket.socket(); busy.bind(("127.0.0.1", 0)); busy.listen(0)
full = [socket.socket() for _ in range(4)]
for s in full: s.setblocking(False); s.connect_ex(busy.getsockname())
def killed(where):
    s = socket.socket(); child = os.fork()
    if child == 0: s.connect_ex(where); os._exit(0)
    return child
def many(count, where):
    children = [killed(where) for _ in range(count)]
    time.sleep(0.3)
    for child in children: os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
# inside, where the server is busy: those that are over the bound fail for now
for _ in range(4): many(50, busy.getsockname())
s = socket.socket(); print(errno.errorcode[s.connect_ex(busy.getsockname())]); sys.stdout.flush()
# outside, where an answer takes a while: those that are gone make room
for _ in range(8): many(50, (address, PORT))
s = socket.create_connection((address, PORT)); s.sendall(b"GET / HTTP/1.0\r\n\r\n"); print(s.recv(4).decode())
sys.stdout.flush(); os._exit(0)
"#;
    assert_eq!(python(&doorman, port, script), "EAGAIN\nHTTP");
    let named = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(named);
    // Other tests in this process have threads as well.
    let threads = tasks.filter(|name| name.starts_with("stockade-conn")).count();
    assert!(threads <= 3 * super::places::MOST, "{threads}");
}

/// A directory of a granted socket's path becomes a link during the check.
#[test]
fn a_way_that_is_swapped_leads_to_no_other_unix_socket() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    for (name, word) in [("way", "good"), ("secret", "evil")] {
        std::fs::create_dir(at(name)).unwrap();
        let listener = std::os::unix::net::UnixListener::bind(format!("{}/sock", at(name))).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                stream.write_all(word.as_bytes()).ok();
            }
        });
    }
    std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
    let script = format!(
        r#"
import socket, ctypes, threading, time, os
libc = ctypes.CDLL(None)
way, link, stop = {:?}.encode(), {:?}.encode(), False
def swap():
    while not stop: libc.syscall(316, -100, way, -100, link, 2)
thread = threading.Thread(target=swap); thread.start()
end = time.time() + 5; heard = set()
while time.time() < end:
    s = socket.socket(socket.AF_UNIX)
    try: s.connect(way + b"/sock"); heard.add(s.recv(4).decode())
    except OSError: pass
stop = True; thread.join(); print(*sorted(heard))
"#,
        at("way"),
        at("link")
    );
    let granted = BTreeSet::from([AbsPath::parse(format!("{}/sock", at("way"))).unwrap()]);
    let output = run(&Arc::default(), granted, &["timeout", "20", "python3", "-c", &script]);
    assert_eq!(text(&output.stdout), "good\n", "{}", text(&output.stderr));
}

/// A socket that blocks on a busy server inside blocks no other call.
#[test]
fn a_socket_that_is_made_to_wait_holds_nobody_up() {
    let port = server("page");
    let doorman = good(port);
    let script = r#"
import ctypes, fcntl
libc = ctypes.CDLL(None)
address = socket.gethostbyname("good.test")
busy = socket.socket(); busy.bind(("127.0.0.1", 0)); busy.listen(0)
full = [socket.socket() for _ in range(4)]
for s in full: s.setblocking(False); s.connect_ex(busy.getsockname())
where = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(busy.getsockname()[1]), socket.inet_aton("127.0.0.1"))
many = [socket.socket() for _ in range(100)]
for number in map(socket.socket.fileno, many):
    flipping = os.fork()
    while flipping == 0:
        fcntl.fcntl(number, fcntl.F_SETFL, 0); fcntl.fcntl(number, fcntl.F_SETFL, os.O_NONBLOCK)
    time.sleep(0.01)
    threading.Thread(target=libc.connect, args=[number, where, 16], daemon=True).start()
    time.sleep(0.01); os.kill(flipping, 9); os.waitpid(flipping, 0)
start = time.time()
s = socket.create_connection((address, PORT)); s.sendall(b"GET / HTTP/1.0\r\n\r\n"); print(s.recv(4).decode(), time.time() - start < 1)
sys.stdout.flush(); os._exit(0)
"#;
    assert_eq!(python(&doorman, port, script), "HTTP True");
}
