//! Descriptors that a caller on the same machine sends along with a command.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Descriptors that were sent along with the request (`SCM_RIGHTS`), by their position, counted from 0. On standard
/// input and output no descriptors can be sent, and this is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SentStreams {
    /// The descriptor for standard input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<u8>,
    /// The descriptor for standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<u8>,
    /// The descriptor for standard error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<u8>,
    /// A socket (`SOCK_SEQPACKET`) for a terminal that the server makes, of the size that `terminal` has: streams that have no
    /// descriptor of their own are that terminal. For each terminal, a packet `o` brings the server's side of it along,
    /// for keys and sizes; packets that begin with `d` have what was printed behind that byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<u8>,
    /// Whether standard input is the caller's controlling terminal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub controlling_terminal: bool,
}
