//! A session with a workspace, an approver that is told what to say, and a trail in memory.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use stockade_core::{
    Answer, Approver, AuditDemand, AuditSink, MemoryAudit, Orchestrator, RuleStore, Session, Unanswered,
};
use stockade_execpolicy::{Layer, Policy};
use stockade_protocol::{
    AbsPath, Access, ApprovalRequest, Argv, AskForApproval, AuditEvent, EscalationExecution, ExecExpiration,
    ExecRequest, FileRule, FileRules, HostPaths, Outcome, Permissions, ReviewDecision, SandboxPolicy,
};
use stockade_sandbox_linux::{Auto, Observe};
use stockade_sandboxing::Backend;

/// What is told to say, one answer after the other; then it says no.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<VecDeque<ReviewDecision>>,
    asked: Mutex<Vec<ApprovalRequest>>,
    pub(crate) takes: Mutex<Duration>,
}

#[async_trait]
impl Approver for Script {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        self.asked.lock().unwrap().push(ApprovalRequest::clone(&request));
        let takes = *self.takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        let next = self.answers.lock().unwrap().pop_front();
        Ok(next.unwrap_or(ReviewDecision::Denied { reason: Some(String::from("not in the script")) }).into())
    }
}

impl Script {
    pub(crate) fn say(&self, decision: ReviewDecision) {
        self.answers.lock().unwrap().push_back(decision);
    }

    pub(crate) fn questions(&self) -> Vec<ApprovalRequest> {
        self.asked.lock().unwrap().clone()
    }
}

pub(crate) struct World {
    pub(crate) script: Arc<Script>,
    pub(crate) audit: Arc<MemoryAudit>,
    pub(crate) session: Session,
    pub(crate) rules: String,
    pub(crate) saved: Option<PathBuf>,
    pub(crate) answer_limit: Duration,
    pub(crate) backend: Arc<dyn Backend>,
    directory: tempfile::TempDir,
}

impl World {
    /// A workspace `ws` and a directory `outside` next to it.
    pub(crate) fn new(ask: AskForApproval) -> Self {
        Self::with_policy(ask, SandboxPolicy::workspace_write())
    }

    pub(crate) fn with_policy(ask: AskForApproval, policy: SandboxPolicy) -> Self {
        // Not below `/tmp`, which is private inside.
        let directory = tempfile::Builder::new().prefix("stockade-scenario").tempdir_in("/var/tmp").unwrap();
        for name in ["ws", "outside"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let workspace = AbsPath::from_path(&directory.path().join("ws")).unwrap();
        let mut session =
            Session::new("t".parse().unwrap(), ask, policy, &HostPaths::without_masks([workspace])).unwrap();
        session.environment = [("PATH".into(), "/usr/bin:/bin".into()), ("API_TOKEN".into(), "hunter2".into())].into();
        Self {
            script: Arc::default(),
            audit: Arc::default(),
            session,
            rules: String::new(),
            saved: None,
            answer_limit: Duration::from_secs(60),
            // What comes after a denial is meant here; writes that wait have tests of their own.
            backend: Arc::new(Auto::accepting([], Observe::Nothing, None)),
            directory,
        }
    }

    pub(crate) fn rules(mut self, rules: &str) -> Self {
        self.rules = rules.to_owned();
        self
    }

    /// Puts a path out of reach, as a person would.
    pub(crate) fn deny(mut self, path: &AbsPath) -> Self {
        let rules = self.session.permissions.files.iter().cloned();
        let denial = FileRule::path(path.clone(), Access::None);
        self.session.permissions.files = FileRules::new(rules.chain([denial])).unwrap();
        self
    }

    pub(crate) fn path(&self, below: &str) -> AbsPath {
        AbsPath::from_path(&self.directory.path().join(below)).unwrap()
    }

    pub(crate) fn exists(&self, below: &str) -> bool {
        self.directory.path().join(below).exists()
    }

    pub(crate) fn orchestrator(&self) -> Orchestrator {
        self.orchestrator_with(Arc::clone(&self.audit) as Arc<dyn AuditSink>, AuditDemand::Required)
    }

    pub(crate) fn orchestrator_with(&self, audit: Arc<dyn AuditSink>, demand: AuditDemand) -> Orchestrator {
        let policy = Policy::parse("test.rules", &self.rules, Layer::User).unwrap();
        let rules = RuleStore::new(policy);
        let rules = match &self.saved {
            Some(file) => rules.saving_to(file.clone()),
            None => rules,
        };
        let approver = Arc::clone(&self.script) as Arc<dyn Approver>;
        Orchestrator::new(self.session.clone(), Arc::clone(&self.backend), approver)
            .with_rules(rules)
            .with_audit(audit, demand)
            .with_answer_limit(self.answer_limit)
    }

    /// A request to run `script` with `sh` in the workspace.
    pub(crate) fn shell(&self, script: &str) -> ExecRequest {
        self.command(&["sh", "-c", script])
    }

    pub(crate) fn command(&self, words: &[&str]) -> ExecRequest {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        ExecRequest {
            id: format!("call-{}", NEXT.fetch_add(1, Ordering::Relaxed)).parse().unwrap(),
            thread_id: self.session.thread_id.clone(),
            command: Argv::parse(words.iter().copied()).unwrap(),
            cwd: self.path("ws"),
            expiration: ExecExpiration::DefaultTimeout,
            escalation: EscalationExecution::TurnDefault,
            justification: None,
            terminal: None,
            approved_by_policy: false,
            sandbox_warnings: Vec::new(),
        }
    }

    /// The kinds of events on record for a request, in their order.
    pub(crate) fn events(&self, request: &ExecRequest) -> Vec<&'static str> {
        self.audit.of(&request.id).iter().map(kind).collect()
    }
}

pub(crate) fn kind(event: &AuditEvent) -> &'static str {
    match event {
        AuditEvent::Requested { .. } => "requested",
        AuditEvent::PatchRequested { .. } => "patch_requested",
        AuditEvent::Patched { .. } => "patched",
        AuditEvent::ToolRequested { .. } => "tool_requested",
        AuditEvent::ToolCalled { .. } => "tool_called",
        AuditEvent::ToolApproved {} => "tool_approved",
        AuditEvent::SessionOpened { .. } => "session_opened",
        AuditEvent::SessionChanged { .. } => "session_changed",
        AuditEvent::SessionClosed { .. } => "session_closed",
        AuditEvent::PermissionsRequested { .. } => "permissions_requested",
        AuditEvent::PermissionsGranted { .. } => "permissions_granted",
        AuditEvent::Failed { .. } => "failed",
        AuditEvent::Decided { .. } => "decided",
        AuditEvent::Asked { .. } => "asked",
        AuditEvent::Answered { in_time: true, .. } => "answered",
        AuditEvent::Answered { in_time: false, .. } => "answered late",
        AuditEvent::Connected { .. } => "connected",
        AuditEvent::ProgramJudged { .. } => "program_judged",
        AuditEvent::WrittenOutside { .. } => "written_outside",
        AuditEvent::Refused(_) => "refused",
        AuditEvent::Ended { .. } => "ended",
        AuditEvent::Unrecorded { .. } => "unrecorded",
        AuditEvent::Repaired { .. } => "repaired",
    }
}

/// Permissions to write a path.
pub(crate) fn writing(path: &AbsPath) -> EscalationExecution {
    let files = FileRules::new([FileRule::path(path.clone(), Access::Write)]).unwrap();
    EscalationExecution::Permissions(Box::new(Permissions { files, ..Permissions::default() }))
}

pub(crate) fn refusal(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Refused(refusal) => format!("{:?}: {}", refusal.by, refusal.reason),
        Outcome::Exited { .. }
        | Outcome::Denied { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled { .. }
        | Outcome::Signaled { .. } => {
            panic!("it was run: {outcome:?}")
        }
    }
}

pub(crate) fn stdout(outcome: &Outcome) -> String {
    let execution = outcome.execution().unwrap_or_else(|| panic!("it was not run: {outcome:?}"));
    execution.stdout.head.to_string()
}
