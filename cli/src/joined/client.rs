//! Runs one command through a server, from its request to its end.

use std::io::{self, IsTerminal as _, PipeReader, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Resource;
use rustix::termios::SpecialCodeIndex;
use stockade_core::{Cancellation, Clock, Explanation};
use stockade_protocol::{
    AbsPath, ApprovalReply, ApprovalSubject, Argv, EscalationExecution, Refusal, RefusedBy, ReviewDecision, Rlimit,
    RlimitResource, Rlimits, Umask,
};
use stockade_server::wire::{
    CommandExplainParams, CommandId, CommandRunParams, CommandRunResult, ErrorKind, ProgramProblem, RpcError, RpcId,
    SentStreams, ServerNotification, SessionId,
};
use stockade_server::{Client, ClientError, FromServer};

use super::asking::{Asking, no_terminal};
use super::joining::{self, Joined};
use super::terminal::Follower;
use super::{Answers, Wanted, joining::JoinError};
use crate::exit::{self, Failure, note};
use crate::job::Interrupts;
use crate::relay::Relay;
use crate::remedy::Remedies;
use crate::run::{ReportForm, as_interrupted, end_by_signal, finish, not_started, signal_of};
use crate::signals;

/// The polling interval for keys, if the command has a terminal.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the server of sessions ended before the command did: `{log}` may say why")]
    ServerEnded { log: String },
    #[error("{message}")]
    Refused { message: String },
}

/// Runs a command. `None` if the session no longer exists.
pub(super) fn run(wanted: &Wanted<'_>, joined: Joined) -> Result<Option<ExitCode>, Failure> {
    let log = joined.place.log();
    let (mut running, sent) = Running::start(wanted, joined)?;
    let answer = sent.and_then(|request| running.wait(&request));
    running.close();
    signals::end_by_default();
    if matches!(&answer, Err(error) if running.client.is_unread(error)) {
        return Ok(None);
    }
    match answer {
        Ok(End::Response(Ok(result))) => {
            let outcome = as_interrupted(result.outcome);
            let remedies = match wanted.answers {
                Answers::Terminal => Remedies::in_session(wanted.name.as_str()),
                // An agent's command has no flags.
                Answers::OtherClients | Answers::GivenBefore => Remedies::in_settings(),
            };
            let code = finish(wanted.report_form, &outcome, &remedies)?;
            end_by_signal(wanted.ending, signal_of(&outcome));
            Ok(Some(code))
        }
        Ok(End::Response(Err(error))) | Err(ClientError::Refused(error)) => refused(wanted, &error),
        Ok(End::Signal(signal)) => {
            end_by_signal(wanted.ending, Some(signal.into()));
            Ok(Some(ExitCode::from(signal.saturating_add(128))))
        }
        Err(ClientError::Ended) => Err(RunError::ServerEnded { log: log.display().to_string() }.into()),
        Err(ClientError::Io(error)) if error.kind() == io::ErrorKind::ConnectionReset => {
            Err(RunError::ServerEnded { log: log.display().to_string() }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Explains a command. `None` if the session no longer exists.
pub(super) fn explain(wanted: &Wanted<'_>, mut joined: Joined) -> Result<Option<Explanation>, Failure> {
    let ticket = serde_json::json!({ "session_id": joined.session_id, "capability": joined.capability });
    let params = CommandExplainParams {
        session_id: joined.session_id,
        command: Argv::from_os(wanted.command.iter().cloned())?,
        cwd: wanted.cwd.clone(),
        escalation: wanted.escalation.clone(),
    };
    let attached = joined.client.call::<serde_json::Value>("session/attach", &ticket);
    let explained = attached.and_then(|_| joined.client.call("command/explain", &params));
    match explained {
        Ok(explanation) => Ok(Some(explanation)),
        Err(ClientError::Refused(error))
            if matches!(
                error.kind(),
                Some(ErrorKind::UnknownSession | ErrorKind::NotPermitted | ErrorKind::Closed)
            ) =>
        {
            Ok(None)
        }
        // The server was about to end.
        Err(ClientError::Ended) => Ok(None),
        Err(error) if joined.client.is_unread(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The end of a run for this program.
enum End {
    Response(Result<Box<CommandRunResult>, RpcError>),
    /// By a signal, without a command to forward it to.
    Signal(u8),
}

fn refused(wanted: &Wanted<'_>, error: &RpcError) -> Result<Option<ExitCode>, Failure> {
    if matches!(error.kind(), Some(ErrorKind::UnknownSession | ErrorKind::NotPermitted)) {
        return Ok(None);
    }
    let causes = error.data.as_ref().map(|data| data.causes.as_slice()).unwrap_or_default();
    let message = std::iter::once(error.message.as_str()).chain(causes.iter().map(String::as_str));
    let message = message.collect::<Vec<_>>().join(": ");
    let code = match error.data.as_ref().and_then(|data| data.program) {
        Some(ProgramProblem::NotFound) => exit::NOT_FOUND,
        Some(ProgramProblem::NotExecutable) => exit::REFUSED,
        None => return Err(RunError::Refused { message }.into()),
    };
    Ok(Some(not_started(
        wanted.report_form == ReportForm::Json,
        Refusal { by: RefusedBy::Sandbox, reason: message },
        code,
    )?))
}

struct Running {
    client: Client,
    session_id: SessionId,
    command_id: CommandId,
    signals: PipeReader,
    asking: Asking,
    /// Collects keys and signals for the command.
    command: Cancellation,
    clock: Clock,
    relay: Option<Arc<Relay>>,
    follower: Option<Follower>,
    interrupts: Interrupts,
    is_cancelled: bool,
    answers: Answers,
}

impl Running {
    /// Sends the request. The second value is its id, or the error.
    fn start(wanted: &Wanted<'_>, joined: Joined) -> Result<(Self, Result<RpcId, ClientError>), Failure> {
        let Joined { mut client, session_id, capability, .. } = joined;
        let (command, clock) = (Cancellation::new(), Clock::new());
        let signals = signals::watch()?;
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let shown = wanted.report_form != ReportForm::Json;
        let own_stdin = wanted.stdin.as_ref().map_or_else(|| stdin.as_fd(), |file| file.as_fd());
        let terminals = [own_stdin.is_terminal(), stdout.is_terminal() && shown, stderr.is_terminal() && shown];
        let relay = Relay::new(terminals, &command, &clock)?.map(Arc::new);
        let (follower, theirs) = match &relay {
            Some(relay) => {
                let (follower, theirs) = Follower::start(Arc::clone(relay))?;
                (Some(follower), Some(theirs))
            }
            None => (None, None),
        };
        let given = |is_given: bool, is_terminal: bool| is_given && !(is_terminal && relay.is_some());
        let mut sent = Sent::default();
        let terminal = theirs.as_ref().map(|theirs| sent.add(theirs.as_fd()));
        let streams = SentStreams {
            stdin: given(true, terminals[0]).then(|| sent.add(own_stdin)),
            stdout: given(shown, terminals[1]).then(|| sent.add(stdout.as_fd())),
            stderr: given(shown, terminals[2]).then(|| sent.add(stderr.as_fd())),
            terminal,
            controlling_terminal: false,
        };
        let cwd = match &wanted.cwd {
            Some(cwd) => cwd.clone(),
            None => AbsPath::from_path(&std::env::current_dir().map_err(JoinError::NoDirectory)?)?,
        };
        let command_id = own_id()?;
        let words = Argv::from_os(wanted.command.iter().cloned())?;
        let params = CommandRunParams {
            capability: Some(capability),
            cwd: Some(cwd),
            timeout_ms: wanted.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok()?.try_into().ok()),
            escalation: wanted.escalation.clone(),
            justification: wanted.justification.clone(),
            terminal: relay.as_ref().map(|relay| relay.size()),
            stream: false,
            until_disconnect: true,
            environment: Some(joining::environment()),
            umask: umask(),
            ignores_broken_pipes: crate::sys::has_broken_pipes_ignored(),
            rlimits: Some(limits()),
            streams: Some(streams),
            ..CommandRunParams::new(session_id.clone(), command_id.clone(), words)
        };
        let request = client.send("command/run", &params, &sent.0);
        let asking = Asking::new()?;
        let (interrupts, is_cancelled) = (Interrupts::default(), false);
        let running = Self {
            client,
            session_id,
            command_id,
            signals,
            asking,
            command,
            clock,
            relay,
            follower,
            interrupts,
            is_cancelled,
            answers: wanted.answers,
        };
        Ok((running, request))
    }

    fn wait(&mut self, request: &RpcId) -> Result<End, ClientError> {
        loop {
            while self.client.has_message() || self.is_readable()? {
                if let Some(end) = self.take(request)? {
                    return Ok(end);
                }
            }
        }
    }

    /// Waits for a message from the server, and does everything else meanwhile.
    fn is_readable(&mut self) -> Result<bool, ClientError> {
        let limit = self.relay.as_ref().map(|_| &LOOK);
        let mut files = [
            PollFd::new(&self.client, PollFlags::IN),
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(self.asking.woken(), PollFlags::IN),
        ];
        match poll(&mut files, limit) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(false),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [server, signals, answers] = files.map(|file| !file.revents().is_empty());
        if signals {
            self.signalled()?;
        }
        if answers {
            while let Some((id, reply)) = self.asking.next_answer() {
                self.client.answer(&id, &reply)?;
            }
        }
        self.pass_on()?;
        Ok(server)
    }

    /// Handles the next message of the server.
    fn take(&mut self, request: &RpcId) -> Result<Option<End>, ClientError> {
        let Some(said) = self.client.next_arrived()? else { return Ok(None) };
        match said {
            FromServer::Response { id, answer } if id.as_ref() == Some(request) => {
                let result = answer.map(|json| stockade_protocol::parse::<CommandRunResult>(&json));
                return Ok(Some(match result {
                    Ok(Ok(result)) => End::Response(Ok(Box::new(result))),
                    Ok(Err(error)) => return Err(ClientError::Unexpected(error.to_string())),
                    Err(error) => End::Response(Err(error)),
                }));
            }
            FromServer::Response { id: None, answer: Err(error) } => return Err(error.into()),
            // The response to a signal for a command that has ended meanwhile.
            FromServer::Response { .. } => {}
            FromServer::Question { id, params }
                if self.answers == Answers::GivenBefore && is_about_start(&params.request.subject) =>
            {
                // Only for this question.
                self.answers = Answers::OtherClients;
                let reply =
                    ApprovalReply { id: params.request.id.clone(), decision: ReviewDecision::Approved, content: None };
                self.client.answer(&id, &Ok(reply))?;
            }
            FromServer::Question { id, params } if self.answers != Answers::Terminal || !self.asking.has_person() => {
                // The session's other clients may answer. An agent is told what it waits for.
                if let (Answers::OtherClients, Some(reason)) = (self.answers, &params.request.reason)
                    && is_about_start(&params.request.subject)
                {
                    note(&format!("{reason}; `stockade session attend` answers, or a rule does"));
                }
                self.client.answer(&id, &Err(no_terminal()))?;
            }
            FromServer::Question { id, params } => self.asking.ask(id, *params),
            FromServer::Notification(ServerNotification::ApprovalResolved(resolved)) => {
                self.asking.call_off(&resolved.question_id);
            }
            FromServer::Notification(ServerNotification::SessionNotice(notice)) => note(&notice.text),
            FromServer::Notification(_) => {}
        }
        Ok(self.ended_by_signal())
    }

    /// Forwards this program's signals to the command.
    fn signalled(&mut self) -> Result<(), ClientError> {
        let mut numbers = [0; 64];
        let count = self.signals.read(&mut numbers)?;
        for number in numbers.iter().take(count).copied() {
            match (i32::from(number), &self.relay) {
                (libc::SIGWINCH, relay) => relay.iter().for_each(|relay| relay.resize()),
                (libc::SIGTSTP, relay) => signals::suspend(&self.command, &self.clock, relay.clone()),
                // Before the keys: while a question is open, no command receives them.
                _ if self.asking.is_asking() => self.asking.stop(number),
                (libc::SIGINT, Some(relay)) if relay.interrupt(SpecialCodeIndex::VINTR) => {}
                (libc::SIGQUIT, Some(relay)) if relay.interrupt(SpecialCodeIndex::VQUIT) => {}
                _ => self.command.signal(number),
            }
            if i32::from(number) == libc::SIGINT && self.interrupts.add() {
                self.command.end_by(signals::INTERRUPT);
            }
        }
        Ok(())
    }

    /// Sends the collected signals and keys to the server.
    fn pass_on(&mut self) -> Result<(), ClientError> {
        for signal in self.command.take_signals() {
            let name = match i32::from(signal) {
                libc::SIGINT => "interrupt",
                libc::SIGTERM => "terminate",
                libc::SIGQUIT => "quit",
                libc::SIGHUP => "hangup",
                libc::SIGUSR1 => "usr1",
                libc::SIGUSR2 => "usr2",
                libc::SIGTSTP => "stop",
                libc::SIGCONT => "continue",
                _ => continue,
            };
            let (session, command) = (&self.session_id, &self.command_id);
            let params = serde_json::json!({ "session_id": session, "command_id": command, "signal": name });
            self.client.send("command/signal", &params, &[])?;
        }
        let is_to_end = self.command.is_cancelled() || self.asking.stopped_by().is_some();
        if is_to_end && !std::mem::replace(&mut self.is_cancelled, true) {
            let params = serde_json::json!({ "session_id": self.session_id, "command_id": self.command_id });
            self.client.send("command/cancel", &params, &[])?;
        }
        Ok(())
    }

    fn ended_by_signal(&self) -> Option<End> {
        self.asking.stopped_by().map(End::Signal)
    }

    /// Restores the terminal, after showing all output.
    fn close(&mut self) {
        self.asking.finish();
        if let Some(follower) = self.follower.take() {
            follower.finish(&self.signals);
        }
        if let Some(relay) = self.relay.take() {
            relay.close();
        }
    }
}

/// Whether a question is about starting a command as requested, not about more permissions.
fn is_about_start(subject: &ApprovalSubject) -> bool {
    let ApprovalSubject::Command(command) = subject else { return false };
    command.violations.is_empty() && command.escalation == EscalationExecution::TurnDefault
}

/// Descriptors for the server.
#[derive(Default)]
struct Sent<'a>(Vec<BorrowedFd<'a>>);

impl<'a> Sent<'a> {
    /// Adds a descriptor, and returns its index.
    fn add(&mut self, file: BorrowedFd<'a>) -> u8 {
        self.0.push(file);
        u8::try_from(self.0.len() - 1).unwrap_or(u8::MAX)
    }
}

/// A unique name for the command.
fn own_id() -> Result<CommandId, Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(format!("run-{}-{}", now.as_nanos(), std::process::id()).parse()?)
}

/// This program's umask, which can only be read by setting it.
fn umask() -> Option<Umask> {
    let before = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(before);
    Umask::try_from(u16::try_from(i64::from(before.bits()) & 0o777).ok()?).ok()
}

/// This program's limits, without unlimited ones.
fn limits() -> Rlimits {
    let all = [
        (RlimitResource::As, Resource::As),
        (RlimitResource::Core, Resource::Core),
        (RlimitResource::Cpu, Resource::Cpu),
        (RlimitResource::Data, Resource::Data),
        (RlimitResource::Fsize, Resource::Fsize),
        (RlimitResource::Memlock, Resource::Memlock),
        (RlimitResource::Nofile, Resource::Nofile),
        (RlimitResource::Nproc, Resource::Nproc),
        (RlimitResource::Stack, Resource::Stack),
    ];
    let limit = |(name, resource)| {
        let found = rustix::process::getrlimit(resource);
        (name, Rlimit { soft: found.current, hard: found.maximum })
    };
    all.into_iter().map(limit).filter(|(_, limit)| limit.soft.is_some() || limit.hard.is_some()).collect()
}
