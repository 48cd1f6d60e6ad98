//! Where records go: the contract, and the two places that are not a file.

use std::sync::{Mutex, PoisonError};

use stockade_protocol::{AuditEvent, RequestId, ThreadId};

use crate::AuditError;

/// Takes what happens, one event after the other.
///
/// An implementation redacts what it keeps, numbers it and
/// stamps it with the time. It is called from many threads.
pub trait AuditSink: Send + Sync {
    /// Adds one event. When it returns, the event is kept as safely as this sink can keep it; an
    /// error means that it is not kept, and a run that requires the trail must not go ahead.
    fn append(&self, thread: &ThreadId, request: &RequestId, event: AuditEvent) -> Result<(), AuditError>;
}

/// Keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn append(&self, _: &ThreadId, _: &RequestId, _: AuditEvent) -> Result<(), AuditError> {
        Ok(())
    }
}

/// Keeps events in memory, as they were given: for the tests of embedders.
#[derive(Debug, Default)]
pub struct MemoryAudit {
    events: Mutex<Vec<(ThreadId, RequestId, AuditEvent)>>,
}

impl MemoryAudit {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything so far, in the order in which it came.
    pub fn events(&self) -> Vec<(ThreadId, RequestId, AuditEvent)> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What happened to one request.
    pub fn of(&self, request: &RequestId) -> Vec<AuditEvent> {
        self.events().into_iter().filter(|(_, id, _)| id == request).map(|(_, _, event)| event).collect()
    }
}

impl AuditSink for MemoryAudit {
    fn append(&self, thread: &ThreadId, request: &RequestId, event: AuditEvent) -> Result<(), AuditError> {
        let entry = (thread.clone(), request.clone(), event);
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Ok(())
    }
}
