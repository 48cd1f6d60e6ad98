#![doc = include_str!("../README.md")]

mod approver;
mod audit;
mod redact;

pub use approver::{Answer, Approver, Unanswered};
pub use audit::{
    AuditError, AuditSink, AuditTrail, BadRecord, Durability, Flaw, MemoryAudit, NoAudit, Note, TrailOptions, Verdict,
    records, state_directory, verify,
};
pub use redact::{REDACTED, redact_argv, redact_event, redact_text, redact_variable};
