//! The proxies at the byte level: which requests pass, are denied, and must not slip through.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a helper that fails fails its test")]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stockade_network_proxy::{Approvals, Proxy};
use stockade_protocol::{Decision, HostRules, HttpMethods, NetworkPolicy, ReviewDecision};
use support::{Names, Person, Server, Trail, gate, good_world, hosts, rule};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn open(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}

fn secret(proxy: &Proxy) -> String {
    format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(format!("stockade:{}", proxy.secret().expose())))
}

/// Sends a request head and returns the bytes received until end of file, or for half a second.
async fn exchange(stream: &mut TcpStream, head: &str) -> String {
    stream.write_all(head.as_bytes()).await.unwrap();
    hear(stream).await
}

async fn hear(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while let Ok(Ok(1..)) = tokio::time::timeout(Duration::from_millis(500), stream.read_buf(&mut bytes)).await {}
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0)
}

/// One request with the secret on a connection of its own.
async fn ask(proxy: &Proxy, line: &str, headers: &str) -> String {
    exchange(&mut open(proxy).await, &format!("{line} HTTP/1.1\r\n{}{headers}\r\n", secret(proxy))).await
}

#[tokio::test]
async fn a_page_of_an_allowed_host_comes_back_and_another_host_is_denied() {
    let server = Server::page("hello").await;
    let port = server.port();
    let (gate, trail) = good_world(port);
    let proxy = Proxy::start(gate).await.unwrap();
    let answer = ask(&proxy, &format!("GET http://good.test:{port}/secret?path=1"), "").await;
    assert!(answer.ends_with("hello"), "{answer}");
    let heard = server.heard.lock().unwrap().concat().to_ascii_lowercase();
    assert!(heard.starts_with("get /secret?path=1 http/1.1\r\n"), "{heard}");
    assert!(heard.contains(&format!("host: good.test:{port}\r\n")));
    assert!(!heard.contains("proxy-authorization"), "the secret stays here");

    for (line, code) in [
        (format!("GET http://evil.test:{port}/"), 403),
        (format!("GET http://good.test:{}/", port - 1), 403),
        (format!("CONNECT evil.test:{port}"), 403),
        (format!("CONNECT good.test:{}", port - 1), 403),
        (format!("GET http://127.0.0.2:{port}/"), 403),
        (format!("GET http://inside.test:{port}/"), 403),
        (format!("GET http://missing.test:{port}/"), 502),
        (format!("GET https://good.test:{port}/"), 403),
        (String::from("GET /x"), 400),
    ] {
        assert_eq!(status(&ask(&proxy, &line, "").await), code, "{line}");
    }
    let denied = ask(&proxy, &format!("GET http://evil.test:{port}/secret"), "").await;
    assert!(denied.contains(&format!("`evil.test:{port}`")), "{denied}");
    // Records name hosts, never requests.
    let told = format!("{:?}{:?}", trail.events.lock().unwrap(), trail.violations.lock().unwrap());
    assert!(told.contains("evil.test") && !told.contains("secret"), "{told}");
    assert_eq!(server.heard.lock().unwrap().len(), 1, "nothing else reached the server");
}

/// px19: another process of this machine finds the port, but not the secret.
#[tokio::test]
async fn without_the_secret_nothing_is_done() {
    let server = Server::page("hello").await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    for head in [
        format!("GET http://good.test:{port}/ HTTP/1.1\r\n\r\n"),
        format!("CONNECT good.test:{port} HTTP/1.1\r\n\r\n"),
        format!("GET http://good.test:{port}/ HTTP/1.1\r\nProxy-Authorization: Basic c3RvY2thZGU6eA==\r\n\r\n"),
    ] {
        assert_eq!(status(&exchange(&mut open(&proxy).await, &head).await), 407, "{head}");
    }
    let mut stream = open(&proxy).await;
    stream.write_all(&[5, 1, 0]).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [5, 0xff], "no way in without a password");
    let mut stream = open(&proxy).await;
    stream.write_all(&[5, 1, 2, 1, 8]).await.unwrap();
    stream.write_all(b"stockade\x04guess").await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer[..4], [5, 2, 1, 1]);
    assert!(server.heard.lock().unwrap().is_empty());
}

/// Connections that never authenticate are closed and don't block authenticated ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_take_no_place_of_the_commands_own() {
    let server = Server::page("hello").await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    // An authenticated connection may stay idle.
    let mut kept = open(&proxy).await;
    let good = format!("GET http://good.test:{port}/ HTTP/1.1\r\n{}\r\n", secret(&proxy));
    assert!(exchange(&mut kept, &good).await.ends_with("hello"));
    let mut strangers = Vec::new();
    for number in 0..1000 {
        let mut stranger = open(&proxy).await;
        match number % 3 {
            0 => {}
            1 => stranger.write_all(b"GET http://good.test/ HTTP/1.1\r\nX: ").await.unwrap(),
            _ => stranger.write_all(&[5, 1, 2]).await.unwrap(),
        }
        strangers.push(stranger);
    }
    let started = std::time::Instant::now();
    let answer = tokio::time::timeout(Duration::from_secs(30), async {
        let mut stream = open(&proxy).await;
        stream.write_all(good.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"hello") && stream.read_buf(&mut answer).await.unwrap_or(0) > 0 {}
        answer
    });
    assert!(answer.await.unwrap().ends_with(b"hello"), "after {:?}", started.elapsed());
    let mut first = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), strangers[0].read_to_end(&mut first));
    assert!(ended.await.is_ok(), "a stranger that says nothing is let go");
    assert!(exchange(&mut kept, &good).await.ends_with("hello"), "and who has shown the secret is not");
}

/// px15: every request of a kept connection is decided by itself, and so is one after a redirect.
#[tokio::test]
async fn a_kept_connection_is_no_way_around() {
    let server = Server::page("hello").await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    let mut stream = open(&proxy).await;
    let auth = secret(&proxy);
    let good = format!("GET http://good.test:{port}/ HTTP/1.1\r\n{auth}\r\n");
    assert!(exchange(&mut stream, &good).await.ends_with("hello"));
    assert!(exchange(&mut stream, &good).await.ends_with("hello"), "kept");
    // Both at once, in one packet: the second is still a request of its own.
    let both = format!("{good}GET http://evil.test:{port}/ HTTP/1.1\r\n{auth}\r\n");
    let answers = exchange(&mut stream, &both).await;
    assert!(answers.contains("hello") && answers.contains("403 Forbidden"), "{answers}");
    assert_eq!(server.heard.lock().unwrap().len(), 3);
}

/// Requests that two readers would understand differently.
#[tokio::test]
async fn nothing_is_smuggled_inside_another_request() {
    let server = Server::page("hello").await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    let hidden = format!("GET http://evil.test:{port}/ HTTP/1.1\r\n\r\n");
    let length = hidden.len();
    for headers in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"),
        format!("Content-Length: 0\r\nContent-Length: {length}\r\n"),
        String::from("Transfer-Encoding: xchunked\r\n"),
        String::from("Transfer-Encoding: chunked, identity\r\n"),
        format!("Content-Length: +{length}\r\n"),
        String::from("Content-Length : 0\r\n"),
        String::from("X: a\r\n Content-Length: 0\r\n"),
        String::from("Host: good.test\r\nHost: evil.test\r\n"),
        format!("Host: evil.test:{port}\r\n"),
        String::from("X-Unix-Socket: /var/run/docker.sock\r\n"),
    ] {
        let head = format!("POST http://good.test:{port}/ HTTP/1.1\r\n{}{headers}\r\n{hidden}", secret(&proxy));
        let answer = exchange(&mut open(&proxy).await, &head).await;
        assert!(status(&answer) >= 400, "{headers}: {answer}");
    }
    let heard = std::mem::take(&mut *server.heard.lock().unwrap());
    // Where both lengths are given, the server gets the request written anew with one, and no bytes
    // that could be read as another.
    assert!(heard.iter().all(|request| !request.contains("evil") && !request.contains("content-length")), "{heard:?}");
    for line in [
        format!("GET http://good.test:{port}@evil.test:{port}/ HTTP/1.1"),
        format!("GET http://good.test:{port}\\@evil.test/ HTTP/1.1"),
        format!("GET http://evil.test\0.good.test:{port}/ HTTP/1.1"),
        format!("GET http://good.test:{port}/\tHTTP/1.1"),
        format!("CONNECT good.test:{port}/evil.test HTTP/1.1"),
        format!("CONNECT http://good.test:{port}/ HTTP/1.1"),
    ] {
        let answer = exchange(&mut open(&proxy).await, &format!("{line}\r\n{}\r\n", secret(&proxy))).await;
        assert!((400..500).contains(&status(&answer)), "{line}: {answer}");
    }
    assert!(server.heard.lock().unwrap().is_empty(), "{:?}", server.heard.lock().unwrap());
    // A body is never parsed as a request.
    let head =
        format!("POST http://good.test:{port}/ HTTP/1.1\r\n{}Content-Length: {length}\r\n\r\n{hidden}", secret(&proxy));
    assert!(exchange(&mut open(&proxy).await, &head).await.ends_with("hello"));
    assert_eq!(server.heard.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn hop_headers_end_here() {
    let server = Server::page("hello").await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    let headers = "Connection: X-Drop, close\r\nX-Drop: 1\r\nX-Keep: 1\r\nUpgrade: websocket\r\nTE: trailers\r\n";
    ask(&proxy, &format!("GET http://good.test:{port}/"), headers).await;
    let heard = server.heard.lock().unwrap().concat().to_ascii_lowercase();
    assert!(heard.contains("x-keep"), "{heard}");
    for gone in ["x-drop", "upgrade", "\r\nte:"] {
        assert!(!heard.contains(gone), "{heard}");
    }
}

#[tokio::test]
async fn a_tunnel_carries_bytes_both_ways_and_ends_with_the_proxy() {
    let server = Server::echo().await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    let mut stream = open(&proxy).await;
    let answer = exchange(&mut stream, &format!("CONNECT good.test:{port} HTTP/1.1\r\n{}\r\n", secret(&proxy))).await;
    assert_eq!(status(&answer), 200, "{answer}");
    stream.write_all(b"ping").await.unwrap();
    let mut back = [0; 4];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"ping");
    drop(proxy);
    assert_eq!(stream.read(&mut back).await.unwrap_or(0), 0);
}

async fn socks(proxy: &Proxy, request: &[u8]) -> (TcpStream, u8) {
    let mut stream = open(proxy).await;
    let password = proxy.secret().expose().as_bytes();
    let hello = [&[5, 2, 0, 2, 1, 8], &b"stockade"[..], &[64], password].concat();
    stream.write_all(&hello).await.unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, [5, 2, 1, 0]);
    stream.write_all(request).await.unwrap();
    let mut reply = [0; 10];
    let code = if stream.read_exact(&mut reply).await.is_ok() { reply[1] } else { 255 };
    (stream, code)
}

fn named(command: u8, name: &[u8], port: u16) -> Vec<u8> {
    [&[5, command, 0, 3, u8::try_from(name.len()).unwrap()], name, &port.to_be_bytes()].concat()
}

/// px02, px18: a zero byte in a name is refused before any rule is asked; only `CONNECT` is carried out.
#[tokio::test]
async fn socks_decides_as_the_other_does() {
    let server = Server::echo().await;
    let port = server.port();
    let proxy = Proxy::start(good_world(port).0).await.unwrap();
    let (mut stream, code) = socks(&proxy, &[named(1, b"good.test", port), b"early".to_vec()].concat()).await;
    assert_eq!(code, 0);
    let mut back = [0; 5];
    stream.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"early", "what was sent before the answer is not lost");
    let v4 = [&[5, 1, 0, 1, 127, 0, 0, 1][..], &port.to_be_bytes()].concat();
    let mapped = [&[5, 1, 0, 4], &[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1], &port.to_be_bytes()].concat();
    let v6 = [&[5, 1, 0, 4], &[0; 15][..], &[1], &port.to_be_bytes()].concat();
    for (request, wanted) in [
        (named(1, b"GOOD.test.", port), 0),
        (named(1, b"0x7f.1", port), 0),
        (v4, 0),
        (mapped, 0),
        (v6, 2),
        (named(1, b"evil.test", port), 2),
        (named(1, b"good.test", port - 1), 2),
        (named(1, b"inside.test", port), 2),
        (named(1, b"missing.test", port), 4),
        (named(1, b"evil.test\0.good.test", port), 8),
        (named(2, b"good.test", port), 7),
        (named(3, b"good.test", port), 7),
        (named(1, b"", port), 255),
    ] {
        assert_eq!(socks(&proxy, &request).await.1, wanted, "{request:?}");
    }
}

/// With `read_only`, methods that write are denied, and so are streams that can't be inspected.
#[tokio::test]
async fn limited_means_what_can_be_seen_to_read() {
    let server = Server::page("hello").await;
    let port = server.port();
    let rules = vec![rule("good.test", None, Decision::Allow), rule("127.0.0.1", None, Decision::Allow)];
    let policy = NetworkPolicy::Hosts(HostRules { rules, methods: HttpMethods::ReadOnly });
    let names = Names::new(&[("good.test", "127.0.0.1")]);
    let trail = Arc::new(Trail::default());
    let proxy = Proxy::start(gate(policy, Approvals::never(), names, Arc::clone(&trail))).await.unwrap();
    for (line, code) in [
        ("GET http", 200),
        ("HEAD http", 200),
        ("OPTIONS http", 200),
        ("POST http", 403),
        ("PUT http", 403),
        ("DELETE http", 403),
        ("PATCH http", 403),
        ("TRACE http", 403),
        ("get http", 403),
        ("FOO http", 403),
    ] {
        assert_eq!(status(&ask(&proxy, &format!("{line}://good.test:{port}/"), "").await), code, "{line}");
    }
    assert_eq!(status(&ask(&proxy, &format!("CONNECT good.test:{port}"), "").await), 403);
    assert_eq!(socks(&proxy, &named(1, b"good.test", port)).await.1, 2);
    assert_eq!(trail.violations.lock().unwrap().len(), 9);
    assert_eq!(server.heard.lock().unwrap().len(), 3);
}

/// px23: one question for both, and both get its answer.
#[tokio::test]
async fn two_connections_wait_for_one_answer() {
    let server = Server::page("hello").await;
    let port = server.port();
    let person = Person::new(|_| ReviewDecision::Approved, Duration::from_millis(200));
    let approvals = Approvals::asking(Arc::<Person>::clone(&person), Duration::from_secs(60));
    let names = Names::new(&[("new.test", "127.0.0.1")]);
    let policy = hosts(vec![rule("127.0.0.1", Some(port), Decision::Allow)]);
    let proxy = Proxy::start(gate(policy, approvals, names, Arc::default())).await.unwrap();
    let line = format!("GET http://new.test:{port}/");
    let (one, two) = tokio::join!(ask(&proxy, &line, ""), ask(&proxy, &line, ""));
    assert!(one.ends_with("hello") && two.ends_with("hello"), "{one} {two}");
    assert_eq!(person.questions(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_once_and_ten_thousand_in_turn() {
    let server = Server::echo().await;
    let port = server.port();
    let proxy = Arc::new(Proxy::start(good_world(port).0).await.unwrap());
    let mut kept = Vec::new();
    for batch in 0..10 {
        let opened = (0..100).map(|_| {
            let proxy = Arc::clone(&proxy);
            tokio::spawn(async move { socks(&proxy, &named(1, b"good.test", port)).await })
        });
        for one in opened.collect::<Vec<_>>() {
            let (stream, code) = one.await.unwrap();
            assert_eq!(code, 0, "in batch {batch}");
            kept.push(stream);
        }
    }
    let mut seen = BTreeSet::new();
    for (number, stream) in kept.iter_mut().enumerate() {
        stream.write_all(&number.to_be_bytes()).await.unwrap();
    }
    for stream in &mut kept {
        let mut back = [0; 8];
        stream.read_exact(&mut back).await.unwrap();
        seen.insert(usize::from_be_bytes(back));
    }
    assert_eq!(seen.len(), 1000, "nothing lost and nothing mixed up");
    drop(kept);
    let workers = (0..20).map(|_| {
        let proxy = Arc::clone(&proxy);
        tokio::spawn(async move {
            for _ in 0..500 {
                let (mut stream, code) = socks(&proxy, &named(1, b"good.test", port)).await;
                assert_eq!(code, 0);
                stream.write_all(b"x").await.unwrap();
                assert_eq!(stream.read(&mut [0]).await.unwrap(), 1);
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}
