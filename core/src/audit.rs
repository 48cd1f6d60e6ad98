//! The audit trail of requests, decisions and results.
//!
//! Records are lines of JSON in `audit.jsonl`, each with the hash of the one before it. Beside it, `audit.head`
//! records the end of the trail, and full files are kept as `audit.NNNNNN.jsonl`.

mod error;
mod head;
mod line;
mod place;
mod read;
mod repair;
mod sink;
mod trail;
mod verify;

pub use error::AuditError;
pub(crate) use line::MAX_RECORD_BYTES;
pub use place::state_directory;
pub use read::records;
pub use sink::{AuditSink, MemoryAudit, NoAudit};
pub use trail::{AuditTrail, Durability, TrailOptions};
pub use verify::{BadRecord, FirstKept, Flaw, Note, Verification, verify};
