//! One record as a paragraph that a person reads.

use serde::Serialize;
use stockade_protocol::{
    ApprovalSubject, Argv, AuditEvent, AuditRecord, Decision, DecisionSource, EscalationExecution, PermissionsScope,
    RawText, ReviewDecision, TrailDamage, ViolationTarget,
};

use super::when;

/// A record with all its details, with every deceptive character escaped.
pub(super) fn tell(record: &AuditRecord) -> Result<String, serde_json::Error> {
    let mut lines = vec![format!("{}  #{}  {}", when::long(record.time_ms), record.sequence, headline(&record.event)?)];
    lines.extend(details(&record.event)?.into_iter().map(|line| format!("    {line}")));
    Ok(lines.join("\n") + "\n")
}

fn shown(text: &str) -> RawText {
    RawText::from(text)
}

/// The serialized name of a value.
fn word(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let value = serde_json::to_value(value)?;
    Ok(value.as_str().map_or_else(|| shown(&value.to_string()).to_string(), |word| word.replace('_', " ")))
}

fn listed(paths: &[stockade_protocol::AbsPath]) -> String {
    paths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn headline(event: &AuditEvent) -> Result<String, serde_json::Error> {
    Ok(match event {
        AuditEvent::Requested { command, .. } => format!("asked to run  {command}"),
        AuditEvent::PatchRequested { paths } => format!("asked to change  {}", listed(paths)),
        AuditEvent::ProgramJudged { command, decision, .. } => {
            let decision = match decision {
                Decision::Allow => "may start",
                Decision::Prompt => "waits to start",
                Decision::Forbidden => "may not start",
            };
            format!("its program {decision}  {command}")
        }
        AuditEvent::WrittenOutside { paths, calls } => {
            format!("written outside of the sandbox, in {calls} calls  {}", listed(paths))
        }
        AuditEvent::Patched { paths } => format!("changed  {}", listed(paths)),
        AuditEvent::ToolRequested { server, tool } => format!("asked to call  {} of {}", shown(tool), shown(server)),
        AuditEvent::ToolCalled { duration_ms } => format!("the tool answered after {}", when::duration(*duration_ms)),
        AuditEvent::ToolApproved {} => String::from("the tool may be called"),
        AuditEvent::PermissionsRequested { permissions, .. } => {
            format!("asked for permissions  {}", shown(&serde_json::to_string(permissions)?))
        }
        AuditEvent::PermissionsGranted { permissions, scope } => {
            let scope = match scope {
                PermissionsScope::Session => "the session",
                PermissionsScope::Once => "one command",
            };
            format!("granted for {scope}  {}", shown(&serde_json::to_string(permissions)?))
        }
        AuditEvent::SessionOpened { client, name, workspace, .. } => {
            let name = name.as_ref().map(|name| format!(" `{}`", shown(name))).unwrap_or_default();
            format!("{} opened the session{name} for  {}", shown(client), listed(workspace))
        }
        AuditEvent::SessionChanged { client, .. } => format!("{} changed the session's policy", shown(client)),
        AuditEvent::SessionClosed { reason, commands: 0 } => format!("the session was closed: {}", shown(reason)),
        AuditEvent::SessionClosed { reason, commands } => {
            format!("the session was closed, with {commands} running commands: {}", shown(reason))
        }
        AuditEvent::Failed { reason } => format!("failed: {}", shown(reason)),
        AuditEvent::Decided { decision, source, .. } => format!("{} by {}", decided(*decision), decider(source)),
        AuditEvent::Asked { subject } => format!("a person was asked  {}", question(subject)),
        AuditEvent::Answered { decision, in_time, duration_ms } => format!(
            "answered: {} after {}{}",
            answer(decision),
            when::duration(*duration_ms),
            if *in_time { "" } else { ", too late to count" }
        ),
        AuditEvent::Connected { destination, decision, source, times } => format!(
            "connection to {} ({}) {} by {}{}",
            destination.host.with_port(destination.port),
            word(&destination.protocol)?,
            decided(*decision),
            decider(source),
            if *times == 1 { String::new() } else { format!(", {times} times so far") }
        ),
        AuditEvent::Refused(refusal) => format!("refused by the {}: {}", word(&refusal.by)?, shown(&refusal.reason)),
        AuditEvent::Ended { result, exit_code, duration_ms, .. } => {
            let code = exit_code.map(|code| format!(" with {code}")).unwrap_or_default();
            format!("{}{code} after {}", shown(&result.replace('_', " ")), when::duration(*duration_ms))
        }
        AuditEvent::Unrecorded { events } => {
            format!("{events} further events have no record of their own: the run made more than one run may have")
        }
        AuditEvent::Repaired { damage: TrailDamage::Unfinished { bytes, .. } } => {
            format!("the trail went on behind {bytes} bytes of a record that was never finished")
        }
        AuditEvent::Repaired { damage: TrailDamage::Unexplained { what } } => {
            format!("the trail was found damaged: {}", shown(what))
        }
    })
}

fn details(event: &AuditEvent) -> Result<Vec<String>, serde_json::Error> {
    let mut lines = Vec::new();
    match event {
        AuditEvent::Requested { cwd, escalation, whole, .. } => {
            lines.push(format!("in {cwd}"));
            lines.extend(whole.iter().map(|whole| {
                format!("shortened: {} bytes in {} words, SHA-256 {}", whole.bytes, whole.words, whole.sha256)
            }));
            lines.extend(wish(escalation)?);
        }
        AuditEvent::Decided { reason, sandbox_warnings, .. } => {
            lines.extend(reason.iter().map(|reason| format!("because {}", shown(reason))));
            lines.extend(sandbox_warnings.iter().map(|warning| format!("warning: {}", shown(warning))));
        }
        AuditEvent::Asked { subject: ApprovalSubject::Command(command) } => {
            lines.extend(wish(&command.escalation)?);
            lines.extend(chain(&command.started_by));
        }
        AuditEvent::ProgramJudged { started_by, reason, .. } => {
            lines.extend(chain(started_by));
            lines.extend(reason.iter().map(|reason| format!("because {}", shown(reason))));
        }
        AuditEvent::Ended { enforcement, violations, .. } => {
            let layers: Result<Vec<_>, _> = enforcement
                .layers
                .iter()
                .map(|layer| Ok::<_, serde_json::Error>(format!("{} {}", shown(&layer.layer), word(&layer.status)?)))
                .collect();
            lines.push(format!("engine {}: {}", shown(&enforcement.engine), layers?.join(", ")));
            for violation in violations {
                let target = target(&violation.target);
                lines.push(format!(
                    "denied: {} {target} ({})",
                    word(&violation.operation)?,
                    word(&violation.evidence)?
                ));
            }
        }
        AuditEvent::PermissionsRequested { justification, .. } => {
            lines.extend(justification.iter().map(|text| format!("because {}", shown(text))));
        }
        AuditEvent::SessionOpened { ask, sandbox, .. } | AuditEvent::SessionChanged { ask, sandbox, .. } => {
            lines.push(format!("ask {}, sandbox {}", serde_json::to_string(ask)?, serde_json::to_string(sandbox)?));
        }
        AuditEvent::PatchRequested { .. }
        | AuditEvent::SessionClosed { .. }
        | AuditEvent::ToolApproved {}
        | AuditEvent::PermissionsGranted { .. }
        | AuditEvent::Patched { .. }
        | AuditEvent::WrittenOutside { .. }
        | AuditEvent::ToolRequested { .. }
        | AuditEvent::ToolCalled { .. }
        | AuditEvent::Failed { .. }
        | AuditEvent::Asked { .. }
        | AuditEvent::Answered { .. }
        | AuditEvent::Connected { .. }
        | AuditEvent::Refused(_)
        | AuditEvent::Unrecorded { .. }
        | AuditEvent::Repaired { .. } => {}
    }
    Ok(lines)
}

fn wish(escalation: &EscalationExecution) -> Result<Option<String>, serde_json::Error> {
    Ok(match escalation {
        EscalationExecution::TurnDefault => None,
        EscalationExecution::Unsandboxed => Some(String::from("without a sandbox")),
        EscalationExecution::Permissions(permissions) => {
            Some(format!("with more permissions: {}", shown(&serde_json::to_string(permissions)?)))
        }
    })
}

pub(super) fn decided(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Prompt => "to be asked, decided",
        Decision::Forbidden => "forbidden",
    }
}

pub(super) fn decider(source: &DecisionSource) -> String {
    match source {
        DecisionSource::Rule(rule) => format!("the rule {}", shown(rule)),
        DecisionSource::Fallback => String::from("the table of known commands"),
        DecisionSource::ApprovalPolicy => String::from("the approval policy"),
        DecisionSource::Reviewer => String::from("a person"),
        DecisionSource::SessionMemory => String::from("an earlier answer in this session"),
        DecisionSource::External => String::from("a policy outside"),
    }
}

fn question(subject: &ApprovalSubject) -> String {
    match subject {
        ApprovalSubject::Command(command) => format!("to run {}", command.command),
        ApprovalSubject::Patch(patch) => {
            let paths: Vec<_> =
                patch.changes.iter().flat_map(|change| change.paths()).map(ToString::to_string).collect();
            format!("to change {}", paths.join(", "))
        }
        ApprovalSubject::Network(network) => format!("to reach {}", network.host.with_port(network.port)),
        ApprovalSubject::Write(_) => format!("to {subject}"),
        ApprovalSubject::Permissions(_) => String::from("for permissions for the session"),
        ApprovalSubject::ToolCall(call) => format!("to call {} of {}", shown(&call.tool), shown(&call.server)),
        ApprovalSubject::Elicitation(question) => {
            format!("by {}: {}", shown(&question.server), shown(&question.message))
        }
    }
}

fn answer(decision: &ReviewDecision) -> String {
    match decision {
        ReviewDecision::Approved => String::from("yes, once"),
        ReviewDecision::ApprovedForRun => String::from("yes, until the command ends"),
        ReviewDecision::ApprovedForSession => String::from("yes, for the session"),
        ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
            format!("yes, and saved as a rule: {}", proposed_execpolicy_amendment.0)
        }
        ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment } => {
            format!("yes, and saved as the profile `{}`", proposed_profile_amendment.file)
        }
        ReviewDecision::NetworkPolicyAmendment { network_policy_amendment } => {
            format!("from now on, for {}", network_policy_amendment.host)
        }
        ReviewDecision::Denied { reason: Some(reason) } => format!("no: {}", shown(reason)),
        ReviewDecision::Denied { reason: None } => String::from("no"),
        ReviewDecision::DeniedForRun => String::from("no, and to everything else in this run"),
        ReviewDecision::TimedOut => String::from("nothing, which counts as no,"),
        ReviewDecision::Abort => String::from("no, and stop"),
    }
}

/// The programs above one that was started, the command first.
fn chain(started_by: &[Argv]) -> Option<String> {
    let above: Vec<String> = started_by.iter().map(|command| format!("`{command}`")).collect();
    (!above.is_empty()).then(|| format!("started by {}", above.join(" › ")))
}

fn target(target: &ViolationTarget) -> String {
    match target {
        ViolationTarget::Path(path) => path.to_string(),
        ViolationTarget::Destination(destination) => destination.to_string(),
        ViolationTarget::UnixSocket(path) => format!("socket {path}"),
        ViolationTarget::SystemCall(name) | ViolationTarget::Limit(name) => shown(name).to_string(),
        ViolationTarget::Process(id) => format!("process {id}"),
        ViolationTarget::Command(command) => command.to_string(),
    }
}
