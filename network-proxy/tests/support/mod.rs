//! A world for the tests: servers on loopback, names that lead there, a person who answers, a record.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a helper that fails fails its test")]
#![allow(dead_code, reason = "not every suite uses all of it")]

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_network_proxy::{Approvals, Ask, BoxFuture, Gate, NotRecorded, Records, Resolver, Rules};
use stockade_protocol::{
    AuditEvent, Decision, Destination, HostName, HostRule, HostRules, HttpMethods, NetworkApproval, NetworkPolicy,
    NetworkPolicyAmendment, ReviewDecision, Violation,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Names and their addresses. Other names do not exist.
#[derive(Default)]
pub(crate) struct Names(pub(crate) HashMap<&'static str, Vec<&'static str>>, pub(crate) AtomicUsize);

impl Names {
    pub(crate) fn new(list: &[(&'static str, &'static str)]) -> Arc<Self> {
        let mut names = HashMap::new();
        for (name, address) in list {
            names.entry(*name).or_insert_with(Vec::new).push(*address);
        }
        Arc::new(Self(names, AtomicUsize::new(0)))
    }
}

impl Resolver for Names {
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let found = self.0.get(name.as_str()).map(|list| list.iter().map(|text| text.parse().unwrap()).collect());
        Box::pin(async move { found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound)) })
    }
}

/// A reviewer who gives the same answer to everything, after a delay.
pub(crate) struct Person {
    pub(crate) answer: fn(&NetworkApproval) -> ReviewDecision,
    pub(crate) after: Duration,
    pub(crate) asked: Mutex<Vec<NetworkApproval>>,
    pub(crate) saved: Mutex<Vec<NetworkPolicyAmendment>>,
    pub(crate) remembered: Mutex<HashMap<Destination, Decision>>,
}

impl Person {
    pub(crate) fn new(answer: fn(&NetworkApproval) -> ReviewDecision, after: Duration) -> Arc<Self> {
        Arc::new(Self { answer, after, asked: Mutex::default(), saved: Mutex::default(), remembered: Mutex::default() })
    }

    pub(crate) fn questions(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Ask for Person {
    fn recall(&self, destination: &Destination) -> Option<Decision> {
        self.remembered.lock().unwrap().get(destination).copied()
    }

    fn remember(&self, destination: &Destination, decision: Decision) {
        self.remembered.lock().unwrap().insert(destination.clone(), decision);
    }

    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision> {
        self.asked.lock().unwrap().push(question.clone());
        Box::pin(async move {
            tokio::time::sleep(self.after).await;
            (self.answer)(&question)
        })
    }

    fn save(&self, amendment: &NetworkPolicyAmendment) {
        self.saved.lock().unwrap().push(amendment.clone());
    }
}

/// The recorded decisions.
#[derive(Default)]
pub(crate) struct Trail {
    pub(crate) events: Mutex<Vec<AuditEvent>>,
    pub(crate) violations: Mutex<Vec<Violation>>,
    /// Takes no more events.
    pub(crate) is_full: AtomicBool,
}

impl Records for Trail {
    fn decided(&self, event: AuditEvent) -> Result<(), NotRecorded> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(NotRecorded(String::from("the disk is full")));
        }
        self.events.lock().unwrap().push(event);
        Ok(())
    }

    fn denied(&self, violation: Violation) {
        self.violations.lock().unwrap().push(violation);
    }
}

pub(crate) fn rule(host: &str, port: Option<u16>, decision: Decision) -> HostRule {
    HostRule { host: host.parse().unwrap(), protocol: None, port, decision }
}

pub(crate) fn hosts(rules: Vec<HostRule>) -> NetworkPolicy {
    NetworkPolicy::Hosts(HostRules { rules, methods: HttpMethods::Any })
}

pub(crate) fn gate(
    policy: NetworkPolicy,
    approvals: Arc<Approvals>,
    names: Arc<Names>,
    trail: Arc<Trail>,
) -> Arc<Gate> {
    Gate::new(Rules::new(policy, Vec::new()), approvals, names, trail)
}

/// `good.test` is allowed at this port and leads to loopback; so does `evil.test`, which is not.
pub(crate) fn good_world(port: u16) -> (Arc<Gate>, Arc<Trail>) {
    let names = Names::new(&[("good.test", "127.0.0.1"), ("evil.test", "127.0.0.1"), ("inside.test", "10.0.0.1")]);
    let allowed = ["good.test", "127.0.0.1", "missing.test", "inside.test"];
    let policy = hosts(allowed.iter().map(|host| rule(host, Some(port), Decision::Allow)).collect());
    let trail = Arc::new(Trail::default());
    (gate(policy, Approvals::never(), names, Arc::clone(&trail)), trail)
}

/// How a server keeps a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Regardless of the client's `Connection`.
    Always,
    /// Unless the client says `Connection: close`.
    AsAsked,
    /// For another protocol, which was not asked for.
    Switching,
}

/// A server that echoes each request, and counts connections.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// HTTP/1.1, one request a connection, answered with `page`.
    pub(crate) async fn page(page: &'static str) -> Self {
        Self::start(move |mut stream: TcpStream, heard: Arc<Mutex<Vec<String>>>| async move {
            let mut bytes = Vec::new();
            while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    return;
                }
            }
            heard.lock().unwrap().push(String::from_utf8_lossy(&bytes).into_owned());
            let answer =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}", page.len());
            stream.write_all(answer.as_bytes()).await.ok();
        })
        .await
    }

    /// HTTP/1.1 without bodies: the bytes after a head are the next request.
    pub(crate) async fn without_bodies(kept: Kept) -> Self {
        Self::start(move |mut stream: TcpStream, heard: Arc<Mutex<Vec<String>>>| async move {
            let mut bytes = Vec::new();
            loop {
                while let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&bytes.drain(..end + 4).collect::<Vec<u8>>()).into_owned();
                    let is_last = head.to_ascii_lowercase().contains("connection: close");
                    heard.lock().unwrap().push(head);
                    let answer = match kept {
                        Kept::Always | Kept::AsAsked => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                        Kept::Switching => "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
                    };
                    stream.write_all(answer.as_bytes()).await.ok();
                    if is_last && kept == Kept::AsAsked {
                        return;
                    }
                }
                if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        })
        .await
    }

    /// Gives every byte back.
    pub(crate) async fn echo() -> Self {
        Self::start(|mut stream: TcpStream, _| async move {
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await.ok();
        })
        .await
    }

    async fn start<F>(serve: impl Fn(TcpStream, Arc<Mutex<Vec<String>>>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&heard);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&kept)));
            }
        });
        Self { address, heard }
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }
}
