//! The requirement for a command: from the rules, the session, the starts that are judged, and skills.

use stockade_execpolicy::{Breadth, Evaluation, PatternToken, Placement};
use stockade_protocol::{
    AbsPath, Argv, Decision, DecisionSource, EscalationExecution, ExecApprovalRequirement, RawText,
};

use crate::requirement;
use crate::runtime::{Requirement, ToolContext};
use crate::session::{RulesOutside, Sandboxing, Session};
use crate::skills::{named, skill_scripts};
use crate::starts_tell::starts_tell;
use crate::verdict::{RuleVerdict, Verdict};
use crate::writable_program::{planted_program, why_program_is_steered};
use crate::writable_repository::why_git_is_steered;

/// The requirement for a command, from the rules, the session and what is asked for. `execution` is what it would run with.
pub(crate) fn command_requirement(
    ctx: &ToolContext<'_>,
    (command, cwd): (&Argv, &AbsPath),
    wanted: &EscalationExecution,
    execution: &EscalationExecution,
) -> Requirement {
    let (session, rules) = (ctx.session, ctx.rules);
    let mut verdict = Verdict::of(&rules.policy(), command);
    if let Some(without) = verdict.with_starts_judged()
        && starts_tell(ctx, (command, cwd), &verdict.parsed, execution)
    {
        verdict = without;
    }
    // Only the system's program of that name is known as safe, not one that a command planted.
    if verdict.rules == RuleVerdict::Safe
        && let Some(program) = planted_program(session, cwd, &verdict.parsed)
    {
        let program = RawText::from(program.to_string_lossy().as_ref());
        verdict.rules = RuleVerdict::Unknown { reason: format!("`{program}` may have been put there by a command") };
    }
    if let RuleVerdict::Prompt { reason } = &mut verdict.rules
        && session.sandboxing() == Sandboxing::On
        && ctx.sandbox.sees_starts()
    {
        reason.push_str(&promised(session, &verdict.evaluation));
    }
    let placement = placement(session, cwd, &verdict);
    let requirement = requirement::of_command(session.ask, session.sandboxing(), &verdict.rules, placement, wanted);
    let skills: Vec<String> = skill_scripts(session, cwd, &verdict).iter().map(named).collect();
    let requirement = match skills.is_empty() {
        true => requirement,
        false => requirement::with_skill(requirement, (session.ask, session.sandboxing()), &skills.join("; ")),
    };
    let source = match (&verdict.rules, &requirement) {
        (RuleVerdict::Forbidden { reason } | RuleVerdict::Prompt { reason }, _) => DecisionSource::Rule(reason.clone()),
        (RuleVerdict::Allowed, ExecApprovalRequirement::Skip { .. }) => DecisionSource::Rule(allowing_rules(&verdict)),
        (RuleVerdict::Safe, ExecApprovalRequirement::Skip { .. }) => DecisionSource::Fallback,
        (RuleVerdict::Allowed | RuleVerdict::Safe | RuleVerdict::Unknown { .. } | RuleVerdict::Dangerous { .. }, _) => {
            DecisionSource::ApprovalPolicy
        }
    };
    // A saved rule avoids the question and grants nothing, so it is offered only if nothing else is requested, and if
    // there is a file for it.
    let requirement = match (requirement, wanted) {
        (ExecApprovalRequirement::NeedsApproval { reason, .. }, EscalationExecution::TurnDefault)
            if skills.is_empty() =>
        {
            let proposed_execpolicy_amendment = if rules.can_save() { verdict.amendment(command) } else { None };
            ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment }
        }
        (requirement, _) => requirement,
    };
    Requirement { requirement, source, verdict: Some(Box::new(verdict)) }
}

/// What a yes gives to programs of a line, when they start: the end of the question's reason.
fn promised(session: &Session, evaluation: &Evaluation) -> String {
    let asked = evaluation.commands.iter().filter(|judged| judged.decision == Decision::Prompt);
    let mut said: Vec<String> = Vec::new();
    for judged in asked {
        let rules: Vec<_> = judged.deciding().filter(|rule| rule.grants()).collect();
        let Some(rule) = rules.first() else { continue };
        let word = |token: &PatternToken| token.alternatives().collect::<Vec<_>>().join("|");
        let pattern: Vec<String> = rule.pattern().iter().map(word).collect();
        let pattern = pattern.join(" ");
        let profiles = judged.profiles();
        let names: Vec<String> = profiles.iter().map(|name| format!("`{name}`")).collect();
        let exactly = if rules.iter().any(|rule| rule.breadth() == Breadth::Exact) { "exactly " } else { "" };
        let given = format!("{exactly}the profile {}", names.join(", "));
        let unavailable = profiles.iter().find_map(|name| session.unavailable_profiles.get(*name));
        let gift = match (judged.placement(Placement::Inside), unavailable) {
            (Placement::Outside, _) => format!("; a yes runs `{pattern}` without the sandbox"),
            (Placement::Inside, Some(why)) => format!("; a yes does not give `{pattern}` {given}: {why}"),
            (Placement::Inside, None) => format!("; a yes gives `{pattern}` {given}, in a sandbox of its own"),
        };
        if !said.contains(&gift) {
            said.push(gift);
        }
    }
    said.concat()
}

/// Where a command that rules allow runs: outside if its rules say so, no restriction needs the sandbox, and the
/// session's commands could have planted neither its programs nor its repository.
fn placement(session: &Session, cwd: &AbsPath, verdict: &Verdict) -> Placement {
    let leaves = rules_let_leave(session, verdict) && kept_inside(session, cwd, verdict).is_none();
    if leaves { Placement::Outside } else { Placement::Inside }
}

fn rules_let_leave(session: &Session, verdict: &Verdict) -> bool {
    let unsaid = match session.rules_outside {
        RulesOutside::Never | RulesOutside::Said => Placement::Inside,
        RulesOutside::Unsaid => Placement::Outside,
    };
    verdict.rules == RuleVerdict::Allowed
        && session.rules_may_leave()
        && verdict.evaluation.placement(&verdict.parsed, unsaid) == Placement::Outside
}

/// What keeps a command in the sandbox although its rules let it leave.
pub(crate) fn kept_inside(session: &Session, cwd: &AbsPath, verdict: &Verdict) -> Option<String> {
    if !rules_let_leave(session, verdict) {
        return None;
    }
    let why = why_program_is_steered(session, cwd, &verdict.parsed)
        .or_else(|| why_git_is_steered(session, cwd, &verdict.parsed))?;
    Some(format!("a rule lets it leave the sandbox, but {why}"))
}

/// The rules that allow a command, by their positions.
fn allowing_rules(verdict: &Verdict) -> String {
    let matches = verdict.evaluation.commands.iter().flat_map(|command| &command.matches);
    let mut places: Vec<String> =
        matches.chain(&verdict.evaluation.exact).map(|found| found.rule().origin().to_string()).collect();
    places.sort();
    places.dedup();
    places.join(", ")
}
