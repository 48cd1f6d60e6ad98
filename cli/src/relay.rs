//! Relays between a command's terminal and this program's: keys in, output out.
//!
//! Where a standard stream is the person's terminal, the command gets its own terminal instead. So it never reads the
//! person's keys unasked, changes nothing on the person's terminal, and can't query it for reports that would pass as
//! answers later. Other streams are inherited.

#[cfg(unix)]
mod keys;
#[cfg(unix)]
mod modes;

#[cfg(unix)]
pub(crate) use here::Relay;
#[cfg(not(unix))]
pub(crate) use nowhere::Relay;

#[cfg(unix)]
mod here {
    use std::ffi::OsStr;
    use std::fs::{File, OpenOptions};
    use std::io::{self, IsTerminal as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

    use rustix::fs::{FileType, OFlags};
    use rustix::termios::SpecialCodeIndex;
    use stockade_core::{Cancellation, Clock, OutputSink, StreamName};
    use stockade_protocol::TerminalSize;

    use super::keys::Keys;
    use super::modes::{Modes, Share};
    use crate::exit::note;
    use stockade::terminal::stage::{self, Outlet};

    /// Relays a command's terminal while the command runs.
    #[derive(Debug)]
    pub(crate) struct Relay {
        modes: Arc<Modes>,
        outlet: Outlet,
        command: Cancellation,
        clock: Clock,
        keys: Mutex<Option<Keys>>,
    }

    impl Relay {
        /// A relay to the person's terminal, for a command some of whose standard streams would be it. `None` if none
        /// would.
        pub(crate) fn new(streams: [bool; 3], command: &Cancellation, clock: &Clock) -> io::Result<Option<Self>> {
            if streams == [false; 3] {
                return Ok(None);
            }
            let is_piped = FileType::from_raw_mode(rustix::fs::fstat(io::stdin())?.st_mode) == FileType::Fifo;
            let share = match streams {
                [true, true, _] => Share::Whole,
                [true, false, _] => Share::Lines,
                [false, ..] if !is_piped => Share::Lines,
                [false, ..] => Share::OnDemand,
            };
            let keys = if io::stdin().is_terminal() { copy(&io::stdin())? } else { output_terminal()? };
            // Another program may have read the pending input, and this one must not block then.
            let keys = reopened(&keys).unwrap_or(keys);
            let shown = output_terminal().or_else(|_| copy(&io::stdin()))?;
            Ok(Some(Self {
                modes: Arc::new(Modes::new(keys, share)?),
                outlet: Outlet::Terminal(Arc::new(shown)),
                command: command.clone(),
                clock: clock.clone(),
                keys: Mutex::new(None),
            }))
        }

        fn keys(&self) -> MutexGuard<'_, Option<Keys>> {
            self.keys.lock().unwrap_or_else(PoisonError::into_inner)
        }

        /// The size of this program's terminal.
        pub(crate) fn size(&self) -> TerminalSize {
            self.modes.size()
        }

        /// Resizes the command's terminal to this program's.
        pub(crate) fn resize(&self) {
            if let Some(keys) = &*self.keys() {
                keys.resize(self.size());
            }
        }

        /// Sends a signal key, if the command's terminal interprets it. The signal reaches the command's foreground
        /// process group.
        pub(crate) fn interrupt(&self, key: SpecialCodeIndex) -> bool {
            self.keys().as_ref().is_some_and(|keys| keys.interrupt(key))
        }

        /// Restores this program's terminal.
        pub(crate) fn close(&self) {
            *self.keys() = None;
            self.modes.restore();
        }

        /// Restores this program's terminal while it is stopped.
        pub(crate) fn restore(&self) {
            self.modes.restore();
        }
    }

    impl OutputSink for Relay {
        fn write(&self, _: StreamName, bytes: &[u8]) -> io::Result<()> {
            // Its terminal has translated newlines already, unless this program's is raw.
            let echo = self.keys().as_ref().map_or(0, |keys| keys.is_echo(bytes));
            let bytes = bytes.get(echo..).unwrap_or_default();
            let plain;
            let shown = if self.modes.is_raw() {
                bytes
            } else {
                plain = without_returns(bytes);
                &plain
            };
            // A hangup ends the command by its signal, not here.
            stage::print(&self.outlet, shown).ok();
            Ok(())
        }

        fn opened(&self, terminal: File) {
            let started = Keys::start(terminal, Arc::clone(&self.modes), self.command.clone(), self.clock.clone());
            // The command runs without a keyboard, which the user has to know.
            let started = started.inspect_err(|error| note(&format!("keys are not passed on: {error}")));
            *self.keys() = started.ok();
        }
    }

    fn copy(stream: &impl std::os::fd::AsFd) -> io::Result<File> {
        Ok(File::from(stream.as_fd().try_clone_to_owned()?))
    }

    /// The same terminal, opened non-blocking.
    fn reopened(terminal: &File) -> io::Result<File> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
        let flags = i32::try_from(flags).map_err(io::Error::other)?;
        let open = |path: &Path| OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let name = rustix::termios::ttyname(terminal, Vec::new())?;
        open(Path::new(OsStr::from_bytes(name.to_bytes()))).or_else(|_| open(Path::new("/dev/tty")))
    }

    fn output_terminal() -> io::Result<File> {
        let streams = [io::stdout().as_fd().try_clone_to_owned()?, io::stderr().as_fd().try_clone_to_owned()?];
        let found = streams.into_iter().find(|stream| stream.is_terminal());
        found.map(File::from).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn without_returns(bytes: &[u8]) -> Vec<u8> {
        let follows = bytes.iter().skip(1).copied().map(Some).chain([None]);
        let kept = bytes.iter().zip(follows).filter(|(byte, next)| !(**byte == b'\r' && *next == Some(b'\n')));
        kept.map(|(byte, _)| *byte).collect()
    }
}

#[cfg(not(unix))]
mod nowhere {
    use std::io;

    use stockade_core::{Cancellation, Clock, OutputSink, StreamName};
    use stockade_protocol::TerminalSize;

    /// There is no terminal to relay.
    #[derive(Debug)]
    pub(crate) enum Relay {}

    impl Relay {
        pub(crate) fn new(_: [bool; 3], _: &Cancellation, _: &Clock) -> io::Result<Option<Self>> {
            Ok(None)
        }

        pub(crate) fn size(&self) -> TerminalSize {
            match *self {}
        }

        pub(crate) fn close(&self) {
            match *self {}
        }
    }

    impl OutputSink for Relay {
        fn write(&self, _: StreamName, _: &[u8]) -> io::Result<()> {
            match *self {}
        }
    }
}
