//! Limits on the records of one run. A command causes some of them itself (one per connection), and must not push the
//! records of earlier runs out of the trail, whose size is bounded.

use std::io;
use std::sync::{Mutex, PoisonError};

use stockade_protocol::AuditEvent;

/// Limit on records; honest runs need fewer: an install of a thousand packages talks to a few hosts.
pub(crate) const MAX_RECORDS: u64 = 1000;
/// A sixteenth of one file of the trail, of which nine are kept.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The remaining budget of one run, shared by its threads.
#[derive(Debug)]
pub(crate) struct RecordBudget(Mutex<Left>);

#[derive(Debug)]
struct Left {
    records: u64,
    bytes: u64,
    unrecorded: u64,
}

impl Default for RecordBudget {
    fn default() -> Self {
        Self(Mutex::new(Left { records: MAX_RECORDS, bytes: MAX_BYTES, unrecorded: 0 }))
    }
}

impl RecordBudget {
    /// Whether this event still gets a record. One that does not is counted.
    pub(crate) fn take(&self, event: &AuditEvent) -> bool {
        let size = size(event);
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (left.records.checked_sub(1), left.bytes.checked_sub(size)) {
            (Some(records), Some(bytes)) => {
                (left.records, left.bytes) = (records, bytes);
                true
            }
            _ => {
                if left.unrecorded == 0 {
                    tracing::warn!("more events than one run may have records: from here on they are only counted");
                }
                // After the limit no event gets a record, not even a smaller one.
                *left = Left { records: 0, bytes: 0, unrecorded: left.unrecorded.saturating_add(1) };
                false
            }
        }
    }

    /// Counts an event without a record.
    pub(crate) fn leave_out(&self) {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        left.unrecorded = left.unrecorded.saturating_add(1);
    }

    /// The number of events without a record.
    pub(crate) fn unrecorded(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).unrecorded
    }
}

/// An upper bound on the record's size: long texts are shortened later.
fn size(event: &AuditEvent) -> u64 {
    let mut counter = Counter(0);
    match serde_json::to_writer(&mut counter, event) {
        Ok(()) => counter.0,
        Err(_) => MAX_BYTES,
    }
    .min(crate::audit::MAX_RECORD_BYTES as u64)
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{Refusal, RefusedBy};

    use super::*;

    fn event(bytes: usize) -> AuditEvent {
        AuditEvent::Refused(Refusal { by: RefusedBy::Rule, reason: "x".repeat(bytes) })
    }

    #[test]
    fn records_and_their_bytes_are_bounded() {
        let many = RecordBudget::default();
        assert_eq!((0..MAX_RECORDS + 10).filter(|_| many.take(&event(1))).count() as u64, MAX_RECORDS);
        assert_eq!(many.unrecorded(), 10);
        let large = RecordBudget::default();
        let kept = (0..100).filter(|_| large.take(&event(100_000))).count();
        assert_eq!(kept as u64, MAX_BYTES / (100_000 + 39));
        assert!(!large.take(&event(1)), "nothing slips in behind the limit");
        let huge = RecordBudget::default();
        assert!(huge.take(&event(50_000_000)), "one long command leaves room for its end");
        assert!(huge.take(&event(1)));
    }
}
