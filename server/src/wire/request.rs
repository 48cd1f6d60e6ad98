//! Requests other than commands: file changes, tool calls, permissions, and MCP servers' questions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{AbsPath, FileChange, Permissions, PermissionsScope, Refusal, ToolCallApproval};

use super::SessionId;

/// Changes files on the host. Exactly one of `changes` and `patch` is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchApplyParams {
    /// The session.
    pub session_id: SessionId,
    /// The changes, by file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<FileChange>>,
    /// The changes as the text that `stockade patch` reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
    /// What relative names in `patch` start from; the session's directory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsPath>,
}

/// What became of the changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatchApplyResult {
    /// All were written.
    Applied {
        /// The files that were written or removed, where they really are.
        paths: Vec<AbsPath>,
    },
    /// None was written.
    Refused(Refusal),
}

/// Asks whether a tool may be called. The client makes the call itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolReviewParams {
    /// The session.
    pub session_id: SessionId,
    /// The call.
    pub call: ToolCallApproval,
    /// Whether the tool says itself whether a person has to be asked; absent, the approval policy decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_approval: Option<bool>,
}

/// Whether the tool may be called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolReviewResult {
    /// It may.
    Approved {},
    /// It may not.
    Refused(Refusal),
}

/// Asks for permissions in advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionsRequestParams {
    /// The session.
    pub session_id: SessionId,
    /// What is asked for, on top of what the session has.
    pub permissions: Permissions,
    /// Why, for the person who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// What became of the request for permissions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionsRequestResult {
    /// They were granted.
    Granted {
        /// What was granted.
        permissions: Box<Permissions>,
        /// For how long.
        scope: PermissionsScope,
    },
    /// They were not.
    Refused(Refusal),
}

/// Passes on a question of an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ElicitationRequestParams {
    /// The session.
    pub session_id: SessionId,
    /// The MCP server that asks.
    pub server: String,
    /// The question, in its words.
    pub message: String,
    /// The JSON Schema of the answer it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<BTreeMap<String, serde_json::Value>>,
}

/// What the MCP server is told, in MCP's words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationRequestResult {
    /// The person answered.
    Accept {
        /// The answer.
        content: BTreeMap<String, serde_json::Value>,
    },
    /// The person, or the policy, said no.
    Decline {
        /// Why.
        reason: String,
    },
    /// There was no answer, or everything was stopped.
    Cancel {
        /// Why.
        reason: String,
    },
}
