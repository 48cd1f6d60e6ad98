//! `stockade session attend`: a person at a terminal watches a session and answers its questions.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, PipeReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stockade_protocol::{Argv, AskForApproval, Outcome};
use stockade_server::wire::{
    ApprovalResolved, Capability, CommandId, CommandState, ListedSession, ServerNotification, SessionId, SessionName,
};
use stockade_server::{Client, ClientError, FromServer};

use super::asking::{Arrived, Asking};
use super::joining::is_open;
use super::manage::{no_such, sessions};
use super::place::{Place, Ticket};
use super::server::{self, Role};
use crate::args::SessionAttend;
use crate::exit::{Failure, note};
use crate::signals;

/// Limit on the size of a capability file.
const LONGEST_CAPABILITY: u64 = 4096;

#[derive(Debug, thiserror::Error)]
enum AttendError {
    #[error("there is no terminal to ask at: run `stockade session attend` in one")]
    NoTerminal,
    #[error("can't read the capability in `{}`", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` has no capability: write the one that `session/open` gave into it", .path.display())]
    NoCapability { path: PathBuf },
    #[error("the capability in `{}` is not that of the session `{name}`", .path.display())]
    WrongCapability { path: PathBuf, name: String },
    #[error("the server of the session ended")]
    ServerEnded,
}

/// Attends a session until Ctrl-C, or until it is ended.
pub(super) fn attend(args: &SessionAttend) -> Result<ExitCode, Failure> {
    let asking = Asking::attending()?.ok_or(AttendError::NoTerminal)?;
    let signals = signals::watch_ends()?;
    let Some((client, session)) = join(args)? else { return Ok(no_such(&args.name)) };
    let workspace = session.workspace.iter().map(|root| format!("`{root}`")).collect::<Vec<_>>().join(", ");
    note(&format!("attending `{}` in {workspace}; Ctrl-C leaves it", args.name));
    if session.ask == AskForApproval::Never {
        note("this session asks nothing (`ask = never`)");
    }
    let running = session.commands.into_iter().filter(|command| command.state == CommandState::Running);
    let commands: HashMap<_, _> = running.filter_map(|command| Some((command.command_id, command.command?))).collect();
    for words in commands.values() {
        note(&format!("runs: {words}"));
    }
    let mut attending = Attending { client, session_id: session.session_id, signals, asking, commands };
    let end = attending.watch();
    attending.asking.finish();
    signals::end_by_default();
    match end {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(signal)) if i32::from(signal) == libc::SIGINT => Ok(ExitCode::SUCCESS),
        Ok(Some(signal)) => Ok(ExitCode::from(signal.saturating_add(128))),
        Err(ClientError::Ended) => Err(AttendError::ServerEnded.into()),
        Err(error) => Err(error.into()),
    }
}

/// A connection that is attached to the session.
fn join(args: &SessionAttend) -> Result<Option<(Client, ListedSession)>, Failure> {
    let place = Place::find()?;
    let path = args.socket.clone().unwrap_or_else(|| place.socket());
    let Some(mut client) = server::connect_to(&path, Role::Attendant)? else { return Ok(None) };
    if let Some(file) = &args.capability_file {
        let capability = capability(file)?;
        return attach_with(&mut client, &args.name, capability, file).map(|found| found.map(|found| (client, found)));
    }
    let Some(Ticket { session_id, capability, .. }) = place.ticket(&args.name) else { return Ok(None) };
    if !is_open(&mut client, &session_id, &capability)? {
        return Ok(None);
    }
    let found = sessions(Some(&mut client))?.into_iter().find(|session| session.session_id == session_id);
    Ok(found.map(|session| (client, session)))
}

/// The session of this name or id, with a capability from the program that opened it.
fn attach_with(
    client: &mut Client,
    name: &SessionName,
    capability: Capability,
    file: &Path,
) -> Result<Option<ListedSession>, Failure> {
    let is_it =
        |session: &ListedSession| session.name.as_ref() == Some(name) || session.session_id.as_str() == name.as_str();
    let Some(session) = sessions(Some(client))?.into_iter().find(is_it) else { return Ok(None) };
    if !is_open(client, &session.session_id, &capability)? {
        return Err(AttendError::WrongCapability { path: file.to_owned(), name: name.to_string() }.into());
    }
    // Again, since only an attached client sees the commands.
    Ok(sessions(Some(client))?.into_iter().find(is_it))
}

fn capability(path: &Path) -> Result<Capability, AttendError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_CAPABILITY).read_to_string(&mut text));
    read.map_err(|source| AttendError::Unreadable { path: path.to_owned(), source })?;
    let value = serde_json::Value::String(text.trim().to_owned());
    serde_json::from_value(value).map_err(|_| AttendError::NoCapability { path: path.to_owned() })
}

struct Attending {
    client: Client,
    session_id: SessionId,
    signals: PipeReader,
    asking: Asking,
    /// The running commands, by name.
    commands: HashMap<CommandId, Argv>,
}

impl Attending {
    /// Shows events and asks, until the person leaves or the session ends. Returns the signal that ended it.
    fn watch(&mut self) -> Result<Option<u8>, ClientError> {
        loop {
            while self.client.has_message() {
                if self.take()? {
                    return Ok(None);
                }
            }
            let arrived = self.asking.wait(&mut self.client, &mut self.signals)?;
            if let Arrived::Signal(number) = arrived {
                return Ok(Some(number));
            }
            if self.asking.is_left() || (arrived == Arrived::Server && self.take()?) {
                return Ok(None);
            }
        }
    }

    /// Handles the next message. `true` if the session has ended.
    fn take(&mut self) -> Result<bool, ClientError> {
        match self.client.next()? {
            FromServer::Question { id, params } => self.asking.ask(id, *params),
            FromServer::Response { .. } => {}
            FromServer::Notification(notification) => return Ok(self.tell(notification)),
        }
        Ok(false)
    }

    fn tell(&mut self, notification: ServerNotification) -> bool {
        match notification {
            ServerNotification::ApprovalResolved(resolved) => {
                self.asking.call_off(&resolved.question_id);
                note(&resolution(&resolved));
            }
            ServerNotification::ApprovalUnusable(unusable) => {
                note(&format!("the answer can't be used: {}", unusable.why));
            }
            ServerNotification::CommandStarted(started) => {
                note(&format!("started: {}", started.command));
                self.commands.insert(started.command_id, started.command);
            }
            ServerNotification::CommandEnded(ended) => {
                let words = self.commands.remove(&ended.command_id);
                let words = words.map_or_else(|| ended.command_id.to_string(), |words| words.to_string());
                note(&format!("{}: {words}", ending(&ended.outcome)));
            }
            ServerNotification::SessionChanged(changed) => {
                let word = |value: Result<serde_json::Value, _>| match value.ok() {
                    Some(serde_json::Value::String(word)) => word,
                    other => other.map(|value| value.to_string()).unwrap_or_default(),
                };
                let (ask, sandbox) = (serde_json::to_value(changed.ask), serde_json::to_value(&changed.sandbox));
                note(&format!("the session was changed: it asks {}, with the sandbox {}", word(ask), word(sandbox)));
            }
            ServerNotification::SessionNotice(notice) => note(&notice.text),
            ServerNotification::SessionClosed(closed) if closed.session_id == self.session_id => {
                note(&format!("the session was ended: {}", closed.why));
                return true;
            }
            ServerNotification::SessionClosed(_)
            | ServerNotification::CommandOutput(_)
            | ServerNotification::CommandLost(_) => {}
        }
        false
    }
}

fn resolution(resolved: &ApprovalResolved) -> String {
    match (&resolved.answered_by, &resolved.decision) {
        (Some(client), Some(decision)) if decision.is_approval() => {
            format!("the question was answered by `{client}`: yes")
        }
        (Some(client), _) => format!("the question was answered by `{client}`: no"),
        (None, _) => {
            let why = resolved.why.as_deref().unwrap_or("it needs no answer any more");
            format!("the question was withdrawn: {why}")
        }
    }
}

fn ending(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Exited { exit_code, .. } => format!("ended with {exit_code}"),
        Outcome::Denied { .. } => String::from("ended, after the sandbox denied it something"),
        Outcome::Refused(refusal) => format!("refused ({})", refusal.reason),
        Outcome::TimedOut { .. } => String::from("took too long, and was ended"),
        Outcome::Cancelled { reason, .. } => format!("ended early ({reason})"),
        Outcome::Signaled { signal, .. } => format!("ended by signal {signal}"),
    }
}
