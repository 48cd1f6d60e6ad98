//! What a tool gives back: structured for programs, and as text for a model, which says what was denied and what would allow
//! it.

mod ran;

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stockade_core::Explanation;
use stockade_protocol::{ExecApprovalRequirement, PermissionsScope};
use stockade_server::wire::{PatchApplyResult, PermissionsRequestResult, RpcError};

pub(crate) use ran::{RunReport, Surroundings, ran};

use crate::Wording;
use crate::output::Part;

/// The result of `explain`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// What would happen: `runs`, `asks`, `refused` or `unenforceable`.
    decision: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether it would run in the sandbox.
    sandboxed: bool,
    /// Whether the person is asked if the sandbox denies it something.
    asks_after_denial: bool,
}

pub(crate) fn explained(explanation: &Explanation, wording: &dyn Wording) -> CallToolResult {
    let (decision, reason) = match (&explanation.requirement, &explanation.unenforceable) {
        (ExecApprovalRequirement::Forbidden { reason }, _) => ("refused", Some(reason.clone())),
        (_, Some(why)) => ("unenforceable", Some(why.clone())),
        (ExecApprovalRequirement::NeedsApproval { reason, .. }, None) => ("asks", reason.clone()),
        (ExecApprovalRequirement::Skip { .. }, None) => ("runs", None),
    };
    let report = ExplainReport {
        decision: String::from(decision),
        reason,
        sandboxed: explanation.sandboxed,
        asks_after_denial: explanation.asks_after_denial,
    };
    result(&report, wording.explanation(explanation), false)
}

/// The result of `apply_patch`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PatchReport {
    /// Whether all of it was written. If not, nothing was.
    applied: bool,
    /// The files that were written or removed.
    paths: Vec<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn patched(applied: Result<PatchApplyResult, RpcError>) -> CallToolResult {
    let (paths, reason) = match applied {
        Ok(PatchApplyResult::Applied { paths }) => (paths.iter().map(ToString::to_string).collect(), None),
        Ok(PatchApplyResult::Refused(refusal)) => (Vec::new(), Some(refusal.reason)),
        Err(error) => return failed(&error),
    };
    let text = match &reason {
        None => format!("written: {}\n", paths.join(", ")),
        Some(reason) => format!("stockade: nothing was written; refused: {reason}\n"),
    };
    let is_error = reason.is_some();
    result(&PatchReport { applied: !is_error, paths, reason }, text, is_error)
}

/// The result of `request_permissions`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PermissionsReport {
    /// Whether they were granted.
    granted: bool,
    /// For how long: `session` or `once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// Why they were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn permitted(answered: Result<PermissionsRequestResult, RpcError>) -> CallToolResult {
    let (scope, reason) = match answered {
        Ok(PermissionsRequestResult::Granted { scope, .. }) => match scope {
            PermissionsScope::Session => (Some("session"), None),
            PermissionsScope::Once => (Some("once"), None),
        },
        Ok(PermissionsRequestResult::Refused(refusal)) => (None, Some(refusal.reason)),
        Err(error) => return failed(&error),
    };
    let text = match (scope, &reason) {
        (Some("session"), _) => String::from("granted for every further command of this session\n"),
        (Some(_), _) => String::from("granted for one command: the next call of `run` has them\n"),
        (None, reason) => format!("stockade: not granted: {}\n", reason.as_deref().unwrap_or_default()),
    };
    let is_error = reason.is_some();
    result(&PermissionsReport { granted: !is_error, scope: scope.map(String::from), reason }, text, is_error)
}

/// The result of `read_output`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputReport {
    /// Where this part begins, in bytes: later than was asked for where earlier output is not kept any more.
    offset: u64,
    /// Where the next part begins.
    next_offset: u64,
    /// How much was written in all.
    total_bytes: u64,
    /// Whether there is nothing behind this part, and nothing more comes.
    is_end: bool,
    /// This part.
    output: String,
}

pub(crate) fn read(part: Part) -> CallToolResult {
    let Part { offset, next_offset, total, is_finished, text } = part;
    let report = OutputReport {
        offset,
        next_offset,
        total_bytes: total,
        is_end: is_finished && next_offset == total,
        output: text.clone(),
    };
    let mut shown = text;
    if next_offset < total {
        shown
            .push_str(&format!("\n[{} of {total} bytes; go on with \"offset\":{next_offset}]\n", next_offset - offset));
    }
    result(&report, shown, false)
}

/// Adds a sentence to a result, for those who read its text and for those who read the rest.
pub(crate) fn add(result: &mut CallToolResult, sentence: &str) {
    let messages = result.structured_content.as_mut().and_then(|report| report.get_mut("messages"));
    if let Some(messages) = messages.and_then(serde_json::Value::as_array_mut) {
        messages.push(json!(sentence));
    }
    result.content.push(ContentBlock::text(format!("stockade: {sentence}\n")));
}

/// A call that can't be carried out.
pub(crate) fn refused(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("stockade: {why}\n"))])
}

pub(crate) fn failed(error: &RpcError) -> CallToolResult {
    refused(&with_causes(error))
}

fn with_causes(error: &RpcError) -> String {
    let causes = error.data.iter().flat_map(|data| &data.causes);
    causes.fold(error.message.clone(), |text, cause| format!("{text}: {cause}"))
}

fn result(report: &impl Serialize, text: String, is_error: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = serde_json::to_value(report).ok();
    result
}
