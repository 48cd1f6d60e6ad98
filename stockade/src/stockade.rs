//! A session: one workspace, one policy, one approval memory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade_config::{Layer, PermissionProfiles, Settings};
use stockade_core::{
    ElicitationOutcome, Explanation, Orchestrator, PermissionsOutcome, PermissionsRequest, ToolCallOutcome,
    ToolCallRuntime, ToolCaller, ToolReview,
};
use stockade_protocol::{
    AbsPath, Argv, ElicitationApproval, NetworkPolicy, Outcome, Permissions, RawText, RequestId, ThreadId,
    ToolCallApproval, ToolCallRequest,
};

use crate::answers::Current;
use crate::assembly::{Assembled, Assembly};
use crate::fingerprint::Fingerprint;
use crate::profiles::Advisable;
use crate::registries::Registries;
use crate::{Builder, Command, Error};

/// Runs commands, file changes and tool calls of one session. Approvals "for this session" live as long as the value.
///
/// It is `Send` and `Sync`: requests may run concurrently.
pub struct Stockade {
    orchestrator: Orchestrator,
    approver: Arc<Current>,
    cwd: AbsPath,
    requests: AtomicU64,
    state: Mutex<State>,
}

/// The loaded state and its sources.
struct State {
    assembly: Assembly,
    settings: Arc<Settings>,
    workspace: Vec<AbsPath>,
    registries: Registries,
    profiles: PermissionProfiles,
    homes: Vec<AbsPath>,
    fingerprint: Fingerprint,
    notices: Vec<String>,
    /// Every notice so far: none is repeated.
    told: BTreeSet<String>,
}

impl Stockade {
    /// Starts a session: `Stockade::builder().workspace(dir).build()?`.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Starts a session. The notices for the user are in `notices` on failure, else in
    /// [`take_notices`](Self::take_notices).
    pub(crate) fn open(
        assembly: Assembly,
        name: Option<ThreadId>,
        answer_limit: Option<Duration>,
        notices: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let thread_id = match name {
            Some(name) => name,
            None => new_id()?,
        };
        let Assembled {
            settings,
            session,
            rules,
            approver,
            assessor,
            start,
            workspace,
            registries,
            profiles,
            homes,
            fingerprint,
        } = assembly.assemble(thread_id, notices)?;
        let is_open = session.permissions.network == NetworkPolicy::Full;
        let backend = assembly.backend(&settings)?;
        let is_assessed = assessor.is_some();
        let current = Arc::new(Current::new(approver, assessor));
        let mut orchestrator = Orchestrator::under(rules, session, backend, Arc::clone(&current) as _);
        if let Some(limit) = answer_limit {
            orchestrator = orchestrator.with_answer_limit(limit);
        }
        if is_assessed {
            orchestrator = orchestrator.with_risk_assessor(Arc::clone(&current) as _);
        }
        notices.extend(lowered(is_open, &orchestrator));
        let (sink, demand) = assembly.audit(&settings, notices)?;
        let notices = std::mem::take(notices);
        let told = notices.iter().cloned().collect();
        let settings = Arc::new(settings);
        Ok(Self {
            orchestrator: orchestrator.with_audit(sink, demand),
            approver: current,
            cwd: start,
            requests: AtomicU64::new(0),
            state: Mutex::new(State {
                assembly,
                settings,
                workspace,
                registries,
                profiles,
                homes,
                fingerprint,
                notices,
                told,
            }),
        })
    }

    /// Runs a command and captures its output. [`command`](Self::command) has more options.
    pub async fn run<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Result<Outcome, Error> {
        self.command(command).run().await
    }

    /// A command with options.
    pub fn command<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Command<'_> {
        let words = command.into_iter().map(Into::into);
        Command::new(self, Argv::from_os(words).map_err(Error::from))
    }

    /// Explains what would happen to a command, without running it.
    ///
    /// The verdict is this session's: without an approver the policy is `never`, and what would be asked about is forbidden.
    /// To judge for a program that asks, set the same [`ask`](crate::Builder::ask): `on-failure`, the default with an
    /// approver, asks nothing in advance, since the sandbox is what holds; `on-request` also asks about dangerous lines.
    pub fn explain<S: Into<OsString>>(&self, command: impl IntoIterator<Item = S>) -> Result<Explanation, Error> {
        self.command(command).explain()
    }

    /// Writes file changes on the host, if they are approved: all of them or none.
    #[cfg(feature = "patch")]
    pub async fn apply_patch(
        &self,
        changes: Vec<stockade_protocol::FileChange>,
    ) -> Result<stockade_core::PatchOutcome, Error> {
        self.refresh()?;
        let request = stockade_protocol::PatchRequest {
            id: self.next_id()?,
            thread_id: self.id(),
            changes,
            approved_by_policy: false,
            sandbox_warnings: Vec::new(),
        };
        Ok(self.orchestrator.patch(&request).await?)
    }

    /// Calls a tool through `caller`, if the call is approved. `requires_approval` is the tool's own demand; `None`
    /// leaves it to the session's policy.
    pub async fn call_tool(
        &self,
        caller: impl ToolCaller,
        call: ToolCallApproval,
        requires_approval: Option<bool>,
    ) -> Result<ToolCallOutcome, Error> {
        self.refresh()?;
        let request = self.tool_call(call, requires_approval)?;
        Ok(self.orchestrator.run_with(&ToolCallRuntime::new(caller), &request).await?)
    }

    /// Decides on a tool call that the caller makes itself.
    pub async fn review_tool_call(
        &self,
        call: ToolCallApproval,
        requires_approval: Option<bool>,
    ) -> Result<ToolReview, Error> {
        self.refresh()?;
        let request = self.tool_call(call, requires_approval)?;
        Ok(self.orchestrator.review_tool_call(&request).await?)
    }

    fn tool_call(&self, call: ToolCallApproval, requires_approval: Option<bool>) -> Result<ToolCallRequest, Error> {
        Ok(ToolCallRequest {
            id: self.next_id()?,
            thread_id: self.id(),
            remember: call.remember,
            call,
            requires_approval,
            approved_by_policy: false,
            sandbox_warnings: Vec::new(),
        })
    }

    /// Requests permissions in advance, beyond the session's. The outcome has the granted ones and their scope.
    pub async fn request_permissions(
        &self,
        permissions: Permissions,
        justification: Option<String>,
    ) -> Result<PermissionsOutcome, Error> {
        self.refresh()?;
        let request = PermissionsRequest { id: self.next_id()?, permissions, justification };
        Ok(self.orchestrator.request_permissions(&request).await?)
    }

    /// Passes an MCP server's question to the approver.
    pub async fn elicit(&self, question: &ElicitationApproval) -> Result<ElicitationOutcome, Error> {
        self.refresh()?;
        Ok(self.orchestrator.elicit(&self.next_id()?, question).await)
    }
}

/// Changes of a running session.
impl Stockade {
    /// Reloads settings, rules and trust if any of their files has changed. Every request does so first: a change
    /// counts from the next one on, and unreadable files refuse it. Approvals for the session are kept. The trail
    /// stays in place.
    ///
    /// If nothing has changed, this only reads the attributes of the files.
    pub fn refresh(&self) -> Result<(), Error> {
        let mut state = self.state();
        if state.fingerprint.holds() {
            return Ok(());
        }
        let assembly = state.assembly.clone();
        self.renew(&mut state, assembly)
    }

    /// Changes the overrides of the settings, from the next request on. Approvals for the session are kept. On an
    /// error nothing changes.
    pub fn update(&self, change: impl FnOnce(&mut Layer)) -> Result<(), Error> {
        let mut state = self.state();
        let mut assembly = state.assembly.clone();
        change(&mut assembly.overrides);
        self.renew(&mut state, assembly)
    }

    /// Ends the kept sandboxes, and waits until nothing of them is left. Running commands continue, and the next one
    /// gets a new sandbox.
    pub fn end_sandboxes(&self) -> Result<(), Error> {
        let backend = {
            let state = self.state();
            state.assembly.backend(&state.settings)?
        };
        self.orchestrator.set_backend(backend);
        Ok(())
    }

    fn renew(&self, state: &mut State, assembly: Assembly) -> Result<(), Error> {
        let mut notices = Vec::new();
        let assembled = assembly.assemble(self.id(), &mut notices)?;
        let is_open = assembled.session.permissions.network == NetworkPolicy::Full;
        let engine = |settings: &Settings| (settings.engine, settings.observe, settings.accept_losses.clone());
        let backend = match engine(&state.settings) == engine(&assembled.settings) {
            true => None,
            false => Some(assembly.backend(&assembled.settings)?),
        };
        self.orchestrator.renew(assembled.session, assembled.rules)?;
        if let Some(backend) = backend {
            self.orchestrator.set_backend(backend);
        }
        self.approver.replace(assembled.approver, assembled.assessor);
        notices.extend(lowered(is_open, &self.orchestrator));
        state.assembly = assembly;
        state.settings = Arc::new(assembled.settings);
        state.workspace = assembled.workspace;
        state.registries = assembled.registries;
        state.profiles = assembled.profiles;
        state.homes = assembled.homes;
        state.fingerprint = assembled.fingerprint;
        for notice in notices {
            if state.told.insert(notice.clone()) {
                state.notices.push(notice);
            }
        }
        Ok(())
    }
}

/// The current state.
impl Stockade {
    /// The underlying orchestrator, for everything without a method here.
    pub fn orchestrator(&self) -> &Orchestrator {
        &self.orchestrator
    }

    /// The current settings, with the origin of each value.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.state().settings)
    }

    /// The session's id in questions and in the trail.
    pub fn id(&self) -> ThreadId {
        self.orchestrator.session().thread_id.clone()
    }

    /// The commands' working directory.
    pub fn cwd(&self) -> &AbsPath {
        &self.cwd
    }

    /// The workspace, as far as this user may write it.
    pub fn workspace(&self) -> Vec<AbsPath> {
        self.state().workspace.clone()
    }

    /// The directory of the trail; `None` without a state directory.
    pub fn trail_directory(&self) -> Option<PathBuf> {
        let state = self.state();
        state.assembly.trail_directory(&state.settings)
    }

    /// The notices for the user since the last call, such as ignored settings.
    pub fn take_notices(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notices)
    }

    /// Notices for the user about one command, such as a registry whose settings it can't read.
    pub fn notices_for(&self, command: &Argv) -> Vec<String> {
        self.state().registries.notices_for(command)
    }

    /// The permission profiles that this command lacks, for advice after a denial.
    pub fn advisable_profiles(&self, command: &Argv) -> Advisable {
        let (session, state) = (self.orchestrator.session(), self.state());
        Advisable::new(&state.profiles, &state.settings, &session, &state.homes, command)
    }

    /// The environment that a command of this session inherits from a caller with this environment, in this directory.
    pub(crate) fn environment_of(
        &self,
        mut caller: BTreeMap<RawText, RawText>,
        directory: &AbsPath,
    ) -> Result<BTreeMap<RawText, RawText>, Error> {
        let state = self.state();
        state.assembly.check_caller(&caller, directory, &state.settings)?;
        state.registries.hand_on(&mut caller);
        Ok(caller)
    }

    /// An id for the next request, unique in this session.
    pub fn next_id(&self) -> Result<RequestId, Error> {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{}.{number}", self.id()).parse()?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Stockade {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stockade").field("session", &self.orchestrator.session()).finish_non_exhaustive()
    }
}

/// The notice if rules restrict a network that was open.
fn lowered(was_open: bool, orchestrator: &Orchestrator) -> Option<String> {
    let is_lowered = was_open && orchestrator.session().permissions.network != NetworkPolicy::Full;
    is_lowered.then(|| {
        String::from(
            "network lowered to `hosts`: `full` can't enforce per-host denials, and a network rule denies a host",
        )
    })
}

/// A unique session id.
fn new_id() -> Result<ThreadId, Error> {
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (time, process) = (now.as_millis(), std::process::id());
    let name = match OPENED.fetch_add(1, Ordering::Relaxed) {
        0 => format!("run-{time}-{process}"),
        more => format!("run-{time}-{process}-{more}"),
    };
    Ok(name.parse()?)
}
