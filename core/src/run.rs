//! The life of one request: decide, run, and after a denial perhaps once more.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use stockade_protocol::{
    AskForApproval, AuditEvent, CancelRequest, EscalationExecution, ExecExpiration, ExecRequest, FileTarget, Invalid,
    Outcome, Permissions, Refusal, RequestId, RuleSource, SandboxPolicy, ThreadId,
};
use stockade_sandboxing::{Backend, SeenOnce, SpawnError, protect_own_files};
use tracing::Instrument as _;

use crate::approvals::{ApprovalKey, Approvals, RuleStore};
use crate::approver::Approver;
use crate::audit_log::{AuditDemand, AuditLog, Trail};
use crate::cancellation::Cancellable;
use crate::connections::{Connections, forbidden_by};
use crate::judgement::Purpose;
use crate::requirement::approvals_count;
use crate::risk::RiskAssessor;
use crate::runtime::{Approvable, Attempted, ToolContext, ToolRuntime};
use crate::session::Session;
use crate::shell::ShellRuntime;
use crate::{AuditSink, NoAudit};

/// Runs a session's requests.
pub struct Orchestrator {
    /// The state for requests that begin now.
    in_force: RwLock<InForce>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) audit: AuditLog,
    running: Cancellable,
}

/// A session, its rules, and the backend that enforces it. A request takes all of them once, when it begins.
#[derive(Clone)]
pub(crate) struct InForce {
    /// The session as given, including additions to its policy.
    given: Arc<Session>,
    /// The session with its current policy.
    pub(crate) session: Arc<Session>,
    pub(crate) rules: Arc<RuleStore>,
    pub(crate) sandbox: Arc<dyn Backend>,
}

impl InForce {
    fn new(session: Session, rules: Arc<RuleStore>, sandbox: Arc<dyn Backend>) -> Self {
        Self { session: Arc::new(completed(session.clone(), &rules)), given: Arc::new(session), rules, sandbox }
    }

    /// The state for one request of a tool: with the request's own environment, which all environment-dependent
    /// decisions use, such as the program search; and within the request's own upper bound, which lowers the session's
    /// maximum.
    pub(crate) fn for_request<Req>(&self, tool: &impl Approvable<Req>, request: &Req) -> Self {
        let mut own = self.clone();
        if let Some(environment) = tool.environment(request) {
            Arc::make_mut(&mut own.session).environment.clone_from(environment);
        }
        if let Some((command, cwd)) = tool.command(request).filter(|_| !self.session.saved.is_empty()) {
            Arc::make_mut(&mut own.session).add_saved_grants(&self.rules, command, cwd);
        }
        if let Some(bound) = tool.at_most(request) {
            let maximum = self.session.bounded(bound);
            Arc::make_mut(&mut own.session).maximum = Some(maximum);
        }
        own
    }
}

/// Why a request failed. A refusal is not an error: it is an [`Outcome`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The command could not be started, or was lost.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The request belongs to another session.
    #[error("the request belongs to the session `{request}`, not to `{session}`")]
    OtherSession {
        /// The session that the request names.
        request: String,
        /// This session.
        session: String,
    },
    /// A patch could not be prepared or written.
    #[error(transparent)]
    Patch(Box<dyn std::error::Error + Send + Sync>),
    /// A tool-specific failure.
    #[error("the tool failed: {why}")]
    Tool {
        /// Its message.
        why: String,
    },
}

impl Orchestrator {
    /// Runs a command: rules, approval, sandbox, and after a denial perhaps once more.
    pub async fn run(&self, request: &ExecRequest) -> Result<Outcome, RunError> {
        self.check_session(&request.thread_id)?;
        let tool = ShellRuntime::default();
        let _named = match &request.expiration {
            ExecExpiration::Cancellation { token } => Some(self.running.name(token.clone(), tool.cancellation.clone())),
            ExecExpiration::DefaultTimeout | ExecExpiration::Timeout { .. } => None,
        };
        self.run_with(&tool, request).await
    }

    /// Ends every running command that was started with this name, and returns how many there were.
    pub fn cancel(&self, request: &CancelRequest) -> usize {
        self.running.cancel(&request.token)
    }

    /// Checks that the request belongs to this session.
    pub(crate) fn check_session(&self, thread_id: &ThreadId) -> Result<(), RunError> {
        let session = self.session();
        if *thread_id == session.thread_id {
            return Ok(());
        }
        Err(RunError::OtherSession { request: thread_id.to_string(), session: session.thread_id.to_string() })
    }

    /// Runs a request of any tool.
    pub async fn run_with<Req: Sync, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
    ) -> Result<T::Output, RunError> {
        self.run_under(&self.in_force(), tool, request).await
    }

    /// Runs a request under the session and the rules as they were when the request began.
    pub(crate) async fn run_under<Req: Sync, T: ToolRuntime<Req>>(
        &self,
        in_force: &InForce,
        tool: &T,
        request: &Req,
    ) -> Result<T::Output, RunError> {
        // Also if the caller drops this future.
        let _finished = OnDrop(|| tool.finished(request));
        let in_force = &in_force.for_request(tool, request);
        let trail = self.audit.begin(&in_force.session.thread_id, tool.id(request));
        let span = tracing::info_span!("request", thread = %trail.thread(), request = %trail.request());
        let mut unfinished = Unfinished { trail: Some(&trail), why: || tool.given_up(request) };
        let result = self.decide_and_execute(in_force, tool, request, &trail).instrument(span).await;
        unfinished.trail = None;
        trail.finish(&result);
        result
    }

    /// Records a request that was refused before anything could be decided about it.
    pub(crate) fn refused_before_asking<Out: Attempted>(
        &self,
        id: &RequestId,
        requested: AuditEvent,
        refusal: Refusal,
    ) -> Result<Out, RunError> {
        let trail = self.audit.begin(&self.session().thread_id, id);
        trail.note(requested);
        let result = Ok(Out::from(refusal));
        trail.finish(&result);
        result
    }

    /// Records a request that failed before anything could be decided about it.
    #[cfg(feature = "patch")]
    pub(crate) fn failed_before_asking<Out: Attempted>(
        &self,
        id: &RequestId,
        requested: AuditEvent,
        error: RunError,
    ) -> Result<Out, RunError> {
        let trail = self.audit.begin(&self.session().thread_id, id);
        trail.note(requested);
        let result = Err(error);
        trail.finish::<Out>(&result);
        result
    }

    async fn decide_and_execute<Req: Sync, T: ToolRuntime<Req>>(
        &self,
        in_force: &InForce,
        tool: &T,
        request: &Req,
        trail: &Trail,
    ) -> Result<T::Output, RunError> {
        let connections = Connections {
            approvals: Arc::clone(&self.approvals),
            rules: Arc::clone(&in_force.rules),
            trail: trail.clone(),
            ask: in_force.session.ask,
            answers: Arc::default(),
            questions: Arc::default(),
            sandbox: Arc::clone(&in_force.sandbox),
        };
        let ctx = ToolContext { connections: Some(connections), ..self.context(in_force) };
        if let Some(Err(refusal)) = tool.requested(request).map(|event| trail.record(event)) {
            return Ok(T::Output::from(refusal));
        }
        let judgement = self.approvals.judge(tool, request, &ctx, Purpose::Run);
        let grant = match self.approvals.settle(tool, request, &judgement, &ctx, trail).await {
            Ok(grant) => grant,
            Err(refusal) => return Ok(T::Output::from(refusal)),
        };
        let first = tool.attempt(request, &grant, &ctx).await?;
        // Asked, approved, wider: once.
        let Some(wider) = self.approvals.escalate(tool, request, (&judgement, &grant, &first), &ctx, trail).await
        else {
            return Ok(first);
        };
        let mut second = tool.attempt(request, &wider, &ctx).await?;
        second.keep_first(first);
        Ok(second)
    }
}

impl Orchestrator {
    /// An orchestrator that asks `approver`, has no rules, and keeps no trail.
    pub fn new(session: Session, sandbox: Arc<dyn Backend>, approver: Arc<dyn Approver>) -> Self {
        Self::under(RuleStore::default(), session, sandbox, approver)
    }

    /// Like [`new`](Self::new), with these rules from the beginning. It completes the session once.
    pub fn under(rules: RuleStore, session: Session, sandbox: Arc<dyn Backend>, approver: Arc<dyn Approver>) -> Self {
        Self {
            in_force: RwLock::new(InForce::new(session, Arc::new(rules), sandbox)),
            approvals: Arc::new(Approvals::new(approver)),
            audit: AuditLog { sink: Arc::new(NoAudit), demand: AuditDemand::default() },
            running: Cancellable::default(),
        }
    }

    /// Sets the rules. The session forbids the hosts that they forbid.
    #[must_use]
    pub fn with_rules(self, rules: RuleStore) -> Self {
        let InForce { given, sandbox, .. } = self.in_force();
        let in_force = InForce::new(Session::clone(&given), Arc::new(rules), sandbox);
        Self { in_force: RwLock::new(in_force), ..self }
    }

    /// Sets the audit trail.
    #[must_use]
    pub fn with_audit(self, sink: Arc<dyn AuditSink>, demand: AuditDemand) -> Self {
        Self { audit: AuditLog { sink, demand }, ..self }
    }

    /// Sets the timeout of questions, instead of [`ANSWER_LIMIT`](crate::ANSWER_LIMIT).
    #[must_use]
    pub fn with_answer_limit(self, limit: Duration) -> Self {
        let approvals = self.approvals.waiting(limit);
        Self { approvals: Arc::new(approvals), ..self }
    }

    /// Adds a risk assessment to every question, if it is ready in time.
    #[must_use]
    pub fn with_risk_assessor(self, assessor: Arc<dyn RiskAssessor>) -> Self {
        let approvals = self.approvals.assessed_by(assessor);
        Self { approvals: Arc::new(approvals), ..self }
    }

    /// The current session.
    pub fn session(&self) -> Arc<Session> {
        self.in_force().session
    }

    /// The current state, with the permissions granted to the session.
    pub(crate) fn in_force(&self) -> InForce {
        let mut in_force = self.in_force.read().unwrap_or_else(PoisonError::into_inner).clone();
        if !approvals_count(in_force.session.ask) {
            return in_force;
        }
        let granted = self.approvals.memory.granted(&in_force.session.sandbox);
        for granted in granted.into_iter().filter(leads_where_it_did) {
            let session = Arc::make_mut(&mut in_force.session);
            let merged = session.permissions.merge(&session.protecting(&granted));
            session.permissions = Permissions { network: session.with_denied_hosts(merged.network.clone()), ..merged };
        }
        in_force
    }

    pub(crate) fn context<'a>(&'a self, in_force: &'a InForce) -> ToolContext<'a> {
        ToolContext {
            session: &in_force.session,
            rules: &in_force.rules,
            sandbox: &*in_force.sandbox,
            connections: None,
        }
    }
}

/// Whether a path granted to a waiting write, without links at the time, still has none. A link planted since leads to
/// a file that was not asked about. Permissions that a client requested explicitly are resolved as written.
fn leads_where_it_did(granted: &Permissions) -> bool {
    let written = granted.files.iter().filter(|rule| rule.source == RuleSource::Approval);
    let paths = written.filter_map(|rule| match &rule.target {
        FileTarget::Path(path) => path.to_host_path(),
        FileTarget::Glob(_) => None,
    });
    paths.into_iter().all(|path| {
        let nearest = path.ancestors().find(|path| path.symlink_metadata().is_ok());
        nearest.is_none_or(|nearest| nearest.canonicalize().is_ok_and(|found| found == nearest))
    })
}

/// Changes of a running session.
impl Orchestrator {
    /// Changes the approval policy and the sandbox policy, from the next request on. A running request, including its
    /// questions, keeps its policies.
    ///
    /// Restrictions beyond the session's policy stay: denials, forbidden hosts, the administrator's maximum, limits
    /// and the environment. Grants beyond it come back with the policy they were given with.
    ///
    /// Remembered approvals stay: a command is remembered with its approved permissions, so under another sandbox
    /// policy it is another question.
    pub fn set_policy(&self, ask: AskForApproval, sandbox: SandboxPolicy) -> Result<(), Invalid> {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        in_force.session = Arc::new(completed(in_force.given.with_policy(ask, sandbox)?, &in_force.rules));
        Ok(())
    }

    /// Replaces the session and its rules, from the next request on: for reloaded settings and rules. The approver,
    /// the trail, remembered approvals and running requests stay. A policy set by [`set_policy`](Self::set_policy) is
    /// replaced, too.
    ///
    /// A session with another id is an error, and changes nothing: memory and trail belong to this one.
    pub fn renew(&self, session: Session, rules: RuleStore) -> Result<(), RunError> {
        self.check_session(&session.thread_id)?;
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        *in_force = InForce::new(session, Arc::new(rules), Arc::clone(&in_force.sandbox));
        Ok(())
    }

    /// Builds sandboxes with another backend, from the next request on.
    pub fn set_backend(&self, sandbox: Arc<dyn Backend>) {
        let mut in_force = self.in_force.write().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut in_force.sandbox, sandbox);
        drop(in_force);
        // Ending its warm sandboxes may take a while.
        drop(former);
    }

    /// Records an event of the session itself: opened, changed or closed.
    pub fn record(&self, id: &RequestId, event: AuditEvent) -> Result<(), Refusal> {
        self.audit.begin(&self.session().thread_id, id).record(event)
    }

    /// The approvals for the session so far: the key and the approved execution.
    pub fn remembered(&self) -> Vec<(ApprovalKey, EscalationExecution)> {
        self.approvals.memory.all()
    }

    /// Forgets one approval, and returns whether it was known. The next such request asks again; one that has been
    /// decided continues.
    pub fn forget(&self, key: &ApprovalKey) -> bool {
        self.approvals.memory.forget(key)
    }

    /// Forgets every approval, and returns how many there were.
    pub fn forget_all(&self) -> usize {
        self.approvals.memory.forget_all()
    }
}

struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Records a request as abandoned if its future is dropped before its end.
struct Unfinished<'a, F: Fn() -> String> {
    trail: Option<&'a Trail>,
    why: F,
}

impl<F: Fn() -> String> Drop for Unfinished<'_, F> {
    fn drop(&mut self) {
        if let Some(trail) = self.trail {
            trail.give_up((self.why)());
        }
    }
}

/// Completes a session: protects Stockade's own files at their real locations, for explanations and for patches, which
/// run outside of a sandbox; and forbids the hosts that the rules forbid.
fn completed(mut session: Session, rules: &RuleStore) -> Session {
    if let Ok(protected) = protect_own_files(&session.permissions, &SeenOnce::default()) {
        session.permissions = protected;
    }
    session.forbidden_hosts.extend(forbidden_by(rules));
    session.permissions.network = session.with_denied_hosts(session.permissions.network.clone());
    session
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator").field("session", &self.session()).finish_non_exhaustive()
    }
}

impl Attempted for Outcome {
    fn violations(&self) -> &[stockade_protocol::Violation] {
        match self {
            Self::Denied { execution, .. } => &execution.violations,
            Self::Exited { .. }
            | Self::Refused(_)
            | Self::TimedOut { .. }
            | Self::Cancelled { .. }
            | Self::Signaled { .. } => &[],
        }
    }

    fn keep_first(&mut self, first: Self) {
        let (Some(second), Some(first)) = (self.execution_mut(), first.execution()) else { return };
        second.first_attempt = Some(Box::new(first.clone()));
    }

    fn ended(&self) -> AuditEvent {
        crate::audit_log::ended(self)
    }
}
