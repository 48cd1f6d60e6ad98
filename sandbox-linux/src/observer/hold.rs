//! Calls that wait for an answer, and what was granted to the run so far.
//!
//! A call that waits is a number and the copy of its arguments: no thread and no descriptor waits with it. When its
//! verdict is there, one of a few threads makes it ([`act`](super::act)), so that a slow file system holds up nothing
//! else. There is a most of everything: beyond it calls are denied as they would have been without a question.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;

use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access, FileRules, FileTarget, PROTECTED_NAMES, Permissions, RawText, RuleSource};
use stockade_sandboxing::{
    DeniedAct, Observation, Observations, SeenOnce, WriteAnswer, WriteAttempt, WriteKeeper, WriteVerdict,
};

use super::act::{Actor, FileCall};
use super::lineage::Lineages;
use super::moves::{self, outlasts};
use super::resolve::{LastLink, Tree};
use crate::engines::native;
use crate::supervisor::program_of;
use crate::sys::notify::{self, Notification};

/// The most calls that wait at once.
const MOST_HELD: usize = 512;
/// The most threads that make calls at once.
const MOST_THREADS: usize = 8;

/// What one command's calls are held with.
pub(super) struct Holds {
    keeper: Arc<dyn WriteKeeper>,
    listener: Arc<OwnedFd>,
    notes: Arc<Observations>,
    /// Who was denied something.
    lineages: Arc<Lineages>,
    view: Arc<Tree>,
    host: Arc<Tree>,
    /// The policy with what was granted to the run; none before anything was.
    granted: RwLock<Option<Arc<Granted>>>,
    held: AtomicUsize,
    work: Mutex<Work>,
}

/// What was granted to the run.
struct Granted {
    /// The policy with it.
    files: Arc<FileRules>,
    /// The directories that it is about.
    directories: Vec<AbsPath>,
}

impl Granted {
    /// Whether a call stays within one of the directories, as it would where they are mounts: what is granted is what lies
    /// below them. Their own names, and those above, stay what they are, since the next grant and the next run go by
    /// them; but a directory that is missing may be made.
    fn covers(&self, call: &FileCall) -> bool {
        let is_for_itself = matches!(
            call,
            FileCall::MakeDirectory { .. }
                | FileCall::Mode { .. }
                | FileCall::Times { .. }
                | FileCall::SetAttribute { .. }
                | FileCall::RemoveAttribute { .. }
        );
        let is_within = |directory: &AbsPath| {
            call.paths().all(|path| path.starts_with(directory) && (is_for_itself || path != directory))
        };
        self.directories.iter().any(is_within)
    }

    /// Whether a call could take away or replace a directory that was granted, or one above it.
    fn is_shaken_by(&self, call: &FileCall) -> bool {
        let takes_away = match call {
            FileCall::Unlink { .. }
            | FileCall::RemoveDirectory { .. }
            | FileCall::Rename { .. }
            | FileCall::Link { .. }
            | FileCall::MakeLink { .. }
            | FileCall::MakeFile { .. }
            | FileCall::Open { .. } => true,
            FileCall::MakeDirectory { .. }
            | FileCall::Truncate { .. }
            | FileCall::Mode { .. }
            | FileCall::Owner { .. }
            | FileCall::Times { .. }
            | FileCall::SetAttribute { .. }
            | FileCall::RemoveAttribute { .. } => false,
        };
        let is_above = |path: &AbsPath| self.directories.iter().any(|directory| directory.starts_with(path));
        takes_away && call.paths().any(is_above)
    }
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<Job>,
    threads: usize,
}

/// A call whose verdict is there.
struct Job {
    call: Held,
    verdict: WriteVerdict,
}

/// A call that waits.
struct Held {
    notification: Notification,
    call: FileCall,
    attempt: WriteAttempt,
    /// The rules of the run, without what is granted.
    policy: Arc<FileRules>,
}

/// What became of a call that the policy denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was answered, or will be.
    Taken,
    /// It is for the kernel to deny.
    Left,
}

impl Holds {
    pub(super) fn new(
        keeper: Arc<dyn WriteKeeper>,
        listener: &Arc<OwnedFd>,
        (notes, lineages): (Arc<Observations>, Arc<Lineages>),
        (view, host): (Arc<Tree>, Arc<Tree>),
    ) -> Arc<Self> {
        let (listener, granted) = (Arc::clone(listener), RwLock::default());
        let (held, work) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { keeper, listener, notes, lineages, view, host, granted, held, work })
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn granted(&self) -> Option<Arc<Granted>> {
        self.granted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a call that a grant of this run covers, whether or not it would be a denial: in a directory that may be
    /// written, removing what is not there says so.
    pub(super) fn by_grant(&self, call: &Notification, policy: &FileRules) -> Fate {
        let Some(granted) = self.granted() else { return Fate::Left };
        let Some(copied) = FileCall::copy(call, &self.view) else { return Fate::Left };
        let is_writable = |files: &FileRules, path: &AbsPath| files.access(path) == Access::Write;
        // What the policy itself allows, the kernel does.
        let is_granted = copied.paths().all(|path| is_writable(&granted.files, path)) && granted.covers(&copied);
        let is_allowed = copied.paths().all(|path| is_writable(policy, path));
        if !is_granted || is_allowed || leads_to_metadata(&copied, policy) || !self.is_waiting(call.id) {
            return Fate::Left;
        }
        if let FileCall::Link { from, to } = &copied {
            return self.refuse_link(call, from, to, policy);
        }
        if outlasts(&copied, moves::Granted::Directory, policy, &self.view) {
            return Fate::Left;
        }
        self.act(call.id, &copied, &granted.files)
    }

    /// Refuses a hard link in a granted directory. The second name could lie in a directory that a later run may write, and
    /// would outlast the grant. `EXDEV` is the error between two mounts, after which programs copy the file.
    fn refuse_link(&self, call: &Notification, from: &AbsPath, to: &AbsPath, policy: &FileRules) -> Fate {
        let exists = |path: &AbsPath| {
            self.view.locate(path.as_raw().as_bytes(), LastLink::Kept).is_ok_and(|found| found.exists())
        };
        // The kernel has an error of its own for a missing source and for a name that is taken.
        if !exists(from) || exists(to) {
            return Fate::Left;
        }
        if policy.access(to) != Access::Write {
            let (pid, program) = program_of(call.thread);
            self.note(call.id, DeniedAct::Link { from: from.clone(), path: to.clone() }, pid, program);
        }
        // A process that is gone has no call that waits.
        notify::answer(self.listener.as_fd(), call.id, libc::EXDEV).ok();
        Fate::Taken
    }

    /// Asks about a call that the policy denies.
    pub(super) fn ask(self: &Arc<Self>, call: &Notification, denied: &DeniedAct, policy: &Arc<FileRules>) -> Fate {
        let Some(copied) = FileCall::copy(call, &self.view) else { return Fate::Left };
        // The caller may have changed its arguments since they were judged. What is shown is what will be done.
        if !copied.paths().any(|path| denied.path() == Some(path)) {
            return Fate::Left;
        }
        // No question that no answer helps: a second name for a file would outlast what was granted, metadata is protected
        // wherever it is, and so is a directory above a protected name.
        let stays = copied.is_out_of_reach(policy) || leads_to_metadata(&copied, policy);
        if stays || outlasts(&copied, moves::Granted::Ends, policy, &self.view) {
            return Fate::Left;
        }
        let paths: Vec<AbsPath> = copied.paths().filter(|path| policy.access(path) != Access::Write).cloned().collect();
        if paths.is_empty() || !self.keeper.is_asked(denied, &paths) {
            return Fate::Left;
        }
        let (pid, program) = program_of(call.thread);
        // Only now is it sure that all of this was the calling process's, and not one's with its number.
        if !self.is_waiting(call.id) || self.held.fetch_add(1, Ordering::Relaxed) >= MOST_HELD {
            self.held.fetch_sub(1, Ordering::Relaxed);
            return Fate::Left;
        }
        let attempt = WriteAttempt { act: denied.clone(), paths, pid, program };
        let held = Held { notification: *call, call: copied, attempt: attempt.clone(), policy: Arc::clone(policy) };
        let (answered, asked, id) = (Arc::clone(self), Arc::clone(self), call.id);
        let give = move |verdict| answered.decided(Job { call: held, verdict });
        self.keeper.decide(attempt, WriteAnswer::new(give, move || asked.is_waiting(id)));
        Fate::Taken
    }

    fn is_waiting(&self, id: u64) -> bool {
        notify::is_waiting(self.listener.as_fd(), id)
    }

    /// Hands a call to a thread that makes it.
    fn decided(self: &Arc<Self>, job: Job) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        let mut work = self.work();
        work.waiting.push_back(job);
        if work.threads < MOST_THREADS {
            work.threads += 1;
            drop(work);
            let holds = Arc::clone(self);
            let started = thread::Builder::new().name(String::from("stockade-actor")).spawn(move || holds.work_off());
            if started.is_err() {
                self.work().threads -= 1;
                self.refuse_waiting();
            }
        }
    }

    /// Without a thread nothing can be done for them, unless there is another one.
    fn refuse_waiting(&self) {
        let refused: Vec<Job> = {
            let mut work = self.work();
            if work.threads > 0 { Vec::new() } else { work.waiting.drain(..).collect() }
        };
        refused.into_iter().for_each(|job| self.leave(&job.call));
    }

    fn work_off(&self) {
        let is_ready = notify::own_file_mode_mask().is_ok();
        loop {
            let job = {
                let mut work = self.work();
                let Some(job) = work.waiting.pop_front() else {
                    work.threads -= 1;
                    return;
                };
                job
            };
            if is_ready { self.carry_out(job) } else { self.leave(&job.call) }
        }
    }

    fn carry_out(&self, Job { call, verdict }: Job) {
        let (permissions, is_kept) = match verdict {
            WriteVerdict::Refused => return self.leave(&call),
            WriteVerdict::Once(permissions) => (permissions, false),
            WriteVerdict::Granted(permissions) => (permissions, true),
        };
        let directories = granted_paths(&permissions.files);
        // What has become a link since it was granted leads elsewhere.
        if !directories.iter().all(|directory| is_no_link(&self.host, directory)) {
            return self.leave(&call);
        }
        let Some(files) = completed(&permissions) else { return self.leave(&call) };
        if is_kept {
            let granted = Arc::new(Granted { files: Arc::clone(&files), directories });
            let is_covered = granted.covers(&call.call);
            *self.granted.write().unwrap_or_else(PoisonError::into_inner) = Some(granted);
            if !is_covered {
                return self.leave(&call);
            }
        } else if self.granted().is_some_and(|granted| granted.is_shaken_by(&call.call))
            // The file may have another name since it was asked about.
            || outlasts(&call.call, moves::Granted::Ends, &call.policy, &self.view)
        {
            return self.leave(&call);
        }
        if !self.is_waiting(call.notification.id) {
            return;
        }
        match self.act(call.notification.id, &call.call, &files) {
            Fate::Taken => {}
            Fate::Left => self.leave(&call),
        }
    }

    /// Makes a call and answers it.
    fn act(&self, id: u64, call: &FileCall, files: &FileRules) -> Fate {
        match (Actor { view: &self.view, host: &self.host }).act(call, files) {
            Ok(reply) => {
                // Before the command goes on: it may end at once, and its record with it.
                call.paths().for_each(|path| self.keeper.done(path));
                // A process that is gone has no call that waits.
                reply.send(self.listener.as_fd(), id).ok();
                Fate::Taken
            }
            Err(_) => Fate::Left,
        }
    }

    /// Leaves a call to the kernel, which denies it.
    fn leave(&self, Held { notification, attempt, .. }: &Held) {
        let WriteAttempt { act, pid, program, .. } = attempt.clone();
        self.note(notification.id, act, pid, program);
        notify::go_on(self.listener.as_fd(), notification).ok();
    }

    /// Notes a denial, if its call still waits.
    fn note(&self, id: u64, act: DeniedAct, pid: Option<u32>, program: Option<RawText>) {
        self.notes.note(act, |act| {
            pid.into_iter().for_each(|process| self.lineages.hold(process));
            self.is_waiting(id).then_some(Observation { pid, program, act, is_handled: false })
        });
    }
}

/// What a person granted beyond the policy.
fn granted_paths(files: &FileRules) -> Vec<AbsPath> {
    let granted = files.iter().filter(|rule| rule.access == Access::Write && rule.source == RuleSource::Approval);
    let path = |target: &FileTarget| match target {
        FileTarget::Path(path) => Some(path.clone()),
        FileTarget::Glob(_) => None,
    };
    granted.filter_map(|rule| path(&rule.target)).collect()
}

/// Whether a path leads through no link on the host, as far as it exists.
fn is_no_link(host: &Tree, path: &AbsPath) -> bool {
    let found = path.ancestors().find_map(|path| match host.locate(path.as_raw().as_bytes(), LastLink::Followed) {
        Err(Errno::NOENT) => None,
        other => Some(other.is_ok_and(|found| found.path == path)),
    });
    found == Some(true)
}

/// Whether a call is about metadata of a repository or an agent that the policy does not let it write. Where directories are
/// granted ahead of a run, such names in them are searched for and protected; here they are known by name.
fn leads_to_metadata(call: &FileCall, policy: &FileRules) -> bool {
    let is_metadata =
        |name: &[u8]| PROTECTED_NAMES.iter().any(|protected| protected.as_bytes().eq_ignore_ascii_case(name));
    call.paths().any(|path| policy.access(path) != Access::Write && path.components().any(is_metadata))
}

/// The rules of permissions as a plan would have them: links followed, repositories protected.
fn completed(permissions: &Permissions) -> Option<Arc<FileRules>> {
    native::resolve(permissions, &SeenOnce::default()).ok().map(|completed| Arc::new(completed.files))
}
