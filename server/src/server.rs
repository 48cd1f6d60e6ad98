//! The server: accepts connections, each within its limits, until it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::connection::speak;
use crate::message::response_line;
use crate::peer::{ConnectionId, Peer, Transport};
#[cfg(unix)]
use crate::transport::Accepted;
use crate::transport::{Reader, Writer};
use crate::under_way::RoomOfAll;
use crate::wire::{ErrorKind, Methods, RpcError, ServerLimits};

/// The delay before a retry if the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// The time that a surplus connection has to read the reason.
const TIME_TO_TURN_AWAY: Duration = Duration::from_secs(1);
/// The interval of reports to the operator that connections can't be accepted.
#[cfg(unix)]
const TIME_BETWEEN_REPORTS: Duration = Duration::from_secs(60);
/// How long connections may take to write their last lines when the server ends.
const TIME_TO_END: Duration = Duration::from_secs(3);

/// A server for any number of transports. Clones refer to the same server.
#[derive(Debug)]
pub struct Server<M> {
    shared: Arc<Shared<M>>,
}

impl<M> Clone for Server<M> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

#[derive(Debug)]
struct Shared<M> {
    methods: Arc<M>,
    next_connection: AtomicU64,
    room: Arc<Semaphore>,
    room_of_requests: RoomOfAll,
    connections: watch::Sender<usize>,
    stopped: watch::Sender<bool>,
}

impl<M: Methods> Server<M> {
    /// A server with these methods.
    pub fn new(methods: Arc<M>) -> Self {
        let most = usize::try_from(ServerLimits::STANDARD.connections).unwrap_or(Semaphore::MAX_PERMITS);
        let shared = Shared {
            methods,
            next_connection: AtomicU64::new(1),
            room: Arc::new(Semaphore::new(most)),
            room_of_requests: RoomOfAll::default(),
            connections: watch::Sender::new(0),
            stopped: watch::Sender::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Ends every connection, and makes the `serve` functions return.
    pub fn stop(&self) {
        self.shared.stopped.send_replace(true);
    }

    /// Returns once [`Self::stop`] was called.
    pub async fn stopped(&self) {
        let mut stopped = self.shared.stopped.subscribe();
        stopped.wait_for(|stopped| *stopped).await.ok();
    }

    /// The number of connections, as a watch.
    pub fn connections(&self) -> watch::Receiver<usize> {
        self.shared.connections.subscribe()
    }

    /// Returns once every connection has ended, or after three seconds.
    pub async fn ended(&self) {
        let mut connections = self.connections();
        tokio::time::timeout(TIME_TO_END, connections.wait_for(|count| *count == 0)).await.ok();
    }

    /// Serves one client on standard input and output, until it closes its side or the server is stopped.
    pub async fn serve_stdio(&self) {
        let reader = Reader::Stream(Box::new(tokio::io::stdin()));
        self.serve_one(Transport::Stdio, reader, Writer::Stream(Box::new(tokio::io::stdout()))).await;
    }

    /// Serves every client that connects to a socket, until the server is stopped. Clients that can't be served for
    /// lack of descriptors are told so; `say` gets a sentence for the operator when that begins and when it ends.
    #[cfg(unix)]
    pub async fn serve_socket(&self, socket: &crate::transport::BoundSocket, say: impl Fn(&str)) {
        let mut trouble = Trouble::default();
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.stopped() => return,
            };
            match accepted {
                Ok(Accepted::Client(reader, writer)) => {
                    trouble.ends(&say);
                    self.take_on(reader, writer);
                }
                Ok(Accepted::Stranger) => {}
                Ok(Accepted::Unserved(writer, error)) => {
                    trouble.begins(&error, &say);
                    let why = format!("the server can't take another connection ({error}): try again later");
                    tokio::time::timeout(TIME_TO_TURN_AWAY, turn_away(writer, why)).await.ok();
                    tokio::time::sleep(PAUSE).await;
                }
                // The client has disconnected, or memory is short: others are still served.
                Err(error) => {
                    trouble.begins(&error, &say);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    #[cfg(unix)]
    fn take_on(&self, reader: Reader, writer: Writer) {
        let server = self.clone();
        match Arc::clone(&self.shared.room).try_acquire_owned() {
            Ok(room) => {
                tokio::spawn(async move {
                    server.serve_one(Transport::Socket, reader, writer).await;
                    drop::<OwnedSemaphorePermit>(room);
                });
            }
            Err(_) => {
                let most = ServerLimits::STANDARD.connections;
                let why = format!("the server has {most} connections: close one of them");
                tokio::spawn(tokio::time::timeout(TIME_TO_TURN_AWAY, turn_away(writer, why)));
            }
        }
    }

    pub(crate) async fn serve_one(&self, transport: Transport, reader: Reader, writer: Writer) {
        let id = ConnectionId(self.shared.next_connection.fetch_add(1, Ordering::Relaxed));
        let ends = Peer::new(id, transport);
        let peer = ends.0.clone();
        self.shared.connections.send_modify(|count| *count += 1);
        let _counted = Counted(&self.shared.connections);
        let room = self.shared.room_of_requests.clone();
        let speaking = speak(Arc::clone(&self.shared.methods), ends, room, reader, writer);
        tokio::pin!(speaking);
        tokio::select! {
            () = &mut speaking => return,
            () = self.stopped() => peer.end(),
        }
        speaking.await;
    }
}

/// A period in which connections can't be accepted. The operator is told of its beginning and end, not of each
/// connection.
#[cfg(unix)]
#[derive(Default)]
struct Trouble {
    is_there: bool,
    said: Option<std::time::Instant>,
}

#[cfg(unix)]
impl Trouble {
    fn begins(&mut self, error: &std::io::Error, say: impl Fn(&str)) {
        if self.said.is_none_or(|said| said.elapsed() > TIME_BETWEEN_REPORTS) {
            say(&format!("can't take connections: {error}; end sessions, or raise `ulimit -n`. Trying again"));
            (self.is_there, self.said) = (true, Some(std::time::Instant::now()));
        }
    }

    fn ends(&mut self, say: impl Fn(&str)) {
        if std::mem::take(&mut self.is_there) {
            say("connections are taken again");
        }
    }
}

struct Counted<'a>(&'a watch::Sender<usize>);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(unix)]
async fn turn_away(mut writer: Writer, why: String) {
    let error = RpcError::new(ErrorKind::Busy, why);
    writer.write(&response_line(None, &Err(error))).await.ok();
}
