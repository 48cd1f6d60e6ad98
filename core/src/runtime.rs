//! The contract between the orchestrator and a tool. A shell command is one; embedders bring their own.

use std::collections::BTreeMap;

use async_trait::async_trait;
use stockade_protocol::{
    AbsPath, ApprovalSubject, Argv, AuditEvent, DecisionSource, EscalationExecution, ExecApprovalRequirement,
    ExecPolicyAmendment, Permissions, RawText, Refusal, RequestId, Violation,
};
use stockade_sandboxing::Backend;

use crate::approvals::{ApprovalKey, Grant, RuleStore};
use crate::connections::Connections;
use crate::run::RunError;
use crate::session::Session;
use crate::verdict::Verdict;

/// The context of a tool.
pub struct ToolContext<'a> {
    /// The session.
    pub session: &'a Session,
    /// Its rules.
    pub rules: &'a RuleStore,
    /// The sandbox backend.
    pub sandbox: &'a dyn Backend,
    /// The state for deciding on connections; `None` if nothing is run.
    pub(crate) connections: Option<Connections>,
}

/// The requirement before a request runs, and its source.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The requirement.
    pub requirement: ExecApprovalRequirement,
    /// Its source.
    pub source: DecisionSource,
    /// The verdict on a command, which a question shows.
    pub verdict: Option<Box<Verdict>>,
}

impl Requirement {
    /// A requirement for a request that is not a command.
    pub fn new(requirement: ExecApprovalRequirement, source: DecisionSource) -> Self {
        Self { requirement, source, verdict: None }
    }
}

/// The content of a question besides the request itself.
pub struct Shown<'a> {
    /// The execution if approved.
    pub execution: &'a EscalationExecution,
    /// The denials of the run before.
    pub violations: &'a [Violation],
    /// A rule that would save this question in future.
    pub amendment: Option<&'a ExecPolicyAmendment>,
    /// The verdict of its [`Requirement`].
    pub verdict: Option<&'a Verdict>,
}

/// How the first run of a request that rules allow in full is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstAttempt {
    /// As the rules say: without the sandbox if they say so and the session has nothing that needs one.
    #[default]
    AsRulesSay,
    /// In the sandbox, regardless of the rules.
    Sandboxed,
}

/// Whether a tool works with or without a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxPreference {
    /// As the session says.
    #[default]
    Auto,
    /// Only inside one.
    Require,
    /// Never inside one: it works on the host directly.
    Forbid,
}

/// A request that may need an approval.
pub trait Approvable<Req>: Send + Sync {
    /// The request's name.
    fn id<'a>(&self, request: &'a Req) -> &'a RequestId;

    /// The first record; `None` if the first question says it all.
    fn requested(&self, request: &Req) -> Option<AuditEvent>;

    /// The keys of an approval for the session. All of them have to be known.
    fn keys(&self, request: &Req, session: &Session) -> Vec<ApprovalKey>;

    /// A program of the request that the session's commands may have written. An approval to run it without the
    /// sandbox covers only its current content, so it is neither offered nor recalled for the session.
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

    /// The request's environment, which replaces the session's.
    fn environment(&self, _request: &Req) -> Option<&BTreeMap<RawText, RawText>> {
        None
    }

    /// The command that is run and its working directory, for a tool that runs commands.
    fn command<'a>(&self, _request: &'a Req) -> Option<(&'a Argv, &'a AbsPath)> {
        None
    }

    /// The request's upper bound, which neither the session nor an approval exceeds.
    fn at_most(&self, _request: &Req) -> Option<&Permissions> {
        None
    }

    /// The warnings of an external policy that has approved the request, if any.
    fn preapproved<'a>(&self, _request: &'a Req) -> Option<&'a [String]> {
        None
    }

    /// The requirement; `None` for the default. `asked_for` is the requested escalation, as far as it was not granted
    /// in advance.
    fn requirement(
        &self,
        _request: &Req,
        _ctx: &ToolContext<'_>,
        _asked_for: &EscalationExecution,
    ) -> Option<Requirement> {
        None
    }

    /// The requested escalation.
    fn escalation(&self, _request: &Req) -> EscalationExecution {
        EscalationExecution::TurnDefault
    }

    /// How a first run that rules allow in full is started.
    fn first_attempt(&self, _request: &Req) -> FirstAttempt {
        FirstAttempt::default()
    }
}

/// A tool that may run in a sandbox.
pub trait Sandboxable {
    /// Whether it works with or without one.
    fn preference(&self) -> SandboxPreference {
        SandboxPreference::default()
    }

    /// Whether a denial may lead to a question for a wider run.
    fn escalates_on_failure(&self) -> bool {
        true
    }
}

/// The result of a run, as the orchestrator sees it.
pub trait Attempted: From<Refusal> + Send {
    /// The denials that made the run fail.
    fn violations(&self) -> &[Violation];

    /// Keeps the result of an earlier run that was denied.
    fn keep_first(&mut self, first: Self);

    /// The final record. Every end has one, also a successful one.
    fn ended(&self) -> AuditEvent;
}

/// The end of a request whose future was dropped.
pub(crate) const GIVEN_UP: &str = "the caller gave it up before it ended";

/// A tool.
#[async_trait]
pub trait ToolRuntime<Req>: Approvable<Req> + Sandboxable {
    /// The result.
    type Output: Attempted;

    /// Runs the request once with a grant.
    async fn attempt(&self, request: &Req, grant: &Grant, ctx: &ToolContext<'_>) -> Result<Self::Output, RunError>
    where
        Req: 'async_trait;

    /// Whether permissions could be enforced for this request here. Permissions that could not be granted are not
    /// asked for.
    fn is_enforceable(&self, _request: &Req, _permissions: &Permissions, _ctx: &ToolContext<'_>) -> bool {
        true
    }

    /// Why a request was abandoned, for the record.
    fn given_up(&self, _request: &Req) -> String {
        String::from(GIVEN_UP)
    }

    /// Called when no further run of this request follows.
    fn finished(&self, _request: &Req) {}
}
