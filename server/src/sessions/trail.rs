//! Reads the audit trail and the rules.

use std::io;
use std::path::PathBuf;

use stockade::config::{ConfigLoader, Layer, user_variable};
use stockade::core::{AuditError, Verdict, records, state_directory, verify};
use stockade::execpolicy::CheckReport;
use stockade::protocol::RawText;

use super::Sessions;
use crate::peer::Peer;
use crate::wire::{
    AuditListParams, AuditListResult, AuditVerifyResult, ErrorKind, RpcError, RulesCheckParams, TrailFlaw,
};

/// Limit on records in one response.
const MOST_RECORDS: usize = 1000;

/// Approximate limit on bytes in one response.
const MOST_BYTES: usize = 2 << 20;

impl Sessions {
    /// The trail of the given session, else of one that this connection is attached to, else the user's own.
    fn trail(&self, peer: &Peer, session: Option<&crate::wire::SessionId>) -> Result<PathBuf, RpcError> {
        let session = match session {
            Some(id) => Some(self.attached(peer, id)?),
            None => self.all_attached(peer).into_iter().next(),
        };
        let own = || {
            let settings = ConfigLoader::standard()
                .and_then(|loader| loader.load(Layer::default()))
                .map_err(|error| RpcError::failed(&error))?
                .settings;
            let usual = || state_directory(user_variable).ok_or(AuditError::NoPlace);
            settings.audit_directory.map_or_else(usual, Ok).map_err(|error| RpcError::failed(&error))
        };
        session.and_then(|session| session.stockade.trail_directory()).map_or_else(own, Ok)
    }

    pub(super) async fn read_trail(&self, peer: &Peer, params: AuditListParams) -> Result<AuditListResult, RpcError> {
        let most = params.limit.map_or(MOST_RECORDS, |limit| limit as usize);
        if most == 0 || most > MOST_RECORDS {
            let message = format!("`params.limit`: a number from 1 to {MOST_RECORDS}");
            return Err(RpcError::new(ErrorKind::InvalidParams, message));
        }
        let directory = self.trail(peer, params.session_id.as_ref())?;
        let read = tokio::task::spawn_blocking(move || read(&directory, &params, most)).await;
        read.map_err(|died| RpcError::new(ErrorKind::Internal, died.to_string()))?
            .map_err(|error| RpcError::failed(&error))
    }

    pub(super) async fn verify_trail(&self, peer: &Peer) -> Result<AuditVerifyResult, RpcError> {
        let directory = self.trail(peer, None)?;
        let verified = tokio::task::spawn_blocking(move || verify(&directory)).await;
        let verified = verified.map_err(|died| RpcError::new(ErrorKind::Internal, died.to_string()))?;
        let found = verified.map_err(|error| RpcError::failed(&error))?;
        Ok(AuditVerifyResult {
            whole: found.bad.is_none(),
            records: found.records,
            first_sequence: found.first.map(|first| first.sequence),
            first_time_ms: found.first.map(|first| first.time_ms),
            last_sequence: found.last.map(|(sequence, _)| sequence),
            last_hash: found.last.map(|(_, hash)| hash),
            unfinished: found.unfinished.len() as u64,
            bad: found.bad.map(|bad| TrailFlaw {
                file: RawText::from(bad.file.into_os_string().into_encoded_bytes()),
                line: bad.line,
                sequence: bad.sequence,
                flaw: bad.flaw.to_string(),
            }),
        })
    }

    pub(super) fn check_rules(&self, peer: &Peer, params: &RulesCheckParams) -> Result<CheckReport, RpcError> {
        if let Some(id) = &params.session_id {
            let session = self.attached(peer, id)?;
            session.refresh()?;
            return Ok(session.stockade.orchestrator().check_rules(&params.command));
        }
        let policy = stockade::rules::standard(user_variable).load().map_err(|error| RpcError::failed(&error))?;
        Ok(Verdict::of(&policy, &params.command).report())
    }
}

/// Reads records, the oldest first, as many as fit a response.
fn read(directory: &std::path::Path, params: &AuditListParams, most: usize) -> Result<AuditListResult, AuditError> {
    let mut found = AuditListResult { records: Vec::new(), next: None };
    let all = match records(directory) {
        // There is no trail yet.
        Err(AuditError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(found),
        all => all?,
    };
    let is_wanted = |sequence: u64| params.after.is_none_or(|after| sequence > after);
    let mut bytes = 0;
    for record in all {
        let record = record?;
        let is_of_session = params.session_id.as_ref().is_none_or(|id| record.thread_id.as_str() == id.as_str());
        if !is_wanted(record.sequence) || !is_of_session {
            continue;
        }
        bytes += serde_json::to_vec(&record).map_or(0, |json| json.len());
        let is_full = found.records.len() >= most || (bytes > MOST_BYTES && !found.records.is_empty());
        if is_full {
            found.next = found.records.last().map(|record| record.sequence);
            break;
        }
        found.records.push(record);
    }
    Ok(found)
}
