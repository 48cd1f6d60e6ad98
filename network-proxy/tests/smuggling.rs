//! Request smuggling, at the byte level, to a server that parses all bytes after a head as the next request.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a helper that fails fails its test")]

mod support;

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stockade_network_proxy::{Approvals, Gate, Proxy, Transparent};
use stockade_protocol::{AuditEvent, Decision, HostRules, HttpMethods, NetworkPolicy};
use stockade_sandboxing::{Answer, Attempt, Gatekeeper as _, Verdict};
use support::{Kept, Names, Server, Trail, gate, rule};
use tokio::runtime::Handle;

/// Two ways to the same gate.
#[derive(Clone, Copy, Debug)]
enum Way {
    Proxy,
    Transparent,
}

struct World {
    server: Server,
    gate: Arc<Gate>,
    trail: Arc<Trail>,
}

impl World {
    async fn new(methods: HttpMethods, kept: Kept) -> Self {
        let server = Server::without_bodies(kept).await;
        let rules = ["good.test", "127.0.0.1"].map(|host| rule(host, Some(server.port()), Decision::Allow));
        let policy = NetworkPolicy::Hosts(HostRules { rules: rules.to_vec(), methods });
        let trail = Arc::new(Trail::default());
        let names = Names::new(&[("good.test", "127.0.0.1"), ("evil.test", "127.0.0.1")]);
        Self { server, gate: gate(policy, Approvals::never(), names, Arc::clone(&trail)), trail }
    }

    /// The response to these bytes. `{URL}` stands for the text the way needs before a path, `{AUTH}` for the secret.
    async fn send(&self, way: Way, bytes: &str) -> String {
        let port = self.server.port();
        match way {
            Way::Proxy => {
                let proxy = Proxy::start(Arc::clone(&self.gate)).await.unwrap();
                let secret = STANDARD.encode(format!("stockade:{}", proxy.secret().expose()));
                let auth = format!("Proxy-Authorization: Basic {secret}\r\n");
                let bytes = bytes.replace("{URL}", &format!("http://good.test:{port}")).replace("{AUTH}", &auth);
                let stream = std::net::TcpStream::connect(proxy.address()).unwrap();
                exchange(stream, bytes).await
            }
            Way::Transparent => {
                let seen = Transparent::new(Arc::clone(&self.gate), Handle::current());
                let (sender, answer) = std::sync::mpsc::channel();
                let host = "good.test".parse().unwrap();
                let attempt = Attempt { host, port, protocol: None, pid: None, program: None };
                seen.decide(attempt, Answer::new(move |verdict| sender.send(verdict).unwrap()));
                let verdict = tokio::task::spawn_blocking(move || answer.recv().unwrap()).await.unwrap();
                let Verdict::Use(stream) = verdict else { panic!("{verdict:?}") };
                exchange(stream.into(), bytes.replace("{URL}", "").replace("{AUTH}", "")).await
            }
        }
    }

    /// The first lines of the requests that the server saw.
    fn heard(&self) -> Vec<String> {
        let heads = std::mem::take(&mut *self.server.heard.lock().unwrap());
        heads.iter().map(|head| head.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

async fn exchange(mut stream: std::net::TcpStream, bytes: String) -> String {
    let heard = tokio::task::spawn_blocking(move || {
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(400))).unwrap();
        stream.write_all(bytes.as_bytes()).unwrap();
        let (mut heard, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            heard.extend_from_slice(&piece[..read]);
        }
        heard
    });
    String::from_utf8_lossy(&heard.await.unwrap()).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0)
}

const HIDDEN: &str = "POST /hidden HTTP/1.1\r\nHost: evil.test\r\nContent-Length: 0\r\n\r\n";

fn chunked(body: &str) -> String {
    format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
}

/// A server that ignores bodies and keeps every connection gets only requests that read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_has_no_body() {
    let world = World::new(HttpMethods::ReadOnly, Kept::Always).await;
    for way in [Way::Proxy, Way::Transparent] {
        for method in ["GET", "HEAD", "OPTIONS"] {
            let plain = format!("{method} {{URL}}/ HTTP/1.1\r\n{{AUTH}}Content-Length: 0\r\n\r\n");
            assert_eq!(status(&world.send(way, &plain).await), 200, "{way:?} {method}");
            assert_eq!(world.heard(), [format!("{method} / HTTP/1.1")]);
            let length = HIDDEN.len();
            for (headers, body) in [
                (format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
                (format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"), HIDDEN.to_owned()),
                (format!("Content-Length: {length}\r\nConnection: content-length\r\n"), HIDDEN.to_owned()),
                (format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"), HIDDEN.to_owned()),
                (String::from("Transfer-Encoding: chunked\r\n"), chunked(HIDDEN)),
                (format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), chunked(HIDDEN)),
                (String::from("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), chunked(HIDDEN)),
            ] {
                let head = format!("{method} {{URL}}/ HTTP/1.1\r\n{{AUTH}}{headers}\r\n{body}");
                let answer = world.send(way, &head).await;
                assert_eq!(status(&answer), 403, "{way:?} {head}: {answer}");
                assert!(method == "HEAD" || answer.contains("have no body"), "{way:?} {head}: {answer}");
                assert_eq!(world.heard(), [""; 0], "{way:?} {head}");
                let last = world.trail.events.lock().unwrap().last().cloned();
                assert!(
                    matches!(last, Some(AuditEvent::Connected { decision: Decision::Forbidden, .. })),
                    "{way:?} {head}: {last:?}"
                );
            }
        }
    }
}

/// Method overrides don't pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_overrides_no_method() {
    let world = World::new(HttpMethods::ReadOnly, Kept::Always).await;
    for way in [Way::Proxy, Way::Transparent] {
        for name in [
            "X-HTTP-Method-Override",
            "x-http-method",
            "X-Method-Override",
            "X_HTTP_Method_Override",
            "_method",
            "HTTP-Method-Override",
            "Http.Method.Override",
            "X-Method",
        ] {
            let head = format!("GET {{URL}}/ HTTP/1.1\r\n{{AUTH}}{name}: DELETE\r\n\r\n");
            let answer = world.send(way, &head).await;
            assert_eq!(status(&answer), 403, "{way:?} {head}: {answer}");
            assert!(answer.contains("another method"), "{way:?} {head}: {answer}");
        }
        for path in [
            "/?_method=DELETE",
            "/a?b=c&_method=put",
            "/?%5fmethod=DELETE",
            "/?_METHOD=DELETE",
            "/?a;_method=b",
            "/?.method=DELETE",
            "/?%2emethod=DELETE",
            "/?+_method=DELETE",
            "/?%20_method=DELETE",
            "/?[method=DELETE",
            "/?_method[]=DELETE",
            "/?_method%00=DELETE",
        ] {
            let answer = world.send(way, &format!("GET {{URL}}{path} HTTP/1.1\r\n{{AUTH}}\r\n")).await;
            assert_eq!(status(&answer), 403, "{way:?} {path}: {answer}");
        }
        assert_eq!(world.heard(), [""; 0], "{way:?}");
        for path in ["/?method=x", "/_method=x", "/?a_method=x&b=_method&_methods=1"] {
            let answer = world.send(way, &format!("GET {{URL}}{path} HTTP/1.1\r\n{{AUTH}}\r\n")).await;
            assert_eq!(status(&answer), 200, "{way:?} {path}: {answer}");
        }
        assert_eq!(world.heard().len(), 3);
    }
}

/// Bytes that are not clearly one reading request are refused, or rewritten without the ambiguity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reading_is_one_request_at_a_time() {
    let world = World::new(HttpMethods::ReadOnly, Kept::Always).await;
    let get = "GET / HTTP/1.1";
    for (way, bytes, wanted) in [
        // The second request is decided separately.
        (Way::Transparent, "GET / HTTP/1.1\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", &[get][..]),
        (
            Way::Proxy,
            "GET {URL}/ HTTP/1.1\r\n{AUTH}\r\nPOST {URL}/ HTTP/1.1\r\n{AUTH}Content-Length: 0\r\n\r\n",
            &[get],
        ),
        (Way::Transparent, "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", &[get]),
        // Rewritten: a bare line feed ends a line.
        (Way::Transparent, "GET / HTTP/1.1\nX: 1\n\nPOST / HTTP/1.1\n\n", &[get]),
        (Way::Transparent, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &[get]),
        (
            Way::Transparent,
            "GET / HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
            &[get],
        ),
        // Refused.
        (Way::Transparent, "GET / HTTP/1.1\r\nX: 1\r\n Content-Length: 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nX: 1\rContent-Length: 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nContent-Length : 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nContent_Length: 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nTransfer.Encoding: chunked\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nContent-Length: 0, 9\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n", &[]),
        (Way::Transparent, "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", &[]),
        (Way::Transparent, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", &[]),
        (Way::Transparent, "CONNECT evil.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n\r\n", &[]),
        (Way::Transparent, "TRACE / HTTP/1.1\r\n\r\n", &[]),
        (Way::Proxy, "TRACE {URL}/ HTTP/1.1\r\n{AUTH}\r\n", &[]),
        (Way::Transparent, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[]),
    ] {
        let answer = world.send(way, bytes).await;
        assert_eq!(world.heard(), wanted, "{way:?} {bytes}: {answer}");
    }
    let events = format!("{:?}", world.trail.events.lock().unwrap());
    assert!(events.contains("Host names another server"), "a request for another server is on record: {events}");
}

/// Each request is forwarded alone: a server that was told to close does not look for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_is_followed_by_no_request() {
    let world = World::new(HttpMethods::Any, Kept::AsAsked).await;
    let length = HIDDEN.len();
    for method in ["GET", "HEAD", "OPTIONS", "DELETE", "TRACE", "POST"] {
        for (headers, body) in [
            (format!("Content-Length: {length}\r\n"), HIDDEN.to_owned()),
            (format!("Connection: keep-alive\r\nContent-Length: {length}\r\n"), HIDDEN.to_owned()),
            (format!("Connection: content-length\r\nContent-Length: {length}\r\n"), HIDDEN.to_owned()),
            (String::from("Transfer-Encoding: chunked\r\n"), chunked(HIDDEN)),
            (String::from("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), chunked(HIDDEN)),
        ] {
            let head = format!("{method} {{URL}}/ HTTP/1.1\r\n{{AUTH}}{headers}\r\n{body}");
            let answer = world.send(Way::Proxy, &head).await;
            let heard = world.heard();
            assert!(
                heard.iter().all(|line| line.starts_with(method) && line.ends_with("/ HTTP/1.1")),
                "{head}: {heard:?}"
            );
            assert!(heard.len() <= 1, "{head}: {heard:?}: {answer}");
        }
    }
}

/// `Upgrade` is never forwarded, so a `101` response is invalid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_server_changes_the_protocol() {
    let world = World::new(HttpMethods::ReadOnly, Kept::Switching).await;
    for way in [Way::Proxy, Way::Transparent] {
        let head = "GET {URL}/ HTTP/1.1\r\n{AUTH}Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        let answer = world.send(way, &format!("{head}POST / HTTP/1.1\r\n\r\n")).await;
        assert_eq!(status(&answer), 502, "{way:?}: {answer}");
        assert_eq!(world.heard(), ["GET / HTTP/1.1"]);
    }
}
