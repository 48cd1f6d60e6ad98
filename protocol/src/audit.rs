//! One line of the trail.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::raw_text::{from_hex, to_hex};
use crate::{
    AbsPath, ApprovalSubject, Argv, AskForApproval, Decision, Destination, Enforcement, EscalationExecution, Invalid,
    Permissions, PermissionsScope, Refusal, RequestId, ReviewDecision, SandboxPolicy, ThreadId, Violation,
};

/// One decision or event. Each record carries the hash of the one before it, so that a line which
/// was changed, removed or slipped in can be named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuditRecord {
    /// Its place in the trail, counted from 0.
    pub sequence: u64,
    /// When, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// The session.
    pub thread_id: ThreadId,
    /// The request.
    pub request_id: RequestId,
    /// What happened.
    pub event: AuditEvent,
    /// The hash of the record before this one; all zero in the first.
    pub previous: RecordHash,
    /// The hash of this record: of everything above, written as JSON.
    pub hash: RecordHash,
}

/// What happened. Secrets in arguments are redacted before a record is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A command was asked for.
    Requested {
        /// The program and its arguments.
        command: Argv,
        /// Where it starts.
        cwd: AbsPath,
        /// What it wants to run with.
        escalation: EscalationExecution,
        /// How much there is of it, where this record holds only the beginning and the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<WholeCommand>,
    },
    /// A change of files was asked for.
    PatchRequested {
        /// Every path that would change: both ends of a move.
        paths: Vec<AbsPath>,
    },
    /// A call of a tool was asked for.
    ToolRequested {
        /// The MCP server that has the tool.
        server: String,
        /// The tool.
        tool: String,
    },
    /// Permissions were asked for in advance.
    PermissionsRequested {
        /// On top of what the session has.
        permissions: Box<Permissions>,
        /// Why, in the words of the requester.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        justification: Option<String>,
    },
    /// It was decided what has to happen before something runs or connects.
    Decided {
        /// The decision.
        decision: Decision,
        /// Who or what decided.
        source: DecisionSource,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What the policy outside that approved it found worth a warning.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sandbox_warnings: Vec<String>,
    },
    /// A person was asked.
    Asked {
        /// What.
        subject: ApprovalSubject,
    },
    /// The answer came.
    Answered {
        /// The decision.
        decision: ReviewDecision,
        /// Whether it came in time. A late answer changes nothing.
        in_time: bool,
        /// How long it took, in milliseconds.
        duration_ms: u64,
    },
    /// A connection was decided. Equal ones of a request are counted, and the count is written now and then and when
    /// the request ends.
    Connected {
        /// Where to.
        destination: Destination,
        /// The decision.
        decision: Decision,
        /// Who or what decided.
        source: DecisionSource,
        /// How many equal connections there have been in this request; one if absent.
        #[serde(default = "once", skip_serializing_if = "is_once")]
        times: u64,
    },
    /// A rule that restricts, or gives something, was met by a program that the command started, and it was decided. Equal
    /// starts of a request are recorded once, but those that ran elsewhere.
    ProgramJudged {
        /// The program and its arguments.
        command: Argv,
        /// How much there is of it, where this record holds only the beginning and the end. What lies beyond the words that
        /// are judged does not count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        whole: Option<WholeCommand>,
        /// Where it was started.
        cwd: AbsPath,
        /// The programs above it, the command first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        started_by: Vec<Argv>,
        /// The process that started it, as the host numbers it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
        /// The decision.
        decision: Decision,
        /// Who or what decided.
        source: DecisionSource,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// What it ran with, elsewhere than its caller, if a rule gave it more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        execution: Option<EscalationExecution>,
    },
    /// Calls on files were made for a command outside of the sandbox, after a yes. Written when the run ends.
    WrittenOutside {
        /// The files that were written, made or removed, without those beyond the first hundred.
        paths: Vec<AbsPath>,
        /// How many calls there were.
        calls: u64,
    },
    /// Files were changed.
    Patched {
        /// The files that were written or removed, where they really are.
        paths: Vec<AbsPath>,
    },
    /// A tool was called, and answered. What it answered is not kept.
    ToolCalled {
        /// How long that took, in milliseconds.
        duration_ms: u64,
    },
    /// A tool may be called, by a client that does so itself.
    ToolApproved {},
    /// Permissions that were asked for in advance were granted.
    PermissionsGranted {
        /// On top of what the session has.
        permissions: Box<Permissions>,
        /// How long they hold.
        scope: PermissionsScope,
    },
    /// A tool was called, or files were to be changed, and that failed; or a request was given up before its end.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was not run.
    Refused(Refusal),
    /// It ran and ended.
    Ended {
        /// How: `exited`, `denied`, `timed_out`, `cancelled` or `signaled`.
        result: String,
        /// Its exit code, or 128 and the signal's number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// How long it ran, in milliseconds.
        duration_ms: u64,
        /// Which layers held.
        enforcement: Enforcement,
        /// What it was denied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        violations: Vec<Violation>,
    },
    /// A client of the server opened a session. The ids of it, of its changes and of its end are the session's.
    SessionOpened {
        /// The name of the client program, in its own words.
        client: String,
        /// The session's name, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// The directories that its commands work in.
        workspace: Vec<AbsPath>,
        /// When it asks.
        ask: AskForApproval,
        /// How much its commands are trusted with.
        sandbox: SandboxPolicy,
    },
    /// A client changed the policy of a session, from its next request on.
    SessionChanged {
        /// The name of the client program, in its own words.
        client: String,
        /// When it asks now.
        ask: AskForApproval,
        /// How much its commands are trusted with now.
        sandbox: SandboxPolicy,
    },
    /// A session was closed, with its commands and everything that it remembered.
    SessionClosed {
        /// Why.
        reason: String,
        /// How many commands were ended with it.
        commands: u64,
    },
    /// The run made more records than one run may have, so that no run pushes earlier ones out of the
    /// trail. What came after the limit is counted.
    Unrecorded {
        /// How many events have no record of their own.
        events: u64,
    },
    /// The trail itself did not end as it should, and goes on from here. The ids are those of the
    /// request that found it so.
    Repaired {
        /// What was found.
        damage: TrailDamage,
    },
}

/// A command that is too long for a record: what tells it from every other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WholeCommand {
    /// How many words it has.
    pub words: u64,
    /// How many bytes these have together.
    pub bytes: u64,
    /// The SHA-256 of all words, without secrets, each followed by a NUL byte.
    pub sha256: RecordHash,
}

fn once() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_once(times: &u64) -> bool {
    *times == 1
}

/// What a writer found at the end of the trail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TrailDamage {
    /// The line before this record is the beginning of one that was never finished: its writer was
    /// killed, or the disk was full. It is kept, and known by its hash.
    Unfinished {
        /// How many bytes there are of it.
        bytes: u64,
        /// Their hash.
        hash: RecordHash,
    },
    /// Something that no writer leaves behind.
    Unexplained {
        /// What.
        what: String,
    },
}

/// Who or what decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionSource {
    /// A rule, by its text or place.
    Rule(String),
    /// The table of known commands.
    Fallback,
    /// The approval policy.
    ApprovalPolicy,
    /// A person, or a program that answers in their place.
    Reviewer,
    /// An earlier answer that holds for the session.
    SessionMemory,
    /// A policy outside, before the request arrived.
    External,
}

/// A SHA-256 hash, in lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordHash(pub [u8; 32]);

impl FromStr for RecordHash {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let bytes = from_hex(text).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| Invalid::Hash { hash: text.into() })
    }
}

impl fmt::Display for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl fmt::Debug for RecordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl Serialize for RecordHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RecordHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for RecordHash {
    fn schema_name() -> Cow<'static, str> {
        "RecordHash".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A SHA-256 hash, in lower-case hexadecimal.", "pattern": "^[0-9a-f]{64}$" })
    }
}
