//! Process attributes of a caller for a command that another process starts.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
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

impl RlimitResource {
    const ALL: [Self; 9] = [
        Self::As,
        Self::Core,
        Self::Cpu,
        Self::Data,
        Self::Fsize,
        Self::Memlock,
        Self::Nofile,
        Self::Nproc,
        Self::Stack,
    ];
    const NAMES: [&str; 9] = ["as", "core", "cpu", "data", "fsize", "memlock", "nofile", "nproc", "stack"];
}

impl fmt::Display for RlimitResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = Self::ALL.iter().zip(Self::NAMES).find(|(resource, _)| *resource == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

/// Read as text, not as an enum variant: an error about a limit then has its name in the field's path.
impl<'de> Deserialize<'de> for RlimitResource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = RlimitResource;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a limit, such as nofile")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<RlimitResource, E> {
                let found = RlimitResource::NAMES.iter().zip(RlimitResource::ALL).find(|(known, _)| **known == name);
                let unknown = || E::unknown_variant(name, &RlimitResource::NAMES);
                found.map(|(_, resource)| resource).ok_or_else(unknown)
            }
        }
        deserializer.deserialize_str(Name)
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
