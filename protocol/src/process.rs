//! What a caller's process hands on to a command that another process starts for it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Invalid;

/// The permissions that new files are denied: the file mode creation mask, as `umask` sets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u16", into = "u16")]
pub struct Umask(#[schemars(range(max = 0o777))] u16);

impl Umask {
    /// Its bits.
    pub fn bits(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Umask {
    type Error = Invalid;

    fn try_from(mask: u16) -> Result<Self, Invalid> {
        if mask <= 0o777 { Ok(Self(mask)) } else { Err(Invalid::Umask { mask }) }
    }
}

impl From<Umask> for u16 {
    fn from(mask: Umask) -> Self {
        mask.0
    }
}

impl fmt::Debug for Umask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Umask({:03o})", self.0)
    }
}

/// What a process can be limited in, by the names that `ulimit` and `limits.conf` have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RlimitResource {
    /// Bytes of address space.
    As,
    /// Bytes of a core file.
    Core,
    /// Seconds of processor time.
    Cpu,
    /// Bytes of the data segment.
    Data,
    /// Bytes of a file that is written.
    Fsize,
    /// Bytes that are locked in memory.
    Memlock,
    /// Open files: one more than the highest descriptor.
    Nofile,
    /// Processes and threads of the user.
    Nproc,
    /// Bytes of the stack.
    Stack,
}

impl fmt::Display for RlimitResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::As => "as",
            Self::Core => "core",
            Self::Cpu => "cpu",
            Self::Data => "data",
            Self::Fsize => "fsize",
            Self::Memlock => "memlock",
            Self::Nofile => "nofile",
            Self::Nproc => "nproc",
            Self::Stack => "stack",
        })
    }
}

/// One limit of a process, see `setrlimit(2)`. What is absent is unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Rlimit {
    /// The limit that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<u64>,
    /// The limit that the process may raise it to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hard: Option<u64>,
}

/// Limits of a process, by what they limit.
pub type Rlimits = BTreeMap<RlimitResource, Rlimit>;
