//! The contract for audit sinks, and the two sinks that are not a file.

use std::sync::{Mutex, PoisonError};

use stockade_protocol::{AuditEvent, RequestId, ThreadId};

use crate::AuditError;

/// Receives events, one after the other.
///
/// An implementation redacts, numbers and timestamps the events. It is called from many threads.
pub trait AuditSink: Send + Sync {
    /// Adds one event. When it returns, the event is stored as safely as this sink can; an error means that it is not
    /// stored, and a run that requires the trail must not proceed.
    fn append(&self, thread: &ThreadId, request: &RequestId, event: AuditEvent) -> Result<(), AuditError>;
}

/// Discards events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn append(&self, _: &ThreadId, _: &RequestId, _: AuditEvent) -> Result<(), AuditError> {
        Ok(())
    }
}

/// Keeps unredacted events in memory: for the tests of embedders.
#[derive(Debug, Default)]
pub struct MemoryAudit {
    events: Mutex<Vec<(ThreadId, RequestId, AuditEvent)>>,
}

impl MemoryAudit {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// All events so far, in order.
    pub fn events(&self) -> Vec<(ThreadId, RequestId, AuditEvent)> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The events of one request.
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
