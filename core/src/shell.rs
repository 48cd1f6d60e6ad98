//! The tool that runs commands.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};
use stockade_protocol::{
    AbsPath, Access, ApprovalSubject, Argv, AuditEvent, CommandApproval, DenyingRule, EnvironmentPolicy,
    EscalationExecution, ExecExpiration, ExecRequest, Execution, Operation, Outcome, Permissions, RawText, Refusal,
    RefusedBy, RequestId, Violation, ViolationTarget,
};
use stockade_sandboxing::{
    Backend as _, Bare, CommandSpec, Deciders, Plan, ProcessSettings, SpawnError, Starts, Unenforceable,
    make_private_directory,
};

use crate::Cancellation;
use crate::approvals::{ApprovalKey, CommandKey, Confinement, Grant, written};
use crate::command_requirement::command_requirement;
use crate::connections::{Guard, with_named_rules};
use crate::evidence::{self, Ending, Found};
use crate::exec::{self, Clock, Ended, Finished, Input, Setting, StreamName, Streaming};
use crate::go_stamps;
use crate::proxied::{ProxyEndpoint, proxied};
use crate::redact::is_token;
use crate::run::RunError;
use crate::runtime::{
    Approvable, FirstAttempt, GIVEN_UP, Requirement, SandboxPreference, Sandboxable, Shown, ToolContext, ToolRuntime,
};
use crate::session::{Sandboxing, Session};
use crate::starts::{ProgramStarts, StartsSeen, are_judged};
use crate::verdict::Verdict;
use crate::writable_program::planted_program;
use crate::writes::Writes;

/// Runs the command of an [`ExecRequest`].
#[derive(Clone, Debug, Default)]
pub struct ShellRuntime {
    /// The sources and targets of the command's streams.
    pub streaming: Streaming,
    /// Ends the command from outside.
    pub cancellation: Cancellation,
    /// The command's clock, for callers that have to pause it.
    pub clock: Clock,
    /// Whether it needs a sandbox.
    pub preference: SandboxPreference,
    /// The caller's attributes, if that is another process.
    pub caller: Caller,
}

/// Attributes of a caller in another process, which replace those of this process and of the session.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The initial environment, before the session's policy is applied.
    pub environment: Option<BTreeMap<RawText, RawText>>,
    /// Its umask and process limits.
    pub process: ProcessSettings,
    /// The command's upper bound: it restricts the session's permissions, and no approval exceeds it.
    pub at_most: Option<Permissions>,
}

/// Variables that change between terminals and lines, and affect no file access. They don't matter for an approval for
/// the session.
const PASSING_VARIABLES: &[&str] = &[
    "COLUMNS",
    "GPG_TTY",
    "LINES",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "SSH_TTY",
    "TERM_SESSION_ID",
    "TMUX_PANE",
    "WINDOWID",
    "_",
];

impl Caller {
    /// The environment in an approval's key, as a hash since it may contain secrets.
    fn environment_key(&self, session: &Session) -> Option<String> {
        let given = self.environment.as_ref()?;
        let mut lasting = session.permissions.environment.apply(given.clone());
        lasting.retain(|name, _| !PASSING_VARIABLES.iter().any(|passing| name.as_bytes() == passing.as_bytes()));
        // Names and values as pairs: not every name is a valid JSON key.
        let pairs: Vec<(&RawText, &RawText)> = lasting.iter().collect();
        Some(Sha256::digest(written(&pairs)).iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl Approvable<ExecRequest> for ShellRuntime {
    fn id<'a>(&self, request: &'a ExecRequest) -> &'a RequestId {
        &request.id
    }

    fn requested(&self, request: &ExecRequest) -> Option<AuditEvent> {
        Some(AuditEvent::Requested {
            command: request.command.clone(),
            cwd: request.cwd.clone(),
            escalation: request.escalation.clone(),
            whole: None,
        })
    }

    fn keys(&self, request: &ExecRequest, session: &Session) -> Vec<ApprovalKey> {
        let key = CommandKey {
            environment: self.caller.environment_key(session),
            ..CommandKey::new(&request.command, &request.cwd, &session.permissions, &request.escalation)
        };
        vec![ApprovalKey::Command(Box::new(key))]
    }

    fn planted_program(&self, request: &ExecRequest, session: &Session, verdict: Option<&Verdict>) -> Option<PathBuf> {
        if session.sandboxing() != Sandboxing::On {
            return None;
        }
        planted_program(session, &request.cwd, &verdict?.parsed)
    }

    fn subject(&self, request: &ExecRequest, _: &ToolContext<'_>, shown: &Shown<'_>) -> ApprovalSubject {
        ApprovalSubject::Command(Box::new(CommandApproval {
            command: request.command.clone(),
            cwd: request.cwd.clone(),
            parsed: shown.verdict.map(|verdict| verdict.parsed.clone()).unwrap_or_default(),
            escalation: shown.execution.clone(),
            justification: request.justification.clone(),
            violations: shown.violations.to_vec(),
            proposed_execpolicy_amendment: shown.amendment.cloned(),
            started_by: Vec::new(),
        }))
    }

    fn environment(&self, _: &ExecRequest) -> Option<&BTreeMap<RawText, RawText>> {
        self.caller.environment.as_ref()
    }

    fn command<'a>(&self, request: &'a ExecRequest) -> Option<(&'a Argv, &'a AbsPath)> {
        Some((&request.command, &request.cwd))
    }

    fn at_most(&self, _: &ExecRequest) -> Option<&Permissions> {
        self.caller.at_most.as_ref()
    }

    fn preapproved<'a>(&self, request: &'a ExecRequest) -> Option<&'a [String]> {
        request.approved_by_policy.then_some(request.sandbox_warnings.as_slice())
    }

    fn requirement(
        &self,
        request: &ExecRequest,
        ctx: &ToolContext<'_>,
        asked_for: &EscalationExecution,
    ) -> Option<Requirement> {
        let execution = self.escalation(request);
        Some(command_requirement(ctx, (&request.command, &request.cwd), asked_for, &execution))
    }

    fn escalation(&self, request: &ExecRequest) -> EscalationExecution {
        // A command that can't run in a sandbox always requests to leave it.
        match self.preference {
            SandboxPreference::Forbid => EscalationExecution::Unsandboxed,
            SandboxPreference::Auto | SandboxPreference::Require => request.escalation.clone(),
        }
    }

    fn first_attempt(&self, _: &ExecRequest) -> FirstAttempt {
        match self.preference {
            SandboxPreference::Auto | SandboxPreference::Forbid => FirstAttempt::AsRulesSay,
            SandboxPreference::Require => FirstAttempt::Sandboxed,
        }
    }
}

impl Sandboxable for ShellRuntime {
    fn preference(&self) -> SandboxPreference {
        self.preference
    }
}

#[async_trait]
impl ToolRuntime<ExecRequest> for ShellRuntime {
    type Output = Outcome;

    async fn attempt(&self, request: &ExecRequest, grant: &Grant, ctx: &ToolContext<'_>) -> Result<Outcome, RunError> {
        let held = held_permissions(grant.permissions(), grant.confinement(), ctx);
        let (mut finished, mut seen, mut starts) = self.guarded(request, grant, &held, ctx).await?;
        // An engine that sees no connections holds a network that is off all the same. Nothing has run.
        if matches!(&finished, Err(SpawnError::Unenforceable(_))) && held.network != grant.permissions().network {
            (finished, seen, starts) = self.guarded(request, grant, grant.permissions(), ctx).await?;
        }
        let StartsSeen { refused, programs } = starts;
        let finished = match finished {
            Ok(finished) => finished,
            Err(SpawnError::Unenforceable(refused)) => {
                return Ok(Outcome::Refused(Refusal { by: RefusedBy::Sandbox, reason: refused.to_string() }));
            }
            // Its own program was refused, such as the interpreter of a script.
            Err(other) => match refused.first().and_then(|refused| refused.rule.as_ref()) {
                Some(DenyingRule::Command { reason }) => {
                    return Ok(Outcome::Refused(Refusal { by: RefusedBy::Rule, reason: reason.clone() }));
                }
                Some(_) | None => return Err(other.into()),
            },
        };
        let spoken = match self.streaming(request).messages() {
            StreamName::Stdout => &finished.stdout,
            StreamName::Stderr => &finished.stderr,
        };
        let text = [spoken.head.as_bytes(), spoken.tail.as_bytes()].concat();
        let found = match grant.confinement() {
            Confinement::Sandbox => {
                let permissions = grant.permissions();
                let command = request.command.words();
                let (ended, cwd) = (finished.ended, &request.cwd);
                let (environment, seen) = (&ctx.session.environment, finished.seen.as_ref());
                evidence::violations(&Ending { ended, text: &text, command, environment, cwd, permissions, seen })
            }
            Confinement::None => Found::default(),
        };
        // Observed acts need no guess. Unix sockets are not observed if none is granted.
        let is_unseen = |found: &Violation| {
            found.operation != Operation::Connect || matches!(found.target, ViolationTarget::UnixSocket(_))
        };
        let Found { violations: found, said } = found;
        let found = found.into_iter().filter(|found| seen.is_none() || is_unseen(found));
        let violations: Vec<Violation> = seen.iter().flatten().cloned().chain(refused).chain(found).collect();
        let matters =
            |found: &Violation| evidence::matters(found, finished.seen.as_ref(), &said, request.command.words());
        let denied = violations.iter().any(matters) && finished.ended != Ended::Exited(0);
        let execution = Execution {
            stdout: finished.stdout,
            stderr: finished.stderr,
            duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            enforcement: finished.enforcement,
            violations,
            programs,
            first_attempt: None,
        };
        Ok(match finished.ended {
            Ended::TimedOut => Outcome::TimedOut { execution },
            Ended::Cancelled => match self.cancellation.ended_by() {
                Some(signal) => Outcome::Signaled { signal: signal.into(), execution },
                None => Outcome::Cancelled { reason: self.cancellation.reason(), execution },
            },
            Ended::Exited(exit_code) if denied => {
                Outcome::Denied { exit_code: Some(exit_code), signal: None, execution }
            }
            Ended::Signaled(signal) if denied => Outcome::Denied { exit_code: None, signal: Some(signal), execution },
            Ended::Exited(exit_code) => Outcome::Exited { exit_code, execution },
            Ended::Signaled(signal) => Outcome::Signaled { signal, execution },
        })
    }

    fn is_enforceable(&self, request: &ExecRequest, permissions: &Permissions, ctx: &ToolContext<'_>) -> bool {
        self.rehearse(request, permissions, Confinement::Sandbox, ctx).is_ok()
    }

    fn given_up(&self, _: &ExecRequest) -> String {
        match self.cancellation.ended_by() {
            Some(signal) => format!("ended by signal {signal} while no command ran"),
            None => String::from(GIVEN_UP),
        }
    }

    fn finished(&self, _: &ExecRequest) {
        if let Input::Pipe(pipe) = &self.streaming.stdin {
            pipe.end();
        }
    }
}

impl ShellRuntime {
    /// The streams; a request can replace them by a terminal.
    fn streaming(&self, request: &ExecRequest) -> Streaming {
        let streaming = self.streaming.clone();
        match request.terminal {
            Some(size) => streaming.on_terminal(size),
            None => streaming,
        }
    }

    /// Runs it with these permissions, and tells which connections were denied, if any were decided on, and which
    /// starts of programs a rule spoke of.
    async fn guarded(
        &self,
        request: &ExecRequest,
        grant: &Grant,
        held: &Permissions,
        ctx: &ToolContext<'_>,
    ) -> Result<(Result<Finished, SpawnError>, Option<Vec<Violation>>, StartsSeen), RunError> {
        let guard = match &ctx.connections {
            Some(connections) => {
                connections.guard((held, grant.confinement()), ctx, &self.clock).await.map_err(no_proxy)?
            }
            None => None,
        };
        let mut starts = StartsSeen::default();
        let finished = self.execute(request, grant, held, ctx, (guard.as_ref(), &mut starts)).await;
        // Whatever came of it, nothing goes through a proxy any more.
        let seen = match guard {
            Some(guard) => Some(guard.end(held).await),
            None => None,
        };
        Ok((finished, seen, starts))
    }

    /// Compiles the plan and runs it to its end.
    async fn execute(
        &self,
        request: &ExecRequest,
        grant: &Grant,
        held: &Permissions,
        ctx: &ToolContext<'_>,
        (guard, seen_starts): (Option<&Guard>, &mut StartsSeen),
    ) -> Result<Finished, SpawnError> {
        let endpoint = guard.and_then(Guard::proxy);
        make_directories(ctx.session, held)?;
        let plan = self.compile(request, held, grant.confinement(), ctx, endpoint.as_ref())?;
        for warning in plan.warnings() {
            tracing::warn!(%warning, request = %request.id);
        }
        let writes = ctx.connections.as_ref();
        let writes = writes
            .and_then(|connections| Writes::new(connections, ctx.session, grant, plan.permissions(), &self.clock))
            .map(|writes| writes.of(&request.command, &request.cwd));
        let starts = ctx.connections.as_ref().and_then(|connections| {
            let run = (&request.command, &request.cwd, plan.permissions());
            ProgramStarts::new(connections, ctx.session, grant, run, (&self.caller.process, &self.clock))
        });
        let setting = Setting {
            streaming: self.streaming(request),
            output: ctx.session.output,
            limit: limit(request, ctx.session),
            clock: self.clock.clone(),
            cancellation: self.cancellation.clone(),
            deciders: Deciders {
                connections: guard.and_then(Guard::gatekeeper),
                writes: writes.as_ref().map(Writes::keeper),
                starts: starts.as_ref().map(ProgramStarts::keeper),
            },
        };
        let answers = ctx.connections.as_ref().map(|connections| Arc::clone(&connections.answers));
        let finished = {
            let interrupting = self.cancellation.interrupts(answers);
            tokio::select! {
                finished = exec::spawn(plan, grant, setting) => finished,
                never = interrupting => match never {},
            }
        };
        if let Some(writes) = writes {
            writes.end().await;
        }
        if let Some(starts) = starts {
            *seen_starts = starts.end().await;
        }
        finished
    }

    /// The plan of a run, without running it.
    pub(crate) fn rehearse(
        &self,
        request: &ExecRequest,
        permissions: &Permissions,
        confinement: Confinement,
        ctx: &ToolContext<'_>,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        let endpoint = proxied(ctx.sandbox, permissions).and_then(|_| ProxyEndpoint::none());
        self.compile(request, permissions, confinement, ctx, endpoint.as_ref())
    }

    fn compile(
        &self,
        request: &ExecRequest,
        permissions: &Permissions,
        confinement: Confinement,
        ctx: &ToolContext<'_>,
        endpoint: Option<&ProxyEndpoint>,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        let inherited = ctx.session.environment.clone();
        let starts =
            if are_judged(ctx.session, &ctx.rules.policy(), confinement) { Starts::Judged } else { Starts::Unseen };
        let mut environment = variables(&permissions.environment, inherited);
        if confinement == Confinement::Sandbox {
            go_stamps::turn_off(&mut environment, permissions, &request.cwd);
        }
        let command = CommandSpec {
            argv: request.command.clone(),
            cwd: request.cwd.clone(),
            environment,
            process: ProcessSettings { starts, ..self.caller.process.clone() },
        };
        compile(command, permissions, confinement, ctx, endpoint)
    }
}

/// The plan of a command with these permissions, behind a proxy if hosts are reached through one.
pub(crate) fn compile(
    command: CommandSpec,
    permissions: &Permissions,
    confinement: Confinement,
    ctx: &ToolContext<'_>,
    endpoint: Option<&ProxyEndpoint>,
) -> Result<Box<dyn Plan>, Unenforceable> {
    match (confinement, endpoint.zip(proxied(ctx.sandbox, permissions))) {
        (Confinement::None, _) => Bare.compile(&command, permissions),
        (Confinement::Sandbox, Some((endpoint, sandbox))) => endpoint.compile(sandbox, command, permissions),
        (Confinement::Sandbox, None) => ctx.sandbox.compile(&command, &with_named_rules(permissions, ctx)),
    }
}

/// The variables of a command. One whose value looks like a token is not inherited either, unless it is named.
pub(crate) fn variables(
    policy: &EnvironmentPolicy,
    inherited: BTreeMap<RawText, RawText>,
) -> BTreeMap<RawText, RawText> {
    let mut variables = policy.apply(inherited);
    let is_named = |name: &RawText| {
        let name = name.as_str().unwrap_or_default();
        policy.set.keys().any(|set| set.as_str() == name) || policy.include_only.iter().any(|only| only.matches(name))
    };
    if !policy.ignore_default_excludes {
        variables.retain(|name, value| is_named(name) || !is_token(value));
    }
    variables
}

/// Creates the granted missing directories of profiles: only existing ones can be made writable.
pub(crate) fn make_directories(session: &Session, permissions: &Permissions) -> Result<(), SpawnError> {
    let writable = |path: &&AbsPath| permissions.access(path) == Access::Write;
    for path in session.made_on_use.iter().filter(writable) {
        make_private_directory(path)
            .map_err(|source| SpawnError::Setup { step: format!("make the directory `{path}`"), source })?;
    }
    Ok(())
}

/// The enforced permissions of a run: the grant, with questions about hosts if the network is off by default. Not if
/// hosts are reached through a proxy: that needs a proxy for each run, and programs that use it.
pub(crate) fn held_permissions<'a>(
    permissions: &'a Permissions,
    confinement: Confinement,
    ctx: &ToolContext<'_>,
) -> Cow<'a, Permissions> {
    let network = ctx.session.held_network(&permissions.network);
    if network == permissions.network || confinement == Confinement::None || ctx.sandbox.proxied().is_some() {
        return Cow::Borrowed(permissions);
    }
    Cow::Owned(Permissions { network, ..permissions.clone() })
}

pub(crate) fn no_proxy(source: std::io::Error) -> SpawnError {
    SpawnError::Setup { step: String::from("start the proxy of the command"), source }
}

/// The timeout of the command. One that is ended by name has none.
fn limit(request: &ExecRequest, session: &Session) -> Option<Duration> {
    match &request.expiration {
        ExecExpiration::DefaultTimeout => session.default_timeout,
        ExecExpiration::Timeout { milliseconds } => Some(Duration::from_millis(milliseconds.get())),
        ExecExpiration::Cancellation { .. } => None,
    }
}
