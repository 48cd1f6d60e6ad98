//! Puts the server's questions to the person at this program's terminal.

use std::collections::HashMap;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use stockade::terminal::{Lifetime, attendant, person};
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::ApprovalReply;
use stockade_server::wire::{ApprovalRequestParams, ErrorKind, QuestionId, RpcError, RpcId};
use stockade_server::{Client, ClientError};
use tokio::sync::Notify;

/// The time limit for a question to restore the terminal.
const TIME_TO_END: Duration = Duration::from_secs(2);

type Reply = Result<ApprovalReply, RpcError>;

/// The local end of a question.
enum Asked {
    Answered(Reply),
    /// It was answered elsewhere, or became obsolete.
    CalledOff,
    /// The person leaves it to others.
    Left,
}

/// What a program waited for, besides answers of the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrived {
    /// Something of the server's may be read.
    Server,
    /// This signal.
    Signal(u8),
    Nothing,
}

/// What a program without a terminal says to a question, which is then left to the session's other clients.
pub(super) fn no_terminal() -> RpcError {
    RpcError::new(ErrorKind::Failed, "there is no terminal to ask at")
}

/// Asks each question in its own thread. Nothing is set up before the first one.
pub(super) struct Asking {
    person: Option<Arc<dyn Approver>>,
    open: HashMap<QuestionId, Arc<Notify>>,
    sender: mpsc::Sender<(RpcId, QuestionId, Asked)>,
    given: mpsc::Receiver<(RpcId, QuestionId, Asked)>,
    woken: PipeReader,
    wake: Arc<PipeWriter>,
    stopped_by: Option<u8>,
    is_left: bool,
}

impl Asking {
    pub(super) fn new() -> io::Result<Self> {
        let (sender, given) = mpsc::channel();
        let (woken, wake) = io::pipe()?;
        let (open, wake) = (HashMap::new(), Arc::new(wake));
        Ok(Self { person: None, open, sender, given, woken, wake, stopped_by: None, is_left: false })
    }

    /// For a person who attends a session, if there is a terminal.
    pub(super) fn attending() -> io::Result<Option<Self>> {
        let Some(person) = attendant() else { return Ok(None) };
        Ok(Some(Self { person: Some(person), ..Self::new()? }))
    }

    /// Whether the person left a question to others.
    pub(super) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Becomes readable when an answer is available.
    pub(super) fn woken(&self) -> &PipeReader {
        &self.woken
    }

    /// Waits for the server, a signal, or answers of the person, which are passed on to the server.
    pub(super) fn wait(&mut self, client: &mut Client, signals: &mut PipeReader) -> Result<Arrived, ClientError> {
        let mut files = [
            PollFd::new(&*client, PollFlags::IN),
            PollFd::new(&*signals, PollFlags::IN),
            PollFd::new(&self.woken, PollFlags::IN),
        ];
        match poll(&mut files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Arrived::Nothing),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [server, signalled, answers] = files.map(|file| !file.revents().is_empty());
        while let Some((id, reply)) = answers.then(|| self.next_answer()).flatten() {
            client.answer(&id, &reply)?;
        }
        if signalled {
            let mut number = [0];
            signals.read_exact(&mut number)?;
            let [number] = number;
            return Ok(Arrived::Signal(number));
        }
        Ok(if server { Arrived::Server } else { Arrived::Nothing })
    }

    /// Whether there is a person to ask.
    pub(super) fn has_person(&mut self) -> bool {
        if self.person.is_none() {
            self.person = person(Vec::new(), Lifetime::Session);
        }
        self.person.is_some()
    }

    /// Whether a question is open.
    pub(super) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Handles a signal without a command to forward it to.
    pub(super) fn stop(&mut self, signal: u8) {
        self.stopped_by = Some(signal);
        self.open.values().for_each(|question| question.notify_one());
    }

    pub(super) fn stopped_by(&self) -> Option<u8> {
        self.stopped_by
    }

    /// Puts a question to the person.
    pub(super) fn ask(&mut self, id: RpcId, params: ApprovalRequestParams) {
        let called_off = Arc::new(Notify::new());
        self.open.insert(params.question_id.clone(), Arc::clone(&called_off));
        let (sender, wake, question) = (self.sender.clone(), Arc::clone(&self.wake), params.question_id.clone());
        let (own, unasked) = (id.clone(), question.clone());
        let asked = self.person.clone().map(|person| {
            std::thread::Builder::new().name(String::from("question")).spawn(move || {
                let reply = review(&*person, params, &called_off);
                // The command, and this program, may have ended.
                sender.send((own, question, reply)).ok();
                (&*wake).write_all(&[0]).ok();
            })
        });
        if !matches!(asked, Some(Ok(_))) {
            self.sender.send((id, unasked, Asked::Answered(Err(no_terminal())))).ok();
            (&*self.wake).write_all(&[0]).ok();
        }
    }

    /// Cancels a question that was answered elsewhere or became obsolete.
    pub(super) fn call_off(&mut self, question: &QuestionId) {
        if let Some(open) = self.open.get(question) {
            open.notify_one();
        }
    }

    /// Cancels open questions, and waits until the terminal is restored.
    pub(super) fn finish(&mut self) {
        self.open.values().for_each(|question| question.notify_one());
        while !self.open.is_empty() {
            let Ok((_, question, _)) = self.given.recv_timeout(TIME_TO_END) else { return };
            self.open.remove(&question);
        }
    }

    /// The next answer for the server.
    pub(super) fn next_answer(&mut self) -> Option<(RpcId, Reply)> {
        loop {
            let (id, question, reply) = self.given.try_recv().ok()?;
            let mut byte = [0];
            let _ = (&self.woken).read(&mut byte).unwrap_or_default();
            self.open.remove(&question);
            match reply {
                Asked::Answered(reply) => return Some((id, reply)),
                Asked::CalledOff => {}
                Asked::Left => self.is_left = true,
            }
        }
    }
}

/// Waits for the person's answer, or for the cancellation.
fn review(person: &dyn Approver, params: ApprovalRequestParams, called_off: &Notify) -> Asked {
    let failed = |why: &dyn std::fmt::Display| Asked::Answered(Err(RpcError::new(ErrorKind::Failed, why.to_string())));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    let id = params.request.id.clone();
    let answer: Option<Result<Answer, Unanswered>> = runtime.block_on(async {
        tokio::select! {
            answer = person.review(Arc::new(params.request)) => Some(answer),
            () = called_off.notified() => None,
        }
    });
    match answer {
        None => Asked::CalledOff,
        Some(Ok(Answer { decision, content, .. })) => Asked::Answered(Ok(ApprovalReply { id, decision, content })),
        Some(Err(Unanswered::Left)) => Asked::Left,
        Some(Err(error)) => failed(&error),
    }
}
