//! The requirement before a run: the table of when a person is asked.
//!
//! Two steps. [`questions`] lists the questions that a command raises, independent of the approval policy: by a rule,
//! by its escalation, by its kind. [`answer`] gives the policy's answer to a question of that kind; the strictest
//! counts. Both are tables; the tests list every row.

use stockade_execpolicy::Placement;
use stockade_protocol::{AskForApproval, EscalationExecution, ExecApprovalRequirement, RejectConfig};

use crate::session::Sandboxing;
use crate::verdict::RuleVerdict;

/// A question that has to be settled before a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) topic: Topic,
    pub(crate) reason: String,
}

/// The topic of a question, which determines whether it is refused or shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    /// A rule prompts.
    Rule,
    /// The command wants to run without the sandbox.
    LeaveSandbox,
    /// The command wants more permissions inside the sandbox.
    MorePermissions,
    /// The command destroys a system, a disk or a home directory.
    Dangerous,
    /// The command is not known as a harmless read.
    NotKnownSafe,
    /// A skill's script is started.
    Skill,
}

/// The approval policy's answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Ask,
    Run,
    Refuse(&'static str),
}

/// The questions that a command raises, in order.
fn questions(rules: &RuleVerdict, escalation: &EscalationExecution) -> Vec<Question> {
    let question = |topic, reason: &str| Question { topic, reason: reason.to_owned() };
    // A rule's question includes all others: its prompt shows what the command requests.
    if let RuleVerdict::Prompt { reason } = rules {
        return vec![question(Topic::Rule, reason)];
    }
    let wish = match escalation {
        EscalationExecution::TurnDefault => None,
        EscalationExecution::Unsandboxed => {
            Some(question(Topic::LeaveSandbox, "the command asks to run without the sandbox"))
        }
        EscalationExecution::Permissions(_) => {
            Some(question(Topic::MorePermissions, "the command asks for additional permissions"))
        }
    };
    let nature = match rules {
        RuleVerdict::Dangerous { reason } => Some(question(Topic::Dangerous, reason)),
        RuleVerdict::Unknown { reason } => Some(question(Topic::NotKnownSafe, reason)),
        RuleVerdict::Safe | RuleVerdict::Allowed | RuleVerdict::Prompt { .. } | RuleVerdict::Forbidden { .. } => None,
    };
    wish.into_iter().chain(nature).collect()
}

/// The policies, as the rows of the table.
#[rustfmt::skip]
fn answer(ask: AskForApproval, topic: Topic, sandboxing: Sandboxing) -> Answer {
    use AskForApproval::{Never, OnFailure, OnRequest, Reject, Untrusted};
    use Sandboxing::{External, Off, On};
    use Topic::{Dangerous, LeaveSandbox, MorePermissions, NotKnownSafe, Rule, Skill};
    match (topic, ask, sandboxing) {
        // A rule prompts.
        (Rule, Untrusted | OnFailure | OnRequest, _) => Answer::Ask,
        (Rule, Reject(RejectConfig { rules: false, .. }), _) => Answer::Ask,
        (Rule, Reject(RejectConfig { rules: true, .. }), _) => Answer::Refuse(REJECTED_RULES),
        (Rule, Never, _) => Answer::Refuse(NEVER),

        (Skill, Untrusted | OnFailure | OnRequest, _) => Answer::Ask,
        (Skill, Reject(RejectConfig { skill_approval: false, .. }), _) => Answer::Ask,
        (Skill, Reject(RejectConfig { skill_approval: true, .. }), _) => Answer::Refuse(REJECTED_SKILL),
        (Skill, Never, _) => Answer::Refuse(NEVER),

        // Without Stockade's sandbox there is none to leave or to widen.
        (LeaveSandbox | MorePermissions, _, Off | External) => Answer::Run,
        (LeaveSandbox, Untrusted | OnFailure | OnRequest, On) => Answer::Ask,
        (LeaveSandbox, Reject(RejectConfig { sandbox_approval: false, .. }), On) => Answer::Ask,
        (LeaveSandbox, Reject(RejectConfig { sandbox_approval: true, .. }), On) => Answer::Refuse(REJECTED_SANDBOX),
        (LeaveSandbox, Never, On) => Answer::Refuse(NEVER),
        (MorePermissions, Untrusted | OnFailure | OnRequest, On) => Answer::Ask,
        (MorePermissions, Reject(RejectConfig { request_permissions: true, .. }), On) => Answer::Refuse(REJECTED_PERMISSIONS),
        (MorePermissions, Reject(RejectConfig { sandbox_approval: true, .. }), On) => Answer::Refuse(REJECTED_SANDBOX),
        (MorePermissions, Reject(RejectConfig { .. }), On) => Answer::Ask,
        (MorePermissions, Never, On) => Answer::Refuse(NEVER),

        // The sandbox confines a dangerous command like any other, so `on-failure` lets it try there.
        (Dangerous, OnFailure, On) => Answer::Run,
        (Dangerous, Untrusted | OnFailure | OnRequest, _) => Answer::Ask,
        (Dangerous, Reject(RejectConfig { sandbox_approval: false, .. }), _) => Answer::Ask,
        (Dangerous, Reject(RejectConfig { sandbox_approval: true, .. }), _) => Answer::Refuse(REJECTED_SANDBOX),
        (Dangerous, Never, _) => Answer::Refuse(NEVER),

        (NotKnownSafe, Untrusted, _) => Answer::Ask,
        (NotKnownSafe, OnFailure | OnRequest | Reject(_) | Never, _) => Answer::Run,
    }
}

const NEVER: &str = "the approval policy is `never`, so nobody is asked";
const REJECTED_RULES: &str = "approval policy rejected rule approval prompt";
const REJECTED_SKILL: &str = "approval policy rejected skill approval prompt";
const REJECTED_SANDBOX: &str = "approval policy rejected sandbox approval prompt";
const REJECTED_PERMISSIONS: &str = "approval policy rejected additional permissions prompt";

/// The requirement for a shell command. `placement` applies if rules allow it. The caller adds the amendment.
pub(crate) fn of_command(
    ask: AskForApproval,
    sandboxing: Sandboxing,
    rules: &RuleVerdict,
    placement: Placement,
    escalation: &EscalationExecution,
) -> ExecApprovalRequirement {
    if let RuleVerdict::Forbidden { reason } = rules {
        return ExecApprovalRequirement::Forbidden { reason: reason.clone() };
    }
    let bypass_sandbox = *rules == RuleVerdict::Allowed
        && placement == Placement::Outside
        && *escalation == EscalationExecution::TurnDefault;
    let skip = ExecApprovalRequirement::Skip { bypass_sandbox, proposed_execpolicy_amendment: None };
    let mut asked = Vec::new();
    for question in questions(rules, escalation) {
        match answer(ask, question.topic, sandboxing) {
            Answer::Run => {}
            Answer::Ask => asked.push(question.reason),
            Answer::Refuse(policy) => {
                return ExecApprovalRequirement::Forbidden { reason: format!("{policy}: {}", question.reason) };
            }
        }
    }
    if asked.is_empty() {
        return skip;
    }
    ExecApprovalRequirement::NeedsApproval { reason: Some(asked.join("; ")), proposed_execpolicy_amendment: None }
}

/// The requirement for a tool without its own.
#[rustfmt::skip]
pub(crate) fn of_tool(ask: AskForApproval, sandboxing: Sandboxing) -> ExecApprovalRequirement {
    use AskForApproval::{Never, OnFailure, OnRequest, Reject, Untrusted};
    use Sandboxing::{External, Off, On};
    let answer = match (ask, sandboxing) {
        (Never | OnFailure, _) => Answer::Run,
        (OnRequest | Reject(_), Off | External) => Answer::Run,
        (Reject(RejectConfig { sandbox_approval: true, .. }), On) => Answer::Refuse(REJECTED_SANDBOX),
        (OnRequest | Reject(_), On) => Answer::Ask,
        (Untrusted, _) => Answer::Ask,
    };
    match answer {
        Answer::Run => ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None },
        Answer::Ask => ExecApprovalRequirement::NeedsApproval { reason: None, proposed_execpolicy_amendment: None },
        Answer::Refuse(reason) => ExecApprovalRequirement::Forbidden { reason: reason.to_owned() },
    }
}

/// The requirement for granting permissions in advance.
pub(crate) fn of_permissions(ask: AskForApproval, sandboxing: Sandboxing) -> ExecApprovalRequirement {
    let reason = "more permissions are asked for in advance";
    match answer(ask, Topic::MorePermissions, sandboxing) {
        Answer::Run => ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None },
        Answer::Ask => ExecApprovalRequirement::NeedsApproval {
            reason: Some(reason.to_owned()),
            proposed_execpolicy_amendment: None,
        },
        Answer::Refuse(policy) => ExecApprovalRequirement::Forbidden { reason: format!("{policy}: {reason}") },
    }
}

/// The requirement for what starts a skill's script, on top of its own.
pub(crate) fn with_skill(
    requirement: ExecApprovalRequirement,
    (ask, sandboxing): (AskForApproval, Sandboxing),
    script: &str,
) -> ExecApprovalRequirement {
    let own = match requirement {
        ExecApprovalRequirement::Forbidden { .. } => return requirement,
        ExecApprovalRequirement::NeedsApproval { reason, .. } => reason,
        ExecApprovalRequirement::Skip { .. } => None,
    };
    match answer(ask, Topic::Skill, sandboxing) {
        Answer::Refuse(policy) => ExecApprovalRequirement::Forbidden { reason: format!("{policy}: {script}") },
        Answer::Ask | Answer::Run => {
            let reasons: Vec<String> = own.into_iter().chain([script.to_owned()]).collect();
            let reason = Some(reasons.join("; "));
            ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment: None }
        }
    }
}

/// The requirement for a tool that itself demands a question.
pub(crate) fn of_asking_tool(ask: AskForApproval, tool: &str) -> ExecApprovalRequirement {
    let reason = format!("the tool `{tool}` asks for an approval before each call");
    of_server(ask, "approval policy rejected tool approval prompt", reason)
}

/// The requirement for passing on a server's question.
pub(crate) fn of_elicitation(ask: AskForApproval, server: &str) -> ExecApprovalRequirement {
    let reason = format!("the server `{server}` asks a question");
    of_server(ask, "approval policy rejected MCP elicitation prompt", reason)
}

/// Asks a person on a server's behalf, unless the policy does not ask, or not for servers.
fn of_server(ask: AskForApproval, rejected: &str, reason: String) -> ExecApprovalRequirement {
    match ask {
        AskForApproval::Never => ExecApprovalRequirement::Forbidden { reason: format!("{NEVER}: {reason}") },
        AskForApproval::Reject(reject) if reject.rejects_mcp_elicitations() => {
            ExecApprovalRequirement::Forbidden { reason: format!("{rejected}: {reason}") }
        }
        AskForApproval::Untrusted
        | AskForApproval::OnFailure
        | AskForApproval::OnRequest
        | AskForApproval::Reject(_) => {
            ExecApprovalRequirement::NeedsApproval { reason: Some(reason), proposed_execpolicy_amendment: None }
        }
    }
}

/// Whether a denial by the sandbox leads to a question for a wider run.
pub(crate) fn asks_after_denial(ask: AskForApproval) -> bool {
    match ask {
        AskForApproval::Untrusted | AskForApproval::OnFailure => true,
        AskForApproval::Reject(reject) => !reject.rejects_sandbox_approval(),
        AskForApproval::OnRequest | AskForApproval::Never => false,
    }
}

/// Whether a rule that prompts leads to a question.
pub(crate) fn asks_for_rules(ask: AskForApproval) -> bool {
    answer(ask, Topic::Rule, Sandboxing::On) == Answer::Ask
}

/// Whether remembered and advance approvals count. They answer questions about leaving or widening the sandbox, so
/// they count under the policies that ask such questions. Under others they are kept but not used.
pub(crate) fn approvals_count(ask: AskForApproval) -> bool {
    match ask {
        AskForApproval::Never => false,
        AskForApproval::Reject(reject) => !reject.rejects_sandbox_approval(),
        AskForApproval::Untrusted | AskForApproval::OnFailure | AskForApproval::OnRequest => true,
    }
}

#[cfg(test)]
#[path = "requirement_tests.rs"]
mod tests;
