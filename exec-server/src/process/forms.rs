//! What is said of processes on the wire.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stockade_protocol::{EnvironmentInherit, NamePattern, VariableName};

use crate::message::base64_bytes;
use crate::sandbox::SandboxContext;
use crate::uri::FileUri;

/// Starts a process. A field that is not known is refused: it could be a restriction.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StartParams {
    pub(crate) process_id: String,
    /// Which thread and tool call it is for.
    #[serde(default)]
    #[expect(dead_code, reason = "names of codex's own")]
    metadata: Option<serde::de::IgnoredAny>,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: FileUri,
    #[serde(default)]
    pub(crate) env_policy: Option<EnvPolicy>,
    #[serde(default)]
    pub(crate) env: BTreeMap<VariableName, String>,
    #[serde(default)]
    pub(crate) tty: bool,
    #[serde(default)]
    pub(crate) pipe_stdin: bool,
    #[serde(default)]
    pub(crate) arg0: Option<String>,
    #[serde(default)]
    pub(crate) sandbox: Option<SandboxContext>,
    #[serde(default)]
    pub(crate) enforce_managed_network: bool,
    #[serde(default)]
    pub(crate) managed_network: Option<ManagedNetwork>,
    #[serde(default)]
    pub(crate) network_proxy: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    pub(crate) shell_snapshot: Option<serde::de::IgnoredAny>,
}

/// Ports of a proxy that codex itself runs.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ManagedNetwork {
    #[serde(default)]
    #[expect(dead_code, reason = "a proxy outside of the sandbox, which no command reaches")]
    loopback_ports: Vec<u16>,
    #[serde(default)]
    #[expect(dead_code, reason = "loopback is the sandbox's own")]
    allow_local_binding: bool,
}

/// Which variables of this process are inherited.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct EnvPolicy {
    pub(crate) inherit: EnvironmentInherit,
    pub(crate) ignore_default_excludes: bool,
    #[serde(default)]
    pub(crate) exclude: Vec<NamePattern>,
    #[serde(default)]
    pub(crate) set: BTreeMap<VariableName, String>,
    #[serde(default)]
    pub(crate) include_only: Vec<NamePattern>,
}

/// A process was started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StartResult<'a> {
    pub(crate) process_id: &'a str,
    pub(crate) sandbox_type: SandboxType,
}

/// What is around a process, in codex's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SandboxType {
    None,
    #[cfg_attr(not(target_os = "macos"), expect(dead_code, reason = "another system's"))]
    MacosSeatbelt,
    #[cfg_attr(any(target_os = "macos", windows), expect(dead_code, reason = "another system's"))]
    LinuxSeccomp,
    #[cfg_attr(not(windows), expect(dead_code, reason = "another system's"))]
    WindowsRestrictedToken,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadParams {
    pub(crate) process_id: String,
    #[serde(default)]
    pub(crate) after_seq: Option<u64>,
    #[serde(default)]
    pub(crate) max_bytes: Option<usize>,
    #[serde(default)]
    pub(crate) wait_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadResult {
    pub(crate) chunks: Vec<OutputChunk>,
    pub(crate) next_seq: u64,
    pub(crate) exited: bool,
    pub(crate) exit_code: Option<i32>,
    pub(crate) closed: bool,
    pub(crate) failure: Option<String>,
    pub(crate) sandbox_denied: bool,
}

/// Output, with its place.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutputChunk {
    pub(crate) seq: u64,
    pub(crate) stream: StreamName,
    #[serde(with = "base64_bytes")]
    pub(crate) chunk: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum StreamName {
    Stdout,
    Stderr,
    Pty,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteParams {
    pub(crate) process_id: String,
    #[serde(with = "base64_bytes")]
    pub(crate) chunk: Vec<u8>,
    pub(crate) write_id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WriteStatus {
    Accepted,
    UnknownProcess,
    StdinClosed,
}

#[derive(Debug, Serialize)]
pub(crate) struct WriteResult {
    pub(crate) status: WriteStatus,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignalParams {
    pub(crate) process_id: String,
    pub(crate) signal: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Signal {
    Interrupt,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TerminateParams {
    pub(crate) process_id: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct TerminateResult {
    pub(crate) running: bool,
}

/// `process/output`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OutputNotification<'a> {
    pub(crate) process_id: &'a str,
    #[serde(flatten)]
    pub(crate) chunk: &'a OutputChunk,
}

/// `process/exited`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExitedNotification<'a> {
    pub(crate) process_id: &'a str,
    pub(crate) seq: u64,
    pub(crate) exit_code: i32,
    pub(crate) sandbox_denied: bool,
}

/// `process/closed`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClosedNotification<'a> {
    pub(crate) process_id: &'a str,
    pub(crate) seq: u64,
}
