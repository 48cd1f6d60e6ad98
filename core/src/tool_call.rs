//! The tool that calls other tools: those of MCP servers, or an embedder's own.

use std::time::Instant;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{
    ApprovalSubject, AuditEvent, DecisionSource, EscalationExecution, ExecApprovalRequirement, Refusal,
    RememberArguments, RequestId, ToolCallApproval, ToolCallRequest, Violation,
};

use crate::approvals::{ApprovalKey, Grant, written};
use crate::run::{Orchestrator, RunError};
use crate::runtime::{
    Approvable, Attempted, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
use crate::session::Session;

/// Makes the call, once it is approved.
#[async_trait]
pub trait ToolCaller: Send + Sync {
    /// Calls the tool.
    async fn call(&self, request: &ToolCallRequest) -> Result<serde_json::Value, String>;
}

/// Asks about calls of tools and makes them.
#[derive(Clone, Debug)]
pub struct ToolCallRuntime<C> {
    caller: C,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallOutcome {
    /// The tool answered.
    Called {
        /// What it answered.
        answer: serde_json::Value,
        /// How long that took, in milliseconds.
        duration_ms: u64,
    },
    /// It was not called.
    Refused(Refusal),
}

/// What came of a call that a client makes itself, once it is approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolReview {
    /// It may be made.
    Approved {},
    /// It may not.
    Refused(Refusal),
}

impl Orchestrator {
    /// Decides on a call that the caller makes itself.
    pub async fn review_tool_call(&self, request: &ToolCallRequest) -> Result<ToolReview, RunError> {
        self.check_session(&request.thread_id)?;
        self.run_with(&ToolCallRuntime::new(OnlyReview), request).await
    }
}

/// Stands for a caller if no call is made.
struct OnlyReview;

#[async_trait]
impl ToolRuntime<ToolCallRequest> for ToolCallRuntime<OnlyReview> {
    type Output = ToolReview;

    async fn attempt(&self, _: &ToolCallRequest, _: &Grant, _: &ToolContext<'_>) -> Result<ToolReview, RunError> {
        Ok(ToolReview::Approved {})
    }
}

impl From<Refusal> for ToolReview {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Attempted for ToolReview {
    fn violations(&self) -> &[Violation] {
        &[]
    }

    fn keep_first(&mut self, _: Self) {}

    fn ended(&self) -> AuditEvent {
        match self {
            Self::Approved {} => AuditEvent::ToolApproved {},
            Self::Refused(refusal) => AuditEvent::Refused(refusal.clone()),
        }
    }
}

impl<C> ToolCallRuntime<C> {
    /// Makes calls through `caller`.
    pub fn new(caller: C) -> Self {
        Self { caller }
    }
}

impl From<Refusal> for ToolCallOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Attempted for ToolCallOutcome {
    fn violations(&self) -> &[Violation] {
        &[]
    }

    fn keep_first(&mut self, _: Self) {}

    fn ended(&self) -> AuditEvent {
        match self {
            Self::Called { duration_ms, .. } => AuditEvent::ToolCalled { duration_ms: *duration_ms },
            Self::Refused(refusal) => AuditEvent::Refused(refusal.clone()),
        }
    }
}

impl<C: Send + Sync> Approvable<ToolCallRequest> for ToolCallRuntime<C> {
    fn id<'a>(&self, request: &'a ToolCallRequest) -> &'a RequestId {
        &request.id
    }

    fn requested(&self, request: &ToolCallRequest) -> Option<AuditEvent> {
        Some(AuditEvent::ToolRequested { server: request.call.server.clone(), tool: request.call.tool.clone() })
    }

    fn keys(&self, request: &ToolCallRequest, _: &Session) -> Vec<ApprovalKey> {
        let arguments = match request.remember {
            RememberArguments::Any => None,
            // The map is ordered, so equal arguments have the same serialization.
            RememberArguments::Exact => Some(written(&request.call.arguments)),
        };
        let (server, tool) = (request.call.server.clone(), request.call.tool.clone());
        vec![ApprovalKey::Tool { server, tool, arguments }]
    }

    fn subject(&self, request: &ToolCallRequest, _: &ToolContext<'_>, _: &Shown<'_>) -> ApprovalSubject {
        ApprovalSubject::ToolCall(ToolCallApproval { remember: request.remember, ..request.call.clone() })
    }

    fn preapproved<'a>(&self, request: &'a ToolCallRequest) -> Option<&'a [String]> {
        request.approved_by_policy.then_some(request.sandbox_warnings.as_slice())
    }

    fn requirement(
        &self,
        request: &ToolCallRequest,
        ctx: &ToolContext<'_>,
        _: &EscalationExecution,
    ) -> Option<Requirement> {
        let requirement = match request.requires_approval? {
            false => ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None },
            true => crate::requirement::of_asking_tool(ctx.session.ask, &request.call.tool),
        };
        Some(Requirement::new(requirement, DecisionSource::ApprovalPolicy))
    }
}

impl<C> Sandboxable for ToolCallRuntime<C> {
    fn preference(&self) -> SandboxPreference {
        SandboxPreference::Forbid
    }

    fn escalates_on_failure(&self) -> bool {
        false
    }
}

#[async_trait]
impl<C: ToolCaller> ToolRuntime<ToolCallRequest> for ToolCallRuntime<C> {
    type Output = ToolCallOutcome;

    async fn attempt(
        &self,
        request: &ToolCallRequest,
        _: &Grant,
        _: &ToolContext<'_>,
    ) -> Result<ToolCallOutcome, RunError> {
        let started = Instant::now();
        let answer = self.caller.call(request).await.map_err(|why| RunError::Tool { why })?;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(ToolCallOutcome::Called { answer, duration_ms })
    }
}
