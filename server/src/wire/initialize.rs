//! The first request on every connection.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of the protocol that this server speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// Who speaks, in which version, and what it can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitializeParams {
    /// The version of the protocol: 1.
    pub protocol_version: u32,
    /// The client program.
    pub client: ClientInfo,
    /// What the client can do; nothing if absent.
    #[serde(default)]
    pub capabilities: ClientCapabilities,
}

/// The client program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name, which others are shown as the one that answered.
    #[schemars(length(min = 1, max = 128))]
    pub name: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What a client can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientCapabilities {
    /// It answers `approval/request`.
    pub answers: bool,
    /// It can show a terminal.
    pub terminal: bool,
}

/// Who answers, and what can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InitializeResult {
    /// The version of the protocol that is spoken from here on.
    pub protocol_version: u32,
    /// The server program.
    pub server: ServerInfo,
    /// The methods that a client can call on this connection.
    pub methods: Vec<String>,
    /// The limits of the server.
    pub limits: ServerLimits,
}

/// The server program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerInfo {
    /// `stockade`.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The limits of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerLimits {
    /// Bytes of a line from a client.
    pub frame_bytes: u64,
    /// Connections at a time.
    pub connections: u32,
    /// Requests of one connection at a time, besides `command/run`.
    pub requests: u32,
    /// `command/run` requests of one connection at a time.
    pub runs: u32,
    /// Bytes of the requests of one connection at a time. Requests of at most 8192 bytes don't count.
    pub request_bytes: u64,
    /// Bytes of the requests of all connections at a time. Requests of at most 8192 bytes don't count.
    pub request_bytes_of_all_connections: u64,
    /// Bytes of responses and questions that are under way to one connection. Further ones wait.
    pub answer_bytes: u64,
    /// Notifications, besides a command's output, that wait for one connection. With more it is closed.
    pub notifications: u32,
    /// Bytes of those notifications. With more the connection is closed.
    pub notification_bytes: u64,
    /// Sessions at a time.
    pub sessions: u32,
    /// Running commands of a session.
    pub commands: u32,
    /// Running commands of all sessions.
    pub commands_of_all_sessions: u32,
    /// Open questions of a session.
    pub questions: u32,
    /// Open questions of all sessions.
    pub questions_of_all_sessions: u32,
    /// Bytes of a command's output that are under way to one connection.
    pub output_under_way_bytes: u64,
    /// Bytes of a command's output that are kept for `command/attach`.
    pub output_kept_bytes: u64,
    /// Bytes of output that are kept of the ended commands of a session. With more, the oldest commands are dropped.
    pub output_kept_bytes_of_session: u64,
    /// Bytes of output that are kept of all commands of all sessions. With more, the ended commands that are the oldest of
    /// all are dropped, and running commands keep half of `output_under_way_bytes` each.
    pub output_kept_bytes_of_all_sessions: u64,
    /// Ended commands that a session keeps.
    pub ended_commands: u32,
    /// How long an ended command is kept, in milliseconds.
    pub ended_commands_ms: u64,
}

impl ServerLimits {
    /// The limits of every server.
    pub const STANDARD: Self = Self {
        frame_bytes: 4 << 20,
        connections: 64,
        requests: 64,
        runs: 1024,
        request_bytes: 16 << 20,
        request_bytes_of_all_connections: 128 << 20,
        answer_bytes: 4 << 20,
        notifications: 65_536,
        notification_bytes: 32 << 20,
        sessions: 256,
        commands: 256,
        commands_of_all_sessions: 1024,
        questions: 1000,
        questions_of_all_sessions: 4000,
        output_under_way_bytes: 256 << 10,
        output_kept_bytes: 1 << 20,
        output_kept_bytes_of_session: 16 << 20,
        output_kept_bytes_of_all_sessions: 128 << 20,
        ended_commands: 64,
        ended_commands_ms: 600_000,
    };
}
