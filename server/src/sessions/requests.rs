//! Requests of a session other than runs: explanations, file changes, tool calls, permissions, MCP elicitations, and
//! remembered approvals.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use stockade::core::{
    ApprovalKey, ElicitationOutcome, Explanation, PatchOutcome, PermissionsOutcome, PermissionsRequest, ToolReview,
};
use stockade::protocol::{ElicitationApproval, EscalationExecution, RawText, ToolCallRequest};

use super::Session;
use crate::wire::{
    ApprovalForgetResult, ApprovalRememberedResult, CommandExplainParams, ElicitationRequestParams,
    ElicitationRequestResult, ErrorKind, PatchApplyParams, PatchApplyResult, PermissionsRequestParams,
    PermissionsRequestResult, RememberedApproval, RpcError, ToolReviewParams, ToolReviewResult,
};

impl Session {
    pub(super) fn explain(&self, params: CommandExplainParams) -> Result<Explanation, RpcError> {
        self.refresh()?;
        let words = params.command.words().iter().filter_map(RawText::to_os_string);
        let directory: PathBuf = params.cwd.as_ref().unwrap_or(&self.cwd).to_host_path().unwrap_or_default();
        let command = self
            .stockade
            .command(words)
            .cwd(directory)
            .escalation(params.escalation.unwrap_or(EscalationExecution::TurnDefault));
        command.explain().map_err(|error| RpcError::failed(&error))
    }

    pub(super) async fn apply_patch(&self, params: PatchApplyParams) -> Result<PatchApplyResult, RpcError> {
        self.refresh()?;
        let changes = match (params.changes, params.patch) {
            (Some(changes), None) => changes,
            (None, Some(text)) => {
                let read = self
                    .stockade
                    .orchestrator()
                    .session()
                    .read_patch(text.as_bytes(), params.cwd.as_ref().unwrap_or(&self.cwd));
                read.map_err(|error| {
                    RpcError::new(
                        ErrorKind::InvalidParams,
                        format!("`params.patch`: {}", stockade::with_causes(&error)),
                    )
                })?
            }
            (Some(_), Some(_)) | (None, None) => {
                let message = "`params.changes`: give either `changes` or `patch`";
                return Err(RpcError::new(ErrorKind::InvalidParams, message));
            }
        };
        let applied = self.stockade.apply_patch(changes).await;
        Ok(match applied.map_err(|error| RpcError::failed(&error))? {
            PatchOutcome::Applied { paths } => PatchApplyResult::Applied { paths },
            PatchOutcome::Refused(refusal) => PatchApplyResult::Refused(refusal),
        })
    }

    pub(super) async fn review_tool(&self, params: ToolReviewParams) -> Result<ToolReviewResult, RpcError> {
        self.refresh()?;
        let request = ToolCallRequest {
            id: self.next_id()?,
            thread_id: self.stockade.id(),
            remember: params.call.remember,
            call: params.call,
            requires_approval: params.requires_approval,
            approved_by_policy: false,
            sandbox_warnings: Vec::new(),
        };
        let review = self.stockade.orchestrator().review_tool_call(&request).await;
        Ok(match review.map_err(|error| RpcError::failed(&error))? {
            ToolReview::Approved {} => ToolReviewResult::Approved {},
            ToolReview::Refused(refusal) => ToolReviewResult::Refused(refusal),
        })
    }

    pub(super) async fn request_permissions(
        &self,
        params: PermissionsRequestParams,
    ) -> Result<PermissionsRequestResult, RpcError> {
        self.refresh()?;
        let (permissions, justification) = (params.permissions, params.justification);
        let request = PermissionsRequest { id: self.next_id()?, permissions, justification };
        let outcome = self.stockade.orchestrator().request_permissions(&request).await;
        Ok(match outcome.map_err(|error| RpcError::failed(&error))? {
            PermissionsOutcome::Granted { permissions, scope } => {
                PermissionsRequestResult::Granted { permissions, scope }
            }
            PermissionsOutcome::Refused(refusal) => PermissionsRequestResult::Refused(refusal),
        })
    }

    pub(super) async fn elicit(&self, params: ElicitationRequestParams) -> Result<ElicitationRequestResult, RpcError> {
        let ElicitationRequestParams { server, message, requested_schema, .. } = params;
        let question = ElicitationApproval { server, message, requested_schema };
        let outcome = self.stockade.elicit(&question).await;
        Ok(match outcome.map_err(|error| RpcError::failed(&error))? {
            ElicitationOutcome::Accept { content } => ElicitationRequestResult::Accept { content },
            ElicitationOutcome::Decline { reason } => ElicitationRequestResult::Decline { reason },
            ElicitationOutcome::Cancel { reason } => ElicitationRequestResult::Cancel { reason },
        })
    }

    pub(super) fn remembered(&self) -> ApprovalRememberedResult {
        let approvals = self.stockade.orchestrator().remembered();
        let approvals =
            approvals.iter().map(|(key, execution)| RememberedApproval { key: name(key), text: text(key, execution) });
        ApprovalRememberedResult { approvals: approvals.collect() }
    }

    pub(super) fn forget(&self, key: Option<&str>) -> ApprovalForgetResult {
        let orchestrator = self.stockade.orchestrator();
        let forgotten = match key {
            None => orchestrator.forget_all(),
            Some(wanted) => {
                let all = orchestrator.remembered();
                all.iter().filter(|(key, _)| name(key) == wanted && orchestrator.forget(key)).count()
            }
        };
        ApprovalForgetResult { forgotten: u32::try_from(forgotten).unwrap_or(u32::MAX) }
    }
}

/// A name for an approval that is stable while the server runs.
fn name(key: &ApprovalKey) -> String {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// An approval as text.
fn text(key: &ApprovalKey, execution: &EscalationExecution) -> String {
    let how = match execution {
        EscalationExecution::TurnDefault => "",
        EscalationExecution::Permissions(_) => ", with more permissions",
        EscalationExecution::Unsandboxed => ", without the sandbox",
    };
    match key {
        ApprovalKey::Command(command) => format!("run `{}` in `{}`{how}", command.command, command.cwd),
        ApprovalKey::File(path) => format!("change `{path}`"),
        ApprovalKey::Tool { server, tool, arguments: None } => {
            format!("call `{}` of `{}` with any arguments", tool.escape_debug(), server.escape_debug())
        }
        ApprovalKey::Tool { server, tool, arguments: Some(arguments) } => {
            let arguments = RawText::from(arguments.as_str());
            format!("call `{}` of `{}` with {arguments}", tool.escape_debug(), server.escape_debug())
        }
        ApprovalKey::Permissions { permissions, .. } => {
            format!("have the permissions {}", RawText::from(permissions.as_str()))
        }
        ApprovalKey::Destination(to) => format!("connect to `{}` at port {}", to.host, to.port),
        ApprovalKey::Other(other) => RawText::from(other.as_str()).to_string(),
    }
}
