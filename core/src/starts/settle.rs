//! The question about a start: its answer, and what a yes gives.

use std::sync::atomic::Ordering;

use stockade_protocol::{
    AbsPath, ApprovalSubject, CommandApproval, DecisionSource, EscalationExecution, RawText, ReviewDecision,
};
use stockade_sandboxing::{ProgramStart, StartCaller};
use stockade_shell_command::parse_argv;

use super::cut::ASKED;
use super::judge::{Met, Words};
use super::record::Decided;
use super::{Shared, Shown, locked};
use crate::approvals::{ApprovalKey, CommandKey};
use crate::requirement::approvals_count;

/// What equal starts have in common: the commands that met a rule, the skill's script, the directory, and what was
/// promised.
pub(super) type Equal = (Vec<Words>, Option<AbsPath>, AbsPath, String);

/// An answer that was given to equal starts.
#[derive(Clone, Debug)]
pub(super) enum Answered {
    Yes,
    No { reason: String },
}

/// Whether a start goes on.
pub(super) enum Settled {
    /// With what was promised.
    Yes,
    No,
}

/// What a yes gives to a start, beyond what its caller has.
pub(super) struct Promise {
    pub(super) execution: EscalationExecution,
    /// The end of the question's reason.
    pub(super) said: String,
}

/// Whether a question can't show all words of a start.
pub(super) fn is_cut(start: &ProgramStart) -> bool {
    start.has_more_words || start.forms.first().is_none_or(|words| ASKED.leaves_out(words))
}

/// The variables that a start keeps from its caller, as a question shows them.
fn kept(variables: &[(RawText, RawText)]) -> String {
    let shown: Vec<String> = variables.iter().map(|(name, value)| format!("`{name}={value}`")).collect();
    if shown.is_empty() { String::new() } else { format!(", with {} from its caller", shown.join(", ")) }
}

impl Shared {
    /// What a yes gives to a start.
    pub(super) fn promise(&self, start: &ProgramStart) -> Promise {
        let unseen = if is_cut(start) { "; not all of its words are shown" } else { "" };
        let nothing = |said| Promise { execution: EscalationExecution::TurnDefault, said: format!("{said}{unseen}") };
        let Some(by_rule) = self.rule_grant(start) else { return nothing(String::new()) };
        match self.granted(start, &by_rule) {
            Ok((copy, grant, _)) => {
                let said = format!("; a yes {}{}", by_rule.promised(), kept(&copy.variables));
                Promise { execution: grant.escalation().clone(), said }
            }
            Err(why) => nothing(format!("; a yes does not give it {}: {why}", by_rule.told())),
        }
    }

    /// Finds the answer to a question: one that was given before, or a person's.
    pub(super) async fn settle(
        &self,
        met: &Met,
        (start, promise): (&Shown, &Promise),
        caller: &StartCaller,
        given_up: impl Future<Output = ()>,
    ) -> Settled {
        tokio::pin!(given_up);
        let _turn = tokio::select! {
            turn = self.turn.lock() => turn,
            () = &mut given_up => return Settled::No,
        };
        let rule = || DecisionSource::Rule(met.reason.clone());
        let Promise { execution, said } = promise;
        let refuse = |source, reason| {
            self.refuse(start, caller, source, reason);
            Settled::No
        };
        let equal: Equal = (met.words.clone(), met.skill.clone(), start.cwd.clone(), said.clone());
        let known = locked(&self.answered).get(&equal).cloned();
        match known {
            Some(Answered::Yes) => return Settled::Yes,
            Some(Answered::No { reason }) => return refuse(rule(), reason),
            None => {}
        }
        let key = CommandKey {
            // With other values of variables that it keeps from its caller it is another start.
            environment: Some(said.clone()),
            ..CommandKey::new(&start.key, &start.cwd, &self.session.permissions, execution)
        };
        let keys = vec![ApprovalKey::Command(Box::new(key))];
        if approvals_count(self.session.ask) && self.approvals.memory.recall(&keys).is_some() {
            self.record(start, caller, Decided::allowed_by(DecisionSource::SessionMemory));
            return Settled::Yes;
        }
        if self.answers.declines_rest() || self.is_unanswered.load(Ordering::Relaxed) {
            let reason = format!("nobody answers; {}", met.reason);
            return refuse(rule(), reason);
        }
        let question = ApprovalSubject::Command(Box::new(CommandApproval {
            command: start.asked.clone(),
            cwd: start.cwd.clone(),
            parsed: parse_argv(&start.asked),
            escalation: execution.clone(),
            justification: None,
            violations: Vec::new(),
            proposed_execpolicy_amendment: None,
            started_by: caller.chain.clone(),
        }));
        let _pause = self.clock.pause();
        let reason = Some(format!("{}{said}", met.reason));
        let answer = match self.approvals.ask_start(question, reason, &self.trail, given_up).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return Settled::No,
            Err(refusal) => {
                self.is_unanswered.store(true, Ordering::Relaxed);
                return refuse(rule(), format!("{}; {}", refusal.reason, met.reason));
            }
        };
        let no = match answer {
            ReviewDecision::ApprovedForSession => {
                self.approvals.memory.remember(keys, execution);
                None
            }
            ReviewDecision::Approved | ReviewDecision::ApprovedForRun => None,
            ReviewDecision::Denied { reason: Some(why) } => Some(format!("the reviewer said no: {why}")),
            ReviewDecision::TimedOut => {
                self.is_unanswered.store(true, Ordering::Relaxed);
                Some(String::from("nobody answered in time"))
            }
            ReviewDecision::Abort => Some(String::from("the reviewer stopped the session")),
            ReviewDecision::Denied { reason: None }
            | ReviewDecision::DeniedForRun
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::ApprovedProfileAmendment { .. }
            | ReviewDecision::NetworkPolicyAmendment { .. } => Some(String::from("the reviewer said no")),
        };
        match no {
            None => {
                locked(&self.answered).insert(equal, Answered::Yes);
                self.record(start, caller, Decided::allowed_by(DecisionSource::Reviewer));
                Settled::Yes
            }
            Some(said) => {
                let reason = format!("{said}; {}", met.reason);
                locked(&self.answered).insert(equal, Answered::No { reason: reason.clone() });
                refuse(DecisionSource::Reviewer, reason)
            }
        }
    }
}
