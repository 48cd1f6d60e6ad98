//! One request's part of the audit trail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use stockade_protocol::{AuditEvent, Decision, DecisionSource, Outcome, Refusal, RefusedBy, RequestId, ThreadId};

use crate::audit_budget::{MAX_RECORDS, RecordBudget};
use crate::run::RunError;
use crate::runtime::Attempted;
use crate::{AuditError, AuditSink};

/// The reaction if the trail can't be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuditDemand {
    /// The run goes ahead, with a warning.
    BestEffort,
    /// The run is refused.
    #[default]
    Required,
}

/// The audit sink, and the reaction if it fails.
#[derive(Clone)]
pub(crate) struct AuditLog {
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) demand: AuditDemand,
}

/// Records the events of one request.
#[derive(Clone)]
pub(crate) struct Trail {
    log: AuditLog,
    thread: ThreadId,
    request: RequestId,
    budget: Arc<RecordBudget>,
    /// The user knows that records are missing.
    is_warned: Arc<AtomicBool>,
}

impl AuditLog {
    pub(crate) fn begin(&self, thread: &ThreadId, request: &RequestId) -> Trail {
        let (log, thread, request) = (self.clone(), thread.clone(), request.clone());
        Trail { log, thread, request, budget: Arc::default(), is_warned: Arc::default() }
    }
}

impl Trail {
    pub(crate) fn thread(&self) -> &ThreadId {
        &self.thread
    }

    pub(crate) fn request(&self) -> &RequestId {
        &self.request
    }

    /// Records an event that must be recorded before the request proceeds.
    pub(crate) fn record(&self, event: AuditEvent) -> Result<(), Refusal> {
        self.demand(event, "nothing is run").map_err(|reason| Refusal { by: RefusedBy::Audit, reason })
    }

    /// Records an event that must be recorded before a connection is made; the error says why it was not.
    pub(crate) fn record_connection(&self, event: AuditEvent) -> Result<(), String> {
        self.demand(event, "the connection is denied")
    }

    /// Counts an event without a record.
    pub(crate) fn leave_out(&self) {
        self.budget.leave_out();
    }

    fn demand(&self, event: AuditEvent, otherwise: &str) -> Result<(), String> {
        if !self.budget.take(&event) {
            return self.beyond_budget();
        }
        match (self.append(event), self.log.demand) {
            (Ok(()), _) => Ok(()),
            (Err(error), AuditDemand::Required) => {
                Err(format!("{}; the audit trail is required, so {otherwise}", with_cause(&error)))
            }
            (Err(error), AuditDemand::BestEffort) => {
                self.warn_unwritten(&error);
                Ok(())
            }
        }
    }

    /// Whether an event beyond the budget may proceed without a record.
    fn beyond_budget(&self) -> Result<(), String> {
        match self.log.demand {
            AuditDemand::BestEffort => Ok(()),
            AuditDemand::Required => Err(format!(
                "this run has made the {MAX_RECORDS} audit records that one run may have, and the audit trail is \
                     required: start another run for the rest"
            )),
        }
    }

    /// Records an event that has happened and can't be undone.
    pub(crate) fn note(&self, event: AuditEvent) {
        if self.budget.take(&event) {
            self.keep(event);
        }
    }

    /// Records an event regardless of the budget.
    fn keep(&self, event: AuditEvent) {
        if let Err(error) = self.append(event) {
            self.warn_unwritten(&error);
        }
    }

    /// Records how the request ended, whether it was run, refused or failed.
    pub(crate) fn finish<T: Attempted>(&self, result: &Result<T, RunError>) {
        let event = match result {
            Ok(output) => output.ended(),
            Err(error @ (RunError::Tool { .. } | RunError::Patch(_))) => {
                AuditEvent::Failed { reason: with_cause(error) }
            }
            Err(error @ (RunError::Spawn(_) | RunError::OtherSession { .. })) => {
                AuditEvent::Refused(Refusal { by: RefusedBy::Sandbox, reason: with_cause(error) })
            }
        };
        self.end(event);
    }

    /// Records that the request was abandoned.
    pub(crate) fn give_up(&self, reason: String) {
        self.end(AuditEvent::Failed { reason });
    }

    fn end(&self, event: AuditEvent) {
        self.tell(&event);
        let unrecorded = self.budget.unrecorded();
        if unrecorded > 0 {
            self.keep(AuditEvent::Unrecorded { events: unrecorded });
        }
        self.keep(event);
    }

    /// Reports decisions without a question, and the end of a request, to telemetry.
    fn tell(&self, event: &AuditEvent) {
        let (thread, request) = (&self.thread, &self.request);
        match event {
            AuditEvent::Ended { result, duration_ms, .. } => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = %result, duration_ms);
            }
            AuditEvent::Decided { decision, source, .. } => {
                let (decision, source) = (decision_word(*decision), source_word(source));
                tracing::info!(name: "approval.decided", %thread, %request, decision, source);
            }
            AuditEvent::Refused(refusal) => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "refused", source = ?refusal.by);
            }
            AuditEvent::ToolCalled { duration_ms } => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "called", duration_ms);
            }
            AuditEvent::ToolApproved {} => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "approved");
            }
            AuditEvent::PermissionsGranted { .. } => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "granted");
            }
            AuditEvent::Failed { .. } => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "failed");
            }
            AuditEvent::Patched { .. } => {
                tracing::info!(name: "command.outcome", %thread, %request, decision = "patched");
            }
            AuditEvent::Requested { .. }
            | AuditEvent::PatchRequested { .. }
            | AuditEvent::ToolRequested { .. }
            | AuditEvent::PermissionsRequested { .. }
            | AuditEvent::SessionOpened { .. }
            | AuditEvent::SessionChanged { .. }
            | AuditEvent::SessionClosed { .. }
            | AuditEvent::Asked { .. }
            | AuditEvent::Answered { .. }
            | AuditEvent::ProgramJudged { .. }
            | AuditEvent::WrittenOutside { .. }
            | AuditEvent::Connected { .. }
            | AuditEvent::Unrecorded { .. }
            | AuditEvent::Repaired { .. } => {}
        }
    }

    /// Warns once for a request: the next records fail for the same reason.
    fn warn_unwritten(&self, error: &AuditError) {
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(error = %with_cause(error), "this run is not fully on record");
        }
    }

    fn append(&self, event: AuditEvent) -> Result<(), AuditError> {
        self.log.sink.append(&self.thread, &self.request, event)
    }

    pub(crate) fn decided(
        &self,
        decision: Decision,
        source: DecisionSource,
        reason: Option<String>,
    ) -> Result<(), Refusal> {
        self.settled(AuditEvent::Decided { decision, source, reason, sandbox_warnings: Vec::new() })
    }

    /// Records an approval by an external policy.
    pub(crate) fn decided_outside(&self, sandbox_warnings: &[String]) -> Result<(), Refusal> {
        self.settled(AuditEvent::Decided {
            decision: Decision::Allow,
            source: DecisionSource::External,
            reason: None,
            sandbox_warnings: sandbox_warnings.to_vec(),
        })
    }

    /// Records a decision without a question, and reports it to telemetry.
    fn settled(&self, event: AuditEvent) -> Result<(), Refusal> {
        self.tell(&event);
        self.record(event)
    }
}

fn decision_word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Prompt => "prompt",
        Decision::Forbidden => "forbidden",
    }
}

/// A short name of the source: a rule's text is recorded, but not useful as a metric attribute.
fn source_word(source: &DecisionSource) -> &'static str {
    match source {
        DecisionSource::Rule(_) => "rule",
        DecisionSource::Fallback => "fallback",
        DecisionSource::ApprovalPolicy => "approval_policy",
        DecisionSource::Reviewer => "reviewer",
        DecisionSource::SessionMemory => "session_memory",
        DecisionSource::External => "external",
    }
}

/// How a command ended, for the record.
pub(crate) fn ended(outcome: &Outcome) -> AuditEvent {
    let (result, exit_code, execution) = match outcome {
        Outcome::Refused(refusal) => return AuditEvent::Refused(refusal.clone()),
        Outcome::Exited { exit_code, execution } => ("exited", Some(*exit_code), execution),
        Outcome::Denied { exit_code, signal, execution } => ("denied", exit_code.or(signal.map(killed_by)), execution),
        Outcome::TimedOut { execution } => ("timed_out", None, execution),
        Outcome::Cancelled { execution, .. } => ("cancelled", None, execution),
        Outcome::Signaled { signal, execution } => ("signaled", Some(killed_by(*signal)), execution),
    };
    AuditEvent::Ended {
        result: result.to_owned(),
        exit_code,
        duration_ms: execution.duration_ms,
        enforcement: execution.enforcement.clone(),
        violations: execution.violations.clone(),
    }
}

/// The exit code that a shell reports for a command killed by a signal.
fn killed_by(signal: i32) -> i32 {
    signal.saturating_add(128)
}

/// An error and its causes.
pub(crate) fn with_cause(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
