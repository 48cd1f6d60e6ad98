#![doc = include_str!("../README.md")]

mod abs_path;
mod approval;
mod argv;
mod ask;
mod audit;
mod command;
mod credentials;
mod decision;
mod elicitation_form;
mod environment;
mod error;
mod exec_request;
mod file_rule;
mod file_rules;
mod git_options;
mod glob;
mod host;
mod host_paths;
mod host_pattern;
mod id;
mod ip_network;
mod limits;
mod network;
mod only_objects;
mod outcome;
mod parse;
mod permissions;
mod process;
mod profile_amendment;
mod raw_text;
mod review;
mod sandbox_policy;
mod schema;
mod text;
mod tool_request;
mod violation;
mod windows_path;

pub use abs_path::{AbsPath, PathStyle};
pub use approval::{
    ApprovalReply, ApprovalRequest, ApprovalSubject, CommandApproval, ElicitationApproval, FileChange, NetworkApproval,
    PatchApproval, PermissionsApproval, PermissionsScope, ResolvedPath, RiskAssessment, RiskLevel, ToolCallApproval,
    WriteApproval, WriteOperation,
};
pub use argv::Argv;
pub use ask::{AskForApproval, RejectConfig};
pub use audit::{AuditEvent, AuditRecord, DecisionSource, RecordHash, TrailDamage, WholeCommand};
pub use command::{CommandRole, ParsedCommand, ParsedLine, Word};
pub use credentials::{AGENT_STATES, CREDENTIAL_PATHS, CREDENTIAL_VARIABLES};
pub use decision::{Decision, ExecApprovalRequirement};
pub use elicitation_form::{ElicitationForm, FieldKind, FormChoice, FormField, NumberShape, TextFormat};
pub use environment::{
    CORE_NAMES, EnvironmentInherit, EnvironmentPolicy, LOADER_NAMES, NamePattern, PLAIN_NAMES, PLAIN_WORDS,
    SECRET_NAMES, VariableName, without_userinfo,
};
pub use error::Invalid;
pub use exec_request::{CancelRequest, EscalationExecution, ExecExpiration, ExecRequest, TerminalSize};
pub use file_rule::{Access, FileRule, FileTarget, RuleSource};
pub use file_rules::FileRules;
pub use git_options::{GitOption, GitOptionEffect};
pub use glob::{Glob, GlobSegment, GlobToken};
pub use host::{Host, HostName};
pub use host_paths::{HostPaths, OWN_PATHS, PROTECTED_NAMES};
pub use host_pattern::HostPattern;
pub use id::{CancelToken, RequestId, ThreadId};
pub use ip_network::IpNetwork;
pub use limits::ResourceLimits;
pub use network::{HostRule, HostRules, HttpMethods, NetworkPolicy, NetworkProtocol};
pub use outcome::{
    CapturedOutput, Enforcement, Execution, JudgedProgram, LayerReport, LayerStatus, Outcome, Refusal, RefusedBy,
};
pub use parse::{ParseError, Problem, parse};
pub use permissions::Permissions;
pub use process::{Rlimit, RlimitResource, Rlimits, Umask};
pub use profile_amendment::ProfileAmendment;
pub use raw_text::RawText;
pub use review::{ExecPolicyAmendment, NetworkPolicyAmendment, NetworkPolicyRuleAction, ReviewDecision};
pub use sandbox_policy::{NetworkAccess, ReadOnlyAccess, SandboxPolicy};
pub use schema::{BUNDLE_NAME, Message, bundle, bundle_of, messages};
pub use tool_request::{PatchRequest, RememberArguments, ToolCallRequest};
pub use violation::{DenyingRule, Destination, Evidence, Operation, PermissionAmendment, Violation, ViolationTarget};
