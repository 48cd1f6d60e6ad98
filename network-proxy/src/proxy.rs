//! The proxy for one command: HTTP and SOCKS5 on one port of the loopback interface.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::doors::{Doors, Visit};
use crate::http::{Client, HttpFront};
use crate::relay::{Stop, stopped};
use crate::{Gate, Secret, environment, socks};

/// A proxy for clients that present its secret. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    secret: Secret,
    stop: watch::Sender<()>,
}

const SOCKS_VERSION: u8 = 5;

impl Proxy {
    /// Starts a proxy on a free port, with a new secret. Has to be called on a Tokio runtime.
    pub async fn start(gate: Arc<Gate>) -> io::Result<Self> {
        if cfg!(not(feature = "http")) {
            let why = "this build has no HTTP proxy: it was made without the feature `http`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let (address, secret) = (listener.local_addr()?, Secret::random()?);
        let (sender, stop) = watch::channel(());
        let own = secret.clone();
        tokio::spawn(async move {
            accept(listener, gate, own, stop.clone()).await;
            // Held until the listener is closed.
            drop(stop);
        });
        Ok(Self { address, secret, stop: sender })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The secret that clients have to present.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The environment variables that make a command use this proxy.
    pub fn environment(&self) -> BTreeMap<String, String> {
        environment(self.address, &self.secret)
    }

    /// Ends the proxy, and returns when the listener and every connection are closed. Dropping it does the same
    /// asynchronously.
    pub async fn end(self) {
        self.stop.send_replace(());
        self.stop.closed().await;
    }
}

async fn accept(listener: TcpListener, gate: Arc<Gate>, secret: Secret, stop: Stop) {
    let doors = Doors::new();
    let serve_all = async {
        loop {
            let place = doors.place().await;
            // A connection that was reset before it was accepted needs no answer.
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors; retry shortly.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let visit = Arc::new(doors.visit(place, secret.clone()));
            let (gate, stop) = (Arc::clone(&gate), stop.clone());
            tokio::spawn(async move {
                serve(stream, gate, Arc::clone(&visit), stop.clone()).await;
                // Held until the stream is closed.
                drop((visit, stop));
            });
        }
    };
    tokio::select! {
        () = serve_all => {}
        () = stopped(stop.clone()) => {}
    }
}

/// Serves one connection. The first byte selects the protocol: no HTTP method begins with SOCKS' version byte.
async fn serve(stream: TcpStream, gate: Arc<Gate>, visit: Arc<Visit>, stop: Stop) {
    let mut first = [0];
    let peeked = tokio::select! {
        peeked = stream.peek(&mut first) => peeked,
        () = visit.overstayed() => return,
        () = stopped(stop.clone()) => return,
    };
    let is_speaking = matches!(peeked, Ok(1));
    // Without `TCP_NODELAY` small messages are delayed by Nagle's algorithm.
    if !is_speaking || stream.set_nodelay(true).is_err() {
        return;
    }
    if first == [SOCKS_VERSION] {
        tokio::select! {
            () = socks::serve(stream, gate, Arc::clone(&visit), stop.clone()) => {}
            () = visit.overstayed() => {}
            () = stopped(stop) => {}
        }
    } else {
        tokio::select! {
            () = HttpFront { gate, client: Client::OfProxy(Arc::clone(&visit)), stop }.serve(stream) => {}
            () = visit.overstayed() => {}
        }
    }
}
