//! Starting the launcher, and sending it plans.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{Running as _, SpawnError, Stdio, Streams};

use crate::cgroup::{Group, Made};
use crate::child::Child;
use crate::enforcement::{enforcement, fact_names};
use crate::placeholder::{Name, Placeholder};
use crate::step::{Encoder, Step, encode};
use crate::{sys, wire};

/// The launcher's own file, compiled by the build script.
const LAUNCHER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// A launcher that has been told how to build its sandbox.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Closing it tells the launcher that no command will follow.
    control: Option<OwnedFd>,
    pid: Pid,
    placeholders: Vec<Placeholder>,
    /// A launcher outside that removes the placeholders, where this one can't from where it is.
    keeper: Option<Box<Launcher>>,
    /// The control group that it is in. Goes with everything in it.
    group: Option<Made>,
}

/// How to build a sandbox.
pub(crate) struct Setup<'a> {
    pub(crate) steps: &'a [Step],
    pub(crate) placeholders: &'a [AbsPath],
    /// The mounts that cover the placeholders.
    pub(crate) covers: &'a BTreeSet<AbsPath>,
    pub(crate) group: Option<&'a Group>,
}

/// What one command needs beyond the sandbox.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'static str,
    pub(crate) flags: u64,
    pub(crate) init: &'a [Step],
    pub(crate) command: &'a [Step],
    /// The facts that have to hold, or the command is killed before it starts.
    pub(crate) facts: u64,
}

impl Run<'_> {
    /// The program, for messages.
    fn program(&self) -> RawText {
        let last = self.command.last();
        last.and_then(|step| if let Step::Exec { command } = step { command.arguments.first().cloned() } else { None })
            .unwrap_or_default()
    }
}

impl Launcher {
    /// Starts a launcher and has it build a sandbox.
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self, SpawnError> {
        reap_earlier_launchers();
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let program = launcher_file().map_err(lost("writing its file"))?;
        let (control, theirs) = socket_pair().map_err(lost("making its socket"))?;
        let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .map_err(|error| lost("naming it")(error.into()))?;
        let pid = sys::spawn(&path, c"stockade", theirs.as_fd()).map_err(lost("starting it"))?;
        drop(theirs);
        let mut launcher = Self { control: Some(control), pid, placeholders: Vec::new(), keeper: None, group: None };
        launcher.join(setup.group, pid)?;
        launcher.placeholders = launcher.hold(setup)?;
        let held: Vec<BorrowedFd<'_>> = launcher.placeholders.iter().map(Placeholder::held).collect();
        launcher.send(wire::FRAME_SETUP, &encode(setup.steps), &held).map_err(lost("sending it the plan"))?;
        Ok(launcher)
    }

    /// Has a launcher that another program has started do what is left to do. A keeper lives as long
    /// as either this program or that launcher, so that nothing is removed under a running command.
    pub(crate) fn inside(control: OwnedFd, pid: Pid, setup: &[Step], keeper: Option<Self>) -> Result<Self, SpawnError> {
        let keeper = keeper.map(Box::new);
        let launcher = Self { control: Some(control), pid, placeholders: Vec::new(), keeper, group: None };
        let files: Vec<BorrowedFd<'_>> = launcher.keeper.iter().filter_map(|keeper| keeper.control()).collect();
        launcher
            .send(wire::FRAME_SETUP, &encode(setup), &files)
            .map_err(|source| SpawnError::Launcher { doing: "sending it the plan", source })?;
        Ok(launcher)
    }

    /// Puts the process that starts the commands into a control group, before it has started any.
    pub(crate) fn join(&mut self, group: Option<&Group>, process: Pid) -> Result<(), SpawnError> {
        self.group = group.map(|group| group.make(process)).transpose()?;
        Ok(())
    }

    /// What keeps it from ending.
    pub(crate) fn control(&self) -> Option<BorrowedFd<'_>> {
        self.control.as_ref().map(OwnedFd::as_fd)
    }

    /// Holds names that must not be made. The launcher is told first: if this program is killed it
    /// removes what was put there.
    fn hold(&self, setup: &Setup<'_>) -> Result<Vec<Placeholder>, SpawnError> {
        let failed = |path: &AbsPath, source| SpawnError::Setup { step: format!("hold the name `{path}`"), source };
        let name = |path| Name::new(path).map_err(|source| failed(path, source));
        let names = setup.placeholders.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let (mut covers, mut texts, mut body) = (Encoder::default(), Encoder::default(), Encoder::default());
        for path in setup.covers {
            covers.text(path.as_raw().as_bytes());
        }
        for name in &names {
            texts.text(name.name());
        }
        body.bytes(&covers.0).bytes(&texts.0);
        let parents: Vec<BorrowedFd<'_>> = names.iter().map(Name::parent).collect();
        self.send(wire::FRAME_NAMES, &body.0, &parents)
            .map_err(|source| SpawnError::Launcher { doing: "telling it the names to hold", source })?;
        let hold = |(name, path): (Name, &AbsPath)| name.hold().map_err(|source| failed(path, source));
        names.into_iter().zip(setup.placeholders).map(hold).collect()
    }

    fn send(&self, kind: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let control = self.control.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        send(control.as_fd(), kind, body, files)
    }

    /// Starts one command and lets the sandbox end with it.
    pub(crate) fn run_only(mut self, run: &Run<'_>, stdio: Stdio) -> Result<Child, SpawnError> {
        let mut child = match self.run(run, stdio) {
            Ok(child) => child,
            Err(error) => {
                self.end();
                return Err(error);
            }
        };
        self.control = None;
        child.session = Some(self);
        Ok(child)
    }

    /// Starts one command.
    pub(crate) fn run(&self, run: &Run<'_>, stdio: Stdio) -> Result<Child, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let (report, theirs) = socket_pair().map_err(lost("making a command's socket"))?;
        let mut body = Encoder::default();
        body.number(run.flags).bytes(&encode(run.init)).bytes(&encode(run.command));
        let null = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| lost("opening /dev/null")(errno.into()))?;
        let (input, output, error) = (io::stdin(), io::stdout(), io::stderr());
        let files = [
            stream(&stdio.stdin, input.as_fd(), null.as_fd()),
            stream(&stdio.stdout, output.as_fd(), null.as_fd()),
            stream(&stdio.stderr, error.as_fd(), null.as_fd()),
            theirs.as_fd(),
        ];
        files.iter().try_for_each(|file| refuse_directory(*file)).map_err(lost("passing it the standard streams"))?;
        self.send(wire::FRAME_RUN, &body.0, &files).map_err(lost("sending it a command"))?;
        drop(theirs);
        let mut child =
            Child { report, program: run.program(), enforcement: None, facts: 0, status: None, session: None };
        let facts = child.ready()?;
        let missing = run.facts & !facts;
        if missing != 0 {
            child.kill()?;
            return Err(SpawnError::NotEnforced { missing: fact_names(missing).join(", ") });
        }
        child.facts = facts;
        let mut enforcement = enforcement(run.engine, facts, self.pid);
        enforcement.layers.extend(self.group.as_ref().map(Made::report));
        child.enforcement = Some(enforcement);
        Ok(child)
    }
}

fn stream<'a>(stream: &'a Streams, own: BorrowedFd<'a>, null: BorrowedFd<'a>) -> BorrowedFd<'a> {
    match stream {
        Streams::Null => null,
        Streams::Inherit => own,
        Streams::To(file) => file.as_fd(),
    }
}

/// A directory that is open leads to everything below it, past every mount of the view.
fn refuse_directory(file: BorrowedFd<'_>) -> io::Result<()> {
    let found = rustix::fs::fstat(file)?;
    let is_directory = rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Directory;
    if is_directory { Err(io::Error::from(io::ErrorKind::IsADirectory)) } else { Ok(()) }
}

pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// The launcher as a file that nobody can change, made once.
pub(crate) fn launcher_file() -> io::Result<&'static OwnedFd> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the second flag and need none.
    let file = match rustix::fs::memfd_create("stockade-launcher", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create("stockade-launcher", flags)?,
        other => other?,
    };
    let mut rest = LAUNCHER;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(FILE.get_or_init(|| file))
}

fn send(socket: BorrowedFd<'_>, kind: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the plan is too long");
    if files.len() > wire::MOST_FILES {
        return Err(too_long());
    }
    let length = u32::try_from(body.len()).map_err(|_| too_long())?;
    let head = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(too_long());
    }
    // Small plans go in one call, with the descriptors on their first byte.
    let mut sent = sendmsg(socket, &[IoSlice::new(&head), IoSlice::new(body)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let whole = [&head, body].concat();
    while let Some(rest @ [_, ..]) = whole.get(sent..) {
        sent += rustix::net::send(socket, rest, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// Launchers whose commands have ended. They take their sandboxes down in their own time, and
/// nobody waits for that.
static ENDING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

fn reap_earlier_launchers() {
    let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
    ending.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
}

impl Launcher {
    /// Whether it has to clean something up in the workspace.
    pub(crate) fn leaves_traces(&self) -> bool {
        !self.placeholders.is_empty() || self.keeper.is_some()
    }

    /// Has the launcher outside, if there is one, clean up now.
    pub(crate) fn end_keeper(&mut self) {
        self.keeper.take().into_iter().for_each(|keeper| keeper.end());
    }

    /// Lets it go, and waits until it has cleaned up.
    pub(crate) fn end(mut self) {
        self.control = None;
        // What can't be waited for has ended.
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // The keeper waits for this one, and whoever looks at the workspace next for the keeper.
            self.control = None;
            waitpid(Some(self.pid), WaitOptions::empty()).ok();
            keeper.end();
        }
        if matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None)) {
            ENDING.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}
