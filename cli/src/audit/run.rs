//! Combines the records of one request into a run.

use std::collections::HashMap;

use serde::Serialize;
use stockade_protocol::{AuditEvent, AuditRecord, RawText, RequestId, ThreadId};

use super::when;

/// The possible results of a run. The last is for a running one, or one without a recorded end.
pub(super) const RESULTS: &[&str] =
    &["exited", "denied", "refused", "timed_out", "cancelled", "signaled", "patched", "called", "failed", "unfinished"];

/// One run, according to the trail.
#[derive(Debug, Serialize)]
pub(super) struct Run {
    /// The time of its first record, in milliseconds since 1970.
    pub(super) time_ms: u64,
    pub(super) time: String,
    pub(super) thread_id: ThreadId,
    pub(super) request_id: RequestId,
    /// Its program and arguments; `None` if it is not a command.
    command: Option<stockade_protocol::Argv>,
    result: Option<String>,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    /// How often a person was asked.
    asked: u32,
    violations: usize,
    records: u32,
}

impl Run {
    pub(super) fn result(&self) -> &str {
        self.result.as_deref().unwrap_or("unfinished")
    }

    /// Whether it is a run of this program, by path or base name.
    pub(super) fn is_of(&self, program: &str) -> bool {
        let own = self.command.as_ref().map(|command| command.program().as_bytes());
        own.is_some_and(|own| {
            own == program.as_bytes() || own.rsplit(|c| *c == b'/').next() == Some(program.as_bytes())
        })
    }

    /// A line of the table. The command comes last, with every deceptive character escaped.
    pub(super) fn row(&self) -> String {
        let code = self.exit_code.map(|code| code.to_string()).unwrap_or_default();
        let time = self.duration_ms.map(when::duration).unwrap_or_default();
        let command = self.command.as_ref().map(ToString::to_string).unwrap_or_default();
        let shown: String = command.chars().take(100).collect();
        let more = if shown.len() < command.len() { "…" } else { "" };
        format!(
            "{:<20} {:<24} {:<11}{:>4} {:>8}  {shown}{more}\n",
            when::short(self.time_ms),
            self.request_id.as_str(),
            self.result().replace('_', " "),
            code,
            time
        )
    }
}

pub(super) fn header() -> String {
    format!("{:<20} {:<24} {:<11}{:>4} {:>8}  COMMAND\n", "TIME (UTC)", "REQUEST", "RESULT", "CODE", "TOOK")
}

/// Runs, in the order in which they began.
#[derive(Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    places: HashMap<(ThreadId, RequestId), usize>,
}

impl Runs {
    pub(super) fn add(&mut self, record: AuditRecord) {
        // Events of the trail itself are not runs.
        if matches!(record.event, AuditEvent::Repaired { .. }) {
            return;
        }
        let key = (record.thread_id.clone(), record.request_id.clone());
        let place = *self.places.entry(key).or_insert_with(|| {
            self.runs.push(Run {
                time_ms: record.time_ms,
                time: when::long(record.time_ms),
                thread_id: record.thread_id.clone(),
                request_id: record.request_id.clone(),
                command: None,
                result: None,
                exit_code: None,
                duration_ms: None,
                asked: 0,
                violations: 0,
                records: 0,
            });
            self.runs.len() - 1
        });
        if let Some(run) = self.runs.get_mut(place) {
            run.records = run.records.saturating_add(1);
            run.take(record.event);
        }
    }

    pub(super) fn into_runs(self) -> impl Iterator<Item = Run> {
        self.runs.into_iter()
    }
}

impl Run {
    fn take(&mut self, event: AuditEvent) {
        match event {
            AuditEvent::Requested { command, .. } => self.command = Some(command),
            AuditEvent::Asked { .. } => self.asked = self.asked.saturating_add(1),
            AuditEvent::Refused(_) => self.result = Some(String::from("refused")),
            AuditEvent::Ended { result, exit_code, duration_ms, violations, .. } => {
                self.result = Some(RawText::from(result).to_string());
                self.exit_code = exit_code;
                self.duration_ms = Some(duration_ms);
                self.violations = violations.len();
            }
            AuditEvent::Patched { .. } => self.result = Some(String::from("patched")),
            AuditEvent::ToolCalled { duration_ms } => {
                self.result = Some(String::from("called"));
                self.duration_ms = Some(duration_ms);
            }
            AuditEvent::ToolApproved {} => self.result = Some(String::from("approved")),
            AuditEvent::PermissionsGranted { .. } => self.result = Some(String::from("granted")),
            AuditEvent::SessionClosed { .. } => self.result = Some(String::from("closed")),
            AuditEvent::Failed { .. } => self.result = Some(String::from("failed")),
            AuditEvent::PatchRequested { .. }
            | AuditEvent::ProgramJudged { .. }
            | AuditEvent::WrittenOutside { .. }
            | AuditEvent::ToolRequested { .. }
            | AuditEvent::PermissionsRequested { .. }
            | AuditEvent::SessionOpened { .. }
            | AuditEvent::SessionChanged { .. }
            | AuditEvent::Decided { .. }
            | AuditEvent::Answered { .. }
            | AuditEvent::Connected { .. }
            | AuditEvent::Unrecorded { .. }
            | AuditEvent::Repaired { .. } => {}
        }
    }
}
