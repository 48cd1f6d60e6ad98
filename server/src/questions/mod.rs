//! The questions of a session: every attached client that answers is asked, and the first usable answer counts.
//!
//! [`Questions`] is the session's approver, and knows the attached clients, so that a client which attaches later is
//! asked all open questions, in order. A question ends with an answer, a timeout, the asker's cancellation, or the
//! session; the other clients are told. No question waits for a disconnected client: one that a client has declined
//! ends at once if all other asked clients have declined or left.

mod asking;
mod open;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::{ApprovalRequest, RequestId, ReviewDecision};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::peer::{ConnectionId, NoAnswer, Peer};
use crate::wire::{
    ApprovalRequestResult, ApprovalResolved, ApprovalUnusable, CommandId, ErrorKind, OpenQuestion, QuestionId,
    RpcError, ServerLimits, ServerNotification, SessionId, SessionName, SessionNotice,
};
use open::{Answering, Open, OpenQuestions};

/// The questions of one session, and its attached clients. Clones share them.
#[derive(Clone)]
pub(crate) struct Questions(Arc<Shared>);

struct Shared {
    session_id: SessionId,
    name: Option<SessionName>,
    /// The timeout of a question.
    limit: Duration,
    desk: Arc<Desk>,
    state: Mutex<State>,
}

/// State shared by the questions of all sessions: the limit, and their ids.
#[derive(Debug)]
pub(crate) struct Desk {
    room: Arc<Semaphore>,
    next: AtomicU64,
}

impl Desk {
    /// A desk with room for this many questions.
    pub(crate) fn new(most: u32) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(usize::try_from(most).unwrap_or(Semaphore::MAX_PERMITS)));
        Arc::new(Self { room, next: AtomicU64::new(1) })
    }
}

#[derive(Default)]
struct State {
    open: OpenQuestions,
    clients: Vec<Peer>,
    /// The requests of commands, until they end.
    commands: HashMap<RequestId, Asker>,
    /// Why no further questions are asked.
    closed: Option<String>,
    /// The client whose answer stopped everything.
    stopped_by: Option<String>,
}

/// A command whose request may cause questions.
struct Asker {
    command_id: CommandId,
    /// It was cancelled: its questions are denied.
    is_cancelled: bool,
}

/// How a question ended.
struct Resolution {
    answer: Result<Answer, Unanswered>,
    answered_by: Option<Peer>,
    why: Option<String>,
}

impl Questions {
    /// A session without clients. The desk is shared by all sessions.
    pub(crate) fn new(session_id: SessionId, name: Option<SessionName>, limit: Duration, desk: Arc<Desk>) -> Self {
        Self(Arc::new(Shared { session_id, name, limit, desk, state: Mutex::default() }))
    }

    /// Attaches a client and asks it all open questions. `false` if it was attached before.
    pub(crate) fn attach(&self, peer: &Peer) -> bool {
        let mut state = self.state();
        if state.clients.contains(peer) {
            return false;
        }
        state.clients.push(peer.clone());
        if peer.capabilities().answers {
            for number in state.open.numbers() {
                self.ask(&mut state, peer, number);
            }
        }
        true
    }

    /// Detaches a client, and returns how many are left; `None` if it was not attached.
    pub(crate) fn detach(&self, peer: &Peer) -> Option<usize> {
        let mut state = self.state();
        let before = state.clients.len();
        state.clients.retain(|client| client != peer);
        if state.clients.len() == before {
            return None;
        }
        for number in state.open.forget_client(peer.id()) {
            let why = "the last client of the session that could answer has left";
            self.resolve(&mut state, number, Resolution::without_answer(why));
        }
        Some(state.clients.len())
    }

    /// The clients that are attached.
    pub(crate) fn clients(&self) -> Vec<Peer> {
        self.state().clients.clone()
    }

    /// Whether a client is attached.
    pub(crate) fn is_attached(&self, peer: &Peer) -> bool {
        self.state().clients.contains(peer)
    }

    /// Notifies every client except those in `except`.
    pub(crate) fn tell(&self, notification: &ServerNotification, except: &[ConnectionId]) {
        for client in self.clients().iter().filter(|client| !except.contains(&client.id())) {
            // A disconnected client is skipped.
            client.send(notification).ok();
        }
    }

    /// How many questions are open.
    pub(crate) fn len(&self) -> usize {
        self.state().open.len()
    }

    /// The open questions, the oldest first.
    pub(crate) fn list(&self) -> Vec<OpenQuestion> {
        let state = self.state();
        let listed = state.open.iter().map(|open| OpenQuestion {
            session_id: self.0.session_id.clone(),
            question_id: open.id.clone(),
            command_id: open.command_id.clone(),
            request: ApprovalRequest::clone(&open.request),
            asked_ms_ago: u64::try_from(open.asked.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
        listed.collect()
    }

    /// Answers a question through `approval/answer`.
    pub(crate) fn answer(&self, peer: &Peer, id: &QuestionId, answer: Answer) -> Result<(), RpcError> {
        let mut state = self.state();
        let Some(number) = state.open.number(id) else {
            let why = format!(
                "no question `{id}` is open: it was answered, or withdrawn; `approval/list` has those that are"
            );
            return Err(RpcError::new(ErrorKind::UnknownQuestion, why));
        };
        let Some(request) = state.open.get(number).map(|open| Arc::clone(&open.request)) else { return Ok(()) };
        let usable = from_client(answer, &request);
        let answer = usable.map_err(|unusable| RpcError::new(ErrorKind::UnusableAnswer, unusable.to_string()))?;
        self.resolve(&mut state, number, Resolution::by(peer, answer));
        Ok(())
    }

    /// Registers a command, which its questions then name.
    pub(crate) fn begin(&self, id: RequestId, command_id: CommandId) {
        self.state().commands.insert(id, Asker { command_id, is_cancelled: false });
    }

    /// Denies every question about this command, now and until [`finish`](Self::finish).
    pub(crate) fn cancel(&self, id: &RequestId) {
        let mut state = self.state();
        if let Some(asker) = state.commands.get_mut(id) {
            asker.is_cancelled = true;
        }
        for number in state.open.numbers_of(id) {
            self.resolve(&mut state, number, Resolution::cancelled());
        }
    }

    /// Removes an ended command.
    pub(crate) fn finish(&self, id: &RequestId) {
        self.state().commands.remove(id);
    }

    /// Ends every open question, and refuses later ones.
    pub(crate) fn close(&self, why: &str) {
        let mut state = self.state();
        state.closed = Some(why.to_owned());
        for number in state.open.numbers() {
            self.resolve(&mut state, number, Resolution::without_answer(why));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a question, and asks every client that answers.
    fn open(&self, request: Arc<ApprovalRequest>) -> Result<Opened, Unanswered> {
        let mut state = self.state();
        if let Some(why) = &state.closed {
            return Err(Unanswered::Gone { why: why.clone() });
        }
        let asker = state.commands.get(&request.id);
        if asker.is_some_and(|asker| asker.is_cancelled) {
            return Ok(Opened::Cancelled);
        }
        let command_id = asker.map(|asker| asker.command_id.clone());
        let most = ServerLimits::STANDARD.questions as usize;
        let busy = |why: String| Unanswered::Busy { why };
        if state.open.len() >= most {
            return Err(busy(format!("{most} questions of this session wait already")));
        }
        let room = Arc::clone(&self.0.desk.room).try_acquire_owned();
        let room = room.map_err(|_| busy(String::from("too many questions of all sessions wait already")))?;
        let number = self.0.desk.next.fetch_add(1, Ordering::Relaxed);
        let id = format!("question-{number}").parse().map_err(|_| busy(String::from("no name is left")))?;
        let (sender, receiver) = oneshot::channel();
        state.open.push(number, Open::new(id, command_id, request, sender, room));
        let answering: Vec<Peer> =
            state.clients.iter().filter(|client| client.capabilities().answers).cloned().collect();
        for client in answering {
            self.ask(&mut state, &client, number);
        }
        Ok(Opened::Waiting(number, receiver))
    }

    /// Ends a question, and notifies the clients that did not answer it.
    fn resolve(&self, state: &mut State, number: u64, resolution: Resolution) {
        let Some(open) = state.open.remove(number) else { return };
        let decision = resolution.answer.as_ref().ok().map(|answer| answer.decision.clone());
        let told = ServerNotification::ApprovalResolved(ApprovalResolved {
            session_id: self.0.session_id.clone(),
            question_id: open.id,
            decision: decision.clone().filter(|_| resolution.answered_by.is_some()),
            answered_by: resolution.answered_by.as_ref().map(|peer| peer.client_name().to_owned()),
            why: resolution.why,
        });
        for client in state.clients.iter().filter(|client| Some(*client) != resolution.answered_by.as_ref()) {
            client.send(&told).ok();
        }
        if let (Some(ReviewDecision::Abort), Some(peer)) = (decision, &resolution.answered_by) {
            state.stopped_by = Some(peer.client_name().to_owned());
            self.tell_stopped(state, &state.clients);
        }
        // The asker may be gone.
        open.answer.send(resolution.answer).ok();
    }

    /// Tells a client if the session was stopped.
    pub(crate) fn tell_if_stopped(&self, peer: &Peer) {
        self.tell_stopped(&self.state(), std::slice::from_ref(peer));
    }

    fn tell_stopped(&self, state: &State, clients: &[Peer]) {
        let Some(client) = &state.stopped_by else { return };
        let end = self.0.name.as_ref().map_or_else(
            || String::from("`session/close`"),
            |name| format!("`session/close`, or `stockade session end {name}`"),
        );
        let text = format!(
            "`{}` has stopped this session: nothing is asked or run in it any more, for any client. End it ({end}) and open it \
             again to go on",
            client.escape_debug()
        );
        let notice = SessionNotice { session_id: self.0.session_id.clone(), text };
        let notice = ServerNotification::SessionNotice(notice);
        for client in clients {
            client.send(&notice).ok();
        }
    }

    /// Handles a client's response to `approval/request`.
    fn heard(&self, peer: &Peer, number: u64, said: Result<ApprovalRequestResult, NoAnswer>) -> Heard {
        let mut state = self.state();
        let Some(open) = state.open.get(number) else { return Heard::Settled };
        let (question_id, request) = (open.id.clone(), Arc::clone(&open.request));
        let unusable = |why: String| {
            let session_id = self.0.session_id.clone();
            let why = format!("{why}; the question offers {}: answer with `approval/answer`", offered(&request));
            peer.send(&ServerNotification::ApprovalUnusable(ApprovalUnusable { session_id, question_id, why })).ok();
            Heard::Unusable
        };
        match said {
            Ok(ApprovalRequestResult { id: Some(id), .. }) if id != request.id => {
                unusable(format!("it answers the request `{id}`, and `{}` was asked about", request.id))
            }
            Ok(ApprovalRequestResult { decision, content, .. }) => {
                match from_client(Answer { decision, content }, &request) {
                    Ok(answer) => {
                        self.resolve(&mut state, number, Resolution::by(peer, answer));
                        Heard::Settled
                    }
                    Err(why) => unusable(why.to_string()),
                }
            }
            Err(NoAnswer::Unusable(why)) => unusable(why),
            Err(NoAnswer::Declined(said)) => {
                if state.open.declined(number, peer.id()) == Answering::None {
                    let why = format!("no client of the session answers ({said})");
                    self.resolve(&mut state, number, Resolution::without_answer(&why));
                }
                Heard::Settled
            }
            // Its session detaches it.
            Err(NoAnswer::Gone) => Heard::Settled,
        }
    }
}

/// Whether a client's response settles its part in a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Settled,
    /// The next response counts.
    Unusable,
}

#[derive(Debug)]
enum Opened {
    Waiting(u64, oneshot::Receiver<Result<Answer, Unanswered>>),
    Cancelled,
}

impl Resolution {
    fn by(peer: &Peer, answer: Answer) -> Self {
        Self { answer: Ok(answer), answered_by: Some(peer.clone()), why: None }
    }

    fn cancelled() -> Self {
        Self { answer: Ok(cancelled()), answered_by: None, why: Some(String::from("cancelled")) }
    }

    fn without_answer(why: &str) -> Self {
        Self { answer: Err(Unanswered::Gone { why: why.to_owned() }), answered_by: None, why: Some(why.to_owned()) }
    }
}

/// Validates a client's answer to this question. Only the server may answer `TimedOut`.
fn from_client(answer: Answer, request: &ApprovalRequest) -> Result<Answer, Unanswered> {
    if answer.decision == ReviewDecision::TimedOut {
        let why = String::from("`timed_out` is what happens without an answer: say `denied` for a no");
        return Err(Unanswered::Unusable { why });
    }
    answer.usable_for(request)
}

/// The decisions that a question offers, by their names on the wire.
fn offered(request: &ApprovalRequest) -> String {
    let name = |decision: &ReviewDecision| {
        let decision = serde_json::to_value(decision).ok()?;
        let name = decision.as_str().or_else(|| decision.as_object()?.keys().next().map(String::as_str))?;
        Some(format!("`{name}`"))
    };
    request.available_decisions.iter().filter_map(name).collect::<Vec<_>>().join(", ")
}

fn cancelled() -> Answer {
    ReviewDecision::Denied { reason: Some(String::from("the request was cancelled")) }.into()
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions")
            .field("session_id", &self.0.session_id)
            .field("open", &self.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Approver for Questions {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let (number, receiver) = match self.open(request)? {
            Opened::Waiting(number, receiver) => (number, receiver),
            Opened::Cancelled => return Ok(cancelled()),
        };
        let withdrawn = Withdrawn { questions: self, number };
        let until = Instant::now() + self.0.limit;
        let answer = tokio::time::timeout_at(until, receiver).await;
        let Ok(answer) = answer else {
            let timed_out = Answer::from(ReviewDecision::TimedOut);
            let why = Some(String::from("timed out"));
            let resolution = Resolution { answer: Ok(timed_out.clone()), answered_by: None, why };
            self.resolve(&mut self.state(), number, resolution);
            return Ok(timed_out);
        };
        drop(withdrawn);
        answer.unwrap_or_else(|_| Err(Unanswered::Gone { why: String::from("the question was lost") }))
    }
}

/// Withdraws a question whose asker gives up. An answered one is no longer open.
struct Withdrawn<'a> {
    questions: &'a Questions,
    number: u64,
}

impl Drop for Withdrawn<'_> {
    fn drop(&mut self) {
        self.questions.resolve(&mut self.questions.state(), self.number, Resolution::cancelled());
    }
}

#[cfg(test)]
mod tests;
