#![doc = include_str!("../README.md")]

mod approver;
mod audit;

pub use approver::{Answer, Approver, Unanswered};
pub use audit::{AuditError, AuditSink, MemoryAudit, NoAudit};
