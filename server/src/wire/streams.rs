//! What a caller on the same machine hands on with a command: descriptors, its umask, its limits.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

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

/// Permission bits that new files don't get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Umask(#[schemars(range(max = 511))] u16);

impl Umask {
    /// The bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Takes the nine permission bits.
    pub fn from_bits(bits: u16) -> Option<Self> {
        (bits <= 0o777).then_some(Self(bits))
    }
}

impl<'de> Deserialize<'de> for Umask {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bits = u16::deserialize(deserializer)?;
        let wrong = || serde::de::Error::custom(format_args!("{bits} is no umask: it is at most 511 (octal 777)"));
        Self::from_bits(bits).ok_or_else(wrong)
    }
}

/// A limit of a process, by the name that `getrlimit(2)` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitName {
    /// Address space, in bytes.
    As,
    /// Size of a core dump, in bytes.
    Core,
    /// Processor time, in seconds.
    Cpu,
    /// Data segment, in bytes.
    Data,
    /// Size of a file, in bytes.
    Fsize,
    /// Locked memory, in bytes.
    Memlock,
    /// Open files.
    Nofile,
    /// Processes of the user.
    Nproc,
    /// Stack, in bytes.
    Stack,
}

/// A limit of the caller. A value that is absent is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CallerLimit {
    /// What holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
    /// How far it may be raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
}
