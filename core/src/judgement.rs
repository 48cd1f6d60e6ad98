//! The single judgement of a request: parsed, looked up and decided once, before any question or run.
//!
//! A question, the first run, a wider run after a denial, and `explain` use the same value, so that questions and
//! explanations match the actual decision.

use std::path::Path;

use stockade_protocol::{
    DecisionSource, EscalationExecution, ExecApprovalRequirement, ExecPolicyAmendment, Permissions, RawText, Refusal,
    RefusedBy,
};

use crate::approvals::{Approvals, Confinement, check_hard_denials, execution};
use crate::requirement;
use crate::runtime::{FirstAttempt, Requirement, SandboxPreference, ToolContext, ToolRuntime};
use crate::session::{Sandboxing, Session};
use crate::verdict::{RuleVerdict, Verdict};
use crate::writable_repository::has_writable_repository;

/// The decision about a request.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    /// The parsed command and its evaluation; `None` for other tools.
    pub(crate) verdict: Option<Box<Verdict>>,
    /// The step before the first run.
    pub(crate) course: Course,
    /// The source of the decision.
    pub(crate) source: DecisionSource,
    /// The execution of the first run.
    pub(crate) execution: EscalationExecution,
    /// Its permissions.
    pub(crate) permissions: Permissions,
    /// Whether it needs a sandbox.
    pub(crate) confinement: Confinement,
    /// Whether a denial by the sandbox leads to a question for a wider run.
    pub(crate) asks_after_denial: bool,
}

/// The step before the first run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// There is no run.
    Refuse(Refusal),
    /// It runs without a question.
    Run {
        /// Rules let it leave the sandbox.
        bypasses_sandbox: bool,
    },
    /// A person is asked.
    Ask {
        /// Why.
        reason: Option<String>,
        /// A rule that would save this question in future.
        amendment: Option<ExecPolicyAmendment>,
        /// Whether an approval covers only this run, since its program may be another one by the next.
        only_once: bool,
    },
}

/// The purpose of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Permissions granted in advance for one command are used up.
    Run,
    /// Nothing changes.
    Explain,
}

impl Judgement {
    /// The protocol's representation.
    pub(crate) fn requirement(&self) -> ExecApprovalRequirement {
        match &self.course {
            Course::Refuse(refusal) => ExecApprovalRequirement::Forbidden { reason: refusal.reason.clone() },
            Course::Run { bypasses_sandbox } => {
                let bypass_sandbox = *bypasses_sandbox;
                ExecApprovalRequirement::Skip { bypass_sandbox, proposed_execpolicy_amendment: None }
            }
            Course::Ask { reason, amendment, .. } => ExecApprovalRequirement::NeedsApproval {
                reason: reason.clone(),
                proposed_execpolicy_amendment: amendment.clone(),
            },
        }
    }
}

/// A decision that does not depend on the run's permissions.
struct Decided {
    course: Course,
    source: DecisionSource,
    execution: EscalationExecution,
}

impl Approvals {
    /// Judges a request.
    pub(crate) fn judge<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        ctx: &ToolContext<'_>,
        purpose: Purpose,
    ) -> Judgement {
        let session = ctx.session;
        let wanted = tool.escalation(request);
        // Permissions granted in advance are not asked for again.
        let in_advance = requirement::approvals_count(session.ask)
            && match purpose {
                Purpose::Run => self.memory.take_once(session, &wanted),
                Purpose::Explain => self.memory.has_once(session, &wanted),
            };
        let asked_for = if in_advance { EscalationExecution::TurnDefault } else { wanted.clone() };
        let Requirement { requirement, source, verdict } =
            tool.requirement(request, ctx, &asked_for).unwrap_or_else(|| {
                let requirement = requirement::of_tool(session.ask, session.sandboxing());
                Requirement::new(requirement, DecisionSource::ApprovalPolicy)
            });
        let source = if in_advance { DecisionSource::SessionMemory } else { source };
        let decided = match self.check_session().and_then(|()| check_hard_denials(session, &wanted)) {
            Err(refusal) => {
                let source = if refusal.by == RefusedBy::Rule {
                    DecisionSource::Rule(refusal.reason.clone())
                } else {
                    DecisionSource::Reviewer
                };
                Decided { course: Course::Refuse(refusal), source, execution: wanted }
            }
            Ok(()) => {
                let required = Requirement { requirement, source, verdict: None };
                self.decide(tool, request, ctx, required, in_advance, verdict.as_deref())
            }
        };
        self.weigh(tool, ctx, decided, verdict)
    }

    /// Decides by the requirement, an external approval, or a remembered one.
    fn decide<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        ctx: &ToolContext<'_>,
        required: Requirement,
        in_advance: bool,
        verdict: Option<&Verdict>,
    ) -> Decided {
        let session = ctx.session;
        let (wanted, source) = (tool.escalation(request), required.source);
        // Most sessions remember nothing, and a key is expensive.
        let planted = || tool.planted_program(request, session, verdict);
        let known = || {
            let known = if self.memory.is_empty() { None } else { self.memory.recall(&tool.keys(request, session)) };
            // An approval to leave the sandbox does not cover a program that commands have replaced since.
            known.filter(|execution| *execution != EscalationExecution::Unsandboxed || planted().is_none())
        };
        let run = |execution, source| Decided { course: Course::Run { bypasses_sandbox: false }, source, execution };
        match required.requirement {
            ExecApprovalRequirement::Forbidden { reason } => {
                let by =
                    if matches!(source, DecisionSource::Rule(_)) { RefusedBy::Rule } else { RefusedBy::ApprovalPolicy };
                Decided { course: Course::Refuse(Refusal { by, reason }), source, execution: wanted }
            }
            ExecApprovalRequirement::Skip { bypass_sandbox, .. } => {
                // An earlier answer may grant more than the session does.
                if requirement::approvals_count(session.ask)
                    && let Some(execution) = known()
                {
                    return run(execution, DecisionSource::SessionMemory);
                }
                let may_bypass =
                    bypass_sandbox && !in_advance && tool.first_attempt(request) == FirstAttempt::AsRulesSay;
                let bypasses_sandbox = may_bypass && session.rules_may_leave();
                let by_rules = || {
                    let verdict = verdict?;
                    let is_led = |(_, cwd)| has_writable_repository(session, cwd, &verdict.parsed);
                    let is_led = || tool.command(request).is_some_and(is_led);
                    granted_by_rules(session, verdict).filter(|_| planted().is_none() && !is_led())
                };
                let execution = match wanted {
                    _ if bypasses_sandbox => EscalationExecution::Unsandboxed,
                    EscalationExecution::TurnDefault => by_rules().unwrap_or(EscalationExecution::TurnDefault),
                    wanted @ (EscalationExecution::Permissions(_) | EscalationExecution::Unsandboxed) => wanted,
                };
                // There was no question, but an external approval is recorded.
                let source = if tool.preapproved(request).is_some() { DecisionSource::External } else { source };
                Decided { course: Course::Run { bypasses_sandbox }, source, execution }
            }
            ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment: amendment } => {
                // An external policy approved the request with default permissions. More needs a person here.
                if tool.preapproved(request).is_some() && wanted == EscalationExecution::TurnDefault {
                    return run(wanted, DecisionSource::External);
                }
                if let Some(execution) = known() {
                    return run(execution, DecisionSource::SessionMemory);
                }
                let planted = if wanted == EscalationExecution::Unsandboxed { planted() } else { None };
                let only_once = planted.is_some();
                let reason = match planted {
                    Some(program) => Some(warned_of(&program, reason)),
                    None => reason,
                };
                Decided { course: Course::Ask { reason, amendment, only_once }, source, execution: wanted }
            }
        }
    }

    /// Determines the run's permissions, and whether the tool can use them.
    fn weigh<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        ctx: &ToolContext<'_>,
        decided: Decided,
        verdict: Option<Box<Verdict>>,
    ) -> Judgement {
        let session = ctx.session;
        let Decided { mut course, source, execution: wanted } = decided;
        let (permissions, confinement) = execution(session, &wanted).unwrap_or_else(|invalid| {
            refuse(&mut course, format!("the permissions make no sense: {invalid}"));
            (session.bounded(&session.permissions), Confinement::Sandbox)
        });
        if tool.preference() == SandboxPreference::Require && confinement == Confinement::None {
            refuse(&mut course, String::from("the tool runs only in a sandbox, and this run would have none"));
        }
        let asks_after_denial = confinement == Confinement::Sandbox
            && tool.escalates_on_failure()
            && requirement::asks_after_denial(session.ask);
        Judgement { verdict, course, source, execution: wanted, permissions, confinement, asks_after_denial }
    }
}

/// The grant of the profiles that rules give to an allowed command. One with sockets is given to single programs alone,
/// which are checked when they start: a service of the user's acts as the user.
fn granted_by_rules(session: &Session, verdict: &Verdict) -> Option<EscalationExecution> {
    if verdict.rules != RuleVerdict::Allowed || session.sandboxing() != Sandboxing::On {
        return None;
    }
    let names = verdict.evaluation.profiles(&verdict.parsed);
    let granted = names.iter().filter_map(|name| session.profiles.get(*name));
    let all = granted.cloned().reduce(|all, more| all.merge(&more)).filter(|all| all.unix_sockets.is_empty())?;
    Some(EscalationExecution::Permissions(Box::new(all)))
}

/// The reason for a question about a run without the sandbox, with the program that the session's commands may write.
pub(crate) fn warned_of(program: &Path, reason: Option<String>) -> String {
    let program = RawText::from(program.to_string_lossy().as_ref());
    let warning = format!("it would start `{program}`, which the session's commands may write");
    match reason {
        Some(reason) => format!("{reason}; {warning}"),
        None => warning,
    }
}

/// Refuses, unless there is a refusal already.
fn refuse(course: &mut Course, reason: String) {
    if !matches!(course, Course::Refuse(_)) {
        *course = Course::Refuse(Refusal { by: RefusedBy::Sandbox, reason });
    }
}

#[cfg(test)]
#[path = "judgement_tests.rs"]
mod tests;
