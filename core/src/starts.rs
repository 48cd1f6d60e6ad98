//! Programs that a running command starts: judged by the rules as plain commands, while the call that starts them waits.
//!
//! `forbidden` fails the call, `prompt` has it wait for an answer. A question is put once for equal commands of a run: a
//! yes covers them, and so does the yes with which the command itself was started. A rule that gives a program more
//! than its caller has ([`rule_grant`]) has it run elsewhere ([`elsewhere`]), if nothing that commands write can choose
//! what is run ([`trusted`]). Everything else goes on, in the sandbox that holds it.

mod elsewhere;
mod git;
mod judge;
mod record;
mod rule_grant;
mod trusted;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stockade_execpolicy::{Placement, Policy};
use stockade_protocol::{
    AbsPath, ApprovalSubject, Argv, CommandApproval, Decision, DecisionSource, EscalationExecution,
    ExecApprovalRequirement, FileRules, Permissions, RawText, ReviewDecision, Violation,
};
use stockade_sandboxing::{
    Concern, ProcessSettings, ProgramStart, StartAnswer, StartCaller, StartCopy, StartKeeper, StartVerdict,
};
use stockade_shell_command::parse_argv;
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::elsewhere::{Elsewhere, Live, all_ended};
use self::judge::{Met, Words, command_words, is_builtin, is_many_programs, is_shell, met};
use self::record::{Decided, Told};
use self::rule_grant::RuleGrant;
use crate::approvals::{ApprovalKey, Approvals, CommandKey, Confinement, Grant};
use crate::audit_log::Trail;
use crate::connections::Connections;
use crate::exec::Clock;
use crate::requirement::{self, approvals_count};
use crate::run_answers::RunAnswers;
use crate::session::Session;
use crate::verdict::RuleVerdict;

/// How often it is looked whether a call still waits.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);
/// Words of a start that are shown and recorded.
const MOST_SHOWN: usize = 64;
/// How deep programs that run elsewhere may start others elsewhere.
const DEEPEST: usize = 4;

const UNREADABLE: &str = "rules restrict what may be started, and the process that starts it can't be looked at";

/// Judges what one run starts. Dropped, it asks nothing more.
pub(crate) struct ProgramStarts {
    keeper: Arc<Keeper>,
    stop: watch::Sender<bool>,
}

/// What a backend asks.
struct Keeper {
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    runtime: Handle,
}

struct Shared {
    session: Session,
    /// What the run is decided with, and was granted.
    connections: Connections,
    grant: Grant,
    process: ProcessSettings,
    policy: Arc<Policy>,
    /// Base names that a rule restricts.
    restricted: HashSet<Vec<u8>>,
    /// Base names that a rule gives something to.
    granted: HashSet<Vec<u8>>,
    /// How many programs above it run elsewhere.
    depth: usize,
    /// How many programs of it run elsewhere now.
    elsewhere: watch::Sender<usize>,
    /// Whether a rule restricts what shells do themselves.
    restricts_builtins: bool,
    /// What its sandbox enforces.
    enforced: FileRules,
    /// What the command itself is, which was decided before.
    command: Argv,
    decided_before: OnceLock<HashSet<Words>>,
    approvals: Arc<Approvals>,
    answers: Arc<RunAnswers>,
    trail: Trail,
    clock: Clock,
    /// Held by the start that is asked about.
    turn: tokio::sync::Mutex<()>,
    /// What was answered to equal starts, in the same directory.
    answered: Mutex<HashMap<Equal, Answered>>,
    is_unanswered: AtomicBool,
    told: Mutex<Told>,
}

/// What equal starts have in common: the commands that met a rule, and the directory.
type Equal = (Vec<Words>, AbsPath);

#[derive(Clone, Debug)]
enum Answered {
    Yes,
    No { reason: String },
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the starts of a run are judged.
pub(crate) fn are_judged(policy: &Policy, confinement: Confinement) -> bool {
    confinement == Confinement::Sandbox && (policy.restricts() || policy.grants())
}

impl ProgramStarts {
    /// For a run of `command` that enforces these permissions; `None` where no rule restricts or grants, or nothing
    /// holds it.
    pub(crate) fn new(
        connections: &Connections,
        session: &Session,
        grant: &Grant,
        run: (&Argv, &Permissions),
        (process, clock): (&ProcessSettings, &Clock),
    ) -> Option<Self> {
        Self::at_depth(connections, session, grant, run, (process, clock, 0))
    }

    /// For a program that a run has elsewhere.
    fn below(above: &Shared, grant: &Grant, run: (&Argv, &Permissions)) -> Option<Self> {
        let settings = (&above.process, &above.clock, above.depth + 1);
        Self::at_depth(&above.connections, &above.session, grant, run, settings)
    }

    fn at_depth(
        connections: &Connections,
        session: &Session,
        grant: &Grant,
        (command, enforced): (&Argv, &Permissions),
        (process, clock, depth): (&ProcessSettings, &Clock, usize),
    ) -> Option<Self> {
        let policy = connections.rules.policy();
        if !are_judged(&policy, grant.confinement()) {
            return None;
        }
        let restricted = policy.restricted_programs();
        let shared = Shared {
            session: session.clone(),
            connections: connections.clone(),
            grant: grant.clone(),
            process: process.clone(),
            restricts_builtins: restricted.iter().any(|name| is_builtin(name)),
            restricted,
            granted: policy.granted_programs(),
            depth,
            elsewhere: watch::Sender::new(0),
            policy,
            enforced: enforced.files.clone(),
            command: command.clone(),
            decided_before: OnceLock::new(),
            approvals: Arc::clone(&connections.approvals),
            answers: Arc::clone(&connections.answers),
            trail: connections.trail.clone(),
            clock: clock.clone(),
            turn: tokio::sync::Mutex::default(),
            answered: Mutex::default(),
            is_unanswered: AtomicBool::new(false),
            told: Mutex::default(),
        };
        let (stop, stopped) = watch::channel(false);
        let keeper = Keeper { shared: Arc::new(shared), stop: stopped, runtime: Handle::current() };
        Some(Self { keeper: Arc::new(keeper), stop })
    }

    /// Ends with the run: takes questions away that are still open, waits for programs that it has elsewhere, and tells
    /// what was refused.
    pub(crate) async fn end(self) -> Vec<Violation> {
        self.stop.send_replace(true);
        let shared = &self.keeper.shared;
        all_ended(shared.elsewhere.subscribe()).await;
        drop(shared.turn.lock().await);
        std::mem::take(&mut locked(&shared.told).refused)
    }

    /// What a backend asks.
    pub(crate) fn keeper(&self) -> Arc<dyn StartKeeper> {
        Arc::clone(&self.keeper) as Arc<dyn StartKeeper>
    }
}

impl StartKeeper for Keeper {
    fn concerns(&self, name: &[u8]) -> bool {
        let shared = &self.shared;
        let may_restrict = || is_many_programs(name) || (shared.restricts_builtins && is_shell(name));
        shared.restricted.contains(name)
            || shared.granted.contains(name)
            || (!shared.restricted.is_empty() && may_restrict())
    }

    fn restricts(&self) -> bool {
        !self.shared.restricted.is_empty()
    }

    fn judge(&self, start: &ProgramStart) -> Concern {
        match met(&self.shared.policy, start) {
            None => match self.shared.rule_grant(start) {
                Some(granted) => Concern::Escalate { variables: granted.variables },
                None => Concern::None,
            },
            Some(met) if met.decision == Decision::Prompt && self.shared.is_decided_before(&met) => Concern::None,
            Some(_) => Concern::Decide,
        }
    }

    fn decide(&self, start: ProgramStart, caller: StartCaller, answer: StartAnswer) {
        let Some(met) = met(&self.shared.policy, &start) else { return answer.give(self.elsewhere(start, caller)) };
        let shared = Arc::clone(&self.shared);
        let Some(start) = shared.shown(&start) else {
            return answer.give(StartVerdict::Refused);
        };
        let rules = match met.decision {
            Decision::Forbidden => RuleVerdict::Forbidden { reason: met.reason.clone() },
            Decision::Prompt | Decision::Allow => RuleVerdict::Prompt { reason: met.reason.clone() },
        };
        let (ask, sandboxing) = (shared.session.ask, shared.session.sandboxing());
        let by_default = EscalationExecution::TurnDefault;
        match requirement::of_command(ask, sandboxing, &rules, Placement::Inside, &by_default) {
            ExecApprovalRequirement::Forbidden { reason } => {
                let source = DecisionSource::Rule(met.reason);
                shared.refuse(&start, &caller, source, reason);
                answer.give(StartVerdict::Refused);
            }
            ExecApprovalRequirement::Skip { .. } => answer.give(StartVerdict::GoOn),
            ExecApprovalRequirement::NeedsApproval { .. } => {
                let (mut stop, is_wanted) = (self.stop.clone(), answer.is_wanted());
                self.runtime.spawn(async move {
                    // What is asked for a caller ends with it, and with the run.
                    let given_up = async {
                        tokio::select! {
                            () = unwanted(is_wanted) => {}
                            _ = stop.wait_for(|stop| *stop) => {}
                            () = shared.answers.declined() => {}
                        }
                    };
                    answer.give(shared.settle(&met, &start, &caller, given_up).await);
                });
            }
        }
    }

    fn unreadable(&self, caller: StartCaller) {
        let program = caller.program.clone().unwrap_or_else(|| RawText::from("unknown"));
        let Ok(command) = Argv::parse([program]) else { return };
        let cwd = self.shared.session.host.workspace_roots.first().cloned();
        let Some(cwd) = cwd.or_else(|| "/".parse().ok()) else { return };
        let start = Shown { command: command.clone(), key: command, cwd };
        self.shared.refuse(&start, &caller, DecisionSource::Rule(String::from(UNREADABLE)), String::from(UNREADABLE));
    }
}

impl Keeper {
    /// What becomes of a start that no rule restricts.
    fn elsewhere(&self, start: ProgramStart, caller: StartCaller) -> StartVerdict {
        let shared = &self.shared;
        let (Some(by_rule), Some(shown)) = (shared.rule_grant(&start), shared.shown(&start)) else {
            return StartVerdict::GoOn;
        };
        match shared.granted(start, &by_rule) {
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

async fn unwanted(is_wanted: Arc<dyn Fn() -> bool + Send + Sync>) {
    while is_wanted() {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// A start as it is shown and remembered.
struct Shown {
    command: Argv,
    /// With the program's whole path.
    key: Argv,
    cwd: AbsPath,
}

impl Shared {
    /// What rules give to a start beyond what this run has.
    fn rule_grant(&self, start: &ProgramStart) -> Option<RuleGrant> {
        let by_rule = RuleGrant::of(&self.policy, &self.session, start)?;
        // The command itself has what was decided for it.
        let plain = |words: &[RawText]| words.split_first().map(|(name, rest)| (judge::base_name(name), rest.to_vec()));
        let words = start.forms.first()?;
        if plain(words) == plain(self.command.words()) {
            return None;
        }
        let has_it = by_rule.grant(&self.session).is_ok_and(|grant| {
            (grant.permissions(), grant.confinement()) == (self.grant.permissions(), self.grant.confinement())
        });
        (!has_it).then_some(by_rule)
    }

    /// The grant to a start, and the variables to set; or why it has none.
    fn granted(
        &self,
        start: ProgramStart,
        by_rule: &RuleGrant,
    ) -> Result<(StartCopy, Grant, trusted::Variables), String> {
        let copy = start.copy.ok_or("its words, its program or its directory can't be copied as they are")?;
        if self.depth >= DEEPEST {
            return Err(String::from("too many programs above it run elsewhere"));
        }
        let grant = by_rule.grant(&self.session)?;
        // The commands beside it may write what the session's may, and what this run may.
        let permissions = self.session.permissions.merge(self.grant.permissions());
        let beside = Session { permissions, ..self.session.clone() };
        let variables = trusted::check(&beside, &copy, by_rule)?;
        Ok((copy, grant, variables))
    }

    /// Whether it is a part of the command that was decided on before it began.
    fn is_decided_before(&self, met: &Met) -> bool {
        let parts = self.decided_before.get_or_init(|| {
            let line = parse_argv(&self.command);
            line.commands.iter().filter_map(command_words).collect()
        });
        met.words.iter().all(|words| parts.contains(words))
    }

    fn shown(&self, start: &ProgramStart) -> Option<Shown> {
        let words = start.forms.first()?;
        let path = words.first()?;
        let is_commands_own = AbsPath::parse(path.clone())
            .is_ok_and(|path| self.enforced.access(&path) == stockade_protocol::Access::Write);
        // A program that commands can't write is known by its name.
        let name = if is_commands_own { path.clone() } else { judge::base_name(path) };
        let rest = words.get(1..).unwrap_or_default();
        let mut shown: Vec<RawText> = std::iter::once(name).chain(rest.iter().take(MOST_SHOWN).cloned()).collect();
        if rest.len() > MOST_SHOWN {
            shown.push(RawText::from("…"));
        }
        let cwd = start.cwd.clone().or_else(|| "/".parse().ok())?;
        Some(Shown { command: Argv::parse(shown).ok()?, key: Argv::parse(words.iter().cloned()).ok()?, cwd })
    }

    /// Finds the answer to a question: one that was given before, or a person's.
    async fn settle(
        &self,
        met: &Met,
        start: &Shown,
        caller: &StartCaller,
        given_up: impl Future<Output = ()>,
    ) -> StartVerdict {
        tokio::pin!(given_up);
        let _turn = tokio::select! {
            turn = self.turn.lock() => turn,
            () = &mut given_up => return StartVerdict::Refused,
        };
        let rule = || DecisionSource::Rule(met.reason.clone());
        let equal: Equal = (met.words.clone(), start.cwd.clone());
        let known = locked(&self.answered).get(&equal).cloned();
        match known {
            Some(Answered::Yes) => return StartVerdict::GoOn,
            Some(Answered::No { reason }) => return self.refuse(start, caller, rule(), reason),
            None => {}
        }
        let by_default = EscalationExecution::TurnDefault;
        let key = CommandKey::new(&start.key, &start.cwd, &self.session.permissions, &by_default);
        let keys = vec![ApprovalKey::Command(Box::new(key))];
        if approvals_count(self.session.ask) && self.approvals.memory.recall(&keys).is_some() {
            self.record(start, caller, Decided::allowed_by(DecisionSource::SessionMemory));
            return StartVerdict::GoOn;
        }
        if self.answers.declines_rest() || self.is_unanswered.load(Ordering::Relaxed) {
            let reason = format!("nobody answers; {}", met.reason);
            return self.refuse(start, caller, rule(), reason);
        }
        let question = ApprovalSubject::Command(Box::new(CommandApproval {
            command: start.command.clone(),
            cwd: start.cwd.clone(),
            parsed: parse_argv(&start.command),
            escalation: by_default.clone(),
            justification: None,
            violations: Vec::new(),
            proposed_execpolicy_amendment: None,
            started_by: caller.chain.clone(),
        }));
        let _pause = self.clock.pause();
        let reason = Some(met.reason.clone());
        let answer = match self.approvals.ask_start(question, reason, &self.trail, given_up).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return StartVerdict::Refused,
            Err(refusal) => {
                self.is_unanswered.store(true, Ordering::Relaxed);
                return self.refuse(start, caller, rule(), format!("{}; {}", refusal.reason, met.reason));
            }
        };
        let no = match answer {
            ReviewDecision::ApprovedForSession => {
                self.approvals.memory.remember(keys, &by_default);
                None
            }
            ReviewDecision::Approved | ReviewDecision::ApprovedForRun => None,
            ReviewDecision::Denied { reason: Some(why) } => Some(format!("the reviewer said no: {why}")),
            ReviewDecision::TimedOut => {
                self.is_unanswered.store(true, Ordering::Relaxed);
                Some(String::from("nobody answered in time"))
            }
            ReviewDecision::Abort => Some(String::from("the reviewer stopped the session")),
            ReviewDecision::Denied { reason: None }
            | ReviewDecision::DeniedForRun
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::NetworkPolicyAmendment { .. } => Some(String::from("the reviewer said no")),
        };
        match no {
            None => {
                locked(&self.answered).insert(equal, Answered::Yes);
                self.record(start, caller, Decided::allowed_by(DecisionSource::Reviewer));
                StartVerdict::GoOn
            }
            Some(said) => {
                let reason = format!("{said}; {}", met.reason);
                locked(&self.answered).insert(equal, Answered::No { reason: reason.clone() });
                self.refuse(start, caller, DecisionSource::Reviewer, reason)
            }
        }
    }
}
