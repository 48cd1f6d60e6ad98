//! The records of a run's connections: each destination before it is reached, and a bounded number, however often a
//! command tries.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_network_proxy::{NotRecorded, Records};
use stockade_protocol::{AuditEvent, Decision, DecisionSource, Destination, Violation};

use crate::audit_log::Trail;

/// Records every decision, and keeps the denials.
///
/// One run has a bounded number of records (`audit_budget`). So equal denials are counted, and the count is written at
/// the end; so are equal connections that were allowed, at each power of two, once a run has made many.
pub(crate) struct ConnectionLog {
    trail: Trail,
    counted: Mutex<Counted>,
    violations: Mutex<Vec<Violation>>,
}

#[derive(Default)]
struct Counted {
    equal: HashMap<Decided, Count>,
    /// The number of destinations, by decision.
    listed: HashMap<Decision, usize>,
    /// Records of allowed connections.
    allowed: usize,
}

/// The key by which connections are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Decided {
    destination: Destination,
    decision: Decision,
    source: DecisionSource,
}

#[derive(Default)]
struct Count {
    times: u64,
    /// The number of recorded connections.
    written: u64,
}

/// Limit on violations; repetitions add no information.
const MOST_VIOLATIONS: usize = 100;
/// Limit on listed denied destinations, and on counted allowed ones. Failed attempts cost a command nothing, and must
/// leave room for the records of allowed ones.
const MOST_LISTED: usize = 200;
/// The number of allowed connections with a record each, before they are counted.
const MOST_SINGLE: usize = 200;

impl ConnectionLog {
    pub(crate) fn new(trail: Trail) -> Self {
        Self { trail, counted: Mutex::default(), violations: Mutex::default() }
    }

    /// The denials so far.
    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Writes the counts that are not recorded yet.
    pub(crate) fn finish(&self) {
        for (decided, count) in &mut self.counted().equal {
            if count.written < count.times {
                self.trail.note(decided.event(count.times));
                count.written = count.times;
            }
        }
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, decided: &Decided) -> Result<(), String> {
        let mut counted = self.counted();
        let Counted { equal, listed, allowed } = &mut *counted;
        let listed = listed.entry(decided.decision).or_default();
        let is_allowed = decided.decision == Decision::Allow;
        if *listed >= MOST_LISTED && !equal.contains_key(decided) {
            if is_allowed {
                return self.trail.record_connection(decided.event(1));
            }
            self.trail.leave_out();
            return Ok(());
        }
        let count = equal.entry(decided.clone()).or_insert_with(|| {
            *listed += 1;
            Count::default()
        });
        let before = count.times;
        count.times = before.saturating_add(1);
        // A destination needs a first record.
        let is_due = count.written == 0 || (is_allowed && (*allowed < MOST_SINGLE || count.times.is_power_of_two()));
        if !is_due {
            return Ok(());
        }
        let recorded = self.trail.record_connection(decided.event(count.times));
        match &recorded {
            Ok(()) => (count.written, *allowed) = (count.times, *allowed + usize::from(is_allowed)),
            // The connection is not made, so it does not count.
            Err(_) if is_allowed => count.times = before,
            Err(_) => {}
        }
        recorded
    }
}

impl Decided {
    fn event(&self, times: u64) -> AuditEvent {
        let Self { destination, decision, source } = self.clone();
        AuditEvent::Connected { destination, decision, source, times }
    }
}

/// An abandoned run records its counts, too.
impl Drop for ConnectionLog {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Records for ConnectionLog {
    fn decided(&self, event: AuditEvent) -> Result<(), NotRecorded> {
        let AuditEvent::Connected { destination, decision, source, .. } = event else {
            self.trail.note(event);
            return Ok(());
        };
        tracing::info!(
            name: "network.decided",
            thread = %self.trail.thread(),
            request = %self.trail.request(),
            host = %destination.host,
            port = destination.port,
            ?decision,
        );
        self.count(&Decided { destination, decision, source }).map_err(NotRecorded)
    }

    fn denied(&self, violation: Violation) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        // A client tries addresses of both families, from several processes: that is one refusal.
        let is_known = |known: &Violation| (known.operation, &known.target) == (violation.operation, &violation.target);
        if violations.len() < MOST_VIOLATIONS && !violations.iter().any(is_known) {
            violations.push(violation);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use stockade_protocol::{NetworkProtocol, RequestId, ThreadId};

    use super::*;
    use crate::audit_log::AuditLog;
    use crate::{AuditDemand, AuditError, AuditSink, MemoryAudit};

    /// Keeps events until the disk is full.
    #[derive(Default)]
    struct Disk {
        kept: MemoryAudit,
        is_full: AtomicBool,
    }

    impl AuditSink for Disk {
        fn append(&self, thread: &ThreadId, request: &RequestId, event: AuditEvent) -> Result<(), AuditError> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(AuditError::TooLarge { bytes: 0 });
            }
            self.kept.append(thread, request, event)
        }
    }

    fn log(disk: &Arc<Disk>, demand: AuditDemand) -> ConnectionLog {
        let sink = Arc::clone(disk) as Arc<dyn AuditSink>;
        ConnectionLog::new(AuditLog { sink, demand }.begin(&"t".parse().unwrap(), &"r".parse().unwrap()))
    }

    fn connected(port: u16, decision: Decision) -> AuditEvent {
        let host = "a.test".parse().unwrap();
        let destination = Destination { host, protocol: NetworkProtocol::Tcp, port };
        AuditEvent::Connected { destination, decision, source: DecisionSource::Fallback, times: 1 }
    }

    fn counts(disk: &Disk) -> Vec<(u16, u64)> {
        let events = disk.kept.events().into_iter().map(|(_, _, event)| event);
        let connected = |event| {
            let AuditEvent::Connected { destination, times, .. } = event else { panic!("{event:?}") };
            (destination.port, times)
        };
        events.map(connected).collect()
    }

    #[test]
    fn a_flood_leaves_few_records() {
        let disk = Arc::new(Disk::default());
        let flooded = log(&disk, AuditDemand::Required);
        for _ in 0..25_000 {
            flooded.decided(connected(80, Decision::Forbidden)).unwrap();
        }
        assert_eq!(counts(&disk), [(80, 1)]);
        for port in 1..=25_000 {
            flooded.decided(connected(port, Decision::Forbidden)).unwrap();
        }
        for _ in 0..25_000 {
            flooded.decided(connected(81, Decision::Allow)).unwrap();
        }
        drop(flooded);
        let counts = counts(&disk);
        assert!(counts.len() <= 2 * MOST_LISTED + MOST_SINGLE + 16, "{}", counts.len());
        assert!(counts.contains(&(80, 25_001)), "the last count is on record");
        assert!(counts.contains(&(81, 25_000)), "so is that of what was allowed");
    }

    /// However many destinations a command is allowed, it reaches none that is not on record.
    #[test]
    fn what_was_allowed_is_listed_or_denied() {
        let disk = Arc::new(Disk::default());
        let (required, wished) = (log(&disk, AuditDemand::Required), log(&Arc::default(), AuditDemand::BestEffort));
        let made = (1..=5000).filter(|port| required.decided(connected(*port, Decision::Allow)).is_ok()).count();
        assert_eq!(counts(&disk).len(), made);
        assert!((MOST_LISTED..5000).contains(&made), "{made}");
        assert!((1..=5000).all(|port| wished.decided(connected(port, Decision::Allow)).is_ok()));
    }

    #[test]
    fn a_full_disk_denies_what_has_to_be_on_record() {
        let disk = Arc::new(Disk::default());
        let (required, wished) = (log(&disk, AuditDemand::Required), log(&disk, AuditDemand::BestEffort));
        disk.is_full.store(true, Ordering::Relaxed);
        for _ in 0..12 {
            let NotRecorded(why) = required.decided(connected(80, Decision::Allow)).unwrap_err();
            assert!(why.contains("the audit trail is required, so the connection is denied"), "{why}");
            wished.decided(connected(80, Decision::Allow)).unwrap();
        }
        disk.is_full.store(false, Ordering::Relaxed);
        required.decided(connected(80, Decision::Allow)).unwrap();
        assert_eq!(counts(&disk), [(80, 1)]);
        disk.is_full.store(true, Ordering::Relaxed);
        assert!(required.decided(connected(80, Decision::Allow)).is_err(), "each is on record before it is made");
    }
}
