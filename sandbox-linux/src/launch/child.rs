//! A started command: reports, signals, and waiting for its end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};
use stockade_protocol::{Enforcement, RawText};
use stockade_sandboxing::{Observations, Running, SpawnError, WaitStatus};

use crate::launch::placeholder::{Leftovers, Placeholder};
use crate::launch::{Launcher, StartFailure, receive_part};
use crate::masks::{CommandKey, MaskServer};
use crate::observer::limit_counters::LimitCounters;
use crate::supervisor::Supervisor;
use crate::wire;

/// A started command.
#[derive(Debug)]
pub(crate) struct Child {
    report: OwnedFd,
    program: RawText,
    pub(crate) enforcement: Option<Enforcement>,
    /// The facts that its process read back before it started.
    pub(crate) facts: u64,
    status: Option<WaitStatus>,
    /// The seccomp listener, until a supervisor takes it.
    pub(crate) listener: Option<OwnedFd>,
    /// What the kernel counts of its limits, where it does.
    pub(crate) counters: Option<LimitCounters>,
    /// What was seen of it.
    pub(crate) observations: Option<Arc<Observations>>,
    /// The supervisor, if it serves only this command.
    pub(crate) supervisor: Option<Supervisor>,
    /// The launcher, if it serves only this command.
    pub(crate) session: Option<Launcher>,
    /// The launcher outside that has created the sockets of its network, if another did.
    pub(crate) network: Option<Launcher>,
    /// The server of its sandbox's masks, if any.
    pub(crate) masks: Option<Arc<MaskServer>>,
    /// The key by which the server distinguishes commands.
    key: CommandKey,
    /// The placeholders of its session, released last.
    pub(crate) placeholders: Arc<Vec<Placeholder>>,
}

/// A report of the launcher.
pub(crate) enum Report {
    /// The facts read back, and the number of the pid namespace if there are several.
    Ready(u64, CommandKey),
    Parked,
    /// With the socket that the commands' resolver queries.
    Resolver,
    /// With the socket from which the commands' datagrams are read.
    Datagrams,
    /// With the descriptor to be closed after that.
    Lease,
    /// This kernel can't relay datagrams.
    NoDatagrams,
    /// With the seccomp listener of the command.
    Listener,
    Failed {
        errno: i32,
        phase: u64,
        step: u64,
    },
    /// The status of the command, and what the launcher has left of the placeholders.
    Ended(i32, Leftovers),
    /// Commands still run in a released sandbox.
    Busy,
    /// The sandbox is built.
    Built,
    /// With the FUSE device of the masks, if any.
    Masks,
    /// The sandbox ended without a report: it was killed.
    Gone,
}

impl Report {
    pub(crate) fn read(bytes: [u8; wire::REPORT]) -> Self {
        let [k0, k1, k2, k3, a0, a1, a2, a3, b @ ..] = bytes;
        let (a, b) = (i32::from_le_bytes([a0, a1, a2, a3]), u64::from_le_bytes(b));
        match u32::from_le_bytes([k0, k1, k2, k3]) {
            wire::REPORT_READY => Self::Ready(b, CommandKey(u64::from(a.cast_unsigned()))),
            wire::REPORT_PARKED => Self::Parked,
            wire::REPORT_RESOLVER => Self::Resolver,
            wire::REPORT_DATAGRAMS => Self::Datagrams,
            wire::REPORT_LEASE => Self::Lease,
            wire::REPORT_NO_DATAGRAMS => Self::NoDatagrams,
            wire::REPORT_LISTENER => Self::Listener,
            wire::REPORT_FAILED => Self::Failed { errno: a, phase: b >> 32, step: b & 0xffff_ffff },
            wire::REPORT_ENDED if b & wire::NAMES_ARE_LEFT == 0 => Self::Ended(a, Leftovers::None),
            wire::REPORT_ENDED => Self::Ended(a, Leftovers::Possible),
            wire::REPORT_BUSY => Self::Busy,
            wire::REPORT_BUILT => Self::Built,
            wire::REPORT_MASKS => Self::Masks,
            _ => Self::Gone,
        }
    }
}

/// Whether the launcher has reported the end of a command, or it was detected otherwise.
#[derive(Clone, Copy)]
enum Told {
    Ended(Leftovers),
    Nothing,
}

impl Child {
    pub(crate) fn new(report: OwnedFd, program: RawText) -> Self {
        Self {
            report,
            program,
            enforcement: None,
            facts: 0,
            status: None,
            listener: None,
            counters: None,
            observations: None,
            supervisor: None,
            session: None,
            network: None,
            masks: None,
            key: CommandKey::default(),
            placeholders: Arc::default(),
        }
    }

    fn next_report(&self) -> Result<Report, SpawnError> {
        self.next_report_and_file().map(|(report, _)| report)
    }

    /// A report with its descriptor.
    fn next_report_and_file(&self) -> Result<(Report, Option<OwnedFd>), SpawnError> {
        let mut bytes = [0; wire::REPORT];
        let (mut filled, mut file) = (0, None);
        while let Some(rest @ [_, ..]) = bytes.get_mut(filled..) {
            match receive_part(self.report.as_fd(), rest) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok((Report::Gone, None)),
                Ok((count, with_it)) => {
                    filled += count;
                    file = with_it.or(file);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SpawnError::Launcher { doing: "listening to it", source: errno.into() }),
            }
        }
        Ok((Report::read(bytes), file))
    }

    /// Waits until the command is about to start, and returns the facts read back.
    pub(crate) fn ready(&mut self) -> Result<u64, StartFailure> {
        loop {
            match self.next_report_and_file()? {
                (Report::Ready(facts, command), _) => {
                    self.key = command;
                    return Ok(facts);
                }
                (Report::Listener, file) => self.listener = file,
                (Report::Failed { errno, phase, step }, _) => return Err(StartFailure::reported(errno, phase, step)),
                (
                    Report::Parked
                    | Report::Resolver
                    | Report::Datagrams
                    | Report::Lease
                    | Report::NoDatagrams
                    | Report::Ended(..)
                    | Report::Busy
                    | Report::Built
                    | Report::Masks
                    | Report::Gone,
                    _,
                ) => {
                    let source = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(SpawnError::Launcher { doing: "building the sandbox", source }.into());
                }
            }
        }
    }

    /// Why its process ended before it was told what to run; `None` if it was killed.
    pub(crate) fn failure_left_behind(&self) -> Option<StartFailure> {
        loop {
            match self.next_report() {
                Ok(Report::Failed { errno, phase, step }) => return Some(StartFailure::reported(errno, phase, step)),
                Ok(Report::Listener) => {}
                Ok(
                    Report::Ready(..)
                    | Report::Parked
                    | Report::Resolver
                    | Report::Datagrams
                    | Report::Lease
                    | Report::NoDatagrams
                    | Report::Ended(..)
                    | Report::Busy
                    | Report::Built
                    | Report::Masks
                    | Report::Gone,
                )
                | Err(_) => return None,
            }
        }
    }

    /// The `execve` of the command failed, after everything else had worked.
    fn not_started(&self, errno: i32) -> SpawnError {
        match errno {
            libc::ENOENT => SpawnError::NotFound { program: self.program.clone() },
            libc::E2BIG => SpawnError::TooLong { program: self.program.clone() },
            other => {
                SpawnError::NotExecutable { program: self.program.clone(), source: io::Error::from_raw_os_error(other) }
            }
        }
    }

    fn finish(&mut self, status: WaitStatus, told: Told) -> Result<Option<WaitStatus>, SpawnError> {
        self.status = Some(status);
        if let (Some(masks), Some(notes)) = (self.masks.take(), &self.observations) {
            masks.tell(self.key, notes);
        }
        // The group goes with the session.
        if let (Some(counters), Some(notes)) = (self.counters.take(), &self.observations) {
            counters.tell(notes);
        }
        if let Some(mut session) = self.session.take() {
            match told {
                // The launcher cleans up before the caller sees the end.
                Told::Ended(leftovers) if !session.has_keeper() => session.has_cleaned_up(leftovers),
                Told::Ended(_) | Told::Nothing => {
                    while !matches!(self.next_report(), Ok(Report::Gone) | Err(_)) {}
                    session.end_keeper();
                }
            }
        }
        Ok(Some(status))
    }
}

impl Drop for Child {
    /// Kills the command, unless it has ended, and cleans up the workspace.
    fn drop(&mut self) {
        // The launcher waits for the supervisor's sockets in its network.
        self.supervisor = None;
        if let Some(session) = self.session.take() {
            // To the launcher this is the caller's death. It may be gone already.
            rustix::net::shutdown(&self.report, Shutdown::Both).ok();
            session.end();
        }
    }
}

impl Running for Child {
    fn enforcement(&self) -> &Enforcement {
        static NONE: Enforcement = Enforcement { engine: String::new(), layers: Vec::new() };
        self.enforcement.as_ref().unwrap_or(&NONE)
    }

    fn observations(&self) -> Option<&Observations> {
        self.observations.as_deref()
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        if let Some(status) = self.status {
            return Ok(Some(status));
        }
        if let Some(limit) = limit
            && !readable_within(self.report.as_fd(), limit)?
        {
            return Ok(None);
        }
        match self.next_report()? {
            Report::Ended(status, leftovers) => self.finish(wait_status(status), Told::Ended(leftovers)),
            Report::Gone => self.finish(WaitStatus::Signaled(libc::SIGKILL), Told::Nothing),
            Report::Failed { errno, .. } => {
                let error = self.not_started(errno);
                self.finish(WaitStatus::Exited(127), Told::Nothing)?;
                Err(error)
            }
            Report::Ready(..)
            | Report::Parked
            | Report::Resolver
            | Report::Datagrams
            | Report::Lease
            | Report::NoDatagrams
            | Report::Busy
            | Report::Built
            | Report::Masks
            | Report::Listener => self.wait(limit),
        }
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }

    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        match rustix::net::send(&self.report, &[signal], SendFlags::NOSIGNAL) {
            // Gone already: nothing to signal.
            Ok(_) | Err(Errno::PIPE | Errno::CONNRESET) => Ok(()),
            Err(errno) => Err(SpawnError::Launcher { doing: "passing a signal on", source: errno.into() }),
        }
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        self.signal(9)
    }
}

pub(crate) fn readable_within(file: BorrowedFd<'_>, limit: Duration) -> Result<bool, SpawnError> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = left.try_into().ok();
        let mut files = [PollFd::new(&file, PollFlags::IN)];
        match rustix::event::poll(&mut files, timeout.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(SpawnError::Launcher { doing: "waiting for it", source: errno.into() }),
        }
    }
}

fn wait_status(status: i32) -> WaitStatus {
    if libc::WIFSIGNALED(status) {
        WaitStatus::Signaled(libc::WTERMSIG(status))
    } else {
        WaitStatus::Exited(libc::WEXITSTATUS(status))
    }
}
