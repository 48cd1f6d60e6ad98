//! Running commands, and controlling them while they run.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{
    AbsPath, Argv, EscalationExecution, Outcome, Permissions, RawText, Rlimits, TerminalSize, Umask, VariableName,
};

use super::{Capability, CommandId, SentStreams, SessionId};

/// Runs a command in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandRunParams {
    /// The session.
    pub session_id: SessionId,
    /// The secret of the session: attaches this connection to it first, if it is not attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<Capability>,
    /// A name for the command that no other command of the session has; the server chooses one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<CommandId>,
    /// The program and its arguments.
    pub command: Argv,
    /// Where it starts; the session's directory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsPath>,
    /// How long it may run, in milliseconds; the session's time if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<NonZeroU64>,
    /// What it wants to run with; what the session grants if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationExecution>,
    /// Why, for the person who is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Give it a terminal of this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// What its standard input is.
    #[serde(default, skip_serializing_if = "StdinKind::is_none")]
    pub stdin: StdinKind,
    /// Whether this connection is sent the output while it is written.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub stream: bool,
    /// Whether output counts as under way until this client says `command/ack`, and not just until the connection has
    /// taken it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledge: bool,
    /// Whether the command ends when this connection ends, as a command of a program does that is killed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_disconnect: bool,
    /// The caller's whole environment, in place of the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<VariableName, RawText>>,
    /// The caller's umask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<Umask>,
    /// Whether the caller ignores `SIGPIPE`, as the command then does: its writes to a pipe without a reader fail.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignores_broken_pipes: bool,
    /// The caller's limits. They lower what the session grants and never raise it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rlimits: Option<Rlimits>,
    /// The most that the command may do. It lowers what the session grants and never raises it, and no approval exceeds
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<Permissions>,
    /// Descriptors that come with this request and become the command's streams. Only on a socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<SentStreams>,
}

impl CommandRunParams {
    /// A command of this name, as a session runs it by default: without input, its output sent while it is written.
    pub fn new(session_id: SessionId, command_id: CommandId, command: Argv) -> Self {
        Self {
            session_id,
            capability: None,
            command_id: Some(command_id),
            command,
            cwd: None,
            timeout_ms: None,
            escalation: None,
            justification: None,
            terminal: None,
            stdin: StdinKind::default(),
            stream: true,
            acknowledge: false,
            until_disconnect: false,
            environment: None,
            umask: None,
            ignores_broken_pipes: false,
            rlimits: None,
            at_most: None,
            streams: None,
        }
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// What the standard input of a command is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StdinKind {
    /// Empty.
    #[default]
    None,
    /// What `command/write` sends.
    Pipe,
}

impl StdinKind {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// How a command ended. All its output was sent before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandRunResult {
    /// The command.
    pub command_id: CommandId,
    /// How it ended.
    pub outcome: Outcome,
    /// The number of its last piece of output; 0 if there was none.
    pub last_seq: u64,
}

/// Follows a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandAttachParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The number of the last piece of output that the client has.
    #[serde(default)]
    pub after_seq: u64,
    /// Whether output counts as under way until this client says `command/ack`, and not just until the connection has
    /// taken it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledge: bool,
}

/// A client has used output of a command up to this piece. Where the command or the piece is not known, it is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandAck {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The number of the last piece that was used.
    pub seq: u64,
}

/// Where a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandAttachResult {
    /// Whether it still runs.
    pub state: CommandState,
    /// The oldest piece of output that is still kept; one more than `last_seq` if none is.
    pub first_seq: u64,
    /// The newest piece of output; 0 if there is none.
    pub last_seq: u64,
}

/// Whether a command still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandState {
    /// It runs, or waits for an answer.
    Running,
    /// It has ended.
    Ended,
}

/// Writes to a command's standard input or terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandWriteParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// What to write.
    pub data: RawText,
    /// Whether that is all. Nothing can be written afterwards.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub close: bool,
}

/// Changes the size of a command's terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandResizeParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The new size.
    pub size: TerminalSize,
}

/// Sends a command a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandSignalParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
    /// The signal.
    pub signal: SignalName,
}

/// A signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SignalName {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGQUIT.
    Quit,
    /// SIGHUP.
    Hangup,
    /// SIGKILL.
    Kill,
    /// SIGTSTP, as Ctrl-Z sends it.
    Stop,
    /// SIGCONT.
    Continue,
    /// SIGUSR1.
    Usr1,
    /// SIGUSR2.
    Usr2,
}

/// Ends a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandCancelParams {
    /// The session.
    pub session_id: SessionId,
    /// The command.
    pub command_id: CommandId,
}

/// Whether there was anything to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandCancelResult {
    /// Whether the command was still running.
    pub was_running: bool,
}

/// Asks what would happen to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandExplainParams {
    /// The session.
    pub session_id: SessionId,
    /// The program and its arguments.
    pub command: Argv,
    /// Where it would start; the session's directory if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<AbsPath>,
    /// What it would want to run with; what the session grants if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalation: Option<EscalationExecution>,
}
