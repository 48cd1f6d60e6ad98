//! One client: reads its lines, carries out its requests concurrently, and writes the lines for it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::frames::Frame;
use crate::lines::Lines;
use crate::message::{self, Incoming, read_message, response_line};
use crate::peer::{Caller, Outgoing, Peer, Transport};
use crate::transport::{Descriptor, Reader, Writer};
use crate::under_way::{Kind, RoomOfAll, UnderWay};
use crate::wire::{
    ErrorData, ErrorKind, InitializeParams, InitializeResult, Methods, PROTOCOL_VERSION, RpcError, RpcId, ServerInfo,
    ServerLimits, call, client_method_names, notified,
};

/// Consecutive invalid lines after which a connection is closed.
const MOST_BAD_FRAMES: usize = 64;
/// The time limit for `initialize` on a socket.
const TIME_TO_INITIALIZE: Duration = Duration::from_secs(30);
/// The time limit for requests and writes after the client closed its side.
const TIME_TO_FINISH: Duration = Duration::from_secs(2);
/// Lines are written together up to this size.
const WRITE_BYTES: usize = 64 << 10;
/// The longest name of a client, in bytes.
const LONGEST_CLIENT_NAME: usize = 128;

/// Serves a client until it disconnects, or until its [`Peer`] is ended.
pub(crate) async fn speak<M: Methods>(
    methods: Arc<M>,
    ends: (Peer, Outgoing),
    room_of_all: RoomOfAll,
    reader: Reader,
    writer: Writer,
) {
    let (peer, outgoing) = ends;
    let (finish, finished) = oneshot::channel();
    let mut writing = tokio::spawn(write_lines(peer.clone(), outgoing, writer, finished));
    let under_way = Arc::new(UnderWay::new(room_of_all));
    let mut connection = Connection {
        methods: Arc::clone(&methods),
        peer: peer.clone(),
        under_way: Arc::clone(&under_way),
        bad_frames: 0,
        deadline: (peer.transport() == Transport::Socket).then(|| Instant::now() + TIME_TO_INITIALIZE),
    };
    connection.read_lines(reader).await;
    peer.end();
    methods.disconnected(&peer);
    timeout(TIME_TO_FINISH, under_way.none_left()).await.ok();
    finish.send(()).ok();
    if timeout(TIME_TO_FINISH, &mut writing).await.is_err() {
        writing.abort();
    }
}

struct Connection<M> {
    methods: Arc<M>,
    peer: Peer,
    under_way: Arc<UnderWay>,
    bad_frames: usize,
    deadline: Option<Instant>,
}

impl<M: Methods> Connection<M> {
    async fn read_lines(&mut self, reader: Reader) {
        let limit = usize::try_from(ServerLimits::STANDARD.frame_bytes).unwrap_or(usize::MAX);
        let mut lines = Lines::new(reader, limit);
        let peer = self.peer.clone();
        loop {
            let next = tokio::select! {
                next = lines.next() => next,
                () = peer.gone() => return,
                () = too_late(self.deadline) => {
                    let late = RpcError::new(ErrorKind::NotInitialized, "`initialize` did not come in time");
                    return self.refuse(None, late).await;
                }
            };
            let Ok(Some((frame, descriptors))) = next else { return };
            self.take(frame, descriptors).await;
            if self.bad_frames >= MOST_BAD_FRAMES {
                return;
            }
        }
    }

    async fn take(&mut self, frame: Frame, descriptors: Vec<Descriptor>) {
        let incoming = match frame {
            Frame::Line(line) => read_message(&line),
            Frame::Oversized => {
                let message =
                    format!("a line is longer than {} bytes: send less at once", ServerLimits::STANDARD.frame_bytes);
                Err(message::BadMessage { id: None, error: RpcError::new(ErrorKind::InvalidRequest, message) })
            }
        };
        match incoming {
            Err(bad) => {
                self.bad_frames += 1;
                self.refuse(bad.id, bad.error).await;
            }
            Ok(incoming) => {
                self.bad_frames = 0;
                self.handle(incoming, descriptors).await;
            }
        }
    }

    async fn handle(&mut self, incoming: Incoming, descriptors: Vec<Descriptor>) {
        match incoming {
            Incoming::Request { id, method, params } if method == "initialize" => {
                let answer = self.initialize(&params);
                self.respond(&id, answer).await;
            }
            Incoming::Request { id, .. } if !self.peer.is_introduced() => {
                let error = RpcError::new(ErrorKind::NotInitialized, "send `initialize` first");
                self.refuse(Some(id), error).await;
            }
            Incoming::Request { id, method, params } => self.begin(id, method, params, descriptors).await,
            Incoming::Response { id, answer } => {
                // A late or unsolicited answer is ignored.
                self.peer.answered(&id, answer);
            }
            Incoming::Notification { method, params } => notified(&*self.methods, &self.peer, &method, &params),
        }
    }

    fn initialize(&mut self, params: &str) -> Result<String, RpcError> {
        let params: InitializeParams = message::read_params(params)?;
        if params.protocol_version != PROTOCOL_VERSION {
            let message = format!(
                "`params.protocol_version`: this server speaks version {PROTOCOL_VERSION}, not {}",
                params.protocol_version
            );
            let data = ErrorData { supported: vec![PROTOCOL_VERSION], ..ErrorData::of(ErrorKind::InvalidParams) };
            return Err(RpcError { data: Some(data), ..RpcError::new(ErrorKind::InvalidParams, message) });
        }
        if !(1..=LONGEST_CLIENT_NAME).contains(&params.client.name.len()) {
            let message = format!("`params.client.name` must have 1 to {LONGEST_CLIENT_NAME} bytes");
            return Err(RpcError::new(ErrorKind::InvalidParams, message));
        }
        if !self.peer.introduce(params.client, params.capabilities) {
            return Err(RpcError::new(ErrorKind::InvalidRequest, "`initialize` was sent before: go on without it"));
        }
        self.deadline = None;
        message::write_result(&InitializeResult {
            protocol_version: PROTOCOL_VERSION,
            server: ServerInfo { name: String::from("stockade"), version: env!("CARGO_PKG_VERSION").to_owned() },
            methods: client_method_names(self.peer.transport()).map(String::from).collect(),
            limits: ServerLimits::STANDARD,
        })
    }

    /// Carries out a request concurrently with the others. Requests about commands take their first step here, in line
    /// order: a request right after `command/run` finds the command, and input keeps its order.
    async fn begin(&mut self, id: RpcId, method: String, params: String, descriptors: Vec<Descriptor>) {
        let kind = if method == "command/run" { Kind::Run } else { Kind::Other };
        let started = match self.under_way.start(&id, kind, params.len()) {
            Ok(started) => started,
            Err(error) => {
                // The response to a second request with the same id could be mistaken for the first one's.
                let id = (error.kind() != Some(ErrorKind::InvalidRequest)).then_some(id);
                return self.refuse(id, error).await;
            }
        };
        let keeps_order = method.starts_with("command/");
        let (methods, peer) = (Arc::clone(&self.methods), self.peer.clone());
        let mut request = Box::pin(async move {
            let caller = Caller { descriptors, ..Caller::new(peer.clone()) };
            let answer = call(&*methods, caller, &method, params).await;
            let line = response_line(Some(&id), &answer);
            drop(answer);
            // Once its response is queued, the id may be reused.
            peer.send_answer(line).await.ok();
            drop(started);
        });
        if keeps_order && poll_fn(|context| Poll::Ready(request.as_mut().poll(context).is_ready())).await {
            return;
        }
        tokio::spawn(request);
    }

    async fn refuse(&self, id: Option<RpcId>, error: RpcError) {
        self.peer.send_answer(response_line(id.as_ref(), &Err(error))).await.ok();
    }

    async fn respond(&self, id: &RpcId, answer: Result<String, RpcError>) {
        self.peer.send_answer(response_line(Some(id), &answer)).await.ok();
    }
}

async fn too_late(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes the lines of a connection until it is closed, or finished with an empty queue.
async fn write_lines(peer: Peer, mut outgoing: Outgoing, mut writer: Writer, mut finished: oneshot::Receiver<()>) {
    let mut is_finished = false;
    loop {
        let first = if is_finished {
            outgoing.waiting()
        } else {
            tokio::select! {
                biased;
                line = outgoing.next() => line,
                _ = &mut finished => {
                    is_finished = true;
                    continue;
                }
            }
        };
        let Some(first) = first else { return };
        // Lines count as in flight until all of them are written.
        let mut bytes = first.bytes().to_vec();
        let mut lines = vec![first];
        while bytes.len() < WRITE_BYTES
            && let Some(line) = outgoing.waiting()
        {
            bytes.extend_from_slice(line.bytes());
            lines.push(line);
        }
        if writer.write(&bytes).await.is_err() {
            peer.end();
            return;
        }
    }
}

#[cfg(test)]
mod tests;
