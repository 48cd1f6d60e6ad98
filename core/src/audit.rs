//! The trail of what was asked, decided and done.

mod error;
mod sink;

pub use error::AuditError;
pub use sink::{AuditSink, MemoryAudit, NoAudit};
