//! The trail, record by record and as a whole.

use std::io;
use std::path::{Path, PathBuf};

use stockade_config::{ConfigLoader, Layer, user_variable};
use stockade_core::{AuditError, records, state_directory, verify};
use stockade_protocol::{AuditRecord, RawText};

use super::{apart, failed};
use crate::wire::{AuditListParams, AuditListResult, AuditVerifyResult, ErrorKind, RpcError, TrailFlaw};

/// Records of one response.
const MOST_RECORDS: usize = 1000;
/// Bytes of the records of one response. The last one may be beyond.
const MOST_BYTES: usize = 4 << 20;

/// Where the server's own settings have the trail.
pub(crate) async fn own_trail() -> Result<PathBuf, RpcError> {
    apart(|| {
        let settings = ConfigLoader::standard().map_err(failed)?.load(Layer::default()).map_err(failed)?.settings;
        let usual = || state_directory(user_variable).ok_or(AuditError::NoPlace);
        settings.audit_directory.map_or_else(usual, Ok).map_err(failed)
    })
    .await
}

/// Reads records of a trail.
pub(crate) async fn audit_list(trail: PathBuf, params: AuditListParams) -> Result<AuditListResult, RpcError> {
    let most = match params.limit.map(usize::try_from) {
        None => MOST_RECORDS,
        Some(Ok(limit)) if (1..=MOST_RECORDS).contains(&limit) => limit,
        Some(_) => {
            let message = format!("`params.limit` must be from 1 to {MOST_RECORDS}");
            return Err(RpcError::new(ErrorKind::InvalidParams, message));
        }
    };
    apart(move || list(&trail, &params, most)).await
}

fn list(trail: &Path, params: &AuditListParams, most: usize) -> Result<AuditListResult, RpcError> {
    let mut found = AuditListResult { records: Vec::new(), next: None };
    let Some(records) = existing(trail)? else { return Ok(found) };
    let mut bytes = 0;
    for record in records {
        let record = record.map_err(failed)?;
        let is_behind = params.after.is_none_or(|after| record.sequence > after);
        let is_of = |session: &crate::wire::SessionId| session.as_str() == record.thread_id.as_str();
        if !is_behind || !params.session_id.as_ref().is_none_or(is_of) {
            continue;
        }
        if found.records.len() >= most || bytes > MOST_BYTES {
            found.next = found.records.last().map(|last| last.sequence);
            return Ok(found);
        }
        bytes += serde_json::to_vec(&record).map_or(0, |json| json.len());
        found.records.push(record);
    }
    Ok(found)
}

/// The records; none where there never was a trail.
fn existing(trail: &Path) -> Result<Option<impl Iterator<Item = Result<AuditRecord, AuditError>>>, RpcError> {
    match records(trail) {
        Ok(records) => Ok(Some(records)),
        Err(AuditError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Looks at every record of a trail.
pub(crate) async fn audit_verify(trail: PathBuf) -> Result<AuditVerifyResult, RpcError> {
    apart(move || {
        let verdict = verify(&trail).map_err(failed)?;
        let bad = verdict.bad.map(|bad| TrailFlaw {
            file: RawText::from(bad.file.into_os_string().into_encoded_bytes()),
            line: bad.line,
            sequence: bad.sequence,
            flaw: bad.flaw.to_string(),
        });
        Ok(AuditVerifyResult {
            whole: bad.is_none(),
            records: verdict.records,
            first_sequence: verdict.first.map(|first| first.sequence),
            first_time_ms: verdict.first.map(|first| first.time_ms),
            last_sequence: verdict.last.map(|(sequence, _)| sequence),
            last_hash: verdict.last.map(|(_, hash)| hash),
            unfinished: u64::try_from(verdict.unfinished.len()).unwrap_or(u64::MAX),
            bad,
        })
    })
    .await
}
