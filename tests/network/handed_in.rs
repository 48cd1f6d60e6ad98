//! A connection outside stays on its way: no option of its socket leads it to another machine, and none has the
//! host's network told something else.
//!
//! The host is a network namespace of the test's own, with two machines that have the same address: the one
//! that the route leads to, and one behind another interface. What they see on their wires decides.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::{IpAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::{Engine, World, again_as_nobody, allow};

const PORT: u16 = 4711;
const MACHINE: &str = "10.9.0.2";

#[expect(clippy::disallowed_methods, reason = "a test makes the network that it watches")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// Starts itself again in a network of its own.
fn in_own_network(test: &str) {
    let mut again = program("unshare");
    if !rustix::process::geteuid().is_root() {
        again.args(["--user", "--map-root-user"]);
    }
    again.args(["--net", "--"]).arg(std::env::current_exe().unwrap());
    let output = again.args(["--ignored", "--exact", test]).output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("ok. 1 passed"), "{told}");
}

/// What a machine does: answers each connection with its name, and keeps every packet of its wire.
const MACHINE_PROGRAM: &str = r#"
import os, socket, subprocess, sys, threading
name, kept, port = sys.argv[1], open(sys.argv[2], "wb", buffering=0), int(sys.argv[3])
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
server = socket.create_server(("0.0.0.0", port))
def watch():
    while True: kept.write(wire.recv(65536))
threading.Thread(target=watch, daemon=True).start()
kept.write(b"ready")
while True:
    c, _ = server.accept(); c.sendall(name.encode())
    threading.Thread(target=lambda c: [0 for _ in iter(lambda: c.recv(4096), b"")], args=(c,), daemon=True).start()
"#;

/// A machine at the other end of an interface of the host's. Ends with the test.
struct Machine {
    process: Child,
    kept: tempfile::NamedTempFile,
}

impl Machine {
    /// The first one has the route; the other has one that nothing takes by itself.
    fn new(name: &str, metric: &str) -> Self {
        let kept = tempfile::NamedTempFile::new().unwrap();
        let script = format!("read go; ip link set lo up; exec python3 -c '{MACHINE_PROGRAM}' \"$@\"");
        let mut start = program("unshare");
        start.args(["--net", "--", "bash", "-c", &script, "bash", name]);
        let mut process = start.arg(kept.path()).arg(PORT.to_string()).stdin(Stdio::piped()).spawn().unwrap();
        let pid = process.id().to_string();
        // It is in its own network as soon as bash runs.
        wait_for("a network", || {
            std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap()
                != std::fs::read_link("/proc/self/ns/net").unwrap()
        });
        let line = format!(
            "set -e; ip link add {name}0 type veth peer name {name}1 netns {pid}; ip link set {name}0 up; \
             ip addr add 10.9.0.1/24 dev {name}0 noprefixroute; ip route add 10.9.0.0/24 dev {name}0 metric {metric}; \
             nsenter -t {pid} -n ip addr add {MACHINE}/24 dev {name}1; nsenter -t {pid} -n ip link set {name}1 up"
        );
        let made = program("bash").args(["-c", &line]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        process.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let machine = Self { process, kept };
        wait_for("a machine", || machine.has_seen(b"ready"));
        machine
    }

    fn has_seen(&self, bytes: &[u8]) -> bool {
        seen(self.kept.path()).windows(bytes.len()).any(|window| window == bytes)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

fn seen(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Tries each option on a socket of its own, after it was connected, and then sends something through it.
const TRIES: &str = r#"
import errno, socket, struct
where = (socket.gethostbyname("good.test"), 4711)
other = socket.inet_aton("239.77.66.55"); source = socket.inet_aton("10.9.0.2"); own = socket.inet_aton("10.9.0.1")
six = socket.inet_pton(socket.AF_INET6, "ff15::7766")
group = lambda i: struct.pack("=I4xHH4s120x", i, 2, 0, other)
group6 = lambda i: struct.pack("=I4xHHI16s100x", i, 10, 0, 0, six)
tries = [(1, 25, b"b0\0")] + [(1, 62, struct.pack("=i", i)) for i in range(2, 6)] + [(1, 5, struct.pack("=i", 1))]
tries += [(0, 50, struct.pack("!i", i)) for i in range(2, 6)]
tries += [(0, 35, other + own), (0, 39, other + own + source), (0, 37, other + own + source), (0, 38, other + own + source)]
for i in range(2, 6): tries += [(0, 42, group(i)), (41, 42, group6(i)), (41, 20, six + struct.pack("=i", i)), (41, 50, b"\0" * 16 + struct.pack("=i", i))]
tries += [(0, 4, bytes([131, 7, 4, 10, 9, 9, 9, 0])), (41, 57, bytes([0, 2, 4, 1, 0, 0, 0, 0]) + six), (1, 36, struct.pack("=i", 7))]
said = set()
for level, name, value in tries:
    for family in (socket.AF_INET, socket.AF_INET6):
        s = socket.socket(family)
        s.connect(where if family == socket.AF_INET else ("::ffff:" + where[0], 4711))
        assert s.recv(1) == b"a"
        try: s.setsockopt(level, name, value); said.add("set")
        except OSError as e: said.add(errno.errorcode[e.errno])
        s.sendall(b"led-to-another-machine %d %d" % (level, name)); s.close()
print(*sorted(said))
"#;

#[test]
#[ignore = "runs in a network of its own, started by the next test"]
fn wires() {
    let route = Machine::new("a", "1");
    let other = Machine::new("b", "100");
    wait_for("a route", || TcpStream::connect((MACHINE, PORT)).is_ok());
    let said = [Engine::Native, Engine::Bwrap].map(|engine| {
        let names = HashMap::from([("good.test", MACHINE.parse::<IpAddr>().unwrap())]);
        let rules = vec![allow("good.test", PORT), allow(MACHINE, PORT)];
        let world = World { engine, rules, names, ..World::good(PORT) };
        world.run(&format!("timeout 60 python3 - <<'END'\n{TRIES}\nEND"))
    });
    // What was sent may still be on its way.
    wait_for("what was sent", || route.has_seen(b"led-to-another-machine 1 36"));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!other.has_seen(b"led-to-another-machine"), "a connection was led to another machine");
    for machine in [&route, &other] {
        assert!(!machine.has_seen(&[239, 77, 66, 55]), "the network was told of a group");
        assert!(!machine.has_seen(b"\xff\x15\0\0\0\0\0\0\0\0\0\0\0\0\x77\x66"), "the network was told of a group");
    }
    for ended in said {
        assert_eq!(ended.stdout, "ENOPROTOOPT EPERM\n", "{}", ended.stderr);
    }
}

#[test]
fn no_option_leads_a_connection_elsewhere() {
    in_own_network("handed_in::wires");
}

#[test]
fn for_an_ordinary_user() {
    again_as_nobody("handed_in", 1);
}
