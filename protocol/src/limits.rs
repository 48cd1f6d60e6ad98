//! How much of the machine a command may use.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Upper limits. What is absent is not limited; a limit of zero is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ResourceLimits {
    /// Processor time of each process, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<NonZeroU64>,
    /// Memory, in bytes: of the whole tree where the system can count that, else of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<NonZeroU64>,
    /// Processes and threads of the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<NonZeroU64>,
    /// Size of each file that is written, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<NonZeroU64>,
    /// Open files of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<NonZeroU64>,
}

impl ResourceLimits {
    /// The three standard streams and one more: with fewer open files no program can load its libraries.
    pub const FEWEST_OPEN_FILES: NonZeroU64 = NonZeroU64::new(4).unwrap();
    /// With less memory no tested program could start: its libraries alone need more, and in a control group so do the
    /// supervising processes.
    pub const LEAST_MEMORY_BYTES: NonZeroU64 = NonZeroU64::new(4 << 20).unwrap();

    /// Whether nothing is limited.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Raises each limit for which `granted` has a higher one.
    pub fn merge(&self, granted: &Self) -> Self {
        self.zip(granted, |own, granted| match (own, granted) {
            (Some(own), Some(granted)) => Some(own.max(granted)),
            // A limit without a grant stays; a missing one is not added.
            (own, _) => own,
        })
    }

    /// The lower of both, for each limit.
    pub fn intersect(&self, bound: &Self) -> Self {
        self.zip(bound, |own, bound| match (own, bound) {
            (Some(own), Some(bound)) => Some(own.min(bound)),
            (own, bound) => own.or(bound),
        })
    }

    fn zip(&self, other: &Self, pick: fn(Option<NonZeroU64>, Option<NonZeroU64>) -> Option<NonZeroU64>) -> Self {
        Self {
            cpu_seconds: pick(self.cpu_seconds, other.cpu_seconds),
            memory_bytes: pick(self.memory_bytes, other.memory_bytes),
            processes: pick(self.processes, other.processes),
            file_size_bytes: pick(self.file_size_bytes, other.file_size_bytes),
            open_files: pick(self.open_files, other.open_files),
        }
    }
}
