//! An act of a command that was denied.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AbsPath, Argv, FileRule, Host, HostRule, NetworkProtocol, RawText};

/// A denied act, who tried it, what stood against it, and the least that would have allowed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Violation {
    /// What was tried.
    pub operation: Operation,
    /// On what.
    pub target: ViolationTarget,
    /// How it is known.
    pub evidence: Evidence,
    /// The process that tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The program of that process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<RawText>,
    /// What stood against it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<DenyingRule>,
    /// The least that would have allowed it; absent where nothing may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amendment: Option<PermissionAmendment>,
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reading a file or listing a directory.
    Read,
    /// Writing, creating, removing, renaming, or changing a file's attributes.
    Write,
    /// Running a program.
    Execute,
    /// Connecting or sending to a destination.
    Connect,
    /// Waiting for connections.
    Listen,
    /// Signalling or tracing another process.
    Process,
    /// A system call that no sandboxed command may use.
    SystemCall,
    /// Using more of the machine than was granted.
    Exceed,
}

/// On what it was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ViolationTarget {
    /// A file.
    Path(AbsPath),
    /// A destination on the network.
    Destination(Destination),
    /// A Unix socket.
    UnixSocket(AbsPath),
    /// A system call, by name.
    SystemCall(String),
    /// A process outside.
    Process(u32),
    /// A limit, by its field in `ResourceLimits`.
    Limit(String),
    /// A program that the command started, with its arguments. A long one is cut.
    Command(Argv),
}

/// A destination on the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Destination {
    /// The host.
    pub host: Host,
    /// What goes over the connection.
    pub protocol: NetworkProtocol,
    /// The port.
    pub port: u16,
}

/// `example.com:443`, `[2001:db8::1]:443`, `example.com:123/udp`.
impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = if self.protocol == NetworkProtocol::Udp { "/udp" } else { "" };
        write!(f, "{}{suffix}", self.host.with_port(self.port))
    }
}

/// How a denial is known, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The supervisor saw the act itself.
    Observed,
    /// The backend or the kernel reported it.
    Reported,
    /// The command's output looks like it. Output can say anything.
    Guessed,
}

/// What stood against an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenyingRule {
    /// A rule on files.
    File(FileRule),
    /// A rule on hosts.
    Network(HostRule),
    /// No rule grants it.
    NotGranted,
    /// A rule on commands, or the answer to the question that such a rule raised.
    Command {
        /// Which rule, and why.
        reason: String,
    },
    /// A layer that does not depend on the policy, with its reason.
    Layer {
        /// Why the layer refuses it.
        reason: String,
    },
}

/// The least permission that would have allowed an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionAmendment {
    /// Access to a file.
    File(FileRule),
    /// A destination.
    Network(HostRule),
    /// A Unix socket.
    UnixSocket(AbsPath),
}

/// `write /srv/out`, `connect to example.com:443`, `connect to the socket /run/agent.sock`.
impl fmt::Display for PermissionAmendment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(rule) => write!(f, "{} {}", rule.access, rule.target),
            Self::Network(rule) => write!(f, "connect to {}", rule.destinations()),
            Self::UnixSocket(path) => write!(f, "connect to the socket {path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amendment_is_a_phrase() {
        let phrases = [
            (r#"{"file": {"target": {"path": "/srv/a b"}, "access": "write"}}"#, "write /srv/a b"),
            (
                r#"{"network": {"host": "2001:db8::1", "port": 123, "protocol": "udp", "decision": "allow"}}"#,
                "connect to [2001:db8::1]:123/udp",
            ),
            (r#"{"network": {"host": "*.example.com", "decision": "allow"}}"#, "connect to *.example.com"),
            (r#"{"unix_socket": "/run/agent.sock"}"#, "connect to the socket /run/agent.sock"),
        ];
        for (json, phrase) in phrases {
            let amendment: PermissionAmendment = serde_json::from_str(json).unwrap();
            assert_eq!(amendment.to_string(), phrase);
        }
    }
}
