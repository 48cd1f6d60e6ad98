//! Opening, joining, changing and closing sessions.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_config::{NetworkMode, SandboxMode};
use stockade_protocol::{
    AbsPath, Argv, AskForApproval, Permissions, RawText, ResourceLimits, SandboxPolicy, VariableName,
};

use super::{Capability, CommandId, CommandState, SessionId, SessionName};

/// Nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Empty {}

/// A new session. What is absent is as the settings have it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SessionOpenParams {
    /// A name, which no other session has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SessionName>,
    /// The directories that commands work in. Absent, the server's directory on standard input and output; on a
    /// socket `cwd`, where a home directory is not made writable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Vec<AbsPath>>,
    /// Where commands start; the first directory of the workspace if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsPath>,
    /// The profile of the settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The permission profiles that every command has, such as `npm`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with: Option<Vec<String>>,
    /// How much commands are trusted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// When to ask; `on-failure` if absent and this client answers, else `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskForApproval>,
    /// The network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Hosts that may be reached: `host`, `host:port`, `*.host`, with `/udp` behind it datagrams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_hosts: Option<Vec<String>>,
    /// Directories that may be written besides the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<AbsPath>>,
    /// Paths and globs that are never read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny_read: Option<Vec<String>>,
    /// The caller's whole environment; the server's own if absent. The settings say what commands see of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<VariableName, RawText>>,
    /// Variables that commands get in any case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<BTreeMap<VariableName, String>>,
    /// How much of the machine a command may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// How long a command may run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<NonZeroU64>,
    /// How long the session lives on without a client, in milliseconds; 0 on standard input and output, 10 minutes
    /// on a socket if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
    /// How long a question waits for an answer, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_timeout_ms: Option<NonZeroU64>,
}

/// The new session, and the secret that lets others join it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionOpenResult {
    /// The session.
    pub session_id: SessionId,
    /// The secret for `session/attach`. It is given out here and nowhere else.
    pub capability: Capability,
    /// Where commands start.
    pub cwd: AbsPath,
    /// When it asks.
    pub ask: AskForApproval,
    /// How much commands are trusted with.
    pub sandbox: SandboxPolicy,
    /// What that grants.
    pub permissions: Permissions,
    /// What is worth knowing, in sentences for a person.
    pub notices: Vec<String>,
}

/// What a session is like.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionState {
    /// The session.
    pub session_id: SessionId,
    /// Where commands start.
    pub cwd: AbsPath,
    /// When it asks.
    pub ask: AskForApproval,
    /// How much commands are trusted with.
    pub sandbox: SandboxPolicy,
    /// What that grants.
    pub permissions: Permissions,
    /// What is worth knowing, in sentences for a person.
    pub notices: Vec<String>,
}

/// Joins a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionAttachParams {
    /// The session.
    pub session_id: SessionId,
    /// The secret that the opener was given.
    pub capability: Capability,
    /// How long the session lives on without a client from now on, in milliseconds; what held before, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linger_ms: Option<u64>,
}

/// Changes a session from its next command on. What is absent stays; approvals are remembered on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionUpdateParams {
    /// The session.
    pub session_id: SessionId,
    /// When to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskForApproval>,
    /// How much commands are trusted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// The network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkMode>,
    /// Hosts that may be reached, in place of those given before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow_hosts: Option<Vec<String>>,
    /// Directories that may be written besides the workspace, in place of those given before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<AbsPath>>,
    /// Paths and globs that are never read, in place of those given before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deny_read: Option<Vec<String>>,
    /// Variables that commands get in any case, in place of those given before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<BTreeMap<VariableName, String>>,
    /// How much of the machine a command may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<ResourceLimits>,
    /// How long a command may run, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<NonZeroU64>,
}

/// Which session is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// The session.
    pub session_id: SessionId,
}

/// How a session was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionCloseResult {
    /// How many running commands were ended.
    pub ended_commands: u32,
}

/// Every session of the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionListResult {
    /// The sessions, the oldest first.
    pub sessions: Vec<ListedSession>,
}

/// A session in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedSession {
    /// The session.
    pub session_id: SessionId,
    /// Its name, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<SessionName>,
    /// The directories that commands work in.
    pub workspace: Vec<AbsPath>,
    /// When it asks.
    pub ask: AskForApproval,
    /// How much commands are trusted with.
    pub sandbox: SandboxPolicy,
    /// How many connections are attached.
    pub clients: u32,
    /// Its commands, the oldest first.
    pub commands: Vec<ListedCommand>,
    /// How many questions are open.
    pub questions: u32,
    /// When it was opened, in milliseconds since 1970 (UTC).
    pub opened_at_ms: u64,
    /// How long nothing has run and no client was attached, in milliseconds.
    pub idle_ms: u64,
}

/// A command in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ListedCommand {
    /// The command.
    pub command_id: CommandId,
    /// Its words; left out if this connection is not attached to the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Argv>,
    /// Whether it still runs.
    pub state: CommandState,
}
