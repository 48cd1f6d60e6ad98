//! What was decided about starts, as it is told with the outcome and recorded in the trail.

use std::collections::HashSet;

use stockade_protocol::{
    AuditEvent, Decision, DecisionSource, DenyingRule, EscalationExecution, Evidence, JudgedProgram, Operation,
    RawText, Violation, ViolationTarget,
};
use stockade_sandboxing::{StartCaller, StartVerdict};

use super::rule_grant::RuleGrant;
use super::{Shared, Shown, StartsSeen, locked};

/// Different refusals of a run that are told, and decisions that are recorded.
const MOST_TOLD: usize = 100;

#[derive(Default)]
pub(super) struct Told {
    /// Commands with their decision, and whether they had more than their caller.
    recorded: HashSet<(Vec<RawText>, Decision, bool)>,
    pub(super) seen: StartsSeen,
}

/// A decision that is recorded.
pub(super) struct Decided {
    pub(super) decision: Decision,
    pub(super) source: DecisionSource,
    pub(super) reason: Option<String>,
    /// What it runs with, if that is not what its caller has.
    pub(super) execution: Option<EscalationExecution>,
}

impl Decided {
    pub(super) fn allowed_by(source: DecisionSource) -> Self {
        Self { decision: Decision::Allow, source, reason: None, execution: None }
    }
}

impl Shared {
    /// Notes that a program did not get what a rule gives it, and goes on as it is.
    pub(super) fn tell_ungranted(&self, start: &Shown, caller: &StartCaller, by_rule: &RuleGrant, why: &str) {
        let reason = format!("could not be given {} by the rule at {}: {why}", by_rule.told(), by_rule.rules);
        let source = DecisionSource::Rule(by_rule.rules.clone());
        self.record(
            start,
            caller,
            Decided { decision: Decision::Allow, source, reason: Some(reason.clone()), execution: None },
        );
        self.tell([violation(start, caller, DenyingRule::Layer { reason })]);
    }

    /// Keeps what was denied, once for equal targets.
    pub(super) fn tell(&self, denied: impl IntoIterator<Item = Violation>) {
        let mut told = locked(&self.told);
        for violation in denied {
            let refused = &mut told.seen.refused;
            let is_known = refused.iter().any(|known| known.target == violation.target);
            if !is_known && refused.len() < MOST_TOLD {
                refused.push(violation);
            }
        }
    }

    /// Keeps what became of the starts of a program that ran elsewhere.
    pub(super) fn know(&self, programs: Vec<JudgedProgram>) {
        let mut told = locked(&self.told);
        let room = MOST_TOLD.saturating_sub(told.seen.programs.len());
        told.seen.programs.extend(programs.into_iter().take(room));
    }

    /// Notes a refusal, once for equal commands.
    pub(super) fn refuse(
        &self,
        start: &Shown,
        caller: &StartCaller,
        source: DecisionSource,
        reason: String,
    ) -> StartVerdict {
        let decided = Decided { decision: Decision::Forbidden, source, reason: Some(reason.clone()), execution: None };
        self.record(start, caller, decided);
        self.tell([violation(start, caller, DenyingRule::Command { reason })]);
        StartVerdict::Refused
    }

    /// Records a decision, once for equal commands.
    pub(super) fn record(&self, start: &Shown, caller: &StartCaller, decided: Decided) {
        let Decided { decision, source, reason, execution } = decided;
        let is_new = {
            let mut told = locked(&self.told);
            let has_room = told.recorded.len() < MOST_TOLD;
            has_room && told.recorded.insert((start.command.words().to_vec(), decision, execution.is_some()))
        };
        if is_new {
            locked(&self.told).seen.programs.push(JudgedProgram {
                command: start.command.clone(),
                started_by: caller.chain.clone(),
                decision,
                source: source.clone(),
                reason: reason.clone(),
                execution: execution.clone(),
            });
        }
        // What had more than its caller is recorded each time.
        if is_new || execution.is_some() {
            self.trail.note(AuditEvent::ProgramJudged {
                // The trail takes secrets out before it cuts, and keeps a digest of the rest.
                command: start.whole.clone(),
                whole: None,
                cwd: start.cwd.clone(),
                started_by: caller.chain.clone(),
                pid: caller.pid,
                decision,
                source,
                reason,
                execution,
            });
        }
    }
}

fn violation(start: &Shown, caller: &StartCaller, rule: DenyingRule) -> Violation {
    Violation {
        operation: Operation::Execute,
        target: ViolationTarget::Command(start.command.clone()),
        evidence: Evidence::Observed,
        pid: caller.pid,
        program: caller.program.clone(),
        rule: Some(rule),
        amendment: None,
    }
}
