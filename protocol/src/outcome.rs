//! How a request ended, and what really held while it ran.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Argv, Decision, DecisionSource, EscalationExecution, RawText, Violation};

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The command ended by itself, and nothing points to a denial as the cause.
    Exited {
        /// Its exit code.
        exit_code: i32,
        /// The run.
        execution: Execution,
    },
    /// The command failed because the sandbox denied it something; the run names what.
    Denied {
        /// Its exit code, if it ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The number of the signal that ended it, if one did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
        /// The run.
        execution: Execution,
    },
    /// It was not run.
    Refused(Refusal),
    /// It took too long, and was ended.
    TimedOut {
        /// The run.
        execution: Execution,
    },
    /// It was ended on request: it was cancelled, or its session was ended.
    Cancelled {
        /// Why, in words.
        reason: String,
        /// The run.
        execution: Execution,
    },
    /// A signal ended it.
    Signaled {
        /// The signal's number.
        signal: i32,
        /// The run.
        execution: Execution,
    },
}

/// One run of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Execution {
    /// What it wrote to standard output.
    pub stdout: CapturedOutput,
    /// What it wrote to standard error.
    pub stderr: CapturedOutput,
    /// How long it ran, in milliseconds, without the time in which a person was asked.
    pub duration_ms: u64,
    /// Which layers held.
    pub enforcement: Enforcement,
    /// What it tried and was denied, also where it went on regardless.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The programs that it started and that a rule spoke of, each with what was decided. Equal ones are told once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<JudgedProgram>,
    /// The run before this one, whose denial led to this wider one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_attempt: Option<Box<Execution>>,
}

/// A program that a command started, and what was decided about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JudgedProgram {
    /// The program and its arguments. A long one is cut.
    pub command: Argv,
    /// The programs above it, the command first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started_by: Vec<Argv>,
    /// The decision.
    pub decision: Decision,
    /// Who or what decided.
    pub source: DecisionSource,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What it ran with in a place of its own: permissions in another sandbox, or none. Absent if it ran where its caller
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<EscalationExecution>,
}

/// Output, whole or with its middle left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapturedOutput {
    /// The whole, or its beginning.
    pub head: RawText,
    /// How many bytes stood between head and tail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_bytes: u64,
    /// Its end, where the middle was left out.
    #[serde(default, skip_serializing_if = "RawText::is_empty")]
    pub tail: RawText,
}

impl CapturedOutput {
    /// The output as text, for a person or a model: bytes that are not UTF-8 are replaced, and a line in the middle
    /// gives the number of omitted bytes.
    pub fn to_string_lossy(&self) -> String {
        let text = |bytes: &RawText| String::from_utf8_lossy(bytes.as_bytes()).into_owned();
        match self.omitted_bytes {
            0 => text(&self.head) + &text(&self.tail),
            omitted => format!("{}\n[{omitted} bytes left out]\n{}", text(&self.head), text(&self.tail)),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field by reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a command was not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// Who refused.
    pub by: RefusedBy,
    /// Why, and what to do about it.
    pub reason: String,
}

/// Who refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RefusedBy {
    /// A rule forbids it.
    Rule,
    /// It would have to be asked, and the approval policy does not ask.
    ApprovalPolicy,
    /// The person, or the program that answers in their place, said no.
    Reviewer,
    /// There was no answer in time.
    Timeout,
    /// An administrator's maximum.
    Administrator,
    /// What was asked for can't be enforced on this host.
    Sandbox,
    /// The audit trail is required and can't be written.
    Audit,
    /// The arguments, the settings or the rules can't be understood, so that nothing was decided.
    Usage,
}

/// Which layers stood around a run, read back from the system where it can be asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Enforcement {
    /// What built the sandbox: `native`, `bwrap`, `landlock`, `seatbelt`, …, or `none`.
    pub engine: String,
    /// The layers, outermost first.
    pub layers: Vec<LayerReport>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerReport {
    /// Its name: `user_namespace`, `landlock`, `seccomp`, ….
    pub layer: String,
    /// Whether it held.
    pub status: LayerStatus,
    /// What is worth knowing: an ABI version, the reason for a gap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Whether a layer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LayerStatus {
    /// It was not there.
    NotEnforced,
    /// It held in part; the detail says which.
    PartlyEnforced,
    /// It held.
    FullyEnforced,
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Outcome {
    /// Whether it ran and exited with 0.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Exited { exit_code: 0, .. })
    }

    /// The run, if there was one.
    pub fn execution(&self) -> Option<&Execution> {
        match self {
            Self::Exited { execution, .. }
            | Self::Denied { execution, .. }
            | Self::TimedOut { execution }
            | Self::Cancelled { execution, .. }
            | Self::Signaled { execution, .. } => Some(execution),
            Self::Refused(_) => None,
        }
    }

    /// The run, if there was one, mutably.
    pub fn execution_mut(&mut self) -> Option<&mut Execution> {
        match self {
            Self::Exited { execution, .. }
            | Self::Denied { execution, .. }
            | Self::TimedOut { execution }
            | Self::Cancelled { execution, .. }
            | Self::Signaled { execution, .. } => Some(execution),
            Self::Refused(_) => None,
        }
    }
}
