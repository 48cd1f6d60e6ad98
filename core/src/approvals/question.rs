//! Puts one question to the approver, with a timeout, and records everything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use stockade_protocol::{
    AbsPath, ApprovalRequest, ApprovalSubject, AuditEvent, EscalationExecution, ExecPolicyAmendment, FileTarget,
    Refusal, RefusedBy, ResolvedPath, ReviewDecision, Violation,
};
use stockade_sandboxing::leads_to;
use tokio::task::AbortHandle;

use super::Approvals;
use super::memory::ApprovalKey;
use crate::audit_log::Trail;
use crate::risk::{RiskAssessor, assessment};
use crate::runtime::Shown;
use crate::verdict::Verdict;
use crate::{Answer, Unanswered};

/// A question to be asked.
pub(super) struct Asking<'a> {
    pub(super) keys: Vec<ApprovalKey>,
    pub(super) execution: EscalationExecution,
    pub(super) reason: Option<String>,
    pub(super) violations: &'a [Violation],
    pub(super) amendment: Option<ExecPolicyAmendment>,
    pub(super) verdict: Option<&'a Verdict>,
    /// Whether "for the session" is not offered.
    pub(super) only_once: bool,
}

impl Asking<'_> {
    pub(super) fn shown(&self) -> Shown<'_> {
        Shown {
            execution: &self.execution,
            violations: self.violations,
            amendment: self.amendment.as_ref(),
            verdict: self.verdict,
        }
    }

    /// The paths that an approval would grant.
    pub(super) fn paths(&self) -> Vec<AbsPath> {
        let EscalationExecution::Permissions(permissions) = &self.execution else { return Vec::new() };
        let targets = permissions.files.iter().filter_map(|rule| match &rule.target {
            FileTarget::Path(path) => Some(path.clone()),
            FileTarget::Glob(_) => None,
        });
        targets.chain(permissions.unix_sockets.iter().cloned()).collect()
    }
}

pub(super) fn approval_request(
    trail: &Trail,
    subject: ApprovalSubject,
    reason: Option<String>,
    mut paths: Vec<AbsPath>,
) -> ApprovalRequest {
    let mut request = ApprovalRequest::new(trail.request().clone(), trail.thread().clone(), subject);
    paths.extend(subject_paths(&request.subject));
    paths.sort();
    paths.dedup();
    request.reason = reason;
    // A path with links is shown with its target.
    request.resolved_paths = paths
        .into_iter()
        .map(|given| ResolvedPath { resolved: leads_to(&given), given })
        .filter(|path| path.given != path.resolved)
        .collect();
    request
}

/// Every path that a subject names.
fn subject_paths(subject: &ApprovalSubject) -> Vec<AbsPath> {
    match subject {
        ApprovalSubject::Command(command) => {
            let named = command.parsed.commands.iter().flat_map(|part| part.writes.iter().chain(&part.reads));
            let files = named.filter_map(|word| {
                let text = word.known()?.clone();
                AbsPath::parse(text.clone()).or_else(|_| command.cwd.join(text)).ok()
            });
            files.chain([command.cwd.clone()]).collect()
        }
        ApprovalSubject::Patch(patch) => {
            patch.changes.iter().flat_map(|change| change.paths().cloned()).chain(patch.grant_root.clone()).collect()
        }
        // They are already resolved.
        ApprovalSubject::Write(_)
        | ApprovalSubject::Network(_)
        | ApprovalSubject::Permissions(_)
        | ApprovalSubject::ToolCall(_)
        | ApprovalSubject::Elicitation(_) => Vec::new(),
    }
}

/// Asks a question whose answer is only a decision.
pub(super) async fn put(
    approvals: &Approvals,
    request: Arc<ApprovalRequest>,
    trail: &Trail,
) -> Result<ReviewDecision, Refusal> {
    match put_until(approvals, request, trail, std::future::pending()).await? {
        Put::Answered(answer) => Ok(answer.decision),
        Put::GivenUp => Err(Refusal { by: RefusedBy::Reviewer, reason: String::from("the question was given up") }),
    }
}

/// The whole answer to a question.
pub(super) async fn put_whole(
    approvals: &Approvals,
    request: Arc<ApprovalRequest>,
    trail: &Trail,
) -> Result<Answer, Refusal> {
    match put_until(approvals, request, trail, std::future::pending()).await? {
        Put::Answered(answer) => Ok(answer),
        Put::GivenUp => Err(Refusal { by: RefusedBy::Reviewer, reason: String::from("the question was given up") }),
    }
}

/// The result of a question.
pub(super) enum Put {
    Answered(Answer),
    /// The asker gave up, and the question was withdrawn.
    GivenUp,
}

/// Asks, waits up to the session's timeout, and records the question and the decision. A late answer is recorded too
/// and changes nothing. An answer to stop everything also answers all open questions.
pub(super) async fn put_until(
    approvals: &Approvals,
    request: Arc<ApprovalRequest>,
    trail: &Trail,
    given_up_by: impl Future<Output = ()>,
) -> Result<Put, Refusal> {
    let aborted = &approvals.aborted;
    let (thread, id) = (trail.thread(), trail.request());
    trail.record(AuditEvent::Asked { subject: request.subject.clone() })?;
    tracing::info!(name: "approval.requested", %thread, request = %id);
    let mut stop = aborted.subscribe();
    let request = tokio::select! {
        assessed = assessed(approvals.assessor.as_ref(), &request) => assessed,
        _ = stop.wait_for(|stop| *stop) => request,
    };
    let asked = Instant::now();
    let mut review = {
        let (approver, request) = (Arc::clone(&approvals.approver), Arc::clone(&request));
        tokio::spawn(async move { approver.review(request).await })
    };
    // An abandoned question is withdrawn.
    let mut given_up = AbortOnDrop(Some(review.abort_handle()));
    let mut late = false;
    let answer = tokio::select! {
        answer = &mut review => {
            Some(usable(&request, answer.unwrap_or_else(|died| Err(Unanswered::Gone { why: died.to_string() }))))
        }
        _ = stop.wait_for(|stop| *stop) => Some(Ok(ReviewDecision::Abort.into())),
        () = given_up_by => None,
        () = tokio::time::sleep(approvals.answer_limit) => {
            given_up.0 = None;
            late = true;
            Some(Ok(ReviewDecision::TimedOut.into()))
        }
    };
    let Some(answer) = answer else {
        review.abort();
        // The prompt is removed before the next one is shown, and before this process ends.
        review.await.ok();
        return Ok(Put::GivenUp);
    };
    if late {
        record_late(review, trail.clone(), asked);
    }
    if matches!(&answer, Ok(answer) if answer.decision == ReviewDecision::Abort) {
        aborted.send_replace(true);
    }
    let (answer, refusal) = match answer {
        Ok(answer) => (answer, None),
        Err(unanswered) => {
            let reason = unanswered.to_string();
            let denied = ReviewDecision::Denied { reason: Some(reason.clone()) };
            (denied.into(), Some(Refusal { by: RefusedBy::Reviewer, reason }))
        }
    };
    let decision = &answer.decision;
    let took = asked.elapsed();
    let (said, duration_ms) = (if decision.is_approval() { "approved" } else { "denied" }, millis(took));
    if *decision == ReviewDecision::TimedOut {
        tracing::info!(name: "approval.timed_out", %thread, request = %id, duration_ms);
    } else {
        tracing::info!(name: "approval.answered", %thread, request = %id, decision = said, source = "reviewer", duration_ms);
    }
    trail.record(AuditEvent::Answered { decision: decision.clone(), in_time: true, duration_ms: millis(took) })?;
    refusal.map_or(Ok(Put::Answered(answer)), Err)
}

/// The question with its risk assessment, if that is ready in time.
async fn assessed(assessor: Option<&Arc<dyn RiskAssessor>>, request: &Arc<ApprovalRequest>) -> Arc<ApprovalRequest> {
    let Some(assessor) = assessor else { return Arc::clone(request) };
    let risk = assessment(assessor, request).await;
    Arc::new(ApprovalRequest { risk, ..ApprovalRequest::clone(request) })
}

/// Ends a review when its answer is no longer awaited.
struct AbortOnDrop(Option<AbortHandle>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        if let Some(review) = &self.0 {
            review.abort();
        }
    }
}

/// Waits for a late answer and records it.
fn record_late(review: tokio::task::JoinHandle<Result<Answer, Unanswered>>, trail: Trail, asked: Instant) {
    tokio::spawn(async move {
        if let Ok(Ok(answer)) = review.await {
            let duration_ms = millis(asked.elapsed());
            trail.note(AuditEvent::Answered { decision: answer.decision, in_time: false, duration_ms });
        }
    });
}

/// Rejects an answer that was not offered: it could save a rule that was not shown.
fn usable(request: &ApprovalRequest, answer: Result<Answer, Unanswered>) -> Result<Answer, Unanswered> {
    let answer = answer?;
    let offered = match &answer.decision {
        ReviewDecision::Denied { .. } | ReviewDecision::TimedOut | ReviewDecision::Abort => true,
        ReviewDecision::DeniedForRun
        | ReviewDecision::Approved
        | ReviewDecision::ApprovedForRun
        | ReviewDecision::ApprovedForSession
        | ReviewDecision::ApprovedExecpolicyAmendment { .. }
        | ReviewDecision::ApprovedProfileAmendment { .. }
        | ReviewDecision::NetworkPolicyAmendment { .. } => request.available_decisions.contains(&answer.decision),
    };
    if !offered {
        return Err(Unanswered::Unusable { why: String::from("it was not among the answers offered") });
    }
    answer.fitting(request)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
