//! Questions, answers, and remembered approvals.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{ApprovalRequest, RequestId, ReviewDecision};

use super::{CommandId, QuestionId, SessionId};

/// Asks a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequestParams {
    /// The session.
    pub session_id: SessionId,
    /// The question's own name: a request can lead to several questions.
    pub question_id: QuestionId,
    /// The command that caused it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
    /// The question.
    pub request: ApprovalRequest,
}

/// A client's answer to `approval/request`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRequestResult {
    /// The question's `request.id`, if it is repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId>,
    /// The decision, one of `request.available_decisions`. A denial may say why.
    pub decision: ReviewDecision,
    /// What is answered to an MCP server's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<BTreeMap<String, serde_json::Value>>,
}

/// Lists the open questions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalListParams {
    /// The session; every session that this connection is attached to if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// The open questions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalListResult {
    /// The questions, the oldest first.
    pub questions: Vec<OpenQuestion>,
}

/// An open question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenQuestion {
    /// The session.
    pub session_id: SessionId,
    /// The question's own name.
    pub question_id: QuestionId,
    /// The command that caused it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
    /// The question.
    pub request: ApprovalRequest,
    /// How long it has been open, in milliseconds.
    pub asked_ms_ago: u64,
}

/// Answers a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswerParams {
    /// The session.
    pub session_id: SessionId,
    /// The question.
    pub question_id: QuestionId,
    /// The decision, one of `request.available_decisions`. A denial may say why.
    pub decision: ReviewDecision,
    /// What is answered to an MCP server's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<BTreeMap<String, serde_json::Value>>,
}

/// Asks what a session remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRememberedParams {
    /// The session.
    pub session_id: SessionId,
}

/// What a session remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRememberedResult {
    /// The approvals, in the order in which they were given.
    pub approvals: Vec<RememberedApproval>,
}

/// An approval that holds for the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RememberedApproval {
    /// Its name, for `approval/forget`.
    pub key: String,
    /// What it is for, in words for a person.
    pub text: String,
}

/// Makes a session forget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalForgetParams {
    /// The session.
    pub session_id: SessionId,
    /// The approval; every approval if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// How much was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalForgetResult {
    /// How many approvals were forgotten.
    pub forgotten: u32,
}
