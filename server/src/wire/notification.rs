//! Notifications of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{Argv, AskForApproval, Outcome, RawText, ReviewDecision, SandboxPolicy};

use super::{CommandId, QuestionId, SessionId};

/// A notification of the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "method", content = "params")]
pub enum ServerNotification {
    /// A question needs no answer any more.
    #[serde(rename = "approval/resolved")]
    ApprovalResolved(ApprovalResolved),
    /// An answer of this client can't be used.
    #[serde(rename = "approval/unusable")]
    ApprovalUnusable(ApprovalUnusable),
    /// A command was started.
    #[serde(rename = "command/started")]
    CommandStarted(CommandStarted),
    /// A command wrote something.
    #[serde(rename = "command/output")]
    CommandOutput(CommandOutput),
    /// Output is not kept any more.
    #[serde(rename = "command/lost")]
    CommandLost(CommandLost),
    /// A command ended.
    #[serde(rename = "command/ended")]
    CommandEnded(Box<CommandEnded>),
    /// A session's policy changed.
    #[serde(rename = "session/changed")]
    SessionChanged(SessionChanged),
    /// A session is closed.
    #[serde(rename = "session/closed")]
    SessionClosed(SessionClosed),
    /// Something worth knowing.
    #[serde(rename = "session/notice")]
    SessionNotice(SessionNotice),
}

/// A question needs no answer any more. Sent to every client of the session but the one that answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalResolved {
    /// The session.
    pub session_id: SessionId,
    /// The question.
    pub question_id: QuestionId,
    /// The decision, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ReviewDecision>,
    /// The name of the client that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    /// Why there is no answer: `timed out`, `cancelled`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// An answer of this client can't be used. The question stays open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalUnusable {
    /// The session.
    pub session_id: SessionId,
    /// The question.
    pub question_id: QuestionId,
    /// What is wrong with the answer.
    pub why: String,
}

/// A command was started. Sent to every client of the session but the one that ran it under a name of its own choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandStarted {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// Its words.
    pub command: Argv,
}

/// A command wrote something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandOutput {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The number of this piece: from 1, without gaps, for both streams together.
    pub seq: u64,
    /// Where it was written to.
    pub stream: OutputStream,
    /// What was written.
    pub data: RawText,
}

/// Where a command writes to. A terminal is `stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output, or the terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Output of a command is not kept any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandLost {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The oldest piece that is kept.
    pub first_seq: u64,
}

/// A command ended. Sent to every client of the session but the one that ran it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandEnded {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// How it ended.
    pub outcome: Outcome,
    /// The number of its last piece of output; 0 if there was none.
    pub last_seq: u64,
}

/// A session's policy changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionChanged {
    /// The session.
    pub session_id: SessionId,
    /// When it asks.
    pub ask: AskForApproval,
    /// How much commands are trusted with.
    pub sandbox: SandboxPolicy,
}

/// A session is closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionClosed {
    /// The session.
    pub session_id: SessionId,
    /// Why.
    pub why: String,
}

/// Something worth knowing, in a sentence for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionNotice {
    /// The session.
    pub session_id: SessionId,
    /// The sentence.
    pub text: String,
}
