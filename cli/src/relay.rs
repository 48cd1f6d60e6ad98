//! A command's terminal inside ours: keys go in, everything else comes out.

use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_core::{OutputSink, StreamName};
use stockade_protocol::TerminalSize;

use crate::exit::note;
use crate::stage;

/// Passes a command's terminal through to ours for as long as the command runs.
#[derive(Debug, Default)]
pub(crate) struct Relay(Mutex<Option<Open>>);

impl Relay {
    fn open(&self) -> MutexGuard<'_, Option<Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How large our terminal is; `None` if there is none to pass through.
    pub(crate) fn terminal_size() -> Option<TerminalSize> {
        inner::size()
    }

    /// Tells the command's terminal that ours has another size now.
    pub(crate) fn resize(&self) {
        if let (Some(open), Some(size)) = (&*self.open(), inner::size()) {
            // A command that has just ended has no terminal to be told of.
            open.resize(size).ok();
        }
    }
}

impl OutputSink for Relay {
    fn write(&self, stream: StreamName, bytes: &[u8]) {
        stage::print(stream, bytes);
    }

    fn opened(&self, terminal: File) {
        // The command runs on its terminal without a keyboard, which the person has to know.
        let opened = Open::start(terminal).inspect_err(|error| note(&format!("keys are not passed on: {error}")));
        *self.open() = opened.ok();
    }

    fn closed(&self) {
        *self.open() = None;
    }
}

use inner::Open;

#[cfg(unix)]
mod inner {
    use std::fs::File;
    use std::io::{self, PipeReader, PipeWriter, Write as _};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::thread::JoinHandle;
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;
    use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
    use stockade_protocol::TerminalSize;

    use crate::stage;

    /// How often to look whether a question is over, whose keys they are.
    const LOOK: Duration = Duration::from_millis(20);

    /// Keys are passed on until this is dropped, which gives our terminal back as it was.
    #[derive(Debug)]
    pub(super) struct Open {
        terminal: OwnedFd,
        before: Termios,
        stop: Option<PipeWriter>,
        keys: Option<JoinHandle<()>>,
    }

    pub(super) fn size() -> Option<TerminalSize> {
        let size = tcgetwinsize(io::stdin()).ok()?;
        Some(TerminalSize { rows: size.ws_row, columns: size.ws_col })
    }

    impl Open {
        pub(super) fn start(terminal: File) -> io::Result<Self> {
            let before = tcgetattr(io::stdin())?;
            let mut raw = before.clone();
            // Every key is the command's: its own terminal makes signals of Ctrl-C and Ctrl-Z.
            raw.make_raw();
            let (stopped, stop) = io::pipe()?;
            let writer = terminal.try_clone()?;
            tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
            let mut open = Self { terminal: terminal.into(), before, stop: Some(stop), keys: None };
            let thread = std::thread::Builder::new().name(String::from("keys"));
            open.keys = Some(thread.spawn(move || pass_keys(writer, &stopped))?);
            Ok(open)
        }

        pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
            stockade_sandboxing::resize(&self.terminal, size)
        }
    }

    impl Drop for Open {
        fn drop(&mut self) {
            self.stop = None;
            if let Some(keys) = self.keys.take() {
                // If it panicked, no more keys are passed on, which is all that is wanted.
                keys.join().ok();
            }
            // A terminal that is gone can't be given back.
            tcsetattr(io::stdin(), OptionalActions::Drain, &self.before).ok();
        }
    }

    /// Passes keys on until `stopped` ends. Nothing is read that the command will not get.
    fn pass_keys(mut to: File, stopped: &PipeReader) {
        let stdin = io::stdin();
        let mut buffer = [0; 1024];
        loop {
            let mut files =
                [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
            match poll(&mut files, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [keys, stop] = &files;
            if !stop.revents().is_empty() {
                return;
            }
            if keys.revents().is_empty() {
                continue;
            }
            if stage::is_taken() {
                std::thread::sleep(LOOK);
                continue;
            }
            match rustix::io::read(&stdin, &mut buffer) {
                Ok(0) => return,
                Ok(count) => {
                    if to.write_all(buffer.get(..count).unwrap_or_default()).is_err() {
                        return;
                    }
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(not(unix))]
mod inner {
    use std::fs::File;
    use std::io;

    use stockade_protocol::TerminalSize;

    #[derive(Debug)]
    pub(super) struct Open;

    pub(super) fn size() -> Option<TerminalSize> {
        None
    }

    impl Open {
        pub(super) fn start(_: File) -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn resize(&self, _: TerminalSize) -> io::Result<()> {
            Ok(())
        }
    }
}
