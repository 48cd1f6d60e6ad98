//! A command that was started: waiting for its end, and ending it.

use std::io;
use std::os::windows::io::{AsHandle as _, BorrowedHandle, OwnedHandle};
use std::thread;
use std::time::{Duration, Instant};

use stockade_protocol::Enforcement;
use stockade_sandboxing::{Running, SpawnError, WaitStatus};

use crate::marking::Marks;
use crate::real_disk::RealDisk;
use crate::sys::process::{Console, Desktop};
use crate::sys::{job, process};

/// How long processes that were ended may take to be gone.
const MOST_PATIENCE: Duration = Duration::from_secs(10);
const KILL: u8 = 9;

/// A command that was started. The fields are dropped in this order: first everything ends.
#[derive(Debug)]
pub(crate) struct Child {
    process: OwnedHandle,
    job: OwnedHandle,
    /// The signal that this program has ended it with.
    signaled: Option<u8>,
    status: Option<WaitStatus>,
    enforcement: Enforcement,
    /// Threads that copy what the command writes to this program's console. They end with the last process.
    copies: Vec<thread::JoinHandle<()>>,
    _console: Option<Console>,
    _desktop: Desktop,
    marks: Marks<RealDisk>,
}

/// What a command has besides its process and job.
#[derive(Debug)]
pub(crate) struct RunParts {
    pub(crate) marks: Marks<RealDisk>,
    pub(crate) desktop: Desktop,
    pub(crate) console: Option<Console>,
    pub(crate) copies: Vec<thread::JoinHandle<()>>,
}

impl Child {
    pub(crate) fn new(process: OwnedHandle, job: OwnedHandle, parts: RunParts, enforcement: Enforcement) -> Self {
        let RunParts { marks, desktop, console, copies } = parts;
        let (signaled, status) = (None, None);
        Self { process, job, signaled, status, enforcement, copies, _console: console, _desktop: desktop, marks }
    }

    /// Ends what the command has left behind, and waits until it is gone.
    fn end_everything(&self) -> io::Result<()> {
        job::terminate(&self.job, 1)?;
        let end = Instant::now() + MOST_PATIENCE;
        while job::active_processes(&self.job)? > 0 {
            if Instant::now() > end {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn lost(doing: &'static str) -> impl FnOnce(io::Error) -> SpawnError {
    move |source| SpawnError::Launcher { doing, source }
}

impl Running for Child {
    fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        if let Some(status) = self.status {
            return Ok(Some(status));
        }
        if !process::wait(&self.process, limit).map_err(lost("waiting for the command"))? {
            return Ok(None);
        }
        let code = process::exit_code(&self.process).map_err(lost("reading the exit code"))?;
        self.end_everything().map_err(lost("ending what the command has left"))?;
        for copy in self.copies.drain(..) {
            // A thread that has panicked has nothing more to copy.
            copy.join().ok();
        }
        self.marks.take_off().map_err(lost("taking the marks off files"))?;
        let status = match self.signaled {
            Some(signal) => WaitStatus::Signaled(i32::from(signal)),
            None => WaitStatus::Exited(code.cast_signed()),
        };
        self.status = Some(status);
        Ok(self.status)
    }

    fn readable(&self) -> BorrowedHandle<'_> {
        self.process.as_handle()
    }

    /// Windows has no signals. Those that end a program end it; others are refused.
    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        let (hangup, interrupt, quit, terminate) = (1, 2, 3, 15);
        if ![hangup, interrupt, quit, KILL, terminate].contains(&signal) {
            return Err(lost("passing a signal on")(io::Error::from(io::ErrorKind::Unsupported)));
        }
        if process::wait(&self.process, Some(Duration::ZERO)).map_err(lost("passing a signal on"))? {
            return Ok(());
        }
        self.signaled = Some(signal);
        process::terminate(&self.process, 128 + u32::from(signal)).map_err(lost("ending the command"))
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        if !process::wait(&self.process, Some(Duration::ZERO)).map_err(lost("ending the command"))? {
            self.signaled = Some(KILL);
        }
        job::terminate(&self.job, 128 + u32::from(KILL)).map_err(lost("ending the command"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The job ends everything with its handle, too; waiting is for the marks, which come off after it.
        if self.status.is_none() {
            self.end_everything().ok();
        }
    }
}
