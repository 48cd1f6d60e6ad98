//! The client of a connection, as the sessions see it: a bounded queue of lines to it.
//!
//! Only a [`Lane`], which paces one command, waits for a client. A client that does not read fills its own queue and
//! is disconnected when that is full.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stockade_protocol::ReviewDecision;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};

use crate::message;
use crate::transport::Descriptor;
use crate::wire::{
    ApprovalRequestParams, ApprovalRequestResult, ClientCapabilities, ClientInfo, RpcError, RpcId, ServerLimits,
    ServerNotification,
};

/// Limit on queued bytes of notifications before a connection is closed.
const UNPACED_BYTES: usize = ServerLimits::STANDARD.notification_bytes as usize;
/// Limit on queued notifications before a connection is closed.
const UNPACED_LINES: usize = ServerLimits::STANDARD.notifications as usize;
/// Limit on bytes of responses and questions in flight to a connection.
const ANSWERS_BYTES: usize = ServerLimits::STANDARD.answer_bytes as usize;

/// Limit on unread responses of a client to one question. More are ignored.
const WAITING_RESPONSES: usize = 4;

/// The unique number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// How a connection reached the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Standard input and output.
    Stdio,
    /// A unix socket.
    Socket,
}

/// A request's connection, and the descriptors that were sent along with it.
#[derive(Debug)]
pub struct Caller {
    /// The connection.
    pub peer: Peer,
    /// The descriptors, in the order in which they were sent.
    pub descriptors: Vec<Descriptor>,
    /// Whether the request comes from the server's own program, such as an adapter that reads a file, and not from a
    /// client: it runs in the session's sandbox, without a question. No client message can set it.
    pub approved_by_policy: bool,
}

impl Caller {
    /// A caller that sent no descriptors.
    pub fn new(peer: Peer) -> Self {
        Self { peer, descriptors: Vec::new(), approved_by_policy: false }
    }
}

/// The connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the connection has ended")]
pub struct Gone;

/// Why a client gave no answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoAnswer {
    /// Its connection has ended.
    #[error("the connection has ended")]
    Gone,
    /// It declined to answer.
    #[error("the client does not answer: {0}")]
    Declined(String),
    /// Its answer is invalid.
    #[error("this is no answer: {0}")]
    Unusable(String),
}

/// The client of a connection. Clones refer to the same connection.
#[derive(Clone)]
pub struct Peer(Arc<Shared>);

struct Shared {
    id: ConnectionId,
    transport: Transport,
    client: OnceLock<(ClientInfo, ClientCapabilities)>,
    queue: mpsc::UnboundedSender<Line>,
    unpaced_bytes: Arc<AtomicUsize>,
    unpaced_lines: Arc<AtomicUsize>,
    answers: Arc<Semaphore>,
    questions: Mutex<HashMap<RpcId, Responses>>,
    next_question: AtomicU64,
    ended: AtomicBool,
    end: Notify,
}

/// The client's responses to one question. After an unusable one, the next one counts.
type Responses = mpsc::Sender<Result<String, RpcError>>;

/// A line in flight to a client. Its share of the limits is released on drop.
#[derive(Debug)]
pub struct Line {
    bytes: Vec<u8>,
    _room: Option<OwnedSemaphorePermit>,
    _unpaced: Option<Unpaced>,
}

impl Line {
    /// The line, with its newline.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Debug)]
struct Unpaced {
    bytes: Arc<AtomicUsize>,
    lines: Arc<AtomicUsize>,
    length: usize,
}

impl Drop for Unpaced {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.length, Ordering::Relaxed);
        self.lines.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The lines to a client, for the transport that writes them.
#[derive(Debug)]
pub struct Outgoing(mpsc::UnboundedReceiver<Line>);

impl Outgoing {
    /// The next line; `None` once every [`Peer`] of the connection is dropped.
    pub async fn next(&mut self) -> Option<Line> {
        self.0.recv().await
    }

    /// The next line, if one is queued.
    pub fn waiting(&mut self) -> Option<Line> {
        self.0.try_recv().ok()
    }
}

impl Peer {
    /// A connection and its queue of outgoing lines.
    pub fn new(id: ConnectionId, transport: Transport) -> (Self, Outgoing) {
        let (queue, lines) = mpsc::unbounded_channel();
        let shared = Shared {
            id,
            transport,
            client: OnceLock::new(),
            queue,
            unpaced_bytes: Arc::default(),
            unpaced_lines: Arc::default(),
            answers: Arc::new(Semaphore::new(ANSWERS_BYTES)),
            questions: Mutex::default(),
            next_question: AtomicU64::new(1),
            ended: AtomicBool::new(false),
            end: Notify::new(),
        };
        (Self(Arc::new(shared)), Outgoing(lines))
    }

    /// The connection.
    pub fn id(&self) -> ConnectionId {
        self.0.id
    }

    /// How it reached the server.
    pub fn transport(&self) -> Transport {
        self.0.transport
    }

    /// Stores the client's introduction. `false` if it had one already.
    pub fn introduce(&self, client: ClientInfo, capabilities: ClientCapabilities) -> bool {
        self.0.client.set((client, capabilities)).is_ok()
    }

    /// Whether the client has introduced itself.
    pub fn is_introduced(&self) -> bool {
        self.0.client.get().is_some()
    }

    /// The client's name.
    pub fn client_name(&self) -> &str {
        self.0.client.get().map_or("a client", |(client, _)| &client.name)
    }

    /// What the client can do.
    pub fn capabilities(&self) -> ClientCapabilities {
        self.0.client.get().map(|(_, capabilities)| *capabilities).unwrap_or_default()
    }

    /// Whether the connection has ended.
    pub fn is_gone(&self) -> bool {
        self.0.ended.load(Ordering::Acquire)
    }

    /// Returns once the connection has ended.
    pub async fn gone(&self) {
        let ended = self.0.end.notified();
        tokio::pin!(ended);
        // Registered before the check, so that no end is missed.
        ended.as_mut().enable();
        if !self.is_gone() {
            ended.await;
        }
    }

    /// Ends the connection: nothing more is read from it, and its questions get no answer.
    pub fn end(&self) {
        self.0.ended.store(true, Ordering::Release);
        self.questions().clear();
        self.0.end.notify_waiters();
    }

    /// Queues a notification and returns at once. A connection whose queue is full is ended.
    pub fn send(&self, notification: &ServerNotification) -> Result<(), Gone> {
        if self.is_gone() {
            return Err(Gone);
        }
        let bytes = message::notification_line(notification).map_err(|_| Gone)?;
        let length = bytes.len();
        let queued = self.0.unpaced_bytes.fetch_add(length, Ordering::Relaxed) + length;
        let lines = self.0.unpaced_lines.fetch_add(1, Ordering::Relaxed) + 1;
        let counted =
            Unpaced { bytes: Arc::clone(&self.0.unpaced_bytes), lines: Arc::clone(&self.0.unpaced_lines), length };
        if queued > UNPACED_BYTES || lines > UNPACED_LINES {
            self.end();
        }
        self.queue(Line { bytes, _room: None, _unpaced: Some(counted) })
    }

    /// Asks the client. Dropping the question withdraws it; a later answer is ignored.
    pub async fn ask(&self, question: &ApprovalRequestParams) -> Result<AskedQuestion, NoAnswer> {
        let id = RpcId::Text(format!("q{}", self.0.next_question.fetch_add(1, Ordering::Relaxed)));
        let line = message::request_line(&id, "approval/request", question)
            .map_err(|error| NoAnswer::Declined(error.to_string()))?;
        let (sender, responses) = mpsc::channel(WAITING_RESPONSES);
        let asked = AskedQuestion { peer: self.clone(), id: id.clone(), responses };
        self.questions().insert(id, sender);
        self.send_answer(line).await.map_err(|Gone| NoAnswer::Gone)?;
        Ok(asked)
    }

    /// Queues a response or a question, once fewer than [`ANSWERS_BYTES`] of them are in flight.
    pub(crate) async fn send_answer(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        let room = room(&self.0.answers, bytes.len(), ANSWERS_BYTES);
        let room = tokio::select! {
            room = room => room,
            () = self.gone() => None,
        };
        self.queue(Line { bytes, _room: room, _unpaced: None })
    }

    /// Passes on the client's response to a question. `false` if the question is not open.
    pub(crate) fn answered(&self, id: &RpcId, answer: Result<String, RpcError>) -> bool {
        self.questions().get(id).is_some_and(|responses| responses.try_send(answer).is_ok())
    }

    /// A queue to this client with at most `limit` bytes in flight; beyond, its sender waits.
    pub fn lane(&self, limit: usize) -> Lane {
        let limit = limit.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Lane { peer: self.clone(), room: Arc::new(Semaphore::new(limit)), limit }
    }

    fn queue(&self, line: Line) -> Result<(), Gone> {
        self.0.queue.send(line).map_err(|_| Gone)
    }

    fn questions(&self) -> MutexGuard<'_, HashMap<RpcId, Responses>> {
        self.0.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Peer {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for Peer {}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Peer({}, {})", self.0.id.0, self.client_name().escape_debug())
    }
}

/// A question that the client was asked, withdrawn on drop.
#[derive(Debug)]
pub struct AskedQuestion {
    peer: Peer,
    id: RpcId,
    responses: mpsc::Receiver<Result<String, RpcError>>,
}

impl AskedQuestion {
    /// The client's next response, or the end of the connection.
    pub async fn answer(&mut self) -> Result<ApprovalRequestResult, NoAnswer> {
        let response = tokio::select! {
            response = self.responses.recv() => response.ok_or(NoAnswer::Gone)?,
            () = self.peer.gone() => return Err(NoAnswer::Gone),
        };
        let json = response.map_err(|error| NoAnswer::Declined(error.message))?;
        stockade_protocol::parse(&json).map_err(|error| NoAnswer::Unusable(why_unread(&json, &error)))
    }
}

impl Drop for AskedQuestion {
    fn drop(&mut self) {
        self.peer.questions().remove(&self.id);
    }
}

/// Why a response can't be read. An unknown decision is named without the list of all decisions: a question offers
/// only some.
fn why_unread(json: &str, error: &dyn std::error::Error) -> String {
    let said = serde_json::from_str::<serde_json::Value>(json).ok();
    let word = said.as_ref().and_then(|said| said.get("decision")?.as_str());
    match word {
        Some(word) if serde_json::from_value::<ReviewDecision>(word.into()).is_err() => {
            format!("`{}` is no decision", word.escape_debug())
        }
        Some(_) | None => error.to_string(),
    }
}

/// One command's queue to one client.
#[derive(Clone)]
pub struct Lane {
    peer: Peer,
    room: Arc<Semaphore>,
    limit: usize,
}

impl Lane {
    /// The client.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The number of bytes in flight.
    pub fn under_way(&self) -> usize {
        self.limit.saturating_sub(self.room.available_permits())
    }

    /// Queues a notification once there is room for it, or fails with the connection's end.
    pub async fn send(&self, notification: &ServerNotification) -> Result<(), Gone> {
        let bytes = message::notification_line(notification).map_err(|_| Gone)?;
        let room = tokio::select! {
            room = room(&self.room, bytes.len(), self.limit) => room.ok_or(Gone)?,
            () = self.peer.gone() => return Err(Gone),
        };
        self.peer.queue(Line { bytes, _room: Some(room), _unpaced: None })
    }
}

/// Room for a line. A line longer than the limit takes all of it.
async fn room(semaphore: &Arc<Semaphore>, length: usize, limit: usize) -> Option<OwnedSemaphorePermit> {
    let permits = u32::try_from(length.min(limit)).ok()?;
    Arc::clone(semaphore).acquire_many_owned(permits).await.ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::{CommandOutput, OutputStream, SessionNotice};

    fn peer() -> (Peer, Outgoing) {
        Peer::new(ConnectionId(1), Transport::Stdio)
    }

    fn output(data: &str) -> ServerNotification {
        ServerNotification::CommandOutput(CommandOutput {
            session_id: "s".parse().unwrap(),
            command_id: "c".parse().unwrap(),
            seq: 1,
            stream: OutputStream::Stdout,
            data: data.into(),
        })
    }

    #[test]
    fn a_notification_is_one_line_of_json() {
        let line = message::notification_line(&output("a\nb")).unwrap();
        let text = r#"{"jsonrpc":"2.0","method":"command/output","params":{"session_id":"s","command_id":"c","seq":1,"stream":"stdout","data":"a\nb"}}"#;
        assert_eq!(String::from_utf8(line).unwrap(), format!("{text}\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lane_waits_for_its_own_lines_only() {
        let (peer, mut outgoing) = peer();
        let slow = peer.lane(400);
        let other = peer.lane(400);
        slow.send(&output(&"x".repeat(300))).await.unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(1), slow.send(&output("more"))).await;
        assert!(waited.is_err(), "the lane did not wait");
        other.send(&output("more")).await.unwrap();
        assert!(slow.under_way() > 300 && other.under_way() < 300);
        drop(outgoing.next().await);
        slow.send(&output("more")).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_the_connection() {
        let (peer, _outgoing) = peer();
        let lane = peer.lane(10);
        lane.send(&output("x")).await.unwrap();
        let sending = tokio::spawn(async move { lane.send(&output("y")).await });
        tokio::time::sleep(Duration::from_millis(1)).await;
        peer.end();
        assert_eq!(sending.await.unwrap(), Err(Gone));
        peer.gone().await;
    }

    #[tokio::test]
    async fn a_full_queue_ends_the_connection() {
        let (peer, _outgoing) = peer();
        let notice = SessionNotice { session_id: "s".parse().unwrap(), text: "x".repeat(1 << 20) };
        let notice = ServerNotification::SessionNotice(notice);
        let sent = (0..40).take_while(|_| peer.send(&notice).is_ok()).count();
        assert!(peer.is_gone() && (30..35).contains(&sent), "{sent}");
    }
}
