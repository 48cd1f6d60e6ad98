//! The tool that changes files on the host, outside of any sandbox.
//!
//! A patch is prepared before any question: directories are opened, files read, new contents computed. Exactly the
//! approved changes are then written, even if files were swapped in between.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_apply_patch::{PatchError, Prepared, Roots, prepare};
use stockade_protocol::{
    AbsPath, Access, ApprovalSubject, AskForApproval, AuditEvent, DecisionSource, EscalationExecution,
    ExecApprovalRequirement, FileChange, FileRule, PatchApproval, PatchRequest, Refusal, RefusedBy, RequestId,
    Violation,
};
use stockade_sandboxing::{Backend, leads_to, placeholder_at_or_above};

use crate::approvals::{ApprovalKey, Grant};
use crate::enforced::Enforced;
use crate::judgement::Purpose;
use crate::run::{Orchestrator, RunError};
use crate::runtime::{
    Approvable, Attempted, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
use crate::session::Session;

/// Asks about file changes and writes them.
#[derive(Debug)]
pub struct PatchRuntime {
    prepared: Mutex<Option<Prepared>>,
    /// Paths that the session does not grant, resolved.
    outside: Vec<AbsPath>,
    /// A path that may not be read, resolved. Then no file was read.
    unreadable: Option<AbsPath>,
    enforced: Enforced,
}

/// What came of a patch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PatchOutcome {
    /// All of it was written.
    Applied {
        /// The files that were written or removed, where they really are.
        paths: Vec<AbsPath>,
    },
    /// Nothing was written.
    Refused(Refusal),
}

/// What would happen to a patch.
#[derive(Clone, Debug, Serialize)]
pub struct PatchExplanation {
    /// What happens before it is written.
    pub requirement: ExecApprovalRequirement,
    /// What says so.
    pub source: DecisionSource,
    /// The changes, as the question would show them.
    pub changes: Vec<FileChange>,
    /// Files that are outside of what may be written, where they really are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<AbsPath>,
}

impl Orchestrator {
    /// Explains what would happen to a patch, and whether it fits the files. Nothing is written or recorded.
    pub fn explain_patch(&self, request: &PatchRequest) -> Result<PatchExplanation, RunError> {
        let in_force = self.in_force();
        let runtime = PatchRuntime::prepare(request, &in_force.session)?;
        let judgement = self.approvals.judge(&runtime, request, &self.context(&in_force), Purpose::Explain);
        let (requirement, source) = (judgement.requirement(), judgement.source);
        Ok(PatchExplanation { requirement, source, changes: request.changes.clone(), outside: runtime.outside })
    }

    /// Explains what would happen to a patch of these files by the policy alone, for a program that writes them
    /// itself. Neither the contents nor the changes are checked.
    pub fn explain_writing(&self, request: &PatchRequest) -> Result<PatchExplanation, RunError> {
        let in_force = self.in_force();
        let enforced = Enforced::of(&in_force.session).map_err(failed)?;
        let runtime = PatchRuntime::unread(request, enforced);
        let judgement = self.approvals.judge(&runtime, request, &self.context(&in_force), Purpose::Explain);
        let (requirement, source) = (judgement.requirement(), judgement.source);
        Ok(PatchExplanation { requirement, source, changes: request.changes.clone(), outside: runtime.outside })
    }

    /// Changes files: approval if needed, then all of the changes or none.
    pub async fn patch(&self, request: &PatchRequest) -> Result<PatchOutcome, RunError> {
        self.check_session(&request.thread_id)?;
        // Prepared and judged under one policy, even if it is changed meanwhile.
        let in_force = self.in_force();
        let ready = remove_placeholders(request, &*in_force.sandbox);
        match ready.and_then(|()| PatchRuntime::prepare(request, &in_force.session)) {
            Ok(runtime) => self.run_under(&in_force, &runtime, request).await,
            // An unreadable patch can't be asked about, but the request is recorded.
            Err(error) => self.failed_before_asking::<PatchOutcome>(&request.id, requested(request), error),
        }
    }
}

fn requested(request: &PatchRequest) -> AuditEvent {
    AuditEvent::PatchRequested { paths: request.changes.iter().flat_map(|change| change.paths()).cloned().collect() }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> RunError {
    RunError::Patch(Box::new(error))
}

/// A path that a running command needs to be absent.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is kept absent for a command that runs in this workspace: apply the patch again after its end")]
struct KeptAbsent(AbsPath);

/// Removes the placeholders of idle sandboxes at or above the changed files. One of a running command stays: the
/// command's sandbox would lose the mount that protects the name.
fn remove_placeholders(request: &PatchRequest, sandbox: &dyn Backend) -> Result<(), RunError> {
    let held = || request.changes.iter().flat_map(|change| change.paths()).find_map(placeholder_at_or_above);
    if held().is_none() {
        return Ok(());
    }
    sandbox.end_idle_sandboxes();
    held().map_or(Ok(()), |path| Err(failed(KeptAbsent(path))))
}

impl PatchRuntime {
    /// Reads and checks everything, and writes nothing. If a path may not be read, no file is read: the answer would
    /// reveal its content.
    pub fn prepare(request: &PatchRequest, session: &Session) -> Result<Self, RunError> {
        let enforced = Enforced::of(session).map_err(failed)?;
        let Self { outside: refused, unreadable, enforced, .. } = match Self::unread(request, enforced) {
            unread if unread.unreadable.is_some() => return Ok(unread),
            unread => unread,
        };
        let given: Vec<&AbsPath> = request.changes.iter().flat_map(|change| change.paths()).collect();
        let roots = roots(&given, &enforced).map_err(failed)?;
        let outside: Mutex<BTreeSet<AbsPath>> = Mutex::new(refused.into_iter().collect());
        let note = |path: &AbsPath| {
            if !enforced.may_write(path) {
                outside.lock().unwrap_or_else(PoisonError::into_inner).insert(path.clone());
            }
            // A link may have been planted since.
            enforced.may_read(path)
        };
        let prepared = prepare(&request.changes, &roots, note).map_err(failed)?;
        let outside = outside.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect();
        Ok(Self { prepared: Mutex::new(Some(prepared)), outside, unreadable, enforced })
    }

    /// A patch judged by its paths and their targets alone.
    fn unread(request: &PatchRequest, enforced: Enforced) -> Self {
        let given: Vec<&AbsPath> = request.changes.iter().flat_map(|change| change.paths()).collect();
        let unreadable = given.iter().find(|path| !enforced.may_read(path)).map(|path| leads_to(path));
        let refused: BTreeSet<AbsPath> =
            given.iter().filter(|path| !enforced.may_write(path)).map(|path| leads_to(path)).collect();
        Self { prepared: Mutex::new(None), outside: refused.into_iter().collect(), unreadable, enforced }
    }
}

/// The roots of the patch. A path outside is approved by itself: its directory is opened for it alone.
fn roots(given: &[&AbsPath], enforced: &Enforced) -> Result<Roots, PatchError> {
    // By its name alone: a link below a granted directory is never followed.
    let above = given.iter().filter(|path| enforced.access(path) != Access::Write);
    let above = above.filter_map(|path| nearest_directory(path));
    let roots: Vec<AbsPath> = enforced.writable_roots().filter(is_directory).chain(above).collect();
    Roots::open(&roots)
}

fn is_directory(path: &AbsPath) -> bool {
    path.to_host_path().is_some_and(|path| path.is_dir())
}

fn nearest_directory(path: &AbsPath) -> Option<AbsPath> {
    path.ancestors().skip(1).find(is_directory)
}

impl From<Refusal> for PatchOutcome {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Attempted for PatchOutcome {
    fn violations(&self) -> &[Violation] {
        &[]
    }

    fn keep_first(&mut self, _: Self) {}

    fn ended(&self) -> AuditEvent {
        match self {
            Self::Applied { paths } => AuditEvent::Patched { paths: paths.clone() },
            Self::Refused(refusal) => AuditEvent::Refused(refusal.clone()),
        }
    }
}

impl Approvable<PatchRequest> for PatchRuntime {
    fn id<'a>(&self, request: &'a PatchRequest) -> &'a RequestId {
        &request.id
    }

    fn requested(&self, request: &PatchRequest) -> Option<AuditEvent> {
        Some(requested(request))
    }

    fn keys(&self, request: &PatchRequest, _: &Session) -> Vec<ApprovalKey> {
        request.changes.iter().flat_map(|change| change.paths()).cloned().map(ApprovalKey::File).collect()
    }

    fn subject(&self, request: &PatchRequest, _: &ToolContext<'_>, _: &Shown<'_>) -> ApprovalSubject {
        ApprovalSubject::Patch(PatchApproval { changes: request.changes.clone(), grant_root: None })
    }

    fn preapproved<'a>(&self, request: &'a PatchRequest) -> Option<&'a [String]> {
        request.approved_by_policy.then_some(request.sandbox_warnings.as_slice())
    }

    fn requirement(&self, _: &PatchRequest, ctx: &ToolContext<'_>, _: &EscalationExecution) -> Option<Requirement> {
        Some(self.judge(ctx.session))
    }
}

impl PatchRuntime {
    fn judge(&self, session: &Session) -> Requirement {
        let forbidden = |reason: String, rule: &FileRule| {
            let source = DecisionSource::Rule(rule.target.to_string());
            Requirement::new(ExecApprovalRequirement::Forbidden { reason }, source)
        };
        let own = self.outside.iter().find_map(|path| Some((path, self.enforced.own_file(path)?)));
        if let Some((path, rule)) = own {
            let reason = format!("`{path}` would be written, but `{}` holds Stockade's own files", rule.target);
            return forbidden(reason, rule);
        }
        let deciding = |path| self.enforced.deciding(path);
        let denial = self.outside.iter().find_map(|path| Some((path, deciding(path).filter(|r| r.is_hard_denial())?)));
        if let Some((path, rule)) = denial {
            let reason =
                format!("`{path}` would be written, but `{}` is denied, and no approval lifts that", rule.target);
            return forbidden(reason, rule);
        }
        if let Some(path) = &self.unreadable {
            let reason = format!("`{path}` may not be read here, and no patch changes what may not be read");
            let source = deciding(path)
                .map_or(DecisionSource::ApprovalPolicy, |rule| DecisionSource::Rule(rule.target.to_string()));
            return Requirement::new(ExecApprovalRequirement::Forbidden { reason }, source);
        }
        let requirement = requirement(session.ask, self.outside.first());
        Requirement::new(requirement, DecisionSource::ApprovalPolicy)
    }
}

/// Inside the writable roots a patch is like a command that writes there; outside it is like a command that requests
/// more permissions.
fn requirement(ask: AskForApproval, outside: Option<&AbsPath>) -> ExecApprovalRequirement {
    let ask_first = |reason| ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment: None };
    let Some(path) = outside else {
        return match ask {
            AskForApproval::Untrusted => ask_first(None),
            AskForApproval::OnFailure
            | AskForApproval::OnRequest
            | AskForApproval::Reject(_)
            | AskForApproval::Never => {
                ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None }
            }
        };
    };
    let reason = format!("`{path}` is outside of what may be written");
    match ask {
        AskForApproval::Never => ExecApprovalRequirement::Forbidden {
            reason: format!("the approval policy `never` asks no questions: {reason}"),
        },
        AskForApproval::Reject(reject) if reject.rejects_sandbox_approval() => ExecApprovalRequirement::Forbidden {
            reason: format!("approval policy rejected sandbox approval prompt: {reason}"),
        },
        AskForApproval::Untrusted
        | AskForApproval::OnFailure
        | AskForApproval::OnRequest
        | AskForApproval::Reject(_) => ask_first(Some(reason)),
    }
}

impl Sandboxable for PatchRuntime {
    fn preference(&self) -> SandboxPreference {
        SandboxPreference::Forbid
    }

    fn escalates_on_failure(&self) -> bool {
        false
    }
}

#[async_trait]
impl ToolRuntime<PatchRequest> for PatchRuntime {
    type Output = PatchOutcome;

    async fn attempt(
        &self,
        request: &PatchRequest,
        _: &Grant,
        ctx: &ToolContext<'_>,
    ) -> Result<PatchOutcome, RunError> {
        if ctx.session.maximum.is_some() && !self.outside.is_empty() {
            let reason = String::from("the administrator's maximum does not allow to write there");
            return Ok(PatchOutcome::Refused(Refusal { by: RefusedBy::Administrator, reason }));
        }
        // A command may have run while the question was open.
        remove_placeholders(request, ctx.sandbox)?;
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let prepared = prepared.ok_or_else(|| RunError::Patch("the patch was applied already".into()))?;
        let applied = prepared.apply().map_err(failed)?;
        for leftover in applied.leftovers {
            tracing::warn!(path = %leftover, "an old file could not be removed");
        }
        Ok(PatchOutcome::Applied { paths: applied.paths })
    }
}
