//! What the orchestrator asks of a tool. A shell command is one; embedders bring their own.

use std::collections::BTreeMap;

use async_trait::async_trait;
use stockade_protocol::{
    ApprovalSubject, AuditEvent, DecisionSource, EscalationExecution, ExecApprovalRequirement, ExecPolicyAmendment,
    Permissions, RawText, Refusal, RequestId, Violation,
};
use stockade_sandboxing::Backend;

use crate::approvals::{ApprovalKey, Grant, RuleStore};
use crate::connections::Connections;
use crate::run::RunError;
use crate::session::Session;
use crate::verdict::Verdict;

/// What a tool is run in.
pub struct ToolContext<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its rules.
    pub rules: &'a RuleStore,
    /// What builds the sandbox.
    pub sandbox: &'a dyn Backend,
    /// What decides on connections; nothing where nothing is run.
    pub(crate) connections: Option<Connections>,
}

/// What has to happen before a request runs, and who says so.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// What has to happen.
    pub requirement: ExecApprovalRequirement,
    /// Who says so.
    pub source: DecisionSource,
    /// What is known of a command, which a question shows.
    pub verdict: Option<Box<Verdict>>,
}

impl Requirement {
    /// For a request that is no command.
    pub fn new(requirement: ExecApprovalRequirement, source: DecisionSource) -> Self {
        Self { requirement, source, verdict: None }
    }
}

/// What a question shows besides the request itself.
pub struct Shown<'a> {
    /// What it will run with if approved.
    pub execution: &'a EscalationExecution,
    /// What the run before was denied.
    pub violations: &'a [Violation],
    /// A rule that would save this question in future.
    pub amendment: Option<&'a ExecPolicyAmendment>,
    /// What is known of a command, as its [`Requirement`] says.
    pub verdict: Option<&'a Verdict>,
}

/// How the first run of a request is started that rules allow in full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAttempt {
    /// As the rules say: without the sandbox where they say so and the session has nothing that needs one.
    #[default]
    AsRulesSay,
    /// In the sandbox, whatever the rules say.
    Sandboxed,
}

/// Whether a tool can do with, or without, a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxPreference {
    /// As the session says.
    #[default]
    Auto,
    /// Only inside one.
    Require,
    /// Never inside one: it works on the host's side, by its own means.
    Forbid,
}

/// A request that may need an approval.
pub trait Approvable<Req>: Send + Sync {
    /// The request's name.
    fn id<'a>(&self, request: &'a Req) -> &'a RequestId;

    /// What goes on record before anything else; `None` where the first question says it all.
    fn requested(&self, request: &Req) -> Option<AuditEvent>;

    /// What an approval for the session is remembered under. All of them have to be known.
    fn keys(&self, request: &Req, session: &Session) -> Vec<ApprovalKey>;

    /// A program of the request that the session's commands may have written. An approval to run it without the
    /// sandbox speaks of the program as it is now, so it is neither offered nor recalled for the session.
    fn planted_program(
        &self,
        _request: &Req,
        _session: &Session,
        _verdict: Option<&crate::verdict::Verdict>,
    ) -> Option<std::path::PathBuf> {
        None
    }

    /// The question.
    fn subject(&self, request: &Req, ctx: &ToolContext<'_>, shown: &Shown<'_>) -> ApprovalSubject;

    /// The environment that it starts from in place of the session's.
    fn environment(&self, _request: &Req) -> Option<&BTreeMap<RawText, RawText>> {
        None
    }

    /// The most that it may do, whatever the session grants and a person approves.
    fn at_most(&self, _request: &Req) -> Option<&Permissions> {
        None
    }

    /// Whether a policy outside has approved the request already, and its warnings.
    fn preapproved<'a>(&self, _request: &'a Req) -> Option<&'a [String]> {
        None
    }

    /// What has to happen before it runs; `None` for the plain default. `asked_for` is what it wants to run with, as
    /// far as it was not granted in advance.
    fn requirement(
        &self,
        _request: &Req,
        _ctx: &ToolContext<'_>,
        _asked_for: &EscalationExecution,
    ) -> Option<Requirement> {
        None
    }

    /// What it wants to run with.
    fn escalation(&self, _request: &Req) -> EscalationExecution {
        EscalationExecution::TurnDefault
    }

    /// How the first run is started that rules allow in full.
    fn first_attempt(&self, _request: &Req) -> FirstAttempt {
        FirstAttempt::default()
    }
}

/// A tool that may run in a sandbox.
pub trait Sandboxable {
    /// Whether it can do with, or without, one.
    fn preference(&self) -> SandboxPreference {
        SandboxPreference::default()
    }

    /// Whether a denial may lead to a question for a wider run.
    fn escalates_on_failure(&self) -> bool {
        true
    }
}

/// What came of a run, as far as the orchestrator cares.
pub trait Attempted: From<Refusal> + Send {
    /// What the sandbox denied, where that made the run fail.
    fn violations(&self) -> &[Violation];

    /// Takes what an earlier run gave, which was denied something.
    fn keep_first(&mut self, first: Self);

    /// What goes on record. Every end has a record, also a good one.
    fn ended(&self) -> AuditEvent;
}

/// The end of a request whose future was dropped.
pub(crate) const GIVEN_UP: &str = "the caller gave it up before it ended";

/// A tool.
#[async_trait]
pub trait ToolRuntime<Req>: Approvable<Req> + Sandboxable {
    /// What it gives.
    type Output: Attempted;

    /// Runs the request once with what was granted.
    async fn attempt(&self, request: &Req, grant: &Grant, ctx: &ToolContext<'_>) -> Result<Self::Output, RunError>
    where
        Req: 'async_trait;

    /// Whether permissions could be enforced for this request here. A person is not asked for what
    /// could not be given.
    fn is_enforceable(&self, _request: &Req, _permissions: &Permissions, _ctx: &ToolContext<'_>) -> bool {
        true
    }

    /// Why a request has no end, for the record: its caller does not wait for one any more.
    fn given_up(&self, _request: &Req) -> String {
        String::from(GIVEN_UP)
    }

    /// No run will follow for this request, whatever came of it.
    fn finished(&self, _request: &Req) {}
}
