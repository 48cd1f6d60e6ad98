//! Requests for permissions in advance: a person is asked once, and not for every command that needs them.
//!
//! Granted for the session, they apply to every later request, as long as its sandbox policy is the one they were
//! granted under. Granted once, they are for the next command that requests them, or a part of them, as its
//! escalation: it is not asked about again. Hard denials, Stockade's own files and the administrator's maximum apply
//! in either case.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{
    ApprovalSubject, Argv, AuditEvent, DecisionSource, EscalationExecution, ExecApprovalRequirement, ExecExpiration,
    ExecRequest, FileRule, FileTarget, Permissions, PermissionsApproval, PermissionsScope, Refusal, RefusedBy,
    RequestId, Violation,
};

use crate::approvals::{self, ApprovalKey, Confinement, Grant, written};
use crate::audit_log::with_cause;
use crate::requirement;
use crate::run::{InForce, Orchestrator, RunError};
use crate::runtime::{
    Approvable, Attempted, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
use crate::session::Session;
use crate::shell::ShellRuntime;

/// A request for permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionsRequest {
    /// The request's name in every event and record about it.
    pub id: RequestId,
    /// What is asked for, on top of what the session has.
    pub permissions: Permissions,
    /// Why, in the words of the requester. Nothing is decided by it.
    pub justification: Option<String>,
}

/// What came of a request for permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionsOutcome {
    /// They were granted, or the session has them already.
    Granted {
        /// What was granted: what was asked for, within the administrator's maximum.
        permissions: Box<Permissions>,
        /// How long they hold.
        scope: PermissionsScope,
    },
    /// They were not.
    Refused(Refusal),
}

impl Orchestrator {
    /// Requests permissions in advance. The approval policy decides whether a person is asked, as for a command that
    /// requests more permissions.
    pub async fn request_permissions(&self, request: &PermissionsRequest) -> Result<PermissionsOutcome, RunError> {
        let in_force = self.in_force();
        let bounded = in_force.session.bounded(&request.permissions);
        let bounded = PermissionsRequest { permissions: bounded, ..request.clone() };
        if let Some(refusal) = self.not_possible(&in_force, request, &bounded) {
            return self.refused_before_asking(&request.id, requested(request), refusal);
        }
        self.run_under(&in_force, &PermissionsRuntime, &bounded).await
    }

    /// Why the permissions can't be granted at all.
    fn not_possible(
        &self,
        in_force: &InForce,
        request: &PermissionsRequest,
        bounded: &PermissionsRequest,
    ) -> Option<Refusal> {
        let session = &in_force.session;
        if adds(session, &request.permissions) && !adds(session, &bounded.permissions) {
            let reason = String::from("the administrator's maximum allows nothing of it");
            return Some(Refusal { by: RefusedBy::Administrator, reason });
        }
        let refused = |reason| Some(Refusal { by: RefusedBy::Sandbox, reason });
        let execution = EscalationExecution::Permissions(Box::new(bounded.permissions.clone()));
        let (permissions, confinement) = match approvals::execution(session, &execution) {
            Ok(found) => found,
            Err(invalid) => return refused(format!("the permissions make no sense: {invalid}")),
        };
        // Any command serves: enforceability does not depend on it.
        let command = ExecRequest {
            id: request.id.clone(),
            thread_id: session.thread_id.clone(),
            command: Argv::parse(["true"]).ok()?,
            cwd: session.host.file_system_roots.first()?.clone(),
            expiration: ExecExpiration::DefaultTimeout,
            escalation: EscalationExecution::TurnDefault,
            justification: None,
            terminal: None,
            approved_by_policy: false,
            sandbox_warnings: Vec::new(),
        };
        if confinement == Confinement::None {
            return None;
        }
        let ctx = self.context(in_force);
        let plan = ShellRuntime::default().rehearse(&command, &permissions, confinement, &ctx);
        plan.err().and_then(|unenforceable| refused(with_cause(&unenforceable)))
    }
}

/// Whether the session lacks a part of it.
fn adds(session: &Session, wanted: &Permissions) -> bool {
    let own = session.bounded(&session.permissions);
    let merged = own.merge(wanted);
    let is_new = |rule: &FileRule| match &rule.target {
        FileTarget::Path(path) => rule.access > own.access(path),
        // A glob can only be denied.
        FileTarget::Glob(_) => false,
    };
    wanted.files.iter().any(is_new) || Permissions { files: own.files.clone(), ..merged } != own
}

fn requested(request: &PermissionsRequest) -> AuditEvent {
    AuditEvent::PermissionsRequested {
        permissions: Box::new(request.permissions.clone()),
        justification: request.justification.clone(),
    }
}

/// The key of granted permissions: they apply only under the same sandbox policy.
fn key(session: &Session, permissions: &Permissions) -> ApprovalKey {
    ApprovalKey::Permissions { permissions: written(permissions), sandbox: written(&session.sandbox) }
}

/// Asks about permissions, and grants them.
struct PermissionsRuntime;

impl From<Refusal> for PermissionsOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Attempted for PermissionsOutcome {
    fn violations(&self) -> &[Violation] {
        &[]
    }

    fn keep_first(&mut self, _: Self) {}

    fn ended(&self) -> AuditEvent {
        match self {
            Self::Granted { permissions, scope } => {
                AuditEvent::PermissionsGranted { permissions: permissions.clone(), scope: *scope }
            }
            Self::Refused(refusal) => AuditEvent::Refused(refusal.clone()),
        }
    }
}

impl Approvable<PermissionsRequest> for PermissionsRuntime {
    fn id<'a>(&self, request: &'a PermissionsRequest) -> &'a RequestId {
        &request.id
    }

    fn requested(&self, request: &PermissionsRequest) -> Option<AuditEvent> {
        Some(requested(request))
    }

    fn keys(&self, request: &PermissionsRequest, session: &Session) -> Vec<ApprovalKey> {
        vec![key(session, &request.permissions)]
    }

    fn subject(&self, request: &PermissionsRequest, _: &ToolContext<'_>, _: &Shown<'_>) -> ApprovalSubject {
        ApprovalSubject::Permissions(Box::new(PermissionsApproval {
            permissions: request.permissions.clone(),
            justification: request.justification.clone(),
        }))
    }

    fn requirement(
        &self,
        request: &PermissionsRequest,
        ctx: &ToolContext<'_>,
        _: &EscalationExecution,
    ) -> Option<Requirement> {
        let session = ctx.session;
        let requirement = if adds(session, &request.permissions) {
            requirement::of_permissions(session.ask, session.sandboxing())
        } else {
            ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None }
        };
        Some(Requirement::new(requirement, DecisionSource::ApprovalPolicy))
    }

    fn escalation(&self, request: &PermissionsRequest) -> EscalationExecution {
        EscalationExecution::Permissions(Box::new(request.permissions.clone()))
    }
}

impl Sandboxable for PermissionsRuntime {
    fn preference(&self) -> SandboxPreference {
        SandboxPreference::Auto
    }

    fn escalates_on_failure(&self) -> bool {
        false
    }
}

#[async_trait]
impl ToolRuntime<PermissionsRequest> for PermissionsRuntime {
    type Output = PermissionsOutcome;

    async fn attempt(
        &self,
        request: &PermissionsRequest,
        grant: &Grant,
        ctx: &ToolContext<'_>,
    ) -> Result<PermissionsOutcome, RunError> {
        let memory = ctx.connections.as_ref().map(|connections| &connections.approvals.memory);
        let is_remembered = |memory: &approvals::Memory| memory.recall(&self.keys(request, ctx.session)).is_some();
        let scope = match (grant.source(), memory) {
            (DecisionSource::Reviewer, Some(memory)) if !is_remembered(memory) => {
                memory.allow_once(ctx.session, request.permissions.clone());
                PermissionsScope::Once
            }
            _ => PermissionsScope::Session,
        };
        Ok(PermissionsOutcome::Granted { permissions: Box::new(request.permissions.clone()), scope })
    }
}
