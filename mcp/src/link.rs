//! The connection to the server: this program is a client of the session like any other.
//!
//! One task reads what the server sends. Output goes to the command's [`Output`], questions to the call that caused them,
//! and a question that no call of this client caused is left to the other clients.

use std::collections::HashMap;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{AbsPath, ApprovalSubject, AskForApproval, ReviewDecision};
use stockade_server::wire::{
    ApprovalRequestParams, ApprovalRequestResult, Capability, ClientCapabilities, ClientInfo, CommandId, Empty,
    ErrorKind, InitializeParams, PROTOCOL_VERSION, QuestionId, RpcError, RpcId, ServerLimits, ServerNotification,
    SessionAttachParams, SessionId, SessionListResult, SessionState,
};
use stockade_server::{Frame, FrameDecoder, Incoming, read_message, request_line, response_line};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot, watch};

use crate::asking::Answer;
use crate::output::Output;

/// The longest line of the server that is read.
const LONGEST_LINE: usize = 64 << 20;

/// The session. Clones are the same connection.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

struct Shared {
    session_id: SessionId,
    cwd: AbsPath,
    lines: mpsc::UnboundedSender<Vec<u8>>,
    routes: Arc<Routes>,
    next_request: AtomicI64,
    next_command: AtomicU64,
}

/// Who waits for what the server sends.
struct Routes {
    answers: Mutex<HashMap<i64, oneshot::Sender<Result<String, RpcError>>>>,
    commands: Mutex<HashMap<CommandId, Route>>,
    /// The one request at a time that is no command's: its questions name none.
    other: Mutex<Option<(OtherKind, mpsc::UnboundedSender<Event>)>>,
    one_other: Arc<tokio::sync::Mutex<()>>,
    /// When the session asks.
    ask: Mutex<AskForApproval>,
    ended: watch::Sender<bool>,
}

#[derive(Clone)]
struct Route {
    output: Arc<Output>,
    events: mpsc::UnboundedSender<Event>,
}

/// What a request is about that is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherKind {
    Patch,
    Permissions,
}

/// What happens to a call while it is under way.
#[derive(Debug)]
pub(crate) enum Event {
    /// The session asks.
    Asked(Question),
    /// A question needs no answer any more.
    Resolved(QuestionId),
}

/// A question of the session, to be answered once.
#[derive(Debug)]
pub(crate) struct Question {
    rpc_id: RpcId,
    pub(crate) params: Box<ApprovalRequestParams>,
}

/// Ends the routing to a call.
pub(crate) struct Routed {
    link: Link,
    command: Option<CommandId>,
    _turn: Option<OwnedMutexGuard<()>>,
}

impl Drop for Routed {
    fn drop(&mut self) {
        match &self.command {
            Some(command) => drop(locked(&self.link.0.routes.commands).remove(command)),
            None => drop(locked(&self.link.0.routes.other).take()),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> RpcError {
    RpcError::new(ErrorKind::Closed, "the server of sessions has gone")
}

impl Link {
    /// Introduces this client and attaches it to the session.
    pub(crate) async fn join(
        socket: StdUnixStream,
        session_id: SessionId,
        capability: Capability,
        notice: Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Self, crate::McpError> {
        socket.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(socket)?.into_split();
        let (lines, receiver) = mpsc::unbounded_channel();
        let routes = Arc::new(Routes {
            answers: Mutex::default(),
            commands: Mutex::default(),
            other: Mutex::default(),
            one_other: Arc::default(),
            ask: Mutex::new(AskForApproval::Never),
            ended: watch::Sender::new(false),
        });
        tokio::spawn(write_lines(receiver, writer));
        tokio::spawn(read_lines(reader, lines.clone(), Arc::clone(&routes), notice));
        let (next_request, routes_of_call) = (AtomicI64::new(1), Arc::clone(&routes));
        let introduction = InitializeParams {
            protocol_version: PROTOCOL_VERSION,
            client: ClientInfo {
                name: String::from("stockade mcp"),
                version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            },
            capabilities: ClientCapabilities { answers: true, terminal: false },
        };
        call::<serde_json::Value>(&lines, &routes_of_call, &next_request, "initialize", &introduction).await?;
        let attach = SessionAttachParams { session_id: session_id.clone(), capability, linger_ms: None };
        let state: SessionState = call(&lines, &routes_of_call, &next_request, "session/attach", &attach).await?;
        *locked(&routes.ask) = state.ask;
        let cwd = state.cwd;
        let shared = Shared { session_id, cwd, lines, routes, next_request, next_command: AtomicU64::new(1) };
        Ok(Self(Arc::new(shared)))
    }

    pub(crate) fn session_id(&self) -> &SessionId {
        &self.0.session_id
    }

    /// Where commands start.
    pub(crate) fn cwd(&self) -> &AbsPath {
        &self.0.cwd
    }

    /// Whether the session asks at all.
    pub(crate) fn asks(&self) -> bool {
        *locked(&self.0.routes.ask) != AskForApproval::Never
    }

    /// Returns once the session or its server has ended.
    pub(crate) async fn ended(&self) {
        self.0.routes.ended.subscribe().wait_for(|ended| *ended).await.ok();
    }

    /// Calls a method of the server.
    pub(crate) async fn call<R: DeserializeOwned>(&self, method: &str, params: &impl Serialize) -> Result<R, RpcError> {
        call(&self.0.lines, &self.0.routes, &self.0.next_request, method, params).await
    }

    /// Calls a method, and waits for nothing.
    pub(crate) fn tell(&self, method: &str, params: &impl Serialize) {
        let id = RpcId::Number(self.0.next_request.fetch_add(1, Ordering::Relaxed));
        if let Ok(line) = request_line(&id, method, params) {
            self.0.lines.send(line).ok();
        }
    }

    /// A name for the next command.
    pub(crate) fn next_command(&self) -> Result<CommandId, RpcError> {
        let number = self.0.next_command.fetch_add(1, Ordering::Relaxed);
        // Other clients of the session choose names, too.
        let id = format!("mcp-{}-{number}", std::process::id());
        id.parse().map_err(|error| RpcError::failed(&error))
    }

    /// Has the output and the questions of a command sent to its call.
    pub(crate) fn route(
        &self,
        command: &CommandId,
        output: &Arc<Output>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Routed {
        let route = Route { output: Arc::clone(output), events };
        locked(&self.0.routes.commands).insert(command.clone(), route);
        Routed { link: self.clone(), command: Some(command.clone()), _turn: None }
    }

    /// Has the questions of a request that is no command's sent to its call. Such requests are made one after the other.
    pub(crate) async fn route_other(&self, kind: OtherKind, events: mpsc::UnboundedSender<Event>) -> Routed {
        let turn = Arc::clone(&self.0.routes.one_other).lock_owned().await;
        *locked(&self.0.routes.other) = Some((kind, events));
        Routed { link: self.clone(), command: None, _turn: Some(turn) }
    }

    /// Answers a question.
    pub(crate) fn answer(&self, question: &Question, decision: ReviewDecision) {
        let id = Some(question.params.request.id.clone());
        let result = ApprovalRequestResult { id, decision, content: None };
        if let Ok(json) = serde_json::to_string(&result) {
            self.0.lines.send(response_line(Some(&question.rpc_id), &Ok(json))).ok();
        }
    }

    /// Answers a question with a no.
    pub(crate) fn deny(&self, question: &Question, reason: &str) {
        self.answer(question, ReviewDecision::Denied { reason: Some(reason.to_owned()) });
    }

    /// Answers a question as the MCP client did. One that it dismissed is left to the session's other clients, if there are
    /// any.
    pub(crate) async fn settle(&self, question: &Question, answer: &Answer) {
        if answer.is_dismissal() && self.other_clients().await.is_ok_and(|count| count > 0) {
            return self.leave(question);
        }
        self.answer(question, answer.decision(&question.params.request));
    }

    /// Leaves a question to the session's other clients.
    pub(crate) fn leave(&self, question: &Question) {
        self.0.lines.send(left_to_others(&question.rpc_id)).ok();
    }

    /// How many other clients the session has.
    pub(crate) async fn other_clients(&self) -> Result<u32, RpcError> {
        let listed: SessionListResult = self.call("session/list", &Empty {}).await?;
        let session = listed.sessions.iter().find(|session| session.session_id == self.0.session_id);
        Ok(session.map_or(0, |session| session.clients.saturating_sub(1)))
    }
}

fn left_to_others(id: &RpcId) -> Vec<u8> {
    response_line(Some(id), &Err(RpcError::new(ErrorKind::Failed, "this is for the session's other clients")))
}

async fn call<R: DeserializeOwned>(
    lines: &mpsc::UnboundedSender<Vec<u8>>,
    routes: &Routes,
    next: &AtomicI64,
    method: &str,
    params: &impl Serialize,
) -> Result<R, RpcError> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    let line = request_line(&RpcId::Number(number), method, params).map_err(|error| RpcError::failed(&error))?;
    // The server passes over a longer line, and can't say whose it was.
    let most = ServerLimits::STANDARD.frame_bytes;
    if line.len() as u64 > most {
        return Err(RpcError::new(ErrorKind::InvalidParams, format!("the arguments have more than {most} bytes")));
    }
    let (sender, receiver) = oneshot::channel();
    locked(&routes.answers).insert(number, sender);
    let waiting = Waiting { routes, number };
    // A server that has gone before this was put on the list answers nothing.
    if *routes.ended.borrow() || lines.send(line).is_err() {
        return Err(gone());
    }
    let answer = receiver.await.map_err(|_| gone())?;
    drop(waiting);
    let unread = |error: stockade_protocol::ParseError| RpcError::new(ErrorKind::Internal, error.to_string());
    stockade_protocol::parse(&answer?).map_err(unread)
}

/// An answer is waited for until this is dropped.
struct Waiting<'a> {
    routes: &'a Routes,
    number: i64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        locked(&self.routes.answers).remove(&self.number);
    }
}

async fn write_lines(mut lines: mpsc::UnboundedReceiver<Vec<u8>>, mut writer: OwnedWriteHalf) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Reads what the server sends, until it ends.
async fn read_lines(
    mut reader: OwnedReadHalf,
    lines: mpsc::UnboundedSender<Vec<u8>>,
    routes: Arc<Routes>,
    notice: Arc<dyn Fn(&str) + Send + Sync>,
) {
    let mut decoder = FrameDecoder::new(LONGEST_LINE);
    let mut bytes = vec![0; 64 << 10];
    while let Ok(length @ 1..) = reader.read(&mut bytes).await {
        let mut frames = Vec::new();
        decoder.push(bytes.get(..length).unwrap_or_default(), |frame| frames.push(frame));
        for frame in frames {
            if let Frame::Line(line) = frame
                && let Ok(message) = read_message(&line)
            {
                routes.take(message, &lines, &notice);
            }
        }
        if *routes.ended.borrow() {
            break;
        }
    }
    routes.ended.send_replace(true);
    locked(&routes.answers).clear();
}

impl Routes {
    fn take(
        &self,
        message: Incoming,
        lines: &mpsc::UnboundedSender<Vec<u8>>,
        notice: &Arc<dyn Fn(&str) + Send + Sync>,
    ) {
        match message {
            Incoming::Response { id: RpcId::Number(number), answer } => {
                if let Some(sender) = locked(&self.answers).remove(&number) {
                    sender.send(answer).ok();
                }
            }
            Incoming::Response { .. } => {}
            Incoming::Request { id, params, .. } => {
                let asked = stockade_protocol::parse::<ApprovalRequestParams>(&params).ok();
                let question = asked.map(|params| Question { rpc_id: id.clone(), params: Box::new(params) });
                let taken = question.is_some_and(|question| self.asked(question));
                if !taken {
                    lines.send(left_to_others(&id)).ok();
                }
            }
            Incoming::Notification { method, params } => {
                let form = format!("{{\"method\":{},\"params\":{params}}}", serde_json::Value::String(method));
                if let Ok(told) = serde_json::from_str::<ServerNotification>(&form) {
                    self.told(told, notice);
                }
            }
        }
    }

    /// Hands a question to the call that caused it. `false` if there is none.
    fn asked(&self, question: Question) -> bool {
        let kind = match &question.params.request.subject {
            ApprovalSubject::Patch(_) => Some(OtherKind::Patch),
            ApprovalSubject::Permissions(_) => Some(OtherKind::Permissions),
            ApprovalSubject::Command(_)
            | ApprovalSubject::Network(_)
            | ApprovalSubject::Write(_)
            | ApprovalSubject::ToolCall(_)
            | ApprovalSubject::Elicitation(_) => None,
        };
        let events = match &question.params.command_id {
            Some(command) => locked(&self.commands).get(command).map(|route| route.events.clone()),
            None => locked(&self.other).as_ref().filter(|other| Some(other.0) == kind).map(|other| other.1.clone()),
        };
        events.is_some_and(|events| events.send(Event::Asked(question)).is_ok())
    }

    fn told(&self, told: ServerNotification, notice: &Arc<dyn Fn(&str) + Send + Sync>) {
        match told {
            ServerNotification::CommandOutput(output) => {
                if let Some(route) = locked(&self.commands).get(&output.command_id) {
                    route.output.append(output.data.as_bytes());
                }
            }
            ServerNotification::ApprovalResolved(resolved) => {
                // Whose question it was is not said, and each call knows its own.
                let events: Vec<_> = locked(&self.commands).values().map(|route| route.events.clone()).collect();
                let other = locked(&self.other).as_ref().map(|other| other.1.clone());
                for events in events.into_iter().chain(other) {
                    events.send(Event::Resolved(resolved.question_id.clone())).ok();
                }
            }
            ServerNotification::SessionChanged(changed) => *locked(&self.ask) = changed.ask,
            ServerNotification::SessionNotice(told) => notice(&told.text),
            ServerNotification::SessionClosed(_) => drop(self.ended.send_replace(true)),
            ServerNotification::ApprovalUnusable(_)
            | ServerNotification::CommandStarted(_)
            | ServerNotification::CommandLost(_)
            | ServerNotification::CommandEnded(_) => {}
        }
    }
}
