//! Denied writes of a running command: asked about while the call waits, one question at a time.
//!
//! An approval for the run or the session covers a directory, so that related writes are one question. Denials that no
//! approval lifts are never asked about: protected names, masks, Stockade's own files, hard denials, and those of an
//! administrator's maximum. Nor are optional writes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, Argv, AskForApproval, AuditEvent, EscalationExecution, FileRule, FileRules, Permissions,
    ProfileAmendment, RawText, ReviewDecision, RuleSource, WriteApproval, WriteOperation,
};
use stockade_sandboxing::{
    DeniedAct, Repository, SeenOnce, WriteAnswer, WriteAttempt, WriteKeeper, WriteVerdict, leads_to, resolve_links,
};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::approvals::{self, ApprovalKey, Approvals, Confinement, Grant, RuleStore, written};
use crate::audit_log::Trail;
use crate::connections::Connections;
use crate::evidence::is_optional;
use crate::exec::Clock;
use crate::run_answers::RunAnswers;
use crate::saved_grants::{ProfileStore, can_be_saved};
use crate::session::Session;

/// Limit on the paths of a run that are recorded by name.
const MOST_RECORDED: usize = 100;
/// The interval for checking whether a call still waits.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Directories of a home in which each tool has one of its own.
const SHARED: &[&str] = &[".cache", ".config", ".local", ".local/bin", ".local/lib", ".local/share", ".local/state"];

/// Decides on the writes of one run. When dropped, it decides nothing more.
pub(crate) struct Writes {
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
    /// Whether the policy asks about writes.
    asks: bool,
    repositories: Vec<Repository>,
    session: Session,
    /// The home directory, its links followed, as those of denied paths are.
    home: Option<AbsPath>,
    /// The run's initial grant.
    grant: EscalationExecution,
    /// The enforced rules.
    enforced: FileRules,
    approvals: Arc<Approvals>,
    answers: Arc<RunAnswers>,
    trail: Trail,
    clock: Clock,
    /// Held by the call whose question is open.
    turn: tokio::sync::Mutex<()>,
    granted: Mutex<Vec<AbsPath>>,
    /// Whether a question got no answer: the next one would get none either.
    is_unanswered: AtomicBool,
    done: Mutex<Done>,
    /// Where "always" is saved, and the command that it would be saved for.
    saving: OnceLock<(Arc<dyn ProfileStore>, Argv)>,
    rules: Arc<RuleStore>,
}

#[derive(Default)]
struct Done {
    paths: BTreeSet<AbsPath>,
    calls: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writes {
    /// For a run that enforces these permissions; `None` where nothing is asked, and no repository was granted.
    pub(crate) fn new(
        connections: &Connections,
        session: &Session,
        grant: &Grant,
        enforced: &Permissions,
        clock: &Clock,
    ) -> Option<Self> {
        let asks = match connections.ask {
            AskForApproval::Untrusted | AskForApproval::OnFailure => true,
            AskForApproval::OnRequest | AskForApproval::Reject(_) | AskForApproval::Never => false,
        };
        let repositories = session.usable_repositories(enforced);
        let is_for_nothing = !asks && repositories.is_empty();
        if is_for_nothing || grant.confinement() != Confinement::Sandbox {
            return None;
        }
        let shared = Shared {
            asks,
            repositories,
            session: session.clone(),
            home: real_home(&session.environment),
            grant: grant.escalation().clone(),
            enforced: enforced.files.clone(),
            approvals: Arc::clone(&connections.approvals),
            answers: Arc::clone(&connections.answers),
            trail: connections.trail.clone(),
            clock: clock.clone(),
            turn: tokio::sync::Mutex::default(),
            granted: Mutex::default(),
            is_unanswered: AtomicBool::new(false),
            done: Mutex::default(),
            saving: OnceLock::new(),
            rules: Arc::clone(&connections.rules),
        };
        let (stop, stopped) = watch::channel(false);
        let keeper = Keeper { shared: Arc::new(shared), stop: stopped, runtime: Handle::current() };
        Some(Self { keeper: Arc::new(keeper), stop })
    }

    /// Names the command, so that "always" can be offered for it.
    pub(crate) fn of(self, command: &Argv, cwd: &AbsPath) -> Self {
        let shared = &self.keeper.shared;
        if shared.asks
            && let Some(store) = shared.rules.profiles()
            && can_be_saved(&shared.session, &shared.rules, command, cwd)
        {
            shared.saving.set((Arc::clone(store), command.clone())).ok();
        }
        self
    }

    /// Ends with the run: withdraws open questions, and records the writes.
    pub(crate) async fn end(self) {
        self.stop.send_replace(true);
        let shared = &self.keeper.shared;
        drop(shared.turn.lock().await);
        let Done { paths, calls } = std::mem::take(&mut *locked(&shared.done));
        if calls > 0 {
            shared.trail.note(AuditEvent::WrittenOutside { paths: paths.into_iter().collect(), calls });
        }
    }

    /// What a backend asks.
    pub(crate) fn keeper(&self) -> Arc<dyn WriteKeeper> {
        Arc::clone(&self.keeper) as Arc<dyn WriteKeeper>
    }
}

impl WriteKeeper for Keeper {
    fn is_asked(&self, act: &DeniedAct, paths: &[AbsPath]) -> bool {
        operation(act).is_some() && self.shared.can_be_asked(paths)
    }

    fn decide(&self, attempt: WriteAttempt, answer: WriteAnswer) {
        let (shared, mut stop, is_wanted) = (Arc::clone(&self.shared), self.stop.clone(), answer.is_wanted());
        self.runtime.spawn(async move {
            // The question of a caller ends with the caller and with the run.
            let given_up = async {
                tokio::select! {
                    () = unwanted(is_wanted) => {}
                    _ = stop.wait_for(|stop| *stop) => {}
                    () = shared.answers.given_up() => {}
                }
            };
            answer.give(shared.settle(&attempt, given_up).await);
        });
    }

    fn done(&self, path: &AbsPath) {
        let mut done = locked(&self.shared.done);
        done.calls = done.calls.saturating_add(1);
        if done.paths.len() < MOST_RECORDED {
            done.paths.insert(path.clone());
        }
    }

    fn repositories(&self) -> &[Repository] {
        &self.shared.repositories
    }
}

async fn unwanted(is_wanted: Arc<dyn Fn() -> bool + Send + Sync>) {
    while is_wanted() {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

impl Shared {
    fn can_be_asked(&self, paths: &[AbsPath]) -> bool {
        let is_liftable = |path: &AbsPath| {
            self.enforced.deciding(path).is_some_and(|rule| {
                rule.access == Access::Read && matches!(rule.source, RuleSource::Policy | RuleSource::Approval)
            })
        };
        let is_declined = |path: &AbsPath| self.answers.declines_write(path);
        self.asks
            && !self.answers.declines_rest()
            && !self.is_unanswered.load(Ordering::Relaxed)
            && paths.iter().all(|path| is_liftable(path) && !is_optional(path) && !is_declined(path))
            && self.with(paths).is_some()
    }

    /// The permissions of the run with these paths writable, if nothing denies that. A sandbox with these permissions is
    /// considered: where a directory above Stockade's own files is missing, it protects that directory, too.
    fn with(&self, paths: &[AbsPath]) -> Option<Box<Permissions>> {
        let granted = locked(&self.granted).clone();
        let more = writable(granted.iter().chain(paths))?;
        let more = match &self.grant {
            EscalationExecution::Permissions(earlier) => earlier.merge(&more),
            EscalationExecution::TurnDefault => more,
            EscalationExecution::Unsandboxed => return None,
        };
        let execution = EscalationExecution::Permissions(Box::new(more));
        let (permissions, confinement) = approvals::execution(&self.session, &execution).ok()?;
        let enforced = resolve_links(&permissions, &SeenOnce::default()).ok()?;
        let is_granted = |path: &AbsPath| enforced.access(path) == Access::Write;
        (confinement == Confinement::Sandbox && paths.iter().all(is_granted)).then(|| Box::new(permissions))
    }

    async fn settle(&self, attempt: &WriteAttempt, given_up: impl Future<Output = ()>) -> WriteVerdict {
        tokio::pin!(given_up);
        let _turn = tokio::select! {
            turn = self.turn.lock() => turn,
            () = &mut given_up => return WriteVerdict::Refused,
        };
        let paths = &attempt.paths;
        // Another answer may have settled this.
        if !self.can_be_asked(paths) {
            return WriteVerdict::Refused;
        }
        let granted = locked(&self.granted).clone();
        if paths.iter().all(|path| granted.iter().any(|directory| path.starts_with(directory))) {
            return self.with(&[]).map_or(WriteVerdict::Refused, WriteVerdict::Granted);
        }
        let Some(operation) = operation(&attempt.act) else { return WriteVerdict::Refused };
        let directories = self.directories(operation, paths);
        let question = WriteApproval {
            operation,
            paths: paths.clone(),
            directories: directories.clone(),
            program: attempt.program.clone(),
            proposed_profile_amendment: self.proposed(&directories),
        };
        // A denial covers the directory, or only the paths if no directory is offered.
        let declined = if directories.is_empty() { paths.clone() } else { directories.clone() };
        let _pause = self.clock.pause();
        let answer = match self.approvals.ask_write(question, &self.trail, given_up).await {
            Ok(Some(answer)) => answer,
            Ok(None) => return WriteVerdict::Refused,
            // Other kinds of questions may get an answer, these do not.
            Err(_) => {
                self.is_unanswered.store(true, Ordering::Relaxed);
                return WriteVerdict::Refused;
            }
        };
        match answer {
            ReviewDecision::Approved => self.with(paths).map_or(WriteVerdict::Refused, WriteVerdict::Once),
            ReviewDecision::ApprovedForRun => self.grant(directories),
            ReviewDecision::ApprovedForSession => {
                self.remember(&directories);
                self.grant(directories)
            }
            ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment } => {
                if let Some((store, _)) = self.saving.get()
                    && let Err(error) = store.save(&proposed_profile_amendment)
                {
                    let file = &proposed_profile_amendment.file;
                    tracing::warn!(%error, %file, "a profile was approved but could not be saved: it holds for this run");
                }
                self.grant(directories)
            }
            // The reviewer is absent: the next call should not wait again.
            ReviewDecision::DeniedForRun | ReviewDecision::TimedOut => {
                self.answers.decline_writes(declined);
                self.answers.decline_rest();
                WriteVerdict::Refused
            }
            ReviewDecision::Denied { .. }
            | ReviewDecision::Abort
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::NetworkPolicyAmendment { .. } => {
                self.answers.decline_writes(declined);
                WriteVerdict::Refused
            }
        }
    }

    fn grant(&self, directories: Vec<AbsPath>) -> WriteVerdict {
        // It was not offered.
        if directories.is_empty() {
            return WriteVerdict::Refused;
        }
        locked(&self.granted).extend(directories.iter().cloned());
        self.with(&directories).map_or(WriteVerdict::Refused, WriteVerdict::Granted)
    }

    /// The profile that would grant these directories to this command in future, if one may.
    fn proposed(&self, directories: &[AbsPath]) -> Option<ProfileAmendment> {
        let (store, command) = self.saving.get()?;
        let is_for_many = directories.iter().any(|directory| self.is_shared(directory));
        if directories.is_empty() || is_for_many { None } else { store.propose(command, directories) }
    }

    /// Grants it to later runs of the session.
    fn remember(&self, directories: &[AbsPath]) {
        let Some(more) = writable(directories.iter()) else { return };
        let key = ApprovalKey::Permissions { permissions: written(&more), sandbox: written(&self.session.sandbox) };
        self.approvals.memory.remember(vec![key], &EscalationExecution::Permissions(Box::new(more)));
    }

    /// The directories that an approval for more than one call covers; empty if that would be too much.
    fn directories(&self, operation: WriteOperation, paths: &[AbsPath]) -> Vec<AbsPath> {
        let mut directories: Vec<AbsPath> = Vec::new();
        for path in paths {
            let Some(directory) = self.directory(operation, path) else { return Vec::new() };
            if !directories.iter().any(|known| directory.starts_with(known)) {
                directories.push(directory);
            }
        }
        directories
    }

    fn is_shared(&self, directory: &AbsPath) -> bool {
        self.home.as_ref().is_some_and(|home| is_shared(home, directory))
    }

    /// The cache that contains a path, the directory to be created, or the directory of a file: never an ancestor of
    /// the home directory or the workspace, nor a top-level directory, nor one that all tools share.
    fn directory(&self, operation: WriteOperation, path: &AbsPath) -> Option<AbsPath> {
        let nearest = match operation {
            WriteOperation::MakeDirectory => Some(path.clone()),
            WriteOperation::Write | WriteOperation::Create | WriteOperation::Replace => path.parent(),
        };
        let cache = path.ancestors().skip(1).find(|above| {
            above.parent().is_some_and(|parent| parent.components().last() == Some(b".cache".as_slice()))
        });
        let kept: Vec<&AbsPath> = self.home.iter().chain(&self.session.host.workspace_roots).collect();
        let is_narrow =
            |directory: &AbsPath| directory.depth() > 1 && !kept.iter().any(|kept| kept.starts_with(directory));
        let is_granted = |directory: &AbsPath| self.with(std::slice::from_ref(directory)).is_some();
        let candidates = [cache, nearest].into_iter().flatten();
        // What every tool has a directory in is not for one of them, unless it is missing: then all in it is new.
        let is_new = operation == WriteOperation::MakeDirectory;
        let fits = |directory: &AbsPath| is_narrow(directory) && (is_new || !self.is_shared(directory));
        candidates.filter(fits).find(is_granted)
    }
}

/// The home directory of a session's commands, its links followed.
fn real_home(environment: &BTreeMap<RawText, RawText>) -> Option<AbsPath> {
    let home = environment.get(&"HOME".into())?;
    AbsPath::parse(home.clone()).ok().map(|home| leads_to(&home))
}

/// Whether every tool has a directory of its own in this one. Such a directory may be a link in the home directory.
fn is_shared(home: &AbsPath, directory: &AbsPath) -> bool {
    let below =
        |shared: &str| shared.split('/').try_fold(home.clone(), |path, name| path.join(name.as_bytes().to_vec())).ok();
    SHARED.iter().filter_map(|shared| below(shared)).any(|shared| leads_to(&shared) == *directory)
}

fn writable<'a>(paths: impl Iterator<Item = &'a AbsPath>) -> Option<Permissions> {
    let rule = |path: &AbsPath| FileRule::path(path.clone(), Access::Write).from_source(RuleSource::Approval);
    let files = FileRules::new(paths.map(rule)).ok()?;
    Some(Permissions { files, ..Permissions::default() })
}

fn operation(act: &DeniedAct) -> Option<WriteOperation> {
    match act {
        DeniedAct::Write(_) => Some(WriteOperation::Write),
        DeniedAct::Create(_) => Some(WriteOperation::Create),
        DeniedAct::MakeDirectory(_) => Some(WriteOperation::MakeDirectory),
        DeniedAct::Replace(_) => Some(WriteOperation::Replace),
        // A second name for a file would outlast the approval.
        DeniedAct::Link { .. }
        | DeniedAct::Read(_)
        | DeniedAct::LookAt(_)
        | DeniedAct::LookUp(_)
        | DeniedAct::Connect { .. }
        | DeniedAct::Call(_)
        | DeniedAct::UnixSocket
        | DeniedAct::Exceed(_) => None,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The paths of denied writes have no links, so those of the home directory and of the directories in it are followed.
    #[test]
    fn shared_directories_are_known_behind_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let at = |name: &str| format!("{root}/{name}").parse::<AbsPath>().unwrap();
        std::fs::create_dir_all(directory.path().join("disk/me/.config/tool")).unwrap();
        std::fs::create_dir_all(directory.path().join("disk/big")).unwrap();
        symlink("disk", directory.path().join("home")).unwrap();
        symlink("../big", directory.path().join("disk/me/.cache")).unwrap();
        let environment = BTreeMap::from([("HOME".into(), at("home/me").as_raw().clone())]);
        let home = real_home(&environment).unwrap();
        assert_eq!(home, at("disk/me"));
        for shared in ["disk/me/.config", "disk/big", "disk/me/.local/share"] {
            assert!(is_shared(&home, &at(shared)), "{shared}");
        }
        for own in ["disk/me/.config/tool", "disk/big/tool", "disk/me", "disk"] {
            assert!(!is_shared(&home, &at(own)), "{own}");
        }
    }
}
