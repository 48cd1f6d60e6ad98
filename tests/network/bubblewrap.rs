//! The same gate where bubblewrap builds the sandbox, for root and for an ordinary user: the two get
//! user namespaces of different make.

use crate::limits::named_unix_sockets;
use crate::programs::tried_in;
use crate::world::{Engine, World, again_as_nobody, server};

#[test]
fn curl() {
    tried_in(Engine::Bwrap, "curl -sS -m 10 http://$HOST:$PORT/");
}

#[test]
fn python_urllib() {
    tried_in(
        Engine::Bwrap,
        r#"python3 -c "import urllib.request as u; print(u.urlopen('http://$HOST:$PORT/', timeout=10).read().decode())""#,
    );
}

#[test]
fn node_fetch() {
    tried_in(
        Engine::Bwrap,
        r#"node -e "fetch('http://$HOST:$PORT/').then(r => r.text()).then(console.log).catch(e => { console.error(e); process.exit(1) })""#,
    );
}

#[test]
fn unix_sockets() {
    named_unix_sockets(Engine::Bwrap);
}

/// The command's own loopback is its own, and names are answered inside.
#[test]
fn loopback_and_names() {
    let (port, heard) = server("outside");
    let world = World { engine: Engine::Bwrap, ..World::good(port) };
    let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = world.run(&format!(
        "cd /tmp && echo inside > page && python3 -m http.server {own} --bind 127.0.0.1 >/dev/null 2>&1 & \
         for n in $(seq 50); do curl -sf http://127.0.0.1:{own}/page && break; sleep 0.1; done; kill %1; \
         dig +time=1 +tries=1 +short leak.evil.test; cat /etc/resolv.conf; grep Cap /proc/self/status | sort -u -k2"
    ));
    assert!(ended.stdout.starts_with("inside\n198.18."), "{ended:?}");
    assert!(ended.stdout.contains("\nnameserver 127.0.0.1\n"), "{ended:?}");
    // All five sets are empty, and so the same line.
    assert_eq!(ended.stdout.matches("Cap").count(), 1, "{ended:?}");
    assert!(ended.stdout.contains("\t0000000000000000\n"), "{ended:?}");
    assert!(heard.lock().unwrap().is_empty());
    assert!(world.trail.lines().is_empty(), "{:?}", world.trail.lines());
}

/// The tests of this file once more, by a user who is not root.
#[test]
fn for_an_ordinary_user() {
    again_as_nobody("bubblewrap::", 5);
}
