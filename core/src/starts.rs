//! Programs that a running command starts: judged by the rules as plain commands, while the call that starts them waits.
//!
//! `forbidden` fails the call, `prompt` has it wait for an answer. A question is put once for equal commands of a run: a
//! yes covers them, and so does the yes with which the command itself was started. A rule that gives a program more
//! than its caller has ([`rule_grant`]) has it run elsewhere ([`elsewhere`]), if nothing that commands write can choose
//! what is run ([`trusted`]). Everything else goes on, in the sandbox that holds it.

mod cut;
mod elsewhere;
mod git;
mod judge;
mod record;
mod rule_grant;
mod settle;
mod trusted;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stockade_execpolicy::{Placement, Policy};
use stockade_protocol::{
    AbsPath, Argv, Decision, DecisionSource, EscalationExecution, ExecApprovalRequirement, FileRules, JudgedProgram,
    Permissions, RawText, Violation,
};
use stockade_sandboxing::{
    Concern, ProcessSettings, ProgramStart, StartAnswer, StartCaller, StartKeeper, StartVerdict,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use self::cut::{ASKED, Cut, TOLD};
use self::elsewhere::all_ended;
pub(crate) use self::judge::restricts_builtins;
use self::judge::{Met, RulePaths, Words, command_words, is_builtin, is_many_programs, is_shell, met};
use self::record::Told;
use self::rule_grant::RuleGrant;
use self::settle::{Answered, Equal, Settled};
use crate::approvals::{Approvals, Confinement, Grant};
use crate::audit_log::Trail;
use crate::connections::Connections;
use crate::exec::Clock;
use crate::requirement;
use crate::run_answers::RunAnswers;
use crate::session::Session;
use crate::skills::{named, skill_script, skill_scripts};
use crate::verdict::{RuleVerdict, Verdict};

/// How often it is looked whether a call still waits.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

const UNREADABLE: &str = "rules restrict what may be started, and the process that starts it can't be looked at";

const UNRESOLVED: &str = "rules restrict what may be started, and it can't be known which file this path leads to";

/// Judges what one run starts. Dropped, it asks nothing more.
pub(crate) struct ProgramStarts {
    keeper: Arc<Keeper>,
    stop: watch::Sender<bool>,
}

/// What a backend asks.
#[derive(Clone)]
struct Keeper {
    shared: Arc<Shared>,
    stop: watch::Receiver<bool>,
    runtime: Handle,
}

struct Shared {
    session: Session,
    /// The session with what the commands beside a program of this run may do: this run, and those above it.
    beside: Session,
    /// What the run is decided with, and was granted.
    connections: Connections,
    grant: Grant,
    process: ProcessSettings,
    policy: Arc<Policy>,
    /// Paths that a rule restricts.
    rule_paths: RulePaths,
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
    cwd: AbsPath,
    decided_before: OnceLock<DecidedBefore>,
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

/// What the line shows, and was decided on as a whole.
struct DecidedBefore {
    commands: HashSet<Words>,
    skills: Vec<AbsPath>,
}

/// What became of the starts of a run.
#[derive(Default)]
pub(crate) struct StartsSeen {
    /// What was refused.
    pub(crate) refused: Vec<Violation>,
    /// What a rule spoke of, refused or not.
    pub(crate) programs: Vec<JudgedProgram>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the starts of a run are judged.
pub(crate) fn are_judged(session: &Session, policy: &Policy, confinement: Confinement) -> bool {
    confinement == Confinement::Sandbox && (policy.restricts() || policy.grants() || !session.skills.is_empty())
}

impl ProgramStarts {
    /// For a run of `command` in `cwd` that enforces these permissions; `None` where no rule restricts or grants and no
    /// skills are declared, or nothing holds it.
    pub(crate) fn new(
        connections: &Connections,
        session: &Session,
        grant: &Grant,
        run: (&Argv, &AbsPath, &Permissions),
        (process, clock): (&ProcessSettings, &Clock),
    ) -> Option<Self> {
        Self::at_depth(connections, (session, &session.permissions), grant, run, (process, clock, 0))
    }

    /// For a program that a run has elsewhere.
    fn below(above: &Shared, grant: &Grant, run: (&Argv, &AbsPath, &Permissions)) -> Option<Self> {
        let settings = (&above.process, &above.clock, above.depth + 1);
        Self::at_depth(&above.connections, (&above.session, &above.beside.permissions), grant, run, settings)
    }

    fn at_depth(
        connections: &Connections,
        (session, above): (&Session, &Permissions),
        grant: &Grant,
        (command, cwd, enforced): (&Argv, &AbsPath, &Permissions),
        (process, clock, depth): (&ProcessSettings, &Clock, usize),
    ) -> Option<Self> {
        let policy = connections.rules.policy();
        if !are_judged(session, &policy, grant.confinement()) {
            return None;
        }
        let restricted = policy.restricted_programs();
        let shared = Shared {
            session: session.clone(),
            beside: Session { permissions: above.merge(grant.permissions()), ..session.clone() },
            connections: connections.clone(),
            grant: grant.clone(),
            process: process.clone(),
            granted: policy.granted_programs(),
            depth,
            elsewhere: watch::Sender::new(0),
            restricts_builtins: restricted.iter().any(|name| is_builtin(name)),
            restricted,
            rule_paths: RulePaths::of(&policy, cwd),
            policy,
            enforced: enforced.files.clone(),
            command: command.clone(),
            cwd: cwd.clone(),
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
    pub(crate) async fn end(self) -> StartsSeen {
        self.stop.send_replace(true);
        let shared = &self.keeper.shared;
        all_ended(shared.elsewhere.subscribe()).await;
        drop(shared.turn.lock().await);
        std::mem::take(&mut locked(&shared.told).seen)
    }

    /// What a backend asks.
    pub(crate) fn keeper(&self) -> Arc<dyn StartKeeper> {
        Arc::clone(&self.keeper) as Arc<dyn StartKeeper>
    }
}

impl StartKeeper for Keeper {
    fn concerns(&self, name: &[u8]) -> bool {
        let shared = &self.shared;
        !shared.session.skills.is_empty() || shared.granted.contains(name) || shared.is_restricted(name)
    }

    fn restricts(&self) -> bool {
        !self.shared.restricted.is_empty() || !self.shared.session.skills.is_empty()
    }

    fn judge(&self, start: &ProgramStart) -> Concern {
        let met = self.shared.met(start);
        if met.as_ref().is_some_and(|met| met.decision == Decision::Forbidden) {
            return Concern::Decide;
        }
        match (met.is_none_or(|met| self.shared.is_decided_before(start, &met)), self.shared.rule_grant(start)) {
            (_, Some(granted)) => Concern::Escalate { variables: granted.variables },
            (true, None) => Concern::None,
            (false, None) => Concern::Decide,
        }
    }

    fn decide(&self, start: ProgramStart, caller: StartCaller, answer: StartAnswer) {
        let met = self.shared.met(&start);
        let is_asked_about =
            |met: &Met| met.decision == Decision::Forbidden || !self.shared.is_decided_before(&start, met);
        let Some(met) = met.filter(is_asked_about) else { return answer.give(self.elsewhere(start, caller, None)) };
        let shared = Arc::clone(&self.shared);
        let Some(shown) = shared.shown(&start) else {
            return answer.give(StartVerdict::Refused);
        };
        let rules = match met.decision {
            Decision::Forbidden => RuleVerdict::Forbidden { reason: met.reason.clone() },
            Decision::Prompt | Decision::Allow => RuleVerdict::Prompt { reason: met.reason.clone() },
        };
        let (ask, sandboxing) = (shared.session.ask, shared.session.sandboxing());
        let by_default = EscalationExecution::TurnDefault;
        let by_rule = match met.words.is_empty() {
            true => ExecApprovalRequirement::Skip { bypass_sandbox: false, proposed_execpolicy_amendment: None },
            false => requirement::of_command(ask, sandboxing, &rules, Placement::Inside, &by_default),
        };
        let required = match &met.skill {
            Some(script) => requirement::with_skill(by_rule, (ask, sandboxing), &named(script)),
            None => by_rule,
        };
        match required {
            ExecApprovalRequirement::Forbidden { reason } => {
                let source = DecisionSource::Rule(met.reason);
                shared.refuse(&shown, &caller, source, reason);
                answer.give(StartVerdict::Refused);
            }
            ExecApprovalRequirement::Skip { .. } => answer.give(self.elsewhere(start, caller, None)),
            ExecApprovalRequirement::NeedsApproval { .. } => {
                let (mut stop, is_wanted) = (self.stop.clone(), answer.is_wanted());
                let keeper = self.clone();
                self.runtime.spawn(async move {
                    // What is asked for a caller ends with it, and with the run.
                    let given_up = async {
                        tokio::select! {
                            () = unwanted(is_wanted) => {}
                            _ = stop.wait_for(|stop| *stop) => {}
                            () = shared.answers.given_up() => {}
                        }
                    };
                    let promise = shared.promise(&start);
                    answer.give(match shared.settle(&met, (&shown, &promise), &caller, given_up).await {
                        Settled::Yes => keeper.elsewhere(start, caller, Some(&promise.execution)),
                        Settled::No => StartVerdict::Refused,
                    });
                });
            }
        }
    }

    fn unreadable(&self, caller: StartCaller) {
        let program = caller.program.clone().unwrap_or_else(|| RawText::from("unknown"));
        self.shared.refuse_unknown(program, &caller, UNREADABLE);
    }

    fn unresolved(&self, caller: StartCaller, path: RawText) {
        self.shared.refuse_unknown(path, &caller, UNRESOLVED);
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
    /// With all words that were read.
    whole: Argv,
    /// As a question shows it, which has more of long words.
    asked: Argv,
    /// With the program's whole path.
    key: Argv,
    cwd: AbsPath,
}

impl Shared {
    /// Whether a start needs no question, since it is a part of the command that was decided on before it began. What a rule
    /// gives only after a yes is given with the command if a person was shown it, and for the start that the command says:
    /// in the command's directory, and without variables of its caller's.
    fn is_decided_before(&self, start: &ProgramStart, met: &Met) -> bool {
        let gives_after_yes = || {
            let by_rule = RuleGrant::of(&self.policy, &self.session, start);
            by_rule.is_some_and(|by_rule| by_rule.decision == Decision::Prompt)
        };
        let is_as_shown = || {
            start.cwd.as_ref() == Some(&self.cwd) && start.copy.as_ref().is_none_or(|copy| copy.variables.is_empty())
        };
        let source = self.grant.source();
        // An approval that is remembered may have been given before the rule gave anything.
        let is_remembered = *source == DecisionSource::SessionMemory;
        let is_shown = *source == DecisionSource::Reviewer && is_as_shown();
        let is_persons = is_remembered || *source == DecisionSource::Reviewer;
        self.is_part_of_command(met) && (!is_persons || is_shown || !gives_after_yes())
    }

    /// Whether it is a part of the command that was decided on before it began.
    fn is_part_of_command(&self, met: &Met) -> bool {
        let before = self.decided_before.get_or_init(|| {
            let verdict = Verdict::of(&self.policy, &self.command);
            DecidedBefore {
                commands: verdict.parsed.commands.iter().filter_map(command_words).collect(),
                skills: skill_scripts(&self.session, &self.cwd, &verdict),
            }
        });
        met.words.iter().all(|words| before.commands.contains(words))
            && met.skill.as_ref().is_none_or(|script| before.skills.contains(script))
    }

    fn is_restricted(&self, name: &[u8]) -> bool {
        let may_be = || is_many_programs(name) || (self.restricts_builtins && is_shell(name));
        self.restricted.contains(name) || (!self.restricted.is_empty() && may_be())
    }

    /// The rules that a start meets, and the skill whose script it is.
    fn met(&self, start: &ProgramStart) -> Option<Met> {
        let by_rule = met(&self.policy, &self.rule_paths, start);
        let Some(script) = self.skill_script(start) else { return by_rule };
        let said = named(&script);
        let nothing = Met { decision: Decision::Prompt, reason: String::new(), words: Vec::new(), skill: None };
        let found = by_rule.unwrap_or(nothing);
        let reason = if found.reason.is_empty() { said } else { format!("{}; {said}", found.reason) };
        Some(Met { reason, skill: Some(script), ..found })
    }

    /// The skill's script that a start is, unless a rule allows it.
    fn skill_script(&self, start: &ProgramStart) -> Option<AbsPath> {
        if self.session.skills.is_empty() {
            return None;
        }
        let forms = start.forms.iter().chain(&start.path_forms);
        let paths = forms.filter_map(|form| AbsPath::parse(form.first()?.clone()).ok()?.to_host_path());
        let mut scripts = paths.filter_map(|path| skill_script(&self.session, &self.enforced, &path));
        scripts.next().filter(|script| !judge::is_allowed(&self.policy, start, script))
    }

    /// Refuses a start of which no more is known than this name.
    fn refuse_unknown(&self, program: RawText, caller: &StartCaller, why: &str) {
        let Ok(command) = Argv::parse(TOLD.of(&[program])) else { return };
        let cwd = self.session.host.workspace_roots.first().cloned();
        let Some(cwd) = cwd.or_else(|| "/".parse().ok()) else { return };
        let start =
            Shown { asked: command.clone(), whole: command.clone(), command: command.clone(), key: command, cwd };
        self.refuse(&start, caller, DecisionSource::Rule(String::from(why)), String::from(why));
    }

    fn shown(&self, start: &ProgramStart) -> Option<Shown> {
        let words = start.forms.first()?;
        let path = words.first()?;
        let is_commands_own = AbsPath::parse(path.clone())
            .is_ok_and(|path| self.enforced.access(&path) == stockade_protocol::Access::Write);
        // A program that commands can't write is known by its name.
        let name = if is_commands_own { path.clone() } else { judge::base_name(path) };
        let whole = Argv::parse(std::iter::once(&name).chain(words.iter().skip(1)).cloned()).ok()?;
        let shown = |cut: Cut| Argv::parse(cut.of(whole.words())).ok();
        let cwd = start.cwd.clone().or_else(|| "/".parse().ok())?;
        let key = Argv::parse(words.iter().cloned()).ok()?;
        Some(Shown { command: shown(TOLD)?, asked: shown(ASKED)?, whole, key, cwd })
    }
}
