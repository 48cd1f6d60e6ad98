//! The session that everything runs in: one of the server's own, in this process.
//!
//! This is a client of [`Sessions`] like any other, but for the connection: it calls the methods and reads the lines that
//! a connection would have been sent. What is decided, run, recorded and paced is decided, run, recorded and paced there.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_protocol::{AbsPath, Argv, Permissions, SandboxPolicy};
use stockade_server::wire::{
    ApprovalRequestParams, ClientCapabilities, ClientInfo, CommandCancelParams, CommandId, CommandLost, CommandOutput,
    CommandRunParams, CommandRunResult, CommandSignalParams, CommandWriteParams, Methods as _, OutputStream, RpcError,
    SessionId, SessionNotice, SessionOpenParams, SignalName,
};
use stockade_server::{
    Caller, ConnectionId, Incoming, Line, Outgoing, Peer, Sessions, SessionsOptions, Transport, read_message,
};
use tokio::sync::mpsc;

/// A session of this process.
#[derive(Clone)]
pub(crate) struct Session(Arc<Shared>);

struct Shared {
    sessions: Sessions,
    peer: Peer,
    id: SessionId,
    cwd: AbsPath,
    sandbox: SandboxPolicy,
    permissions: Permissions,
    outputs: Mutex<HashMap<CommandId, mpsc::UnboundedSender<Piece>>>,
    next: AtomicU64,
}

/// What the session sends besides the output of commands.
pub(crate) enum FromSession {
    /// A question.
    Question(Box<ApprovalRequestParams>),
    /// A sentence for the person who started this program.
    Notice(String),
}

/// Output of a command. As long as it is kept, it counts as under way, and the command waits when that is too much.
pub(crate) struct Piece {
    seq: u64,
    /// The stream and its bytes; none where output was lost.
    pub(crate) output: Option<(OutputStream, Vec<u8>)>,
    _line: Line,
}

/// A command that runs.
pub(crate) struct Running {
    session: Session,
    pub(crate) id: CommandId,
    pieces: mpsc::UnboundedReceiver<Piece>,
    run: Pin<Box<dyn Future<Output = Result<CommandRunResult, RpcError>> + Send>>,
    ended: Option<Result<CommandRunResult, RpcError>>,
    seen: u64,
}

/// Whether a command is this program's own, about which nothing is asked before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// The client's.
    Client,
    /// This program's own.
    Own,
}

impl Session {
    /// Opens a session, and gives what it sends.
    pub(crate) async fn open(
        client: &str,
        options: SessionsOptions,
        params: SessionOpenParams,
    ) -> Result<(Self, mpsc::UnboundedReceiver<FromSession>), RpcError> {
        let sessions = Sessions::new(options);
        let (peer, outgoing) = Peer::new(ConnectionId(1), Transport::Stdio);
        let client = ClientInfo { name: client.to_owned(), version: None };
        peer.introduce(client, ClientCapabilities { answers: true, terminal: false });
        let opened = sessions.session_open(Caller::new(peer.clone()), params).await?;
        let (sender, receiver) = mpsc::unbounded_channel();
        for notice in opened.notices {
            sender.send(FromSession::Notice(notice)).ok();
        }
        let session = Self(Arc::new(Shared {
            sessions,
            peer,
            id: opened.session_id,
            cwd: opened.cwd,
            sandbox: opened.sandbox,
            permissions: opened.permissions,
            outputs: Mutex::default(),
            next: AtomicU64::new(1),
        }));
        tokio::spawn(session.clone().distribute(outgoing, sender));
        Ok((session, receiver))
    }

    pub(crate) fn id(&self) -> &SessionId {
        &self.0.id
    }

    pub(crate) fn cwd(&self) -> &AbsPath {
        &self.0.cwd
    }

    pub(crate) fn sandbox(&self) -> &SandboxPolicy {
        &self.0.sandbox
    }

    pub(crate) fn permissions(&self) -> &Permissions {
        &self.0.permissions
    }

    /// The call of a method by this program.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.0.peer.clone())
    }

    pub(crate) fn methods(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Ends the session with all that runs in it.
    pub(crate) async fn close(&self) {
        self.0.peer.end();
        self.0.sessions.close_all("codex has gone").await;
    }

    /// The parameters of a command with this name, to be filled in.
    pub(crate) fn command(&self, kind: &str, command: Argv) -> Result<CommandRunParams, RpcError> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("{kind}-{number}").parse().map_err(|error| RpcError::failed(&error))?;
        let params = CommandRunParams::new(self.0.id.clone(), id, command);
        Ok(CommandRunParams { until_disconnect: true, ..params })
    }

    /// Runs a command, from the first call of [`Running::next`] on.
    pub(crate) fn run(&self, params: CommandRunParams, whose: Whose) -> Option<Running> {
        let id = params.command_id.clone()?;
        let (sender, pieces) = mpsc::unbounded_channel();
        self.outputs().insert(id.clone(), sender);
        let (session, caller) = (self.clone(), Caller { approved_by_policy: whose == Whose::Own, ..self.caller() });
        let run = Box::pin(async move { session.0.sessions.command_run(caller, params).await });
        Some(Running { session: self.clone(), id, pieces, run, ended: None, seen: 0 })
    }

    pub(crate) async fn write(&self, command: &CommandId, bytes: Vec<u8>, close: bool) -> Result<(), RpcError> {
        let (session_id, command_id) = (self.0.id.clone(), command.clone());
        let params = CommandWriteParams { session_id, command_id, data: bytes.into(), close };
        self.0.sessions.command_write(self.caller(), params).await.map(drop)
    }

    pub(crate) async fn signal(&self, command: &CommandId, signal: SignalName) -> Result<(), RpcError> {
        let (session_id, command_id) = (self.0.id.clone(), command.clone());
        let params = CommandSignalParams { session_id, command_id, signal };
        self.0.sessions.command_signal(self.caller(), params).await.map(drop)
    }

    pub(crate) async fn cancel(&self, command: &CommandId) -> Result<(), RpcError> {
        let params = CommandCancelParams { session_id: self.0.id.clone(), command_id: command.clone() };
        self.0.sessions.command_cancel(self.caller(), params).await.map(drop)
    }

    fn outputs(&self) -> MutexGuard<'_, HashMap<CommandId, mpsc::UnboundedSender<Piece>>> {
        self.0.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on what the session sends, until it ends.
    async fn distribute(self, mut lines: Outgoing, others: mpsc::UnboundedSender<FromSession>) {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = self.0.peer.gone() => None,
            };
            let Some(line) = line else { break };
            match read_message(line.bytes()) {
                Ok(Incoming::Notification { method, params }) => match method.as_str() {
                    "command/output" => self.output(&params, line),
                    "command/lost" => self.lost(&params, line),
                    "session/notice" => {
                        if let Ok(notice) = stockade_protocol::parse::<SessionNotice>(&params) {
                            others.send(FromSession::Notice(notice.text)).ok();
                        }
                    }
                    _ => {}
                },
                Ok(Incoming::Request { params, .. }) => {
                    if let Ok(question) = stockade_protocol::parse(&params) {
                        others.send(FromSession::Question(question)).ok();
                    }
                }
                Ok(Incoming::Response { .. }) | Err(_) => {}
            }
        }
        self.outputs().clear();
    }

    fn output(&self, params: &str, line: Line) {
        let Ok(output) = stockade_protocol::parse::<CommandOutput>(params) else { return };
        let bytes = output.data.as_bytes().to_vec();
        self.hand_on(&output.command_id, Piece { seq: output.seq, output: Some((output.stream, bytes)), _line: line });
    }

    fn lost(&self, params: &str, line: Line) {
        let Ok(lost) = stockade_protocol::parse::<CommandLost>(params) else { return };
        let seq = lost.first_seq.saturating_sub(1);
        self.hand_on(&lost.command_id, Piece { seq, output: None, _line: line });
    }

    fn hand_on(&self, command: &CommandId, piece: Piece) {
        if let Some(sender) = self.outputs().get(command) {
            sender.send(piece).ok();
        }
    }
}

impl Running {
    /// The next output; none once all of it was handed on and the command has ended.
    pub(crate) async fn next(&mut self) -> Option<Piece> {
        let piece = loop {
            match &self.ended {
                None => tokio::select! {
                    biased;
                    piece = self.pieces.recv() => break piece,
                    result = &mut self.run => self.ended = Some(result),
                },
                Some(Ok(ended)) if self.seen < ended.last_seq => break self.pieces.recv().await,
                Some(_) => break self.pieces.try_recv().ok(),
            }
        }?;
        self.seen = self.seen.max(piece.seq);
        Some(piece)
    }

    /// Ends it, and waits for nothing.
    pub(crate) fn cancel(&self) -> impl Future<Output = ()> + Send + use<> {
        let (session, id) = (self.session.clone(), self.id.clone());
        async move {
            // One that has ended meanwhile needs no end.
            session.cancel(&id).await.ok();
        }
    }

    /// How it ended.
    pub(crate) async fn end(mut self) -> Result<CommandRunResult, RpcError> {
        while self.next().await.is_some() {}
        match self.ended.take() {
            Some(ended) => ended,
            None => self.run.as_mut().await,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.session.outputs().remove(&self.id);
    }
}
