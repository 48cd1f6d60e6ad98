//! One record as one line, and the hash that ties it to the line before.
//!
//! The hash covers the bytes of the line as they stand in the file, from `{` to the comma before `"hash"`, closed with
//! `}`. So only the bytes matter: any tool that can split lines and compute SHA-256 can verify a trail, and no byte of
//! a line can change unnoticed.

use serde::Serialize;
use sha2::{Digest as _, Sha256};
use stockade_protocol::{AuditEvent, AuditRecord, RecordHash, RequestId, ThreadId, parse};

/// Limit on the size of a record. A longer one is not written: the end of a trail has to be readable at once.
pub(crate) const MAX_RECORD_BYTES: usize = 1024 * 1024;

/// The separator between a record's last covered byte and its hash.
const HASH_FIELD: &str = ",\"hash\":\"";
const HASH_DIGITS: usize = 64;

/// A record before it has a hash.
#[derive(Serialize)]
pub(crate) struct Unsealed<'a> {
    pub(crate) sequence: u64,
    pub(crate) time_ms: u64,
    pub(crate) thread_id: &'a ThreadId,
    pub(crate) request_id: &'a RequestId,
    pub(crate) event: &'a AuditEvent,
    pub(crate) previous: RecordHash,
}

impl Unsealed<'_> {
    /// The line, with its newline, and the record's hash.
    pub(crate) fn seal(&self) -> Result<(Vec<u8>, RecordHash), serde_json::Error> {
        let mut line = serde_json::to_vec(self)?;
        let hash = digest(&line);
        // The closing brace moves behind the hash.
        line.pop();
        line.extend_from_slice(format!("{HASH_FIELD}{hash}\"}}\n").as_bytes());
        Ok((line, hash))
    }
}

/// The SHA-256 of some bytes.
pub(crate) fn digest(bytes: &[u8]) -> RecordHash {
    RecordHash(Sha256::digest(bytes).into())
}

/// A problem of a single line.
#[derive(Debug, PartialEq)]
pub(crate) enum BadLine {
    /// It is not a record.
    NotARecord,
    /// It is a record, but its hash does not match.
    Changed {
        /// The sequence number in the line.
        sequence: u64,
    },
}

/// Reads a line, without its newline, and checks its hash.
pub(crate) fn open(line: &[u8]) -> Result<AuditRecord, BadLine> {
    let text = std::str::from_utf8(line).map_err(|_| BadLine::NotARecord)?;
    let record: AuditRecord = parse(text).map_err(|_| BadLine::NotARecord)?;
    match covered(line) {
        Some(covered) if digest(&covered) == record.hash => Ok(record),
        Some(_) | None => Err(BadLine::Changed { sequence: record.sequence }),
    }
}

/// The bytes that the hash of a line covers.
fn covered(line: &[u8]) -> Option<Vec<u8>> {
    let end = line.len().checked_sub(HASH_FIELD.len() + HASH_DIGITS + 2)?;
    let (body, rest) = line.split_at_checked(end)?;
    let (field, rest) = rest.split_at_checked(HASH_FIELD.len())?;
    (field == HASH_FIELD.as_bytes() && rest.ends_with(b"\"}")).then(|| [body, b"}"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_record_in_its_one_written_form() {
        let event = AuditEvent::Ended {
            result: "exited".into(),
            exit_code: Some(0),
            duration_ms: 3,
            enforcement: stockade_protocol::Enforcement { engine: "native".into(), layers: Vec::new() },
            violations: Vec::new(),
        };
        let (thread_id, request_id) = ("t".parse().unwrap(), "r".parse().unwrap());
        let unsealed = Unsealed {
            sequence: 7,
            time_ms: 1,
            thread_id: &thread_id,
            request_id: &request_id,
            event: &event,
            previous: RecordHash([9; 32]),
        };
        let (line, hash) = unsealed.seal().unwrap();
        let record = open(line.strip_suffix(b"\n").unwrap()).unwrap();
        assert_eq!((record.sequence, record.hash, &record.event), (7, hash, &event));
        assert_eq!(serde_json::to_string(&record).unwrap() + "\n", String::from_utf8(line).unwrap());
    }
}
