//! Reading the trail and the rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{Argv, AuditRecord, RawText, RecordHash};

use super::SessionId;

/// Reads records of the trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuditListParams {
    /// Only the records of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Only records behind the one with this `sequence`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// How many records at most; 1,000 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}

/// Records of the trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditListResult {
    /// The records, the oldest first.
    pub records: Vec<AuditRecord>,
    /// What to give as `after` for the next ones; absent if there are none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Whether the trail is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditVerifyResult {
    /// Whether every record is as it was written and none is missing.
    pub whole: bool,
    /// How many records are as they were written, up to the first that is not.
    pub records: u64,
    /// The number of the oldest record that is kept.
    pub first_sequence: Option<u64>,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub first_time_ms: Option<u64>,
    /// The number of the last good record.
    pub last_sequence: Option<u64>,
    /// Its hash.
    pub last_hash: Option<RecordHash>,
    /// How many records were begun by writers that died.
    pub unfinished: u64,
    /// The first record that is not as it should be.
    pub bad: Option<TrailFlaw>,
}

/// A record that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrailFlaw {
    /// The file it stands in.
    pub file: RawText,
    /// The line, counted from 1.
    pub line: u64,
    /// The place in the trail that it has, or should have.
    pub sequence: u64,
    /// What is wrong, in words for a person.
    pub flaw: String,
}

/// Asks the rules about a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RulesCheckParams {
    /// The session whose rules are asked, those of its project included; the system's and the user's rules if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The program and its arguments.
    pub command: Argv,
}
