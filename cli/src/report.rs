//! Reports an outcome on standard error: nothing for a success, a line for each denial.

use stockade_protocol::{Access, DenyingRule, Evidence, FileRule, Outcome, RuleSource, Violation, ViolationTarget};

use crate::remedy::Remedies;

/// The lines for an outcome, without denials that the command coped with, and without those that the flags of an
/// earlier line allow.
pub(crate) fn failure(told: &Outcome, remedies: &Remedies) -> Vec<String> {
    let is_file = |violation: &&Violation| matches!(violation.target, ViolationTarget::Path(_));
    let (violations, has_failed) = match told {
        Outcome::Exited { execution, .. } => (&execution.violations, false),
        Outcome::Denied { execution, .. } => (&execution.violations, true),
        Outcome::Refused(_) | Outcome::TimedOut { .. } | Outcome::Cancelled { .. } | Outcome::Signaled { .. } => {
            return outcome(told, remedies);
        }
    };
    let mut advised = Vec::new();
    let mut is_new = |violation: &&Violation| match remedies.of(violation) {
        Some(remedy) if is_file(violation) => {
            let is_new = !advised.contains(&remedy);
            advised.push(remedy);
            is_new
        }
        Some(_) | None => true,
    };
    let needed = violations.iter().filter(|violation| has_failed || !is_file(violation));
    let lines = needed.filter(&mut is_new).map(|violation| self::violation(violation, remedies));
    lines.chain(ended(told)).collect()
}

/// The lines for an outcome, with all denials.
pub(crate) fn outcome(outcome: &Outcome, remedies: &Remedies) -> Vec<String> {
    match outcome {
        // Denials are reported, even if the command continued regardless.
        Outcome::Exited { execution, .. } | Outcome::Denied { execution, .. } => {
            let lines = execution.violations.iter().map(|violation| self::violation(violation, remedies));
            lines.chain(ended(outcome)).collect()
        }
        Outcome::Refused(refusal) => vec![format!("refused: {}", refusal.reason)],
        Outcome::TimedOut { .. } => vec![String::from("the command took too long, and was ended")],
        Outcome::Cancelled { reason, .. } => vec![format!("the command was ended: {reason}")],
        Outcome::Signaled { .. } => ended(outcome).into_iter().collect(),
    }
}

/// The signal that ended a command, if one did.
fn ended(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Denied { signal: Some(signal), .. } | Outcome::Signaled { signal, .. } => Some(ended_by(*signal)),
        Outcome::Denied { signal: None, .. }
        | Outcome::Exited { .. }
        | Outcome::Refused(_)
        | Outcome::Cancelled { .. }
        | Outcome::TimedOut { .. } => None,
    }
}

fn ended_by(signal: i32) -> String {
    format!("the command was ended by signal {signal}")
}

/// One denial: the act, the reason, the evidence, and the remedy.
fn violation(violation: &Violation, remedies: &Remedies) -> String {
    // It was started, without what a rule gives it.
    if let (ViolationTarget::Command(command), Some(DenyingRule::Layer { reason })) =
        (&violation.target, &violation.rule)
    {
        return format!("`{command}` {reason}");
    }
    let evidence = match violation.evidence {
        Evidence::Observed | Evidence::Reported => "was denied",
        Evidence::Guessed => "was denied, judging by the output",
    };
    let why = violation.rule.as_ref().map(|rule| format!(": {}", denying(rule))).unwrap_or_default();
    if let Some(file) = remedies.forbidding(violation) {
        return format!(
            "{violation} {evidence}{why}; the administrator's maximum in `{}` allows no more",
            file.display()
        );
    }
    let remedy = match remedies.of(violation) {
        Some(remedy) => format!("; {remedy} would allow it"),
        None if is_in_root(violation) && remedies.can_open_everything() => {
            String::from("; nothing less than the whole file system would allow it")
        }
        None => String::new(),
    };
    format!("{} {evidence}{why}{remedy}", violation)
}

fn denying(rule: &DenyingRule) -> String {
    match rule {
        DenyingRule::File(rule) => file_rule(rule),
        DenyingRule::Network(rule) => format!("the policy refuses `{}`", rule.host),
        DenyingRule::NotGranted => String::from("nothing grants it"),
        DenyingRule::Command { reason } | DenyingRule::Layer { reason } => reason.clone(),
    }
}

/// A file rule as text.
pub(crate) fn file_rule(rule: &FileRule) -> String {
    let target = &rule.target;
    match (rule.access, rule.source) {
        (Access::None, RuleSource::CredentialMask) => format!("`{target}` holds credentials, which are masked"),
        (Access::None, RuleSource::Policy) => format!("`{target}` is denied by the policy, and no approval lifts that"),
        (Access::None, RuleSource::Administrator) => format!("`{target}` is denied by the administrator"),
        (Access::None, RuleSource::ProtectedMetadata | RuleSource::Approval) => format!("`{target}` is out of reach"),
        (Access::None | Access::Read, RuleSource::OwnFiles) => {
            format!("`{target}` holds Stockade's own files, which no sandboxed command may write")
        }
        (Access::None | Access::Read, RuleSource::OwnFilesLink) => {
            format!("`{target}` is a link to Stockade's own files, which no sandboxed command may change")
        }
        (Access::Read, RuleSource::ProtectedMetadata) => format!("`{target}` is protected from writing"),
        (Access::Read, _) => format!("`{target}` may only be read"),
        (Access::Scratch, _) => format!("`{target}` is an empty private directory"),
        (Access::Write, _) => format!("`{target}` may be written"),
    }
}

fn is_in_root(violation: &Violation) -> bool {
    let ViolationTarget::Path(path) = &violation.target else { return false };
    let hard = matches!(&violation.rule, Some(DenyingRule::File(rule)) if rule.is_hard_denial() || rule.is_bound());
    !hard && path.parent().is_some_and(|parent| parent.parent().is_none())
}
