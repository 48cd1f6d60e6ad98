//! Starts the launcher, lets it build a sandbox, and releases it.

pub(crate) mod ahead;
pub(crate) mod cgroup;
pub(crate) mod child;
mod failure;
mod frame;
pub(crate) mod kept_names;
mod masks;
pub(crate) mod memory_file;
pub(crate) mod placeholder;
mod program;
mod run;
mod sockets;
pub(crate) mod starter;
pub(crate) mod stdio;
pub(crate) mod streams;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown};
use rustix::process::{Pid, WaitOptions, waitpid};
use stockade_protocol::{AbsPath, LayerReport};
use stockade_sandboxing::{HostFiles as _, RealFiles, SpawnError};

pub(crate) use self::failure::{StartFailure, StepLists};
pub(crate) use self::frame::{receive_part, socket_pair};
pub(crate) use self::program::{launcher_file, stub_file};
pub(crate) use self::run::{Run, SocketsFrom};
use crate::launch::cgroup::{Group, Made};
use crate::launch::child::{Report, readable_within};
use crate::launch::kept_names::KeptNames;
use crate::launch::placeholder::{Leftovers, Name, Placeholder};
use crate::launch::starter::Starter;
use crate::plan::step::{Step, encode};
use crate::plan::view;
use crate::{sys, wire};

/// How long a failed launcher may take to report why.
const LONGEST_LAST_WORDS: Duration = Duration::from_millis(200);

/// A launcher with its setup.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Closing it tells the launcher that no command will follow.
    control: Option<OwnedFd>,
    pid: Pid,
    /// Shared with the commands of a session, which may outlive it: the last one removes the placeholders that the
    /// launcher could not.
    placeholders: Arc<Vec<Placeholder>>,
    /// A launcher outside that removes the placeholders, if this one can't.
    keeper: Option<Box<Launcher>>,
    /// The program that starts it, if it is another one.
    pub(crate) starter: Option<Starter>,
    /// Serialises requests for a process.
    asking: Mutex<()>,
    /// Its control group, removed with everything in it.
    group: Option<Made>,
    /// Its namespaces, once it has built the sandbox.
    namespaces: OnceLock<Vec<LayerReport>>,
}

/// Whether the start of a launcher is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// Until its program is executed, so that a failure is known.
    UntilExecuted,
    /// Not at all: one that could not be executed is noticed when it gets its plan, and another is started.
    NotAtAll,
}

/// The parameters of a sandbox.
pub(crate) struct Setup<'a> {
    pub(crate) steps: &'a [Step],
    /// The steps of a process that waits for a command, in a session.
    pub(crate) parking: Option<Parking<'a>>,
    pub(crate) placeholders: &'a [AbsPath],
    /// The directory for placeholders between runs.
    pub(crate) kept_names: Option<&'a Path>,
    /// The mounts that cover the placeholders.
    pub(crate) covers: &'a BTreeSet<AbsPath>,
    pub(crate) group: Option<&'a Group>,
    /// The socket of the server of its masks.
    pub(crate) masks: Option<BorrowedFd<'a>>,
}

/// The parameters of a waiting process: its namespaces, the steps of its first process, and its confinement.
pub(crate) struct Parking<'a> {
    pub(crate) flags: u64,
    pub(crate) init: &'a [Step],
    pub(crate) confine: &'a [Step],
}

impl Launcher {
    fn new(control: OwnedFd, pid: Pid, keeper: Option<Box<Self>>) -> Self {
        let (placeholders, asking) = (Arc::default(), Mutex::new(()));
        let (starter, group, namespaces) = (None, None, OnceLock::new());
        Self { control: Some(control), pid, placeholders, keeper, starter, asking, group, namespaces }
    }

    /// Starts a launcher, or takes the pre-started one, and lets it build a sandbox.
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self, StartFailure> {
        let begun = ahead::take(setup.steps).filter(|_| setup.group.is_none());
        if let Some((mut launcher, done)) = begun
            && let Ok(placeholders) = launcher.set_up(setup, done)
        {
            launcher.placeholders = Arc::new(placeholders);
            return Ok(launcher);
        }
        let mut launcher = Self::spawn(Waiting::UntilExecuted)?;
        launcher.join(setup.group, launcher.pid)?;
        let placeholders = launcher.set_up(setup, 0).map_err(|error| launcher.with_last_words(error))?;
        launcher.placeholders = Arc::new(placeholders);
        Ok(launcher)
    }

    /// Starts a launcher with the steps that every sandbox begins with.
    pub(crate) fn begin(steps: &[Step]) -> Result<Self, SpawnError> {
        let launcher = Self::spawn(Waiting::NotAtAll)?;
        let sent = launcher.send(wire::FRAME_BEGIN, &encode(steps), &[]);
        sent.map_err(lost("sending it the first steps"))?;
        Ok(launcher)
    }

    fn spawn(waiting: Waiting) -> Result<Self, SpawnError> {
        reap_earlier_launchers();
        let program = launcher_file().map_err(lost("writing its file"))?;
        let (control, theirs) = socket_pair().map_err(lost("making its socket"))?;
        let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .map_err(|error| lost("naming it")(error.into()))?;
        let beside = match waiting {
            Waiting::NotAtAll => sys::spawn_beside(path.clone(), c"stockade", theirs.as_fd()),
            Waiting::UntilExecuted => None,
        };
        let started = beside.unwrap_or_else(|| sys::spawn(&path, c"stockade", theirs.as_fd()));
        Ok(Self::new(control, started.map_err(lost("starting it"))?, None))
    }

    /// Lets a launcher that another program has started do the rest. A keeper lives as long as either this program or
    /// that launcher, so that nothing is removed under a running command.
    pub(crate) fn inside(control: OwnedFd, pid: Pid, setup: &[Step], keeper: Option<Self>) -> Result<Self, SpawnError> {
        let launcher = Self::new(control, pid, keeper.map(Box::new));
        let files: Vec<BorrowedFd<'_>> = launcher.keeper.iter().filter_map(|keeper| keeper.control()).collect();
        launcher
            .send(wire::FRAME_SETUP, &frame::set_up(&BTreeSet::new(), &[], None, setup), &files)
            .map_err(lost("sending it the plan"))?;
        Ok(launcher)
    }

    /// Moves the process that starts the commands into a control group, before it has started any.
    pub(crate) fn join(&mut self, group: Option<&Group>, process: Pid) -> Result<(), SpawnError> {
        self.group = group.map(|group| group.make(process)).transpose()?;
        Ok(())
    }

    /// Replaces an error that only says that the launcher is gone by the launcher's own report.
    fn with_last_words(&self, error: StartFailure) -> StartFailure {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        let is_gone = matches!(&error, StartFailure::Other(SpawnError::Launcher { source, .. })
            if matches!(source.kind(), BrokenPipe | ConnectionReset | UnexpectedEof));
        let Some(control) = self.control().filter(|_| is_gone) else { return error };
        while let Ok(true) = readable_within(control, LONGEST_LAST_WORDS)
            && let Ok((report, _)) = frame::receive(control, RecvFlags::DONTWAIT)
        {
            match Report::read(report) {
                Report::Failed { errno, phase, step } => return StartFailure::reported(errno, phase, step),
                Report::Gone => return error,
                Report::Ready(..)
                | Report::Parked
                | Report::Resolver
                | Report::Datagrams
                | Report::Lease
                | Report::NoDatagrams
                | Report::Listener
                | Report::Ended(..)
                | Report::Built
                | Report::Masks
                | Report::Busy => {}
            }
        }
        error
    }

    /// The control socket, which keeps it alive.
    pub(crate) fn control(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(OwnedFd::as_fd)
    }

    /// Lets the sandbox be built, except for the steps already `done`, and meanwhile creates the placeholders. The
    /// launcher is told of them first: if this program is killed, it removes them.
    fn set_up(&self, setup: &Setup<'_>, done: usize) -> Result<Vec<Placeholder>, StartFailure> {
        let failed = |path: &AbsPath, source| StartFailure::Name { path: path.clone(), source };
        // One descriptor in addition to the names.
        let kept = setup.kept_names.filter(|_| (1..wire::MOST_FILES).contains(&setup.placeholders.len()));
        let kept = kept.and_then(KeptNames::open).map(Arc::new);
        let name = |path| Name::new(path, kept.clone()).map_err(|source| failed(path, source));
        let names = setup.placeholders.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let parents: Vec<BorrowedFd<'_>> =
            names.iter().map(Name::parent).chain(kept.iter().map(|kept| kept.directory())).collect();
        let steps = setup.steps.get(done..).unwrap_or_default();
        let served = setup.masks.map_or(Ok(()), |masks| self.send(wire::FRAME_MASKS, &[], &[masks]));
        served.map_err(lost("sending it a socket"))?;
        self.send(wire::FRAME_SETUP, &frame::set_up(setup.covers, &names, setup.parking.as_ref(), steps), &parents)
            .map_err(lost("sending it the plan"))?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let hold = |(name, path): (Name, &AbsPath)| {
            let held = name.hold().map_err(|source| failed(path, source))?;
            // Only now the name is there, under each of its spellings.
            match RealFiles.has_other_spellings(path) {
                true => Err(failed(path, io::Error::other(format!("it {}", view::IGNORES_CASE)))),
                false => Ok(held),
            }
        };
        let mut placeholders = names.into_iter().zip(setup.placeholders).map(hold).collect::<Result<Vec<_>, _>>()?;
        let held: Vec<BorrowedFd<'_>> = placeholders.iter().filter_map(Placeholder::held).collect();
        self.send(wire::FRAME_HELD, &[], &held).map_err(lost("telling it of the names that are held"))?;
        placeholders.iter_mut().for_each(Placeholder::leave_to_launcher);
        Ok(placeholders)
    }

    fn send(&self, kind: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let control = self.control.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        frame::send(control.as_fd(), kind, body, files)
    }

    /// Whether a launcher outside has to clean up after this one.
    pub(crate) fn has_keeper(&self) -> bool {
        self.keeper.is_some()
    }

    /// Lets the launcher outside clean up now.
    pub(crate) fn end_keeper(&mut self) {
        self.keeper.take().into_iter().for_each(|keeper| keeper.end());
    }

    /// Marks the cleanup by the launcher as done.
    pub(crate) fn has_cleaned_up(&mut self, leftovers: Leftovers) {
        let placeholders = Arc::into_inner(std::mem::take(&mut self.placeholders));
        placeholders.into_iter().flatten().for_each(|placeholder| placeholder.finish(leftovers));
    }

    /// Releases it, and waits until it has either cleaned up or announced to do so when its commands have ended.
    fn let_go(&self) {
        let Some(control) = self.control() else { return };
        // It may be gone already.
        rustix::net::shutdown(control, Shutdown::Write).ok();
        // Earlier reports are no longer needed.
        let mut said = std::iter::from_fn(|| frame::receive(control, RecvFlags::empty()).ok());
        said.find(|(report, _)| matches!(Report::read(*report), Report::Busy | Report::Gone));
    }

    /// Releases it, and waits until it has cleaned up.
    pub(crate) fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        self.control = None;
        // An error means that it has ended. Unless it was killed, it has cleaned up.
        let ended = waitpid(Some(self.pid), WaitOptions::empty());
        if matches!(ended, Ok(Some((_, status))) if status.exit_status() == Some(0)) {
            self.has_cleaned_up(Leftovers::Possible);
        }
        self.starter.iter().for_each(Starter::end);
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // The keeper waits for this one, and the next user of the workspace for the keeper.
            self.close();
            keeper.end();
        }
        if !self.placeholders.is_empty() {
            self.let_go();
        }
        if matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None)) && !is_reaped_beside(self.pid) {
            ENDING.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}

/// An error of the launcher, with the failed operation.
fn lost(doing: &'static str) -> impl FnOnce(io::Error) -> SpawnError {
    move |source| SpawnError::Launcher { doing, source }
}

/// Launchers whose commands have ended. They dismantle their sandboxes asynchronously.
static ENDING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Whether this process outlives its sandboxes and reaps launchers as they end, not when it starts the next one.
static REAPS_BESIDE: AtomicBool = AtomicBool::new(false);

/// Makes this process reap each launcher as it ends, on a thread: a server would keep zombies until its next command.
pub(crate) fn reap_beside() {
    REAPS_BESIDE.store(true, Ordering::Relaxed);
}

fn is_reaped_beside(launcher: Pid) -> bool {
    let reap = move || {
        let _ = waitpid(Some(launcher), WaitOptions::empty());
    };
    let name = String::from("stockade-reaper");
    REAPS_BESIDE.load(Ordering::Relaxed) && thread::Builder::new().name(name).spawn(reap).is_ok()
}

fn reap_earlier_launchers() {
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    ending.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
}
