//! The run of one program elsewhere than the command that starts it: from the copy of its start, with the grant of a
//! rule, and with deciders of its own.

use std::fmt;
#[cfg(unix)]
use std::os::fd::BorrowedFd as BorrowedStream;
#[cfg(windows)]
use std::os::windows::io::BorrowedHandle as BorrowedStream;
use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{
    Argv, Decision, DecisionSource, Enforcement, EscalationExecution, Permissions, RawText, Umask, Violation,
};
use stockade_sandboxing::{
    CommandSpec, Deciders, DirectoryIdentity, ElsewhereStart, Observations, ProcessSettings, ProgramStart, Running,
    SpawnError, StartCaller, StartCopy, StartVerdict, Starts, Stdio, WaitStatus,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::judge::met;
use super::record::Decided;
use super::rule_grant::RuleGrant;
use super::settle::is_cut;
use super::trusted::Variables;
use super::{Keeper, ProgramStarts, Shared, Shown, are_judged, judge, trusted};
use crate::approvals::{Confinement, Grant};
use crate::connections::Guard;
use crate::evidence::{Seen, seen_violations};
use crate::go_stamps;
use crate::runtime::ToolContext;
use crate::shell::{compile, held_permissions, make_directories, no_proxy, variables};
use crate::writes::Writes;

/// How deep programs that run elsewhere may start others elsewhere.
const DEEPEST: usize = 4;
/// How long a run waits for programs that it has elsewhere, after its own end. Their stubs are gone by then.
const LONGEST_END: Duration = Duration::from_secs(20);
const NOT_PROMISED: &str = "it could not be given when the question was asked";

impl Keeper {
    /// What becomes of a start that no rule restricts, or that was approved. `promised` is what the question said that a yes
    /// gives: meanwhile the caller may have changed what that depends on.
    pub(super) fn elsewhere(
        &self,
        start: ProgramStart,
        caller: StartCaller,
        promised: Option<&EscalationExecution>,
    ) -> StartVerdict {
        let shared = &self.shared;
        let (Some(by_rule), Some(shown)) = (shared.rule_grant(&start), shared.shown(&start)) else {
            return StartVerdict::GoOn;
        };
        let as_promised = |granted: (StartCopy, Grant, Variables)| match promised {
            Some(promised) if promised != granted.1.escalation() => Err(String::from(NOT_PROMISED)),
            Some(_) | None => Ok(granted),
        };
        match shared.granted(&start, &by_rule).and_then(as_promised) {
            Ok((copy, grant, variables)) => StartVerdict::Elsewhere(Box::new(Elsewhere {
                live: Live::new(shared),
                runtime: self.runtime.clone(),
                caller,
                shown,
                copy,
                by_rule,
                grant,
                variables,
            })),
            Err(why) => {
                shared.tell_ungranted(&shown, &caller, &by_rule, &why);
                StartVerdict::GoOn
            }
        }
    }
}

impl Shared {
    /// What rules give to a start beyond what this run has.
    pub(super) fn rule_grant(&self, start: &ProgramStart) -> Option<RuleGrant> {
        let by_rule = RuleGrant::of(&self.policy, &self.session, start)?;
        // The command itself has what was decided for it, if that is more than the session gives.
        let plain = |words: &[RawText]| words.split_first().map(|(name, rest)| (judge::base_name(name), rest.to_vec()));
        let words = start.forms.first()?;
        let has_more = *self.grant.escalation() != EscalationExecution::TurnDefault;
        if has_more && plain(words) == plain(self.command.words()) {
            return None;
        }
        // Only a person's yes counts for a rule that asks.
        let is_unasked = by_rule.decision == Decision::Prompt
            && met(&self.policy, &self.rule_paths, start).is_some_and(|met| self.is_part_of_command(&met))
            && !matches!(self.grant.source(), DecisionSource::Reviewer | DecisionSource::SessionMemory);
        if is_unasked {
            return None;
        }
        let has_it = by_rule.grant(&self.session).is_ok_and(|grant| {
            (grant.permissions(), grant.confinement()) == (self.grant.permissions(), self.grant.confinement())
        });
        (!has_it || !by_rule.unavailable.is_empty()).then_some(by_rule)
    }

    /// The grant to a start, and the variables to set; or why it has none.
    pub(super) fn granted(
        &self,
        start: &ProgramStart,
        by_rule: &RuleGrant,
    ) -> Result<(StartCopy, Grant, trusted::Variables), String> {
        if let Some(why) = by_rule.unavailable.first() {
            return Err(why.clone());
        }
        if by_rule.decision == Decision::Prompt && is_cut(start) {
            return Err(String::from("its words are too many to be shown in a question"));
        }
        let copy = start.copy.clone().ok_or("its words, its program or its directory can't be copied as they are")?;
        if self.depth >= DEEPEST {
            return Err(String::from("too many programs above it run elsewhere"));
        }
        let grant = by_rule.grant(&self.session)?;
        let variables = trusted::check(&self.beside, &copy, by_rule)?;
        Ok((copy, grant, variables))
    }
}

/// A start that was granted.
pub(super) struct Elsewhere {
    /// Its run, which does not end before it is known what becomes of this.
    pub(super) live: Live,
    pub(super) runtime: Handle,
    pub(super) caller: StartCaller,
    pub(super) shown: Shown,
    pub(super) copy: StartCopy,
    pub(super) by_rule: RuleGrant,
    pub(super) grant: Grant,
    pub(super) variables: Variables,
}

impl fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elsewhere").field("copy", &self.copy).field("grant", &self.grant).finish_non_exhaustive()
    }
}

impl ElsewhereStart for Elsewhere {
    fn start(
        self: Box<Self>,
        stdio: Stdio,
        umask: Option<Umask>,
        directory: DirectoryIdentity,
    ) -> Result<Box<dyn Running>, SpawnError> {
        let started = self.runtime.block_on(self.begin(stdio, umask, directory));
        match started {
            Ok(mut running) => {
                let reason = format!("a rule ({}) gives it {}", self.by_rule.rules, self.by_rule.told());
                self.record(Some(self.grant.escalation().clone()), reason);
                running.start = Some(self);
                Ok(Box::new(running))
            }
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    fn impossible(self: Box<Self>, why: String) {
        self.live.0.tell_ungranted(&self.shown, &self.caller, &self.by_rule, &why);
    }
}

/// An error with its cause.
fn cause(error: &SpawnError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl Elsewhere {
    fn failed(&self, error: &SpawnError) {
        self.live.0.tell_ungranted(&self.shown, &self.caller, &self.by_rule, &cause(error));
    }

    fn record(&self, execution: Option<EscalationExecution>, reason: String) {
        let source = DecisionSource::Rule(self.by_rule.rules.clone());
        let decided = Decided { decision: Decision::Allow, source, reason: Some(reason), execution };
        self.live.0.record(&self.shown, &self.caller, decided);
    }

    async fn begin(
        &self,
        stdio: Stdio,
        umask: Option<Umask>,
        directory: DirectoryIdentity,
    ) -> Result<ProgramElsewhere, SpawnError> {
        let Shared { session, connections, clock, .. } = &*self.live.0;
        let ctx = ToolContext {
            session,
            rules: &connections.rules,
            sandbox: &*connections.sandbox,
            connections: Some(connections.clone()),
        };
        let confinement = self.grant.confinement();
        let held = held_permissions(self.grant.permissions(), confinement, &ctx);
        let guard = connections.guard((&held, confinement), &ctx, clock).await.map_err(no_proxy)?;
        make_directories(session, &held)?;
        let endpoint = guard.as_ref().and_then(Guard::proxy);
        let mut environment = variables(&held.environment, session.environment.clone());
        if environment.contains_key(&RawText::from("PWD")) {
            environment.insert(RawText::from("PWD"), self.copy.cwd.as_raw().clone());
        }
        environment.extend(self.variables.iter().cloned());
        if confinement == Confinement::Sandbox {
            go_stamps::turn_off(&mut environment, &held, &self.copy.cwd);
        }
        let words = self.copy.words.iter().skip(1).cloned();
        let argv = Argv::parse(std::iter::once(self.copy.given.as_raw().clone()).chain(words));
        let argv = argv.map_err(|invalid| SpawnError::Setup {
            step: String::from("read its words"),
            source: std::io::Error::other(invalid.to_string()),
        })?;
        let is_judged = are_judged(session, &self.live.0.policy, confinement);
        let process = ProcessSettings {
            umask: umask.or(self.live.0.process.umask),
            directory: Some(directory),
            starts: if is_judged { Starts::Judged } else { Starts::Unseen },
            ..self.live.0.process.clone()
        };
        let command = CommandSpec { argv: argv.clone(), cwd: self.copy.cwd.clone(), environment, process };
        let plan = compile(command, &held, confinement, &ctx, endpoint.as_ref())?;
        let writes = Writes::new(connections, session, &self.grant, plan.permissions(), clock);
        let starts = ProgramStarts::below(&self.live.0, &self.grant, (&argv, &self.copy.cwd, plan.permissions()));
        let deciders = Deciders {
            connections: guard.as_ref().and_then(Guard::gatekeeper),
            writes: writes.as_ref().map(Writes::keeper),
            starts: starts.as_ref().map(ProgramStarts::keeper),
        };
        let running = plan.spawn_guarded(stdio, deciders)?;
        let after = After { guard, writes, starts, held: held.into_owned(), live: Live::new(&self.live.0) };
        let then = AtEnd { after: Some(after), runtime: self.runtime.clone() };
        let permissions = plan.permissions().clone();
        Ok(ProgramElsewhere { running, permissions, command: argv, _then: then, start: None })
    }
}

/// Counts a program that runs elsewhere, or is about to.
pub(super) struct Live(Arc<Shared>);

impl Live {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.elsewhere.send_modify(|count| *count += 1);
        Self(Arc::clone(shared))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.elsewhere.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// What ends with such a program.
struct After {
    guard: Option<Guard>,
    writes: Option<Writes>,
    starts: Option<ProgramStarts>,
    /// Its permissions before they were compiled, with the bounds on Stockade's own files.
    held: Permissions,
    live: Live,
}

impl After {
    async fn end(self) {
        let Self { guard, writes, starts, held, live } = self;
        let mut denied: Vec<Violation> = Vec::new();
        if let Some(guard) = guard {
            denied.extend(guard.end(&held).await);
        }
        if let Some(writes) = writes {
            writes.end().await;
        }
        if let Some(starts) = starts {
            let seen = Box::pin(starts.end()).await;
            denied.extend(seen.refused);
            live.0.know(seen.programs);
        }
        live.0.tell(denied);
    }
}

/// A program that runs elsewhere. Its fields are dropped in order: first the program ends, then the rest.
#[derive(Debug)]
struct ProgramElsewhere {
    running: Box<dyn Running>,
    permissions: Permissions,
    command: Argv,
    _then: AtEnd,
    /// Its start, to be told of if its program can't be executed after all.
    start: Option<Box<Elsewhere>>,
}

struct AtEnd {
    after: Option<After>,
    runtime: Handle,
}

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(after) = self.after.take() {
            self.runtime.spawn(after.end());
        }
    }
}

impl Running for ProgramElsewhere {
    fn enforcement(&self) -> &Enforcement {
        self.running.enforcement()
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        let status = self.running.wait(limit).inspect_err(|error| {
            self.start.iter().for_each(|start| start.failed(error));
        })?;
        if let (Some(_), Some(notes), Some(start)) = (status, self.running.observations(), &self.start) {
            let (permissions, coverage) = (self.permissions.clone(), notes.coverage());
            let seen = Seen { permissions, coverage, observations: notes.kept() };
            start.live.0.tell(seen_violations(&seen, start.grant.permissions(), self.command.words(), &[]));
        }
        Ok(status)
    }

    fn observations(&self) -> Option<&Observations> {
        self.running.observations()
    }

    fn readable(&self) -> BorrowedStream<'_> {
        self.running.readable()
    }

    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        self.running.signal(signal)
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        self.running.kill()
    }
}

/// Waits until all programs of a run that are elsewhere have ended.
pub(super) async fn all_ended(mut running: watch::Receiver<usize>) {
    drop(tokio::time::timeout(LONGEST_END, running.wait_for(|count| *count == 0)).await);
}
