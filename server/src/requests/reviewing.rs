//! File changes and questions of MCP servers, each asked about as a command is.

use stockade::Stockade;
use stockade_core::{ElicitationOutcome, PatchOutcome};
use stockade_protocol::ElicitationApproval;

use super::failed;
use crate::wire::{
    ElicitationRequestParams, ElicitationRequestResult, ErrorKind, PatchApplyParams, PatchApplyResult, RpcError,
};

/// Changes files on the host, all or none.
pub(crate) async fn patch_apply(session: &Stockade, params: PatchApplyParams) -> Result<PatchApplyResult, RpcError> {
    let changes = match (params.changes, params.patch) {
        (Some(changes), None) => changes,
        (None, Some(text)) => {
            session.refresh().map_err(failed)?;
            let now = session.orchestrator().session();
            now.read_patch(text.as_bytes(), session.cwd()).map_err(failed)?
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "give exactly one of `params.changes` and `params.patch`";
            return Err(RpcError::new(ErrorKind::InvalidParams, message));
        }
    };
    match session.apply_patch(changes).await.map_err(failed)? {
        PatchOutcome::Applied { paths } => Ok(PatchApplyResult::Applied { paths }),
        PatchOutcome::Refused(refusal) => Ok(PatchApplyResult::Refused(refusal)),
    }
}

/// Passes on a question of an MCP server.
pub(crate) async fn elicitation_request(
    session: &Stockade,
    params: ElicitationRequestParams,
) -> Result<ElicitationRequestResult, RpcError> {
    let ElicitationRequestParams { server, message, requested_schema, .. } = params;
    let question = ElicitationApproval { server, message, requested_schema };
    Ok(match session.elicit(&question).await.map_err(failed)? {
        ElicitationOutcome::Accept { content } => ElicitationRequestResult::Accept { content },
        ElicitationOutcome::Decline { reason } => ElicitationRequestResult::Decline { reason },
        ElicitationOutcome::Cancel { reason } => ElicitationRequestResult::Cancel { reason },
    })
}
