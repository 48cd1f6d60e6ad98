//! Requests other than commands: file changes that the host writes, and tool calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FileChange, RequestId, ThreadId, ToolCallApproval};

/// A request to change files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchRequest {
    /// The request's name in every event and record about it.
    pub id: RequestId,
    /// The session it belongs to.
    pub thread_id: ThreadId,
    /// The changes, by file.
    pub changes: Vec<FileChange>,
    /// A policy outside has approved it already: there is no question, and the trail says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved_by_policy: bool,
    /// What that policy found worth a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_warnings: Vec<String>,
}

/// A request to call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallRequest {
    /// The request's name in every event and record about it.
    pub id: RequestId,
    /// The session it belongs to.
    pub thread_id: ThreadId,
    /// The call.
    pub call: ToolCallApproval,
    /// Whether the tool says itself whether a person has to be asked; absent, the approval policy
    /// decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_approval: Option<bool>,
    /// What an approval for the session speaks of.
    #[serde(default)]
    pub remember: RememberArguments,
    /// A policy outside has approved it already: there is no question, and the trail says so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub approved_by_policy: bool,
    /// What that policy found worth a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_warnings: Vec<String>,
}

/// What an approval of a tool call for the session speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RememberArguments {
    /// Calls with exactly these arguments.
    #[default]
    Exact,
    /// Calls with any arguments.
    Any,
}

impl RememberArguments {
    pub(crate) fn is_exact(&self) -> bool {
        *self == Self::Exact
    }
}
