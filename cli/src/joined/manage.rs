//! `stockade session list|show|end`.

use std::process::ExitCode;

use serde::Serialize;
use stockade_protocol::{NetworkAccess, SandboxPolicy};
use stockade_server::wire::{
    ApprovalRememberedResult, CommandState, ErrorKind, ListedSession, RpcId, SessionCloseResult, SessionListResult,
    SessionName,
};
use stockade_server::{Client, ClientError};

use super::joining::is_open;
use super::place::Place;
use super::server::{self, Role, ServerError};
use crate::args::{SessionCommand, SessionEnd, SessionList, SessionShow};
use crate::exit::{Failure, print};

/// Sessions ended concurrently: fewer than a connection's limit on requests.
const ENDED_AT_ONCE: usize = 32;

/// With `show` and `end`: there is no such session.
const NONE: u8 = 1;

#[derive(Debug, thiserror::Error)]
enum ManageError {
    #[error("name the sessions to end, or pass `--all`")]
    NoNames,
}

pub(crate) fn run(command: &SessionCommand) -> Result<ExitCode, Failure> {
    match command {
        SessionCommand::List(args) => list(args),
        SessionCommand::Show(args) => show(args),
        SessionCommand::End(args) => end(args),
        SessionCommand::Attend(args) => super::attend::attend(args),
    }
}

/// Every session of the server; empty without a server.
pub(super) fn sessions(client: Option<&mut Client>) -> Result<Vec<ListedSession>, ServerError> {
    let Some(client) = client else { return Ok(Vec::new()) };
    Ok(client.call::<SessionListResult>("session/list", &serde_json::json!({}))?.sessions)
}

fn list(args: &SessionList) -> Result<ExitCode, Failure> {
    let place = Place::find()?;
    let mut client = server::connect(&place, Role::Manager)?;
    let found = sessions(client.as_mut())?;
    if args.json {
        print(&(serde_json::to_string_pretty(&SessionListResult { sessions: found })? + "\n"))?;
    } else {
        print(&found.iter().map(line).collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn name(session: &ListedSession) -> &str {
    session.name.as_ref().map_or(session.session_id.as_str(), SessionName::as_str)
}

fn line(session: &ListedSession) -> String {
    let running = session.commands.iter().filter(|command| command.state == CommandState::Running).count();
    let workspace: Vec<String> = session.workspace.iter().map(ToString::to_string).collect();
    let questions = match session.questions {
        0 => String::new(),
        count => format!(", {count} open questions"),
    };
    format!("{}  {}  {running} running{questions}, idle {}\n", name(session), workspace.join(" "), idle(session))
}

fn idle(session: &ListedSession) -> String {
    let seconds = session.idle_ms / 1000;
    if seconds < 60 { format!("{seconds}s") } else { format!("{}m", seconds / 60) }
}

/// A session, joined by its ticket.
fn joined(name: &SessionName) -> Result<Option<(Client, ListedSession)>, Failure> {
    let place = Place::find()?;
    let (Some(ticket), Some(mut client)) = (place.ticket(name), server::connect(&place, Role::Manager)?) else {
        return Ok(None);
    };
    if !is_open(&mut client, &ticket.session_id, &ticket.capability)? {
        return Ok(None);
    }
    let found = sessions(Some(&mut client))?.into_iter().find(|session| session.session_id == ticket.session_id);
    Ok(found.map(|session| (client, session)))
}

pub(super) fn no_such(name: &SessionName) -> ExitCode {
    crate::exit::note(&format!("there is no session `{name}`: `stockade session list` has those that there are"));
    ExitCode::from(NONE)
}

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    session: ListedSession,
    #[serde(flatten)]
    remembered: ApprovalRememberedResult,
}

fn show(args: &SessionShow) -> Result<ExitCode, Failure> {
    let Some((mut client, session)) = joined(&args.name)? else { return Ok(no_such(&args.name)) };
    let params = serde_json::json!({ "session_id": session.session_id });
    let remembered: ApprovalRememberedResult = client.call("approval/remembered", &params)?;
    if args.json {
        print(&(serde_json::to_string_pretty(&Shown { session, remembered })? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("session  {} ({})\n", name(&session), session.session_id);
    for root in &session.workspace {
        text += &format!("in       {root}\n");
    }
    let word = |value: serde_json::Value| value.as_str().map_or_else(|| value.to_string(), String::from);
    text += &format!("asks     {}\n", word(serde_json::to_value(session.ask)?));
    text += &format!("sandbox  {}\n", sandbox(&session.sandbox));
    for command in session.commands.iter().filter(|command| command.state == CommandState::Running) {
        let words = command.command.as_ref().map(ToString::to_string).unwrap_or_default();
        text += &format!("runs     {words}\n");
    }
    for approval in &remembered.approvals {
        text += &format!("allowed  {}\n", approval.text);
    }
    text += &format!("idle     {}, with {} open questions\n", idle(&session), session.questions);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A policy in a few words: `workspace-write, network off`.
fn sandbox(policy: &SandboxPolicy) -> String {
    let (name, network) = match policy {
        SandboxPolicy::DangerFullAccess {} => ("danger-full-access", true),
        SandboxPolicy::ReadOnly { network_access, .. } => ("read-only", *network_access),
        SandboxPolicy::ExternalSandbox { network_access } => {
            ("external-sandbox", *network_access == NetworkAccess::Enabled)
        }
        SandboxPolicy::WorkspaceWrite { network_access, .. } => ("workspace-write", *network_access),
    };
    format!("{name}, network {}", if network { "on" } else { "off" })
}

/// Ends sessions concurrently: each takes as long as its commands and its sandbox.
fn end(args: &SessionEnd) -> Result<ExitCode, Failure> {
    let place = Place::find()?;
    let names = if args.all { place.names() } else { args.names.clone() };
    if names.is_empty() && !args.all {
        return Err(ManageError::NoNames.into());
    }
    let mut client = server::connect(&place, Role::Manager)?;
    let mut code = ExitCode::SUCCESS;
    let mut ended = serde_json::Map::new();
    for names in names.chunks(ENDED_AT_ONCE) {
        let requests: Vec<Option<RpcId>> =
            names.iter().map(|name| close(client.as_mut(), &place, name)).collect::<Result<_, _>>()?;
        for (name, request) in names.iter().zip(requests) {
            let closed = match (client.as_mut(), request) {
                (Some(client), Some(request)) => Some(closed(client, &request)?),
                _ => None,
            };
            place.remove(name);
            match closed {
                Some(closed) => {
                    ended.insert(name.to_string(), serde_json::to_value(closed)?);
                    if !args.json {
                        print(&format!("ended {name}, and {} running commands\n", closed.ended_commands))?;
                    }
                }
                None if args.all => {}
                None => code = no_such(name),
            }
        }
    }
    if args.json {
        print(&format!("{:#}\n", serde_json::json!({ "ended": ended })))?;
    }
    Ok(code)
}

/// Asks the server to close a session; `None` if there is no such session.
fn close(client: Option<&mut Client>, place: &Place, name: &SessionName) -> Result<Option<RpcId>, Failure> {
    let (Some(client), Some(ticket)) = (client, place.ticket(name)) else { return Ok(None) };
    if !is_open(client, &ticket.session_id, &ticket.capability)? {
        return Ok(None);
    }
    let params = serde_json::json!({ "session_id": ticket.session_id });
    Ok(Some(client.send("session/close", &params, &[])?))
}

fn closed(client: &mut Client, request: &RpcId) -> Result<SessionCloseResult, ClientError> {
    match client.response(request) {
        // Another client was faster.
        Err(ClientError::Refused(error)) if error.kind() == Some(ErrorKind::Closed) => {
            Ok(SessionCloseResult { ended_commands: 0 })
        }
        other => other,
    }
}
