//! A command that is to be run.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AbsPath, Argv, CancelToken, Permissions, RequestId, ThreadId};

/// A request to run one command. Nothing in it widens what the session's policy grants: what it
/// asks for on top goes through an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecRequest {
    /// The request's name in every event and record about it.
    pub id: RequestId,
    /// The session it belongs to.
    pub thread_id: ThreadId,
    /// The program and its arguments.
    pub command: Argv,
    /// Where it starts. This has no influence on what it may write.
    pub cwd: AbsPath,
    /// When to give up.
    #[serde(default)]
    pub expiration: ExecExpiration,
    /// What it wants to run with.
    #[serde(default)]
    pub escalation: EscalationExecution,
    /// Why, in the words of the requester. Shown to a person, and not relied on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Give it a pseudo-terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// A policy outside has approved it already: there is no question, and the trail says so.
    /// Read under codex's name `approved` as well.
    #[serde(default, alias = "approved", skip_serializing_if = "std::ops::Not::not")]
    pub approved_by_policy: bool,
    /// What that policy found worth a warning.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sandbox_warnings: Vec<String>,
}

/// What a run, or the run after a denial, may have. Never an overloaded "nothing".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EscalationExecution {
    /// What the session's policy grants.
    #[default]
    TurnDefault,
    /// These permissions on top, inside the sandbox.
    Permissions(Box<Permissions>),
    /// No sandbox, but for denials that a person wrote.
    Unsandboxed,
}

/// When a run ends, if it does not end by itself. The clock stands still while a person is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecExpiration {
    /// After the session's usual time.
    #[default]
    DefaultTimeout,
    /// After this time.
    Timeout {
        /// In milliseconds.
        milliseconds: NonZeroU64,
    },
    /// When it is cancelled by this name.
    Cancellation {
        /// The name.
        token: CancelToken,
    },
}

/// The size of a pseudo-terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TerminalSize {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// Ends every running command that was started with this name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequest {
    /// The name that the commands were started with.
    pub token: CancelToken,
}
