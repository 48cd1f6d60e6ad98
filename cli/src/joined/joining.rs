//! Joins a session by its ticket, or opens it and leaves a ticket.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, RawText, VariableName};
use stockade_server::wire::{
    Capability, ErrorKind, SessionAttachParams, SessionId, SessionListResult, SessionName, SessionOpenParams,
    SessionOpenResult, SessionState,
};
use stockade_server::{Client, ClientError};

use super::place::{Place, PlaceError, Ticket};
use super::server::{self, Role, ServerError};
use super::{NamedBy, Opening, Wanted};
use crate::exit::note;

/// How long the server may take to notice that a client was killed.
const LONGEST_NOTICE: Duration = Duration::from_secs(2);
/// How long a session without a client may take to end.
const LONGEST_END: Duration = Duration::from_secs(20);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the session `{name}` was opened by another program: choose another name")]
    NotOurs { name: String },
    #[error("the session `{name}` could not be opened")]
    NotOpened { name: String, source: ClientError },
    #[error(
        "the session `{name}` is open, and `{flag}` can't change it: leave it out, or end the session first \
         (`stockade session end {name}`)"
    )]
    Flags { name: String, flag: String },
    #[error(
        "`STOCKADE_SESSION` names the session `{name}`, which was opened with `{flags}`: a variable does not choose other \
         permissions than the settings do. Name it with `--session {name}`"
    )]
    OtherPermissions { name: String, flags: String },
    #[error(
        "`STOCKADE_SESSION` names the session `{name}`, whose workspace is `{workspace}`, and this is `{here}`: name it with \
         `--session {name}`"
    )]
    OtherWorkspace { name: String, workspace: String, here: String },
    #[error("the session `{name}` was closed before the command could start: try again")]
    Gone { name: String },
    #[error(
        "there is no session `{name}`: an agent's hook opens it, and it ends half an hour after its last command. Have the \
         agent run the command again; `stockade session list` has the sessions that are open"
    )]
    NotOpen { name: String },
    #[error("the working directory can't be found")]
    NoDirectory(#[source] std::io::Error),
}

/// A connection, with the session's credentials.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) client: Client,
    pub(super) session_id: SessionId,
    pub(super) capability: Capability,
    pub(super) place: Place,
}

/// Connects to the server of a session, if there are a ticket and a server. The session itself may no longer exist.
pub(super) fn join(wanted: &Wanted<'_>) -> Result<Option<Joined>, JoinError> {
    let place = Place::find()?;
    let Some(ticket) = place.ticket(&wanted.name) else { return Ok(None) };
    let Some(client) = server::connect(&place, Role::Runner)? else { return Ok(None) };
    check_variable(wanted, &ticket)?;
    Ok(Some(Joined { client, session_id: ticket.session_id, capability: ticket.capability, place }))
}

/// Like `join`, without a message to the server, for a client that runs a command at once and falls back to [`join`].
pub(super) fn join_early(wanted: &Wanted<'_>) -> Result<Option<Joined>, JoinError> {
    let place = Place::find()?;
    let Some(ticket) = place.ticket(&wanted.name) else { return Ok(None) };
    let Some(client) = server::reach(&place.socket(), Role::Runner)? else { return Ok(None) };
    check_variable(wanted, &ticket)?;
    Ok(Some(Joined { client, session_id: ticket.session_id, capability: ticket.capability, place }))
}

/// A variable may come from a project. It may only name a session with the settings' permissions, in its workspace.
fn check_variable(wanted: &Wanted<'_>, ticket: &Ticket) -> Result<(), JoinError> {
    if wanted.named_by == NamedBy::Flag {
        return Ok(());
    }
    let name = wanted.name.to_string();
    if !ticket.flags.is_empty() {
        return Err(JoinError::OtherPermissions { name, flags: ticket.flags.join(" ") });
    }
    let here = std::env::current_dir().map_err(JoinError::NoDirectory)?;
    let is_inside =
        AbsPath::from_path(&here).is_ok_and(|here| ticket.workspace.iter().any(|root| here.starts_with(root)));
    if is_inside {
        return Ok(());
    }
    let workspace = ticket.workspace.iter().map(AbsPath::to_string).collect::<Vec<_>>().join("`, `");
    Err(JoinError::OtherWorkspace { name, workspace, here: here.display().to_string() })
}

/// Opens a session, or joins one that another client has opened meanwhile.
pub(super) fn open(wanted: &Wanted<'_>, opening: Opening) -> Result<Joined, JoinError> {
    let place = Place::find()?;
    place.make()?;
    let _lock = place.lock(&format!("open-{}", wanted.name))?;
    let mut client = server::connect_or_start(&place)?;
    if let Some(ticket) = place.ticket(&wanted.name) {
        if is_open(&mut client, &ticket.session_id, &ticket.capability)? {
            check_variable(wanted, &ticket)?;
            check_flags(wanted, &opening)?;
            return Ok(Joined { client, session_id: ticket.session_id, capability: ticket.capability, place });
        }
        place.remove(&wanted.name);
    }
    // Without its ticket no client finds the session again, so until there is one it ends with this program.
    let linger_ms = opening.params.linger_ms;
    let params = SessionOpenParams {
        name: Some(wanted.name.clone()),
        environment: Some(environment()),
        linger_ms: linger_ms.and(Some(0)),
        ..opening.params
    };
    let opened = open_named(&mut client, &wanted.name, &params)?;
    opened.notices.iter().for_each(|notice| note(notice));
    let ticket = Ticket {
        session_id: opened.session_id.clone(),
        capability: opened.capability.clone(),
        flags: opening.flags,
        workspace: params.workspace.unwrap_or_else(|| params.cwd.into_iter().collect()),
    };
    place.leave(&wanted.name, &ticket)?;
    if linger_ms.is_some() {
        let Ticket { session_id, capability, .. } = ticket;
        client
            .call::<SessionState>("session/attach", &SessionAttachParams { session_id, capability, linger_ms })
            .map_err(|source| JoinError::NotOpened { name: wanted.name.to_string(), source })?;
    }
    Ok(Joined { client, session_id: opened.session_id, capability: opened.capability, place })
}

/// Opens a session with a name that no ticket is for. A session that has the name all the same was opened by another
/// program, or by a client that was killed before it left the ticket: such a session is about to end.
fn open_named(
    client: &mut Client,
    name: &SessionName,
    params: &SessionOpenParams,
) -> Result<SessionOpenResult, JoinError> {
    let begun = Instant::now();
    loop {
        match client.call("session/open", params) {
            Ok(opened) => return Ok(opened),
            Err(ClientError::Refused(error))
                if error.kind() == Some(ErrorKind::InvalidParams) && error.message.contains("params.name") =>
            {
                let patience = if has_clients(client, name)? { LONGEST_NOTICE } else { LONGEST_END };
                if begun.elapsed() >= patience {
                    return Err(JoinError::NotOurs { name: name.to_string() });
                }
                std::thread::sleep(BETWEEN_TRIES);
            }
            Err(source) => return Err(JoinError::NotOpened { name: name.to_string(), source }),
        }
    }
}

/// Whether a session of this name is open, and a client is attached to it.
fn has_clients(client: &mut Client, name: &SessionName) -> Result<bool, ServerError> {
    let list: SessionListResult = client.call("session/list", &serde_json::json!({}))?;
    Ok(list.sessions.iter().any(|session| session.name.as_ref() == Some(name) && session.clients > 0))
}

/// Refuses flags for an open session: they can't take effect.
pub(super) fn check_flags(wanted: &Wanted<'_>, opening: &Opening) -> Result<(), JoinError> {
    match opening.flags.first() {
        Some(flag) => Err(JoinError::Flags { name: wanted.name.to_string(), flag: flag.clone() }),
        None => Ok(()),
    }
}

/// Whether the session exists and the capability is valid. This connection is then attached to it.
pub(super) fn is_open(
    client: &mut Client,
    session_id: &SessionId,
    capability: &Capability,
) -> Result<bool, ServerError> {
    let params = serde_json::json!({ "session_id": session_id, "capability": capability });
    match client.call::<serde_json::Value>("session/attach", &params) {
        Ok(_) => Ok(true),
        Err(ClientError::Refused(error))
            if matches!(
                error.kind(),
                Some(ErrorKind::UnknownSession | ErrorKind::NotPermitted | ErrorKind::Closed)
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// The environment of this program, without its own variables.
pub(super) fn environment() -> BTreeMap<VariableName, RawText> {
    let pairs = std::env::vars_os().filter(|(name, _)| name != server::SESSION_VARIABLE);
    let pair = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        // Names that no shell can set are dropped.
        Some((name.to_str()?.parse().ok()?, RawText::from(value.into_encoded_bytes())))
    };
    pairs.filter_map(pair).collect()
}
