//! A command that was started: waiting for it, signalling it, and seeing to it that nothing of it is left.
//!
//! A thread waits for the command. When it has ended, everything that it started is killed: its process
//! group, and every other process in the sandbox of this run, which no process can leave.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use stockade_protocol::Enforcement;
use stockade_sandboxing::{Running, SpawnError, WaitStatus};
use tempfile::TempDir;

use crate::sys;

/// How long those that were killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// One run of one command.
#[derive(Debug)]
pub(crate) struct Run {
    name: String,
    private: Option<Private>,
}

/// The private directories of a run, removed with it. Both have the same name.
#[derive(Debug)]
pub(crate) struct Private {
    pub(crate) temporary: TempDir,
    pub(crate) cache: TempDir,
}

impl Run {
    pub(crate) fn new(name: String, private: Option<Private>) -> Self {
        Self { name, private }
    }

    /// The name that only members of the run may look for.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn private(&self) -> Option<&Private> {
        self.private.as_ref()
    }
}

/// The command's process. Until it is waited for, no other process can have its number.
#[derive(Debug)]
struct Leader {
    pid: Pid,
    name: String,
    /// The lock is held while signals are sent and while the process is waited for.
    is_gone: Mutex<bool>,
}

impl Leader {
    /// Signals the command and everything it started, again and again until no process is left.
    fn kill_all(&self) {
        let is_gone = self.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_gone {
            return;
        }
        // Those that are gone already can't be signalled, and need not be.
        rustix::process::kill_process_group(self.pid, Signal::KILL).ok();
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
        self.kill_members();
    }

    /// A process that has left the process group is still in the sandbox. A member may start others during the
    /// search, so the search is repeated until it finds none.
    fn kill_members(&self) {
        until(|| {
            let members: Vec<Pid> = sys::members(&self.name).into_iter().filter(|pid| *pid != self.pid).collect();
            for member in &members {
                rustix::process::kill_process(*member, Signal::KILL).ok();
            }
            members.is_empty()
        });
    }

    /// Waits until the command has ended, and leaves nothing of it behind.
    fn see_off(&self) -> WaitStatus {
        // The process stays a zombie until the rest was killed, so that its group's number stays its own.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(self.pid), options) {}
        self.kill_all();
        let status = self.reap();
        // Who was killed takes a moment to be gone.
        until(|| rustix::process::test_kill_process_group(self.pid).is_err());
        status
    }

    fn reap(&self) -> WaitStatus {
        let mut is_gone = self.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        *is_gone = true;
        loop {
            match rustix::process::waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(Errno::INTR) => {}
                Ok(Some((_, status))) => return sys::wait_status(status),
                // Another part of this program has waited for it.
                Ok(None) | Err(_) => return WaitStatus::Signaled(Signal::KILL.as_raw()),
            }
        }
    }
}

/// Asks again and again, and gives up in the end: a process that the kernel can't end yet (a disk that
/// does not answer) is killed and will end, so it is not waited for.
fn until(is_done: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_done() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A command that was started.
#[derive(Debug)]
pub(crate) struct RunningCommand {
    leader: Arc<Leader>,
    /// Holds the status, once there is one.
    report: OwnedFd,
    status: Option<WaitStatus>,
    waiter: Option<JoinHandle<()>>,
    enforcement: Enforcement,
}

impl RunningCommand {
    pub(crate) fn new(pid: Pid, run: Run, enforcement: Enforcement) -> Result<Self, SpawnError> {
        let lost = |doing| move |source: io::Error| SpawnError::Launcher { doing, source };
        let leader = Arc::new(Leader { pid, name: run.name.clone(), is_gone: Mutex::new(false) });
        let waiting = Arc::clone(&leader);
        let (report, mut theirs) = io::pipe().map_err(lost("making a pipe for its status"))?;
        let waiter = std::thread::Builder::new().name(String::from("stockade-wait")).spawn(move || {
            let status = waiting.see_off();
            drop(run);
            // If the receiver is gone, the result is not needed.
            theirs.write_all(&encode(status)).ok();
        });
        let waiter = waiter.map_err(|source| {
            leader.kill_all();
            lost("starting a thread to wait for it")(source)
        })?;
        Ok(Self { leader, report: report.into(), status: None, waiter: Some(waiter), enforcement })
    }

    /// Kills everything, and waits until it is gone.
    pub(crate) fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.leader.kill_all();
            // A thread that has panicked has nothing more to do.
            waiter.join().ok();
        }
    }

    fn readable_within(&self, limit: Option<Duration>) -> Result<bool, SpawnError> {
        let end = limit.map(|limit| Instant::now() + limit);
        loop {
            let left = end.and_then(|end| end.saturating_duration_since(Instant::now()).try_into().ok());
            let mut files = [PollFd::new(&self.report, PollFlags::IN)];
            match rustix::event::poll(&mut files, left.as_ref()) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SpawnError::Launcher { doing: "waiting for it", source: errno.into() }),
            }
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Running for RunningCommand {
    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        if self.status.is_some() {
            return Ok(self.status);
        }
        if !self.readable_within(limit)? {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        let lost = |source| SpawnError::Launcher { doing: "reading its status", source };
        rustix::io::read(&self.report, &mut bytes).map_err(|errno| lost(errno.into()))?;
        self.status = Some(decode(bytes));
        Ok(self.status)
    }

    fn readable(&self) -> BorrowedFd<'_> {
        self.report.as_fd()
    }

    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        let failed = |source| SpawnError::Launcher { doing: "passing a signal on", source };
        let signal =
            Signal::from_named_raw(i32::from(signal)).ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
        let is_gone = self.leader.is_gone.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_gone {
            return Ok(());
        }
        match rustix::process::kill_process(self.leader.pid, signal) {
            // Gone already: there is nothing left to signal.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        self.leader.kill_all();
        Ok(())
    }
}

/// Which way it ended, and how: two numbers, written at once.
fn encode(status: WaitStatus) -> [u8; 8] {
    let (way, number) = match status {
        WaitStatus::Exited(code) => (0_u32, code),
        WaitStatus::Signaled(signal) => (1, signal),
    };
    (u64::from(way) << 32 | u64::from(number.cast_unsigned())).to_ne_bytes()
}

fn decode(bytes: [u8; 8]) -> WaitStatus {
    let both = u64::from_ne_bytes(bytes);
    // Each half was 32 bits wide.
    let number = u32::try_from(both & 0xffff_ffff).unwrap_or_default().cast_signed();
    if both >> 32 == 0 { WaitStatus::Exited(number) } else { WaitStatus::Signaled(number) }
}
