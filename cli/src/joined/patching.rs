//! `stockade patch --session NAME`: the server of a session judges and writes a patch, and its answers are remembered.

use std::io::PipeReader;
use std::process::ExitCode;

use stockade_protocol::{AbsPath, ApprovalReply, RequestId, ReviewDecision};
use stockade_server::wire::{PatchApplyParams, PatchApplyResult, RpcId, ServerNotification, SessionId};
use stockade_server::{Client, ClientError, FromServer};

use super::asking::{Arrived, Asking, no_terminal};
use super::joining::{self, JoinError, Joined};
use super::{Opening, Wanted};
use crate::exit::{Failure, note};
use crate::signals;

#[derive(Debug, thiserror::Error)]
enum PatchError {
    #[error("the patch is not UTF-8: apply it without `--session`")]
    NotText,
    #[error("the server of sessions ended before the patch was written")]
    ServerEnded,
}

/// The end of a patch for this program.
pub(crate) enum Patched {
    Result(PatchApplyResult),
    /// A signal ended the question, or this program.
    Signal(ExitCode),
}

/// Lets the session's server write a patch, and asks its questions at this terminal.
pub(crate) fn patch(
    wanted: &Wanted<'_>,
    text: Vec<u8>,
    cwd: AbsPath,
    opening: impl FnOnce() -> Result<Opening, Failure>,
) -> Result<Patched, Failure> {
    let text = String::from_utf8(text).map_err(|_| PatchError::NotText)?;
    let opening = opening()?;
    let Joined { mut client, session_id, .. } = match attached(joining::join(wanted)?)? {
        Some(joined) => {
            joining::check_flags(wanted, &opening)?;
            joined
        }
        None => attached(Some(joining::open(wanted, opening)?))?
            .ok_or_else(|| JoinError::Gone { name: wanted.name.to_string() })?,
    };
    let params = PatchApplyParams { session_id: session_id.clone(), changes: None, patch: Some(text), cwd: Some(cwd) };
    let (signals, asking) = (signals::watch_ends()?, Asking::new()?);
    let request = client.send("patch/apply", &params, &[])?;
    let mut patching = Patching { client, session_id, signals, asking, request, asked: Vec::new() };
    let end = patching.wait();
    patching.asking.finish();
    signals::end_by_default();
    match end {
        Ok(end) => Ok(end),
        Err(ClientError::Ended) => Err(PatchError::ServerEnded.into()),
        Err(error) => Err(error.into()),
    }
}

/// Attaches the connection to the session; `None` if the session no longer exists.
fn attached(joined: Option<Joined>) -> Result<Option<Joined>, Failure> {
    let Some(mut joined) = joined else { return Ok(None) };
    let is_open = joining::is_open(&mut joined.client, &joined.session_id, &joined.capability)?;
    Ok(Some(joined).filter(|_| is_open))
}

struct Patching {
    client: Client,
    session_id: SessionId,
    signals: PipeReader,
    asking: Asking,
    request: RpcId,
    /// The open questions for this program.
    asked: Vec<(RpcId, RequestId)>,
}

impl Patching {
    fn wait(&mut self) -> Result<Patched, ClientError> {
        loop {
            while self.client.has_message() {
                if let Some(end) = self.take()? {
                    return Ok(end);
                }
            }
            match self.asking.wait(&mut self.client, &mut self.signals)? {
                Arrived::Signal(number) => {
                    self.decline()?;
                    return Ok(Patched::Signal(ExitCode::from(number.saturating_add(128))));
                }
                Arrived::Server => {
                    if let Some(end) = self.take()? {
                        return Ok(end);
                    }
                }
                Arrived::Nothing => {}
            }
        }
    }

    /// Denies open questions when a signal ends this program: nothing is written afterwards.
    fn decline(&mut self) -> Result<(), ClientError> {
        for (rpc, id) in std::mem::take(&mut self.asked) {
            let decision = ReviewDecision::Denied { reason: Some(String::from("a signal ended `stockade patch`")) };
            self.client.answer(&rpc, &Ok(ApprovalReply { id, decision, content: None }))?;
        }
        Ok(())
    }

    /// Handles the next message of the server.
    fn take(&mut self) -> Result<Option<Patched>, ClientError> {
        match self.client.next()? {
            FromServer::Response { id, answer } if id.as_ref() == Some(&self.request) => {
                let result = stockade_protocol::parse(&answer?);
                let result = result.map_err(|error| ClientError::Unexpected(error.to_string()))?;
                return Ok(Some(Patched::Result(result)));
            }
            FromServer::Question { id, params } if params.session_id == self.session_id && self.asking.has_person() => {
                self.asked.push((id.clone(), params.request.id.clone()));
                self.asking.ask(id, *params);
            }
            FromServer::Question { id, .. } => {
                self.client.answer(&id, &Err(no_terminal()))?;
            }
            FromServer::Notification(ServerNotification::ApprovalResolved(resolved)) => {
                self.asking.call_off(&resolved.question_id);
            }
            FromServer::Notification(ServerNotification::SessionNotice(notice)) => note(&notice.text),
            FromServer::Response { .. } | FromServer::Notification(_) => {}
        }
        Ok(None)
    }
}
