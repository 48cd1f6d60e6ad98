//! A question to a person, and the answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AbsPath, Argv, EscalationExecution, ExecPolicyAmendment, Host, NetworkPolicyAmendment, NetworkProtocol, ParsedLine,
    Permissions, ProfileAmendment, RawText, RememberArguments, RequestId, ReviewDecision, ThreadId, Violation,
};

/// A question. It says what will really happen: resolved paths, every command of a line, what is
/// granted, and which answers there are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// The name of the request that it is about.
    pub id: RequestId,
    /// The session it belongs to.
    pub thread_id: ThreadId,
    /// What is asked.
    pub subject: ApprovalSubject,
    /// Why it is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How risky a program took it to be. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risk: Option<RiskAssessment>,
    /// Paths that lead elsewhere than their names say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved_paths: Vec<ResolvedPath>,
    /// The answers there are, in the order to show them.
    pub available_decisions: Vec<ReviewDecision>,
}

/// How risky a program took a request to be. It may be wrong, and it decides nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RiskAssessment {
    /// How much could go wrong.
    pub level: RiskLevel,
    /// What kind of harm is meant, such as `data_loss` or `network_access`.
    pub category: String,
    /// What could go wrong, in a sentence or two.
    pub summary: String,
}

/// How much could go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RiskLevel {
    /// Little.
    Low,
    /// Something that takes work to undo.
    Medium,
    /// Something that can't be undone, or reaches beyond this machine.
    High,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalSubject {
    /// May this command run?
    Command(Box<CommandApproval>),
    /// May these files be changed?
    Patch(PatchApproval),
    /// May this destination be reached?
    Network(NetworkApproval),
    /// May the running command write this? Its call waits for the answer.
    Write(WriteApproval),
    /// May the session have these permissions from now on?
    Permissions(Box<PermissionsApproval>),
    /// May this tool of an MCP server be called?
    ToolCall(ToolCallApproval),
    /// Will you answer an MCP server's question?
    Elicitation(ElicitationApproval),
}

/// A command, before its first run or, after a denial, before a wider one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CommandApproval {
    /// The program and its arguments.
    pub command: Argv,
    /// Where it starts.
    pub cwd: AbsPath,
    /// What it runs, part by part.
    pub parsed: ParsedLine,
    /// What it will run with if approved.
    pub escalation: EscalationExecution,
    /// Why, in the words of the requester. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// What the sandbox denied the run before this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// A rule that would save this question in future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_execpolicy_amendment: Option<ExecPolicyAmendment>,
    /// For a program that a running command starts: the programs above it, the command first. Its start waits for the
    /// answer. Long ones are cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub started_by: Vec<Argv>,
}

/// File changes that the host is going to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PatchApproval {
    /// The changes, by file.
    pub changes: Vec<FileChange>,
    /// A directory that shall be writable for the rest of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_root: Option<AbsPath>,
}

/// One file's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// A new file.
    Add {
        /// Where.
        path: AbsPath,
        /// What will be in it.
        content: RawText,
    },
    /// A file that goes away.
    Delete {
        /// Where.
        path: AbsPath,
        /// What is in it now.
        content: RawText,
    },
    /// A file that changes, and perhaps moves.
    Update {
        /// Where it is now.
        path: AbsPath,
        /// What changes, as a unified diff.
        unified_diff: RawText,
        /// Where it will be, if it moves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        move_path: Option<AbsPath>,
    },
}

impl FileChange {
    /// Every path that the change touches: both ends of a move.
    pub fn paths(&self) -> impl Iterator<Item = &AbsPath> {
        let (path, target) = match self {
            Self::Add { path, .. } | Self::Delete { path, .. } => (path, None),
            Self::Update { path, move_path, .. } => (path, move_path.as_ref()),
        };
        std::iter::once(path).chain(target)
    }
}

/// A destination that no rule names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkApproval {
    /// The host.
    pub host: Host,
    /// What goes over the connection.
    pub protocol: NetworkProtocol,
    /// The port.
    pub port: u16,
    /// Addresses on this machine's or other local networks that the name leads to, where those are asked for. The name
    /// itself is allowed already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leads_to: Vec<Host>,
    /// The program that wants to connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<RawText>,
    /// Rules that would save this question in future.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposed_network_policy_amendments: Vec<NetworkPolicyAmendment>,
}

/// A write that a running command wants and its policy denies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WriteApproval {
    /// What is to be done.
    pub operation: WriteOperation,
    /// Every path that has to be written for it: both ends of a move, the source of a hard link.
    pub paths: Vec<AbsPath>,
    /// What may be written after a yes for the run or for the session: each of these and everything below it, but
    /// for what stays protected there.
    pub directories: Vec<AbsPath>,
    /// The program that wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<RawText>,
    /// A permission profile that would save this question in future.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposed_profile_amendment: Option<ProfileAmendment>,
}

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteOperation {
    /// Writes a file that exists, or changes its attributes.
    Write,
    /// Makes a file or a link.
    Create,
    /// Makes a directory.
    MakeDirectory,
    /// Removes, renames or replaces a name.
    Replace,
}

/// Permissions that a session wants in advance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionsApproval {
    /// What is asked for, on top of what the session has.
    pub permissions: Permissions,
    /// Why, in the words of the requester.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
}

/// How long granted permissions hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PermissionsScope {
    /// For every further command of the session.
    Session,
    /// For one request that names them as its escalation.
    Once,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCallApproval {
    /// The MCP server that has the tool.
    pub server: String,
    /// The tool.
    pub tool: String,
    /// What it is called with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, serde_json::Value>,
    /// What an approval for the session would speak of. In a request, what that says counts.
    #[serde(default, skip_serializing_if = "RememberArguments::is_exact")]
    pub remember: RememberArguments,
}

/// A question that an MCP server passes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ElicitationApproval {
    /// The server that asks.
    pub server: String,
    /// The question, in its words.
    pub message: String,
    /// The JSON Schema of the answer it expects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested_schema: Option<BTreeMap<String, serde_json::Value>>,
}

/// A path as it was given and where it really leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedPath {
    /// As it was given.
    pub given: AbsPath,
    /// Where it leads, with all symbolic links followed.
    pub resolved: AbsPath,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalReply {
    /// The name of the request that was answered.
    pub id: RequestId,
    /// The decision.
    pub decision: ReviewDecision,
    /// What was answered to an MCP server's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<BTreeMap<String, serde_json::Value>>,
}

impl ApprovalRequest {
    /// A request with the answers that its subject permits.
    pub fn new(id: RequestId, thread_id: ThreadId, subject: ApprovalSubject) -> Self {
        let available_decisions = subject.available_decisions();
        Self { id, thread_id, subject, reason: None, risk: None, resolved_paths: Vec::new(), available_decisions }
    }
}

impl ApprovalSubject {
    /// The possible answers. `TimedOut` is never among them: it results from a missing answer.
    pub fn available_decisions(&self) -> Vec<ReviewDecision> {
        let mut decisions = vec![ReviewDecision::Approved];
        match self {
            Self::Command(command) => {
                decisions.push(ReviewDecision::ApprovedForSession);
                // A saved rule keeps the command in the session's sandbox, so it is not offered if that is not enough.
                let is_enough = command.escalation == EscalationExecution::TurnDefault && command.violations.is_empty();
                let saved = command.proposed_execpolicy_amendment.clone().filter(|_| is_enough);
                decisions.extend(saved.map(|proposed_execpolicy_amendment| {
                    ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment }
                }));
            }
            Self::Network(network) => {
                decisions.push(ReviewDecision::ApprovedForSession);
                decisions.extend(network.proposed_network_policy_amendments.iter().cloned().map(
                    |network_policy_amendment| ReviewDecision::NetworkPolicyAmendment { network_policy_amendment },
                ));
            }
            // There may be no directory that is narrow enough.
            Self::Write(write) if write.directories.is_empty() => {}
            Self::Write(write) => {
                decisions.extend([ReviewDecision::ApprovedForRun, ReviewDecision::ApprovedForSession]);
                decisions.extend(write.proposed_profile_amendment.clone().map(|proposed_profile_amendment| {
                    ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment }
                }));
            }
            Self::Patch(_) | Self::Permissions(_) | Self::ToolCall(_) => {
                decisions.push(ReviewDecision::ApprovedForSession)
            }
            // Each question of a server is a new one: there is nothing to remember.
            Self::Elicitation(_) => {}
        }
        decisions.push(ReviewDecision::Denied { reason: None });
        if self.is_asked_while_running() {
            decisions.push(ReviewDecision::DeniedForRun);
        }
        decisions.push(ReviewDecision::Abort);
        decisions
    }

    /// Whether a command waits for the answer while it runs, and may ask for more.
    fn is_asked_while_running(&self) -> bool {
        match self {
            Self::Network(_) | Self::Write(_) => true,
            Self::Command(_) | Self::Patch(_) | Self::Permissions(_) | Self::ToolCall(_) | Self::Elicitation(_) => {
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(escalation: EscalationExecution) -> ApprovalSubject {
        let argv = Argv::parse(["npm", "test"]).unwrap();
        ApprovalSubject::Command(Box::new(CommandApproval {
            parsed: ParsedLine::single(&argv),
            proposed_execpolicy_amendment: Some(ExecPolicyAmendment(argv.clone())),
            command: argv,
            cwd: "/repo".parse().unwrap(),
            escalation,
            justification: None,
            violations: Vec::new(),
            started_by: Vec::new(),
        }))
    }

    #[test]
    fn a_rule_is_not_offered_along_with_more_than_the_session_grants() {
        let offers_rule = |subject: ApprovalSubject| {
            subject
                .available_decisions()
                .iter()
                .any(|decision| matches!(decision, ReviewDecision::ApprovedExecpolicyAmendment { .. }))
        };
        assert!(offers_rule(command(EscalationExecution::TurnDefault)));
        assert!(!offers_rule(command(EscalationExecution::Unsandboxed)));
        assert!(!offers_rule(command(EscalationExecution::Permissions(Box::default()))));
    }

    #[test]
    fn a_move_touches_both_ends() {
        let change: FileChange =
            serde_json::from_str(r#"{"update":{"path":"/a","unified_diff":"","move_path":"/b"}}"#).unwrap();
        assert_eq!(change.paths().map(ToString::to_string).collect::<Vec<_>>(), ["/a", "/b"]);
    }
}
