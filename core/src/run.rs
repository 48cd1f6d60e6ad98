//! The story of one request: decide, run, and after a denial perhaps once more.

use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{
    AuditEvent, CancelRequest, ExecExpiration, ExecRequest, Outcome, Refusal, RefusedBy, RequestId, ThreadId,
};
use stockade_sandboxing::{Backend, RealFiles, SpawnError, protect_own_files};
use tracing::Instrument as _;

use crate::approvals::{Approvals, Confinement, RuleStore};
use crate::approver::Approver;
use crate::audit_log::{AuditDemand, AuditLog, Trail};
use crate::cancellation::Cancellable;
use crate::connections::{Connections, holding_forbidden};
use crate::runtime::{Attempted, SandboxPreference, Surroundings, ToolRuntime};
use crate::session::Session;
use crate::shell::ShellRuntime;
use crate::{AuditSink, NoAudit};

/// Runs a session's requests.
pub struct Orchestrator {
    session: Session,
    rules: Arc<RuleStore>,
    sandbox: Arc<dyn Backend>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) audit: AuditLog,
    running: Cancellable,
}

/// Why a request could not be dealt with. A refusal is no error: it is an [`Outcome`].
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
        /// This one.
        session: String,
    },
    /// A tool failed in its own way.
    #[error("the tool failed: {why}")]
    Tool {
        /// What it says.
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

    /// Ends every running command that was started with this name, and says how many there were.
    pub fn cancel(&self, request: &CancelRequest) -> usize {
        self.running.cancel(&request.token)
    }

    /// A request names the session whose permissions and memory it is judged by.
    pub(crate) fn check_session(&self, thread_id: &ThreadId) -> Result<(), RunError> {
        if *thread_id == self.session.thread_id {
            return Ok(());
        }
        Err(RunError::OtherSession { request: thread_id.to_string(), session: self.session.thread_id.to_string() })
    }

    /// Runs a request of any tool.
    pub async fn run_with<Req: Sync, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
    ) -> Result<T::Output, RunError> {
        let trail = self.audit.begin(&self.session.thread_id, tool.id(request));
        let span = tracing::info_span!("request", thread = %trail.thread(), request = %trail.request());
        let result = self.decide_and_execute(tool, request, &trail).instrument(span).await;
        trail.finish(&result);
        result
    }

    /// Records a request that failed before anything could be decided about it.
    pub(crate) fn failed_before_asking<Out: Attempted>(
        &self,
        id: &RequestId,
        requested: AuditEvent,
        error: RunError,
    ) -> Result<Out, RunError> {
        let trail = self.audit.begin(&self.session.thread_id, id);
        trail.note(requested);
        let result = Err(error);
        trail.finish::<Out>(&result);
        result
    }

    async fn decide_and_execute<Req: Sync, T: ToolRuntime<Req>>(
        &self,
        tool: &T,
        request: &Req,
        trail: &Trail,
    ) -> Result<T::Output, RunError> {
        let connections = Connections {
            approvals: Arc::clone(&self.approvals),
            rules: Arc::clone(&self.rules),
            trail: trail.clone(),
            ask: self.session.ask,
        };
        let around = Surroundings { connections: Some(connections), ..self.surroundings() };
        if let Some(Err(refusal)) = tool.requested(request).map(|event| trail.record(event)) {
            return Ok(T::Output::from(refusal));
        }
        let grant = match self.approvals.settle(tool, request, &around, trail).await {
            Ok(grant) => grant,
            Err(refusal) => return Ok(T::Output::from(refusal)),
        };
        if tool.preference() == SandboxPreference::Require && grant.confinement() == Confinement::None {
            let reason = String::from("the tool runs only in a sandbox, and this run would have none");
            return Ok(T::Output::from(Refusal { by: RefusedBy::Sandbox, reason }));
        }
        let first = tool.attempt(request, &grant, &around).await?;
        // Asked, approved, wider: once.
        let Some(wider) = self.approvals.escalate(tool, request, &grant, &first, &around, trail).await else {
            return Ok(first);
        };
        let mut second = tool.attempt(request, &wider, &around).await?;
        second.keep_first(first);
        Ok(second)
    }
}

impl Orchestrator {
    /// An orchestrator that asks `approver`, has no rules, and keeps no trail.
    pub fn new(mut session: Session, sandbox: Arc<dyn Backend>, approver: Arc<dyn Approver>) -> Self {
        // Where they really are, so that what is said of them, and patches, which no sandbox holds, know it too.
        if let Ok(protected) = protect_own_files(&session.permissions, &RealFiles) {
            session.permissions = protected;
        }
        Self {
            session,
            rules: Arc::default(),
            sandbox,
            approvals: Arc::new(Approvals::new(approver)),
            audit: AuditLog { sink: Arc::new(NoAudit), demand: AuditDemand::default() },
            running: Cancellable::default(),
        }
    }

    /// With these rules. Hosts that they forbid, the session forbids.
    #[must_use]
    pub fn with_rules(mut self, rules: RuleStore) -> Self {
        self.session.permissions.network = holding_forbidden(&self.session, &rules);
        Self { rules: Arc::new(rules), ..self }
    }

    /// With a trail.
    #[must_use]
    pub fn with_audit(self, sink: Arc<dyn AuditSink>, demand: AuditDemand) -> Self {
        Self { audit: AuditLog { sink, demand }, ..self }
    }

    /// Waits this long for an answer, in place of [`ANSWER_LIMIT`](crate::ANSWER_LIMIT).
    #[must_use]
    pub fn with_answer_limit(self, limit: Duration) -> Self {
        let approvals = Approvals::new(Arc::clone(&self.approvals.approver)).waiting(limit);
        Self { approvals: Arc::new(approvals), ..self }
    }

    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What tools are run in.
    pub fn surroundings(&self) -> Surroundings<'_> {
        Surroundings { session: &self.session, rules: &self.rules, sandbox: &*self.sandbox, connections: None }
    }
}

impl std::fmt::Debug for Orchestrator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orchestrator").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Attempted for Outcome {
    fn violations(&self) -> &[stockade_protocol::Violation] {
        match self {
            Self::Denied { execution, .. } => &execution.violations,
            Self::Exited { .. } | Self::Refused(_) | Self::TimedOut { .. } | Self::Signaled { .. } => &[],
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
