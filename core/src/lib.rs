#![doc = include_str!("../README.md")]

mod approvals;
mod approver;
mod audit;
mod audit_budget;
mod audit_log;
mod cancellation;
mod command_requirement;
mod connection_log;
mod connections;
mod elicitation;
mod enforced;
mod evidence;
mod exec;
mod explain;
mod git_words;
mod go_stamps;
mod judgement;
#[cfg(feature = "patch")]
mod patch;
#[cfg(feature = "patch")]
mod patch_text;
mod permissions_request;
mod places;
mod proxied;
mod redact;
mod requirement;
mod risk;
mod run;
mod run_answers;
mod runtime;
mod saved_grants;
mod session;
mod shell;
mod skills;
mod starts;
mod starts_tell;
mod steering_variable;
mod tool_call;
mod verdict;
mod writable_program;
mod writable_repository;
mod writes;

pub use approvals::{ANSWER_LIMIT, ApprovalKey, CommandKey, Confinement, Grant, RuleStore, SERVER_MARK};
pub use approver::{
    AllOf, Answer, Approver, ApproverError, ApproverExt, Channel, ChannelLimits, Consumer, Fallback, FirstOf, Fixed,
    Hook, LateAnswer, LateAnswers, Priority, RateLimit, Unanswered, WithTimeout,
};
pub use audit::{
    AuditError, AuditSink, AuditTrail, BadRecord, Durability, FirstKept, Flaw, MemoryAudit, NoAudit, Note,
    TrailOptions, Verification, records, state_directory, verify,
};
pub use audit_log::AuditDemand;
pub use cancellation::Cancellation;
pub use elicitation::ElicitationOutcome;
pub use exec::{
    Clock, CommandTerminal, Input, InputPipe, InputWriter, Output, OutputSink, Pause, StreamName, Streaming,
};
pub use explain::{Explanation, HostExplanation, HostsThrough, PathExplanation};
#[cfg(feature = "patch")]
pub use patch::{PatchExplanation, PatchOutcome, PatchRuntime};
pub use permissions_request::{PermissionsOutcome, PermissionsRequest};
pub use places::places;
pub use redact::{REDACTED, redact_argv, redact_event, redact_text, redact_variable};
pub use risk::{ASSESSMENT_LIMIT, RiskAssessor, Unassessed};
pub use run::{Orchestrator, RunError};
pub use runtime::{
    Approvable, Attempted, FirstAttempt, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
pub use saved_grants::{ProfileStore, SavedGrant};
pub use session::{OffNetwork, OutputLimit, RulesOutside, Sandboxing, Session};
pub use shell::{Caller, ShellRuntime};
pub use tool_call::{ToolCallOutcome, ToolCallRuntime, ToolCaller, ToolReview};
pub use verdict::{RuleVerdict, Verdict};
