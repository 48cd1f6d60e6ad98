//! Approvals: the requirement, the session's memory, the question, and the resulting grant.

mod grant;
mod memory;
mod question;
mod rules;

use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{
    ApprovalSubject, Decision, DecisionSource, DenyingRule, ElicitationApproval, EscalationExecution, Evidence,
    FileTarget, HostRules, Invalid, NetworkPolicy, Operation, PermissionAmendment, Permissions, Refusal, RefusedBy,
    ReviewDecision, Violation, ViolationTarget, WriteApproval,
};

pub use grant::{Confinement, Grant, SERVER_MARK};
pub(crate) use grant::{ProgramExecution, check_sockets, execution};
pub use memory::{ApprovalKey, CommandKey};
pub(crate) use memory::{Memory, written};
pub use rules::RuleStore;

use stockade_sandboxing::{HostFiles as _, RealFiles};
use tokio::sync::watch;

use crate::audit_log::Trail;
use crate::judgement::{Course, Judgement, warned_of};
use crate::requirement;
use crate::risk::RiskAssessor;
use crate::runtime::{Attempted, SandboxPreference, ToolContext, ToolRuntime};
use crate::session::Session;
use crate::{Answer, Approver};
use memory::{Asked, Shared};
use question::{Asking, Put};

/// The timeout of a question. It counts as a denial, so that no run hangs.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(600);

/// The approval side of a session.
pub(crate) struct Approvals {
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) answer_limit: Duration,
    pub(crate) assessor: Option<Arc<dyn RiskAssessor>>,
    pub(crate) memory: Memory,
    asking: Shared<(Vec<ApprovalKey>, String), Result<ReviewDecision, Refusal>>,
    /// Whether an answer stopped the session: nothing more is asked, and open questions end.
    aborted: watch::Sender<bool>,
}

impl Approvals {
    pub(crate) fn new(approver: Arc<dyn Approver>) -> Self {
        Self {
            approver,
            answer_limit: ANSWER_LIMIT,
            assessor: None,
            memory: Memory::default(),
            asking: Shared::default(),
            aborted: watch::Sender::new(false),
        }
    }

    /// A copy for a session that has not begun, with this timeout.
    pub(crate) fn waiting(&self, answer_limit: Duration) -> Self {
        Self { answer_limit, assessor: self.assessor.clone(), ..Self::new(Arc::clone(&self.approver)) }
    }

    /// A copy for a session that has not begun, with this risk assessor.
    pub(crate) fn assessed_by(&self, assessor: Arc<dyn RiskAssessor>) -> Self {
        Self { assessor: Some(assessor), ..self.waiting(self.answer_limit) }
    }

    /// Carries out the judgement up to the first run: records it, and asks if necessary.
    pub(crate) async fn settle<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        judgement: &Judgement,
        ctx: &ToolContext<'_>,
        trail: &Trail,
    ) -> Result<Grant, Refusal> {
        self.check_session()?;
        let source = judgement.source.clone();
        match &judgement.course {
            Course::Refuse(refusal) => {
                trail.decided(Decision::Forbidden, source, Some(refusal.reason.clone()))?;
                Err(refusal.clone())
            }
            Course::Run { .. } => {
                match tool.preapproved(request).filter(|_| source == DecisionSource::External) {
                    Some(warnings) => trail.decided_outside(warnings)?,
                    None => trail.decided(Decision::Allow, source.clone(), None)?,
                }
                Ok(Grant::first(judgement, source))
            }
            Course::Ask { reason, amendment, only_once } => {
                let asking = Asking {
                    keys: tool.keys(request, ctx.session),
                    execution: judgement.execution.clone(),
                    reason: reason.clone(),
                    violations: &[],
                    amendment: amendment.clone(),
                    verdict: judgement.verdict.as_deref(),
                    only_once: *only_once,
                };
                let (_, source) = self.ask(tool, request, ctx, trail, asking).await?;
                Ok(Grant::first(judgement, source))
            }
        }
    }

    /// Decides, after a denial, about a wider run. At most once for a request.
    pub(crate) async fn escalate<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        first: (&Judgement, &Grant, &T::Output),
        ctx: &ToolContext<'_>,
        trail: &Trail,
    ) -> Option<Grant> {
        let (judgement, grant, output) = first;
        let session = ctx.session;
        let violations = output.violations();
        let may_ask = !grant.is_after_denial()
            && judgement.asks_after_denial
            && !violations.is_empty()
            && !ctx
                .connections
                .as_ref()
                .is_some_and(|connections| connections.answers.declines_rest() || connections.answers.is_interrupted())
            && self.check_session().is_ok();
        if !may_ask {
            return None;
        }
        let execution = widened(tool, request, grant, violations, ctx)?;
        let reason = match execution {
            EscalationExecution::Unsandboxed => "the sandbox denied it; retry without the sandbox?",
            EscalationExecution::TurnDefault | EscalationExecution::Permissions(_) => {
                "the sandbox denied it; retry with these permissions?"
            }
        };
        let keys = tool.keys(request, session);
        // A saved rule keeps the command in the sandbox, where it would be denied again.
        let verdict = judgement.verdict.as_deref();
        let leaves = execution == EscalationExecution::Unsandboxed;
        // Outside, no start of a program is seen, so what was left to the starts has to be asked after all.
        let unseen = verdict.and_then(|verdict| verdict.left_to_starts.as_deref()).filter(|_| leaves);
        if unseen.is_some() && !requirement::asks_for_rules(session.ask) {
            return None;
        }
        let reason = match unseen {
            Some(unseen) => format!("{reason} Outside, programs are not judged when they start: {unseen}"),
            None => reason.to_owned(),
        };
        let planted = leaves.then(|| tool.planted_program(request, session, verdict)).flatten();
        let only_once = planted.is_some();
        let reason = Some(reason);
        let reason = match planted {
            Some(program) => Some(warned_of(&program, reason)),
            None => reason,
        };
        let asking = Asking { keys, execution, reason, violations, amendment: None, verdict, only_once };
        // After a denial the first run's result stands.
        let (execution, source) = self.ask(tool, request, ctx, trail, asking).await.ok()?;
        tracing::info!(name: "command.escalated", thread = %trail.thread(), request = %trail.request());
        Some(granted(session, execution, source).ok()?.after_denial())
    }

    /// Asks, or shares the answer to an equal question, and stores what the answer says to remember.
    async fn ask<Req, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        ctx: &ToolContext<'_>,
        trail: &Trail,
        asking: Asking<'_>,
    ) -> Result<(EscalationExecution, DecisionSource), Refusal> {
        let subject = tool.subject(request, ctx, &asking.shown());
        let written = memory::written(&asking.execution) + &content(&subject);
        let mut question = question::approval_request(trail, subject, asking.reason.clone(), asking.paths());
        if asking.only_once {
            question.available_decisions.retain(|decision| *decision != ReviewDecision::ApprovedForSession);
        }
        let question = Arc::new(question);
        let ask = || question::put(self, Arc::clone(&question), trail);
        let (answer, asked) = self.asking.ask((asking.keys.clone(), written), ask).await;
        let decision = answer?;
        let Asking { keys, execution, .. } = asking;
        match decision {
            // `ApprovedForRun` is only offered for writes of a running command.
            ReviewDecision::Approved | ReviewDecision::ApprovedForRun => {}
            ReviewDecision::ApprovedForSession => self.memory.remember(keys, &execution),
            ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
                if asked == Asked::Here {
                    ctx.rules.save(&proposed_execpolicy_amendment);
                }
            }
            // Only the network gate and writes of a running command offer these, and handle them themselves.
            ReviewDecision::NetworkPolicyAmendment { .. } | ReviewDecision::ApprovedProfileAmendment { .. } => {
                return Err(no(
                    RefusedBy::Reviewer,
                    "a rule or a profile of another kind is no answer to this question",
                ));
            }
            ReviewDecision::Denied { reason } => {
                let reason = reason
                    .map_or_else(|| String::from("the reviewer said no"), |why| format!("the reviewer said no: {why}"));
                return Err(Refusal { by: RefusedBy::Reviewer, reason });
            }
            // Only questions of a running command offer it.
            ReviewDecision::DeniedForRun => {
                return Err(no(RefusedBy::Reviewer, "the reviewer said no"));
            }
            ReviewDecision::TimedOut => {
                return Err(no(RefusedBy::Timeout, "nobody answered in time"));
            }
            ReviewDecision::Abort => {
                return Err(no(RefusedBy::Reviewer, ABORTED));
            }
        }
        Ok((execution, DecisionSource::Reviewer))
    }

    /// Asks whether a destination may be reached, once for all waiting runs. The asking gate remembers the answer.
    pub(crate) async fn ask_destination(
        &self,
        key: ApprovalKey,
        subject: ApprovalSubject,
        trail: &Trail,
    ) -> ReviewDecision {
        if let Err(refusal) = self.check_session() {
            return ReviewDecision::Denied { reason: Some(refusal.reason) };
        }
        // A name and the address it resolves to are two questions; the program does not matter.
        let content = match &subject {
            ApprovalSubject::Network(network) => memory::written(&network.leads_to),
            ApprovalSubject::Command(_)
            | ApprovalSubject::Patch(_)
            | ApprovalSubject::Write(_)
            | ApprovalSubject::Permissions(_)
            | ApprovalSubject::ToolCall(_)
            | ApprovalSubject::Elicitation(_) => String::new(),
        };
        let question = Arc::new(question::approval_request(trail, subject, None, Vec::new()));
        let ask = || question::put(self, Arc::clone(&question), trail);
        let (answer, asked) = self.asking.ask((vec![key], content), ask).await;
        match answer {
            // The answer covers the rest of the asking run only.
            Ok(ReviewDecision::DeniedForRun) if asked != Asked::Here => ReviewDecision::Denied { reason: None },
            Ok(decision) => decision,
            Err(refusal) => ReviewDecision::Denied { reason: Some(refusal.reason) },
        }
    }

    /// Asks about a write of a running command, until it no longer waits: then there is no decision. The asking run
    /// stores the answer.
    pub(crate) async fn ask_write(
        &self,
        write: WriteApproval,
        trail: &Trail,
        given_up_by: impl Future<Output = ()>,
    ) -> Result<Option<ReviewDecision>, Refusal> {
        self.check_session()?;
        let subject = ApprovalSubject::Write(write);
        let question = Arc::new(question::approval_request(trail, subject, None, Vec::new()));
        Ok(match question::put_until(self, question, trail, given_up_by).await? {
            Put::Answered(answer) => Some(answer.decision),
            Put::GivenUp => None,
        })
    }

    /// Asks about a program that a running command starts, until nothing waits for it any more: then there is no
    /// decision. The answer is kept by the run that asks.
    pub(crate) async fn ask_start(
        &self,
        subject: ApprovalSubject,
        reason: Option<String>,
        trail: &Trail,
        given_up_by: impl Future<Output = ()>,
    ) -> Result<Option<ReviewDecision>, Refusal> {
        self.check_session()?;
        let question = Arc::new(question::approval_request(trail, subject, reason, Vec::new()));
        Ok(match question::put_until(self, question, trail, given_up_by).await? {
            Put::Answered(answer) => Some(answer.decision),
            Put::GivenUp => None,
        })
    }

    /// Passes a server's question on. Each is a new one: nothing is shared or remembered.
    pub(crate) async fn ask_for_server(
        &self,
        question: &ElicitationApproval,
        reason: Option<String>,
        trail: &Trail,
    ) -> Result<Answer, Refusal> {
        self.check_session()?;
        let subject = ApprovalSubject::Elicitation(question.clone());
        let request = Arc::new(question::approval_request(trail, subject, reason, Vec::new()));
        question::put_whole(self, request, trail).await
    }

    /// Refuses everything after "stop everything".
    pub(crate) fn check_session(&self) -> Result<(), Refusal> {
        if *self.aborted.borrow() { Err(no(RefusedBy::Reviewer, ABORTED)) } else { Ok(()) }
    }
}

/// The content of a question beyond its keys: two changes of one file are two questions. The keys of a command cover
/// everything except the denials of its first run.
fn content(subject: &ApprovalSubject) -> String {
    match subject {
        ApprovalSubject::Command(_) => String::new(),
        ApprovalSubject::Patch(_)
        | ApprovalSubject::Network(_)
        | ApprovalSubject::Write(_)
        | ApprovalSubject::Permissions(_)
        | ApprovalSubject::ToolCall(_)
        | ApprovalSubject::Elicitation(_) => memory::written(subject),
    }
}

const ABORTED: &str = "the reviewer stopped the session";

fn no(by: RefusedBy, reason: &str) -> Refusal {
    Refusal { by, reason: reason.to_owned() }
}

fn granted(session: &Session, execution: EscalationExecution, source: DecisionSource) -> Result<Grant, Refusal> {
    Grant::new(session, execution, source).map_err(|invalid| impossible(&invalid))
}

/// The grant of rules to one program that a command starts; or why there can't be one. No rule lifts what needs the
/// sandbox: a hard denial, a limit, an administrator's maximum, a forbidden host, or a sandbox that a person chose.
pub(crate) fn granted_to_program(
    session: &Session,
    execution: &ProgramExecution,
    source: DecisionSource,
) -> Result<Grant, String> {
    if *execution == ProgramExecution::Outside && !session.rules_may_leave() {
        return Err(String::from("the session's policy needs the sandbox"));
    }
    Grant::to_program(session, execution, source).map_err(|invalid| impossible(&invalid).reason)
}

fn impossible(invalid: &Invalid) -> Refusal {
    Refusal { by: RefusedBy::Sandbox, reason: format!("the permissions make no sense: {invalid}") }
}

/// Refuses requests for hard denials, and for writing Stockade's own files.
pub(crate) fn check_hard_denials(session: &Session, wanted: &EscalationExecution) -> Result<(), Refusal> {
    let EscalationExecution::Permissions(wanted) = wanted else { return Ok(()) };
    for rule in wanted.files.iter().filter(|rule| rule.access > stockade_protocol::Access::None) {
        let FileTarget::Path(path) = &rule.target else { continue };
        if let Some(denial) = session.permissions.files.deciding(path).filter(|denial| denial.is_hard_denial()) {
            let reason = format!(
                "`{path}` is asked for, but `{}` is denied in the session's policy, and no approval lifts that",
                denial.target
            );
            return Err(Refusal { by: RefusedBy::Rule, reason });
        }
        let merged = session.permissions.merge(wanted);
        if let Some(bound) = merged.files.deciding(path).filter(|found| found.is_bound() && found.access < rule.access)
        {
            let reason = format!(
                "`{path}` is asked for, but `{}` holds Stockade's own files, which no sandboxed command may write",
                bound.target
            );
            return Err(Refusal { by: RefusedBy::Rule, reason });
        }
    }
    Ok(())
}

/// The execution that a denied run would have needed: the least inside the sandbox that can be enforced here, else no
/// sandbox, if nothing forbids that.
fn widened<Req, T: ToolRuntime<Req>>(
    tool: &T,
    request: &Req,
    grant: &Grant,
    violations: &[Violation],
    ctx: &ToolContext<'_>,
) -> Option<EscalationExecution> {
    let session = ctx.session;
    // Intercepted connections were asked about already, or need no question; so this is about writes that were
    // declined while the command ran.
    let answers = ctx.connections.as_ref().map(|connections| &connections.answers);
    let is_declined = |violation: &Violation| {
        let ViolationTarget::Path(path) = &violation.target else { return false };
        violation.operation == Operation::Write && answers.is_some_and(|answers| answers.declines_write(path))
    };
    let open = || violations.iter().filter(|violation| !is_settled(violation) && !is_declined(violation));
    let amendments = open().filter_map(|violation| violation.amendment.as_ref());
    // A missing file can't be granted: a person has to create it first.
    let amendments: Vec<&PermissionAmendment> = amendments.filter(|amendment| !is_missing(amendment)).collect();
    if let Some(more) = permissions_of(&amendments) {
        let earlier = match grant.escalation() {
            EscalationExecution::Permissions(earlier) => earlier.merge(&more),
            EscalationExecution::TurnDefault | EscalationExecution::Unsandboxed => more,
        };
        let execution = EscalationExecution::Permissions(Box::new(earlier));
        let (permissions, _) = grant::execution(session, &execution).ok()?;
        // A maximum may remove the addition, and a host may be unable to enforce it.
        if permissions != *grant.permissions() && tool.is_enforceable(request, &permissions, ctx) {
            return Some(execution);
        }
    }
    // A denial with a known amendment was handled above; a hard denial stays.
    let liftable = open().any(|violation| !is_lasting(violation)) && tool.preference() != SandboxPreference::Require;
    (liftable && session.must_confine().is_none()).then_some(EscalationExecution::Unsandboxed)
}

fn is_settled(violation: &Violation) -> bool {
    violation.operation == Operation::Connect && violation.evidence == Evidence::Observed
}

/// Whether even a run without the sandbox would fail: a person or the system itself denies it. A refused system call
/// does not justify leaving the sandbox: any command can make one, and would be asked about the way out of all limits.
fn is_lasting(violation: &Violation) -> bool {
    if violation.operation == Operation::SystemCall {
        return true;
    }
    let about_files = matches!(violation.operation, Operation::Read | Operation::Write | Operation::Execute);
    let hard = matches!(&violation.rule, Some(DenyingRule::File(rule)) if rule.is_hard_denial());
    hard || (about_files && violation.amendment.as_ref().is_none_or(is_missing))
}

/// Whether it grants a missing file or directory.
fn is_missing(amendment: &PermissionAmendment) -> bool {
    match amendment {
        PermissionAmendment::File(rule) => match &rule.target {
            FileTarget::Path(path) => RealFiles.kind(path).is_none(),
            FileTarget::Glob(_) => false,
        },
        PermissionAmendment::Network(_) | PermissionAmendment::UnixSocket(_) => false,
    }
}

/// The permissions that amendments add up to; `None` if there are none.
fn permissions_of(amendments: &[&PermissionAmendment]) -> Option<Permissions> {
    let files = amendments.iter().filter_map(|amendment| match amendment {
        PermissionAmendment::File(rule) => Some(rule.clone()),
        PermissionAmendment::Network(_) | PermissionAmendment::UnixSocket(_) => None,
    });
    let hosts: Vec<_> = amendments
        .iter()
        .filter_map(|amendment| match amendment {
            PermissionAmendment::Network(rule) => Some(rule.clone()),
            PermissionAmendment::File(_) | PermissionAmendment::UnixSocket(_) => None,
        })
        .collect();
    let sockets = amendments.iter().filter_map(|amendment| match amendment {
        PermissionAmendment::UnixSocket(path) => Some(path.clone()),
        PermissionAmendment::File(_) | PermissionAmendment::Network(_) => None,
    });
    let network = if hosts.is_empty() {
        NetworkPolicy::Off
    } else {
        NetworkPolicy::Hosts(HostRules { rules: hosts, ..HostRules::default() })
    };
    let permissions =
        Permissions { files: strongest(files)?, network, unix_sockets: sockets.collect(), ..Permissions::default() };
    (permissions != Permissions::default()).then_some(permissions)
}

/// The rules, with the widest access for each path: of two rules for one path the stricter would win otherwise.
fn strongest(rules: impl Iterator<Item = stockade_protocol::FileRule>) -> Option<stockade_protocol::FileRules> {
    let mut rules: Vec<_> = rules.collect();
    rules.sort_by(|a, b| a.target.cmp(&b.target).then(b.access.cmp(&a.access)));
    rules.dedup_by(|later, kept| later.target == kept.target);
    stockade_protocol::FileRules::new(rules).ok()
}
