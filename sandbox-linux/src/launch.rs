//! Starting the launcher, and sending it plans.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, WaitOptions, waitpid};
use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{Running as _, SpawnError, Stdio, Streams};

use crate::cgroup::{Group, Made};
use crate::child::{Child, Report, failure};
use crate::enforcement::{enforcement, fact_names};
use crate::placeholder::{Name, Placeholder};
use crate::starter::Starter;
use crate::step::{Encoder, Step, encode};
use crate::supervisor::{Sockets, Supervisor, Tap};
use crate::{ahead, sys, wire};

/// The launcher's own file, compiled by the build script.
const LAUNCHER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

/// How many processes that wait for a command may be killed before it is given up.
const TRIES: usize = 8;

/// A launcher that has been told how to build its sandbox.
#[derive(Debug)]
pub(crate) struct Launcher {
    /// Closing it tells the launcher that no command will follow.
    control: Option<OwnedFd>,
    pid: Pid,
    placeholders: Vec<Placeholder>,
    /// A launcher outside that removes the placeholders, where this one can't from where it is.
    keeper: Option<Box<Launcher>>,
    /// Whoever starts it, where that is another program.
    pub(crate) starter: Option<Starter>,
    /// Held by whoever asks it for a process.
    asking: Mutex<()>,
    /// The control group that it is in. Goes with everything in it.
    group: Option<Made>,
}

/// How to build a sandbox.
pub(crate) struct Setup<'a> {
    pub(crate) steps: &'a [Step],
    /// What a process does that waits for a command, in a session of many.
    pub(crate) parking: Option<Parking<'a>>,
    pub(crate) placeholders: &'a [AbsPath],
    /// The mounts that cover the placeholders.
    pub(crate) covers: &'a BTreeSet<AbsPath>,
    pub(crate) group: Option<&'a Group>,
}

/// How a process waits for a command: the namespaces it gets, what its first process does, and how it is
/// confined.
pub(crate) struct Parking<'a> {
    pub(crate) flags: u64,
    pub(crate) init: &'a [Step],
    pub(crate) confine: &'a [Step],
}

/// What one command needs beyond the sandbox.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'static str,
    pub(crate) flags: u64,
    pub(crate) init: &'a [Step],
    pub(crate) command: &'a [Step],
    /// The facts that have to hold, or the command is killed before it starts.
    pub(crate) facts: u64,
    /// Whoever decides on its connections, where somebody does.
    pub(crate) supervisor: Option<&'a Supervisor>,
    /// Where the supervisor has the sockets of its network from.
    pub(crate) sockets: SocketsFrom<'a>,
}

/// Who has made the sockets of a command's network.
pub(crate) enum SocketsFrom<'a> {
    /// Nobody: nobody decides on its connections.
    Nobody,
    /// They are there.
    Given(&'a Sockets),
    /// The launcher, in one of the steps by which it has built the sandbox.
    Setup(&'a [Step]),
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
    fn new(control: OwnedFd, pid: Pid, keeper: Option<Box<Self>>) -> Self {
        let (placeholders, asking) = (Vec::new(), Mutex::new(()));
        Self { control: Some(control), pid, placeholders, keeper, starter: None, asking, group: None }
    }

    /// Starts a launcher, or takes the one that was begun ahead, and has it build a sandbox.
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self, SpawnError> {
        let begun = ahead::take(setup.steps).filter(|_| setup.group.is_none());
        if let Some((mut launcher, done)) = begun
            && let Ok(placeholders) = launcher.set_up(setup, done)
        {
            launcher.placeholders = placeholders;
            return Ok(launcher);
        }
        let mut launcher = Self::spawn()?;
        launcher.join(setup.group, launcher.pid)?;
        launcher.placeholders = launcher.set_up(setup, 0)?;
        Ok(launcher)
    }

    /// Starts a launcher and has it do the steps that any sandbox begins with.
    pub(crate) fn begin(steps: &[Step]) -> Result<Self, SpawnError> {
        let launcher = Self::spawn()?;
        let sent = launcher.send(wire::FRAME_BEGIN, &encode(steps), &[]);
        sent.map_err(|source| SpawnError::Launcher { doing: "sending it the first steps", source })?;
        Ok(launcher)
    }

    fn spawn() -> Result<Self, SpawnError> {
        reap_earlier_launchers();
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let program = launcher_file().map_err(lost("writing its file"))?;
        let (control, theirs) = socket_pair().map_err(lost("making its socket"))?;
        let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))
            .map_err(|error| lost("naming it")(error.into()))?;
        let pid = sys::spawn(&path, c"stockade", theirs.as_fd()).map_err(lost("starting it"))?;
        Ok(Self::new(control, pid, None))
    }

    /// Has a launcher that another program has started do what is left to do. A keeper lives as long
    /// as either this program or that launcher, so that nothing is removed under a running command.
    pub(crate) fn inside(control: OwnedFd, pid: Pid, setup: &[Step], keeper: Option<Self>) -> Result<Self, SpawnError> {
        let launcher = Self::new(control, pid, keeper.map(Box::new));
        let files: Vec<BorrowedFd<'_>> = launcher.keeper.iter().filter_map(|keeper| keeper.control()).collect();
        launcher
            .send(wire::FRAME_SETUP, &set_up_body(&BTreeSet::new(), &[], None, setup), &files)
            .map_err(|source| SpawnError::Launcher { doing: "sending it the plan", source })?;
        Ok(launcher)
    }

    /// Sockets of the network of a process, made from outside: they take privileges there that nobody
    /// inside has. It takes no new namespace. The launcher that has made them is to be kept as long as they are.
    pub(crate) fn sockets_of(process: Pid, sockets: Vec<Step>) -> Result<(Sockets, Self), SpawnError> {
        let path = format!("/proc/{}/ns/net", process.as_raw_nonzero()).parse();
        let path = path.map_err(|error: stockade_protocol::Invalid| no_sockets(io::Error::other(error.to_string())))?;
        let (mut steps, covers) = (vec![Step::EnterNetwork { path }], BTreeSet::new());
        steps.extend(sockets);
        let setup = Setup { steps: &steps, parking: None, placeholders: &[], covers: &covers, group: None };
        let launcher = Self::start(&setup)?;
        // It has nothing to park, and so says why if it has not got as far as that.
        launcher.send(wire::FRAME_PARK, &[], &[]).map_err(no_sockets)?;
        let sockets = launcher.passed_sockets(&steps).map_err(|error| {
            // Its steps are its own, and not among those that the number would be looked up in.
            if let SpawnError::Setup { source, .. } = error { no_sockets(source) } else { error }
        })?;
        Ok((sockets, launcher))
    }

    /// The sockets that this launcher was told to make. They are the first that it says.
    pub(crate) fn passed_sockets(&self, steps: &[Step]) -> Result<Sockets, SpawnError> {
        let control = self.control().ok_or_else(|| no_sockets(io::ErrorKind::NotConnected.into()))?;
        let next = |wanted: fn(&Report) -> bool| {
            let (report, file) = receive(control, RecvFlags::empty()).map_err(|errno| no_sockets(errno.into()))?;
            match (Report::read(report), file) {
                (report, Some(file)) if wanted(&report) => Ok(Some(file)),
                (Report::NoDatagrams, None) => Ok(None),
                (Report::Failed { errno, phase, step }, _) => Err(failure(errno, phase, step)),
                _ => Err(no_sockets(io::ErrorKind::UnexpectedEof.into())),
            }
        };
        let mut sockets = Sockets::default();
        for step in steps {
            if matches!(step, Step::Resolver) {
                sockets.resolver = next(|report| matches!(report, Report::Resolver))?;
            } else if matches!(step, Step::Datagrams { .. }) {
                // Either both come, or neither does.
                if let Some(lease) = next(|report| matches!(report, Report::Lease))? {
                    let socket = next(|report| matches!(report, Report::Datagrams))?;
                    sockets.datagrams = socket.map(|socket| Tap { socket, lease });
                }
            }
        }
        Ok(sockets)
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

    /// Has the sandbox built, but for the steps that are `done` already, and meanwhile holds the names that must not be made. The launcher is told
    /// of them first: if this program is killed it removes what was put there.
    fn set_up(&self, setup: &Setup<'_>, done: usize) -> Result<Vec<Placeholder>, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let failed = |path: &AbsPath, source| SpawnError::Setup { step: format!("hold the name `{path}`"), source };
        let name = |path| Name::new(path).map_err(|source| failed(path, source));
        let names = setup.placeholders.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        let parents: Vec<BorrowedFd<'_>> = names.iter().map(Name::parent).collect();
        let steps = setup.steps.get(done..).unwrap_or_default();
        self.send(wire::FRAME_SETUP, &set_up_body(setup.covers, &names, setup.parking.as_ref(), steps), &parents)
            .map_err(lost("sending it the plan"))?;
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let hold = |(name, path): (Name, &AbsPath)| name.hold().map_err(|source| failed(path, source));
        let mut placeholders = names.into_iter().zip(setup.placeholders).map(hold).collect::<Result<Vec<_>, _>>()?;
        let held: Vec<BorrowedFd<'_>> = placeholders.iter().filter_map(Placeholder::held).collect();
        self.send(wire::FRAME_HELD, &[], &held).map_err(lost("telling it of the names that are held"))?;
        placeholders.iter_mut().for_each(Placeholder::leave_to_launcher);
        Ok(placeholders)
    }

    fn send(&self, kind: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let control = self.control.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        send(control.as_fd(), kind, body, files)
    }

    /// Starts one command and lets the sandbox end with it.
    pub(crate) fn run_only(mut self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, SpawnError> {
        let mut child = match self.start_only(run, stdio) {
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

    fn start_only(&self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let (report, theirs) = socket_pair().map_err(lost("making a command's socket"))?;
        let (confine, start) = run.command.split_at(start_of(run.command));
        let mut body = Encoder::default();
        body.number(run.flags).bytes(&encode(run.init)).bytes(&encode(confine)).bytes(&encode(start));
        let null = null().map_err(lost("opening /dev/null"))?;
        let own = (io::stdin(), io::stdout(), io::stderr());
        let [input, output, error] = streams(stdio, &own, &null).map_err(lost("passing it the standard streams"))?;
        let files = [input, output, error, theirs.as_fd()];
        self.send(wire::FRAME_RUN, &body.0, &files).map_err(lost("sending it a command"))?;
        drop(theirs);
        let mut child = Child::new(report, run.program());
        self.follow(run, &mut child)?;
        Ok(child)
    }

    /// Starts one command of many, in a process that waits for it.
    pub(crate) fn run(&self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let null = null().map_err(lost("opening /dev/null"))?;
        let own = (io::stdin(), io::stdout(), io::stderr());
        let files = streams(stdio, &own, &null).map_err(lost("passing it the standard streams"))?;
        let (_, start) = run.command.split_at(start_of(run.command));
        let start = encode(start);
        let is_gone = |error: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let parked = self.parked()?;
            let mut child = Child::new(parked, run.program());
            let sent = send(child.readable(), wire::FRAME_RUN, &start, &files).map_err(lost("sending it a command"));
            match sent.and_then(|()| self.follow(run, &mut child)) {
                Ok(()) => return Ok(child),
                // Somebody has killed it while it waited. Nothing has run in it.
                Err(SpawnError::Launcher { source, .. }) if is_gone(&source) && tries < TRIES => {
                    child.failure_left_behind().map_or(Ok(()), Err)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The socket of a process that waits for a command.
    fn parked(&self) -> Result<OwnedFd, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let control = self.control.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        let control = control.map_err(lost("asking it for a process"))?;
        // Each request has one answer, and whoever asks takes one.
        let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let there = match receive(control.as_fd(), RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                self.send(wire::FRAME_PARK, &[], &[]).map_err(lost("asking it for a process"))?;
                receive(control.as_fd(), RecvFlags::empty())
            }
            other => other,
        };
        let (report, socket) = there.map_err(|errno| lost("waiting for a process")(errno.into()))?;
        match (Report::read(report), socket) {
            (Report::Parked, Some(socket)) => Ok(socket),
            (Report::Failed { errno, phase, step }, _) => Err(failure(errno, phase, step)),
            _ => Err(lost("building the sandbox")(io::Error::from(io::ErrorKind::UnexpectedEof))),
        }
    }

    /// Hears from a command's process until the command starts.
    fn follow(&self, run: &Run<'_>, child: &mut Child) -> Result<(), SpawnError> {
        self.starter.iter().try_for_each(|starter| starter.await_word(child.readable()))?;
        let facts = child.ready()?;
        let missing = run.facts & !facts;
        if missing != 0 {
            child.kill()?;
            return Err(SpawnError::NotEnforced { missing: fact_names(missing).join(", ") });
        }
        if let Some(supervisor) = run.supervisor {
            let sockets = match &run.sockets {
                SocketsFrom::Nobody => Sockets::default(),
                SocketsFrom::Given(sockets) => sockets
                    .try_clone()
                    .map_err(|source| SpawnError::Launcher { doing: "copying its sockets", source })?,
                SocketsFrom::Setup(steps) => self.passed_sockets(steps)?,
            };
            let Some(listener) = child.listener.take().filter(|_| sockets.resolver.is_some()) else {
                child.kill()?;
                return Err(SpawnError::NotEnforced { missing: String::from("the supervisor of its connections") });
            };
            supervisor
                .watch(listener, sockets)
                .map_err(|source| SpawnError::Launcher { doing: "watching its connections", source })?;
        }
        child.facts = facts;
        let mut enforcement = enforcement(run.engine, facts, self.pid);
        enforcement.layers.extend(self.group.as_ref().map(Made::report));
        child.enforcement = Some(enforcement);
        Ok(())
    }
}

fn no_sockets(source: io::Error) -> SpawnError {
    SpawnError::Launcher { doing: "making the sockets of its network", source }
}

/// Where a command's own steps begin, behind those that confine it.
fn start_of(command: &[Step]) -> usize {
    let is_its_own = |step: &Step| {
        matches!(step, Step::LandlockForFiles { .. } | Step::TakeTerminal | Step::WorkingDirectory { .. })
    };
    command.iter().position(is_its_own).unwrap_or(command.len())
}

fn null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// A report, and the descriptor that came with it.
fn receive(socket: BorrowedFd<'_>, flags: RecvFlags) -> rustix::io::Result<([u8; wire::REPORT], Option<OwnedFd>)> {
    let mut bytes = [0; wire::REPORT];
    let (_, file) = rustix::io::retry_on_intr(|| receive_with(socket, &mut bytes, flags))?;
    Ok((bytes, file))
}

/// Some bytes, and the descriptor that came with them.
pub(crate) fn receive_part(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    receive_with(socket, bytes, RecvFlags::empty())
}

fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)?;
    let file = ancillary.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut files) = message else { return None };
        files.next()
    });
    Ok((received.bytes, file))
}

/// What a launcher is told first: the names to hold and what covers them, and how to build the sandbox.
fn set_up_body(covers: &BTreeSet<AbsPath>, names: &[Name], parking: Option<&Parking<'_>>, steps: &[Step]) -> Vec<u8> {
    let (mut paths, mut texts, mut body) = (Encoder::default(), Encoder::default(), Encoder::default());
    for path in covers {
        paths.text(path.as_raw().as_bytes());
    }
    for name in names {
        texts.text(name.name());
    }
    let mut parked = Encoder::default();
    if let Some(Parking { flags, init, confine }) = parking {
        parked.number(*flags).bytes(&encode(init)).bytes(&encode(confine));
    }
    body.bytes(&paths.0).bytes(&texts.0).bytes(&parked.0);
    body.0.extend(encode(steps));
    body.0
}

/// The command's standard streams, none of which may be a directory.
fn streams<'a>(
    stdio: &'a Stdio,
    (input, output, error): &'a (io::Stdin, io::Stdout, io::Stderr),
    null: &'a OwnedFd,
) -> io::Result<[BorrowedFd<'a>; 3]> {
    let streams = [
        stream(&stdio.stdin, input.as_fd(), null.as_fd()),
        stream(&stdio.stdout, output.as_fd(), null.as_fd()),
        stream(&stdio.stderr, error.as_fd(), null.as_fd()),
    ];
    streams.iter().try_for_each(|file| refuse_directory(*file))?;
    Ok(streams)
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
    /// Whether another launcher, outside, has to clean up when this one has ended.
    pub(crate) fn has_keeper(&self) -> bool {
        self.keeper.is_some()
    }

    /// Has the launcher outside clean up now.
    pub(crate) fn end_keeper(&mut self) {
        self.keeper.take().into_iter().for_each(|keeper| keeper.end());
    }

    /// The launcher has cleaned up itself, or is going to.
    pub(crate) fn has_cleaned_up(&mut self) {
        self.placeholders.iter_mut().for_each(Placeholder::forget);
    }

    /// Lets it go, and waits until it has either cleaned up or said that it is going to when its commands
    /// have ended.
    fn is_busy(&self) -> bool {
        let Some(control) = self.control() else { return false };
        // One that is gone already can't be told.
        rustix::net::shutdown(control, Shutdown::Write).ok();
        // What else it has said before, nobody needs any more.
        let said = std::iter::from_fn(|| receive(control, RecvFlags::empty()).ok());
        let last =
            said.map(|(report, _)| Report::read(report)).find(|said| matches!(said, Report::Busy | Report::Gone));
        matches!(last, Some(Report::Busy))
    }

    /// Lets it go, and waits until it has cleaned up.
    pub(crate) fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        self.control = None;
        // What can't be waited for has ended.
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
        self.starter.iter().for_each(Starter::end);
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            // The keeper waits for this one, and whoever looks at the workspace next for the keeper.
            self.close();
            keeper.end();
        }
        if !self.placeholders.is_empty() && self.is_busy() {
            self.has_cleaned_up();
        }
        if matches!(waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None)) {
            ENDING.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}
