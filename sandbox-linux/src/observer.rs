//! The observer: what a command tries against its policy is seen, and told as a fact.
//!
//! The filter notifies of calls that change the file system, and of connections where the network is off. A thread takes
//! them, finds out where they lead ([`resolve`]), and asks the policy and the host ([`judge`]). Then the kernel goes on
//! with the call, whatever was found: mounts, Landlock and the filter decide, and nothing is allowed because it was
//! looked at. So a caller that changes its arguments, or its files, while they are read deceives the report and
//! nothing else.
//!
//! - Calls that no policy allows, and that a command may need all the same, are noted and answered with their error ([`refused`]).
//!   No way leads from there to the kernel's going on.
//! - Where writes can be asked about, a denied one waits ([`hold`]), and after a yes it is made outside, from a copy and
//!   judged once more ([`act`]). The kernel never goes on with a call because of a yes.
//! - Calls are taken by one thread, and by another if that one is stuck ([`turns`]). It does not end before the last
//!   process of the command has. Should it end all the same, every such call fails from then on.
//! - Connections that somebody decides on are none of these: they are handed to the supervisor, which never lets the
//!   kernel go on.
//! - Two threads, four descriptors and those of some processes that were denied something ([`lineage`]) for each
//!   command; more of both only for calls that are stuck or granted, and never more than a few; notes are bounded.
//!
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

mod act;
mod calls;
mod chain;
mod destination;
mod elsewhere;
mod hold;
mod judge;
pub(crate) mod limit_counters;
mod lineage;
mod loader;
mod look_up;
mod moves;
mod process_limit;
mod refused;
mod repository;
mod resolve;
mod start_file;
mod starts;
mod turns;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use stockade_protocol::{FileRules, NetworkPolicy, Permissions};
use stockade_sandboxing::{
    CountedLimit, Coverage, Deciders, DeniedAct, Observation, Observations, Starts, WriteKeeper,
};

pub use self::repository::git_writes;

use self::act::{Actor, FileCall};
use self::hold::{Fate, Holds};
use self::judge::Judge;
use self::lineage::Lineages;
use self::repository::Repositories;
use self::resolve::Tree;
use self::starts::{StartCalls, Trees, is_start};
use self::turns::{Duty, Next, Turns};
use crate::launch::cgroup::Group;
use crate::plan::bpf::{Action, Instruction};
use crate::plan::refusals::{self, Does, Refusal, Refusals, refusal};
use crate::plan::seccomp::{self, Families};
use crate::supervisor::{Feed, program_of};
use crate::sys::notify::{self, Notification};

/// Whether denials are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// What a command tries against its policy is seen and noted.
    #[default]
    Denials,
    /// Nothing is: denials are guessed from the command's output.
    Nothing,
}

/// What is watched of a command: plain data, a part of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Watch {
    connections: bool,
    /// Whether denials are noted.
    #[serde(skip)]
    observe: Observe,
    /// Whether starts of programs are judged.
    #[serde(skip_serializing_if = "is_unseen")]
    starts: Starts,
    /// The most processes, where no control group counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<NonZeroU64>,
    #[serde(skip)]
    files: Arc<FileRules>,
}

fn is_unseen(starts: &Starts) -> bool {
    *starts == Starts::Unseen
}

impl Watch {
    /// For permissions as a backend completes them.
    pub(crate) fn of(
        permissions: &Permissions,
        observe: Observe,
        starts: Starts,
        group: Option<&Group>,
    ) -> Option<Self> {
        let is_off = permissions.network == NetworkPolicy::Off && permissions.unix_sockets.is_empty();
        let connections = is_off && observe == Observe::Denials;
        let processes = permissions.limits.processes.filter(|_| group.is_none() && observe == Observe::Denials);
        let files = Arc::new(permissions.files.clone());
        let is_watched = observe == Observe::Denials || starts == Starts::Judged;
        is_watched.then_some(Self { connections, observe, starts, processes, files })
    }

    /// Whether denials are noted.
    pub(crate) fn observes_denials(&self) -> bool {
        self.observe == Observe::Denials
    }

    /// Which part refuses the calls that no policy allows.
    pub(crate) fn refusals(&self) -> Refusals {
        if self.observes_denials() { Refusals::Told } else { Refusals::Silent }
    }

    /// The filter's answers.
    pub(crate) fn answers(&self, families: Families) -> BTreeMap<u32, Vec<Instruction>> {
        let mut answers = BTreeMap::new();
        if self.observes_denials() {
            answers.extend(calls::answers());
            answers.extend(refusals::answers(families, Does::Notify));
        }
        if self.processes.is_some() {
            answers.extend(process_limit::answers());
        }
        if self.starts == Starts::Judged {
            for call in [libc::SYS_execve, libc::SYS_execveat] {
                answers.insert(seccomp::number(call), vec![Instruction::answer(Action::Notify)]);
            }
        }
        if self.connections {
            answers.extend(destination::answers());
        }
        answers
    }

    /// Answers the calls of one command, until its last process has ended. Those that are the supervisor's are passed
    /// on to it. What the policy denies, and which programs are started, is asked of `deciders`, if there are any and
    /// the kernel can do what that takes. `others` is what is seen of the command otherwise.
    pub(crate) fn start(
        &self,
        listener: Arc<OwnedFd>,
        feed: Option<Feed>,
        others: Coverage,
        deciders: &Deciders,
    ) -> io::Result<Arc<Observations>> {
        let coverage = Coverage {
            writes: self.observes_denials(),
            connections: self.connections,
            calls: if self.observes_denials() { refusals::NAMES } else { &[] },
            processes: others.processes || self.processes.is_some(),
            ..others
        };
        let lineages = Arc::new(Lineages::default());
        let held = Arc::clone(&lineages);
        let notes = Arc::new(Observations::with_ends(coverage, Box::new(move |process| held.ended_well(process))));
        notify::wake_up_synchronously(listener.as_fd());
        let writes = deciders.writes.clone().filter(|_| notify::can_answer_with_descriptor(listener.as_fd()));
        let starts = deciders.starts.clone().map(|keeper| StartCalls::new(keeper, &listener));
        let repositories = writes.as_ref().and_then(|writes| Repositories::new(writes.repositories()));
        let observer = Observer {
            watch: self.clone(),
            repositories,
            starts,
            listener,
            feed,
            notes: Arc::clone(&notes),
            lineages,
            host: Arc::new(Tree::hosts()?),
            view: OnceLock::new(),
            writes,
            holds: OnceLock::new(),
            acts: AtomicBool::new(true),
            turns: Turns::default(),
            is_watched: AtomicBool::new(false),
        };
        take_calls(Arc::new(observer), 0)?;
        Ok(notes)
    }
}

/// What the threads share that take a command's calls.
struct Observer {
    watch: Watch,
    /// Judges starts of programs, if something does.
    starts: Option<StartCalls>,
    listener: Arc<OwnedFd>,
    feed: Option<Feed>,
    notes: Arc<Observations>,
    /// Who was denied something.
    lineages: Arc<Lineages>,
    host: Arc<Tree>,
    /// The command's tree. No command can change its root, so all of its processes have the same.
    view: OnceLock<Arc<Tree>>,
    writes: Option<Arc<dyn WriteKeeper>>,
    /// Where git's own calls are made for it.
    repositories: Option<Arc<Repositories>>,
    holds: OnceLock<Arc<Holds>>,
    /// Whether this process can make files with any mode; if not, nothing is held.
    acts: AtomicBool,
    turns: Turns,
    /// Whether the thread was started that takes over from one that is stuck.
    is_watched: AtomicBool,
}

/// Starts a thread that takes calls, in the turn with this number.
fn take_calls(observer: Arc<Observer>, turn: u64) -> io::Result<()> {
    let run = move || observer.run(turn);
    thread::Builder::new().name(String::from("stockade-observer")).spawn(run).map(drop)
}

/// Starts the thread that takes over from one that is stuck.
fn stand_by(observer: Arc<Observer>) -> io::Result<()> {
    let run = move || {
        if let Duty::TakeOver(turn) = observer.turns.watch() {
            observer.is_watched.store(false, Ordering::SeqCst);
            observer.run(turn);
        }
    };
    thread::Builder::new().name(String::from("stockade-standby")).spawn(run).map(drop)
}

impl Observer {
    fn run(self: Arc<Self>, turn: u64) {
        if self.writes.is_some() && notify::own_file_mode_mask().is_err() {
            self.acts.store(false, Ordering::SeqCst);
        }
        while let Ok(next) = self.turn(turn) {
            if next == Next::Replaced {
                return;
            }
        }
        self.turns.finish();
    }

    /// Takes one call; fails when there are no more.
    fn turn(self: &Arc<Self>, turn: u64) -> io::Result<Next> {
        let mut files = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Next::Call),
            Err(errno) => return Err(errno.into()),
        }
        if files.first().is_none_or(|file| !file.revents().contains(PollFlags::IN)) {
            // The last process behind it has ended.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match notify::receive(self.listener.as_fd()) {
            Ok(call) => Ok(self.look(call, turn)),
            // Its process is gone, or has been interrupted.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(Next::Call),
            Err(error) => Err(error),
        }
    }

    fn look(self: &Arc<Self>, call: Notification, turn: u64) -> Next {
        if let Some(refusal) = refusal(call.call, &call.arguments) {
            self.refuse(&call, refusal);
            return Next::Call;
        }
        if let Some(feed) = self.feed.as_ref().filter(|_| Feed::takes(call.call)) {
            feed.pass_on(call);
            return Next::Call;
        }
        if self.turns.is_blind() {
            match self.starts.as_ref().filter(|_| is_start(call.call)) {
                // What is not looked at may be what a rule forbids.
                Some(starts) => starts.pass_over(&call),
                None => self.go_on(&call),
            }
            return Next::Call;
        }
        if !self.is_watched.swap(true, Ordering::SeqCst) {
            // Without it a file system that does not answer holds up every call, and nothing else.
            stand_by(Arc::clone(self)).ok();
        }
        self.turns.begin();
        self.observe(&call);
        self.turns.end(turn)
    }

    /// Answers a call that no policy allows with its error, and nothing else.
    fn refuse(&self, call: &Notification, refusal: Refusal) {
        if let Some(denied) = refused::denied(call, refusal) {
            self.note(call, denied);
        }
        // A process that is gone has no call that waits.
        notify::answer(self.listener.as_fd(), call.id, refusal.errno).ok();
    }

    fn observe(&self, call: &Notification) {
        if is_start(call.call) {
            return match &self.starts {
                Some(starts) => {
                    let trees = Trees { view: self.view_of(call), host: &self.host };
                    starts.look(call, trees, &self.watch.files);
                }
                None => self.go_on(call),
            };
        }
        if self.by_repository(call) == Fate::Taken {
            return;
        }
        if let Some(holds) = self.holds.get().filter(|_| self.acts.load(Ordering::SeqCst))
            && holds.by_grant(call, &self.watch.files) == Fate::Taken
        {
            return;
        }
        if let Some(denied) = self.denied(call) {
            if self.hold(call, &denied) == Fate::Taken {
                return;
            }
            self.note(call, denied);
        }
        self.go_on(call);
    }

    fn go_on(&self, call: &Notification) {
        // A process that is gone has no call that waits.
        notify::go_on(self.listener.as_fd(), call).ok();
    }

    /// Makes a call of git's in a repository that was granted.
    fn by_repository(&self, call: &Notification) -> Fate {
        let repositories = self.repositories.as_ref().filter(|_| self.acts.load(Ordering::SeqCst));
        let (Some(repositories), Some(writes)) = (repositories, &self.writes) else { return Fate::Left };
        let Some(view) = self.view_of(call) else { return Fate::Left };
        let Some(copied) = FileCall::copy(call, view) else { return Fate::Left };
        // Only now is it sure that all of this was the calling process's, and not one's with its number.
        if !notify::is_waiting(self.listener.as_fd(), call.id) {
            return Fate::Left;
        }
        let actor = Actor { view, host: &self.host };
        let Ok(reply) = repositories.act(&copied, &self.watch.files, &actor) else { return Fate::Left };
        // Before the command goes on: it may end at once, and its record with it.
        copied.paths().for_each(|path| writes.done(path));
        // A process that is gone has no call that waits.
        reply.send(self.listener.as_fd(), call.id).ok();
        Fate::Taken
    }

    /// Has a denied call wait for an answer, if it can be asked about.
    fn hold(&self, call: &Notification, denied: &DeniedAct) -> Fate {
        let writes = self.writes.as_ref().filter(|_| self.acts.load(Ordering::SeqCst));
        let (Some(writes), Some(view)) = (writes, self.view.get()) else { return Fate::Left };
        let holds = self.holds.get_or_init(|| {
            let trees = (Arc::clone(view), Arc::clone(&self.host));
            let notes = (Arc::clone(&self.notes), Arc::clone(&self.lineages));
            Holds::new(Arc::clone(writes), &self.listener, notes, trees)
        });
        holds.ask(call, denied, &self.watch.files)
    }

    fn denied(&self, call: &Notification) -> Option<DeniedAct> {
        if process_limit::starts(call.call) {
            let is_reached = self.watch.processes.is_some_and(|limit| process_limit::is_reached(limit, call.thread));
            return is_reached.then_some(DeniedAct::Exceed(CountedLimit::Processes));
        }
        if destination::is_one(call.call) {
            return destination::denied(call, || notify::is_waiting(self.listener.as_fd(), call.id));
        }
        let (path, does) = calls::find(call.call)?;
        let view = self.view_of(call)?;
        Judge { files: &self.watch.files, view, host: &self.host }.denied(call, path, does)
    }

    /// The command's tree, by way of the first process that lets itself be looked at.
    fn view_of(&self, call: &Notification) -> Option<&Tree> {
        if self.view.get().is_none() {
            let view = Tree::of(call.thread).ok().filter(|_| notify::is_waiting(self.listener.as_fd(), call.id))?;
            self.view.get_or_init(|| Arc::new(view));
        }
        self.view.get().map(Arc::as_ref)
    }

    fn note(&self, call: &Notification, denied: DeniedAct) {
        self.notes.note(denied, |act| {
            let (pid, program) = program_of(call.thread);
            pid.into_iter().for_each(|process| self.lineages.hold(process));
            // Only now is it sure that all of this was the calling process's, and not one's with its number.
            let is_sure = notify::is_waiting(self.listener.as_fd(), call.id);
            is_sure.then_some(Observation { pid, program, act, is_handled: false })
        });
    }
}
