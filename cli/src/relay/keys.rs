//! Forwards the person's keys to the command's terminal.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcgetsid, tcsetattr,
};
use stockade_core::{Cancellation, Clock};
use stockade_protocol::TerminalSize;

use super::modes::{Modes, Share, are_same};
use crate::job::{self, Interrupts};
use crate::sys;
use stockade::terminal::stage;

/// The polling interval for changes of either terminal's modes, and for the end of a question.
const LOOK: Duration = Duration::from_millis(20);

/// Forwards keys until it is dropped.
#[derive(Debug)]
pub(super) struct Keys {
    terminal: OwnedFd,
    echo: Arc<Mutex<Vec<u8>>>,
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the forwarding thread.
struct Passing {
    /// The master side of the command's terminal.
    to: File,
    /// The initial modes of the command's terminal.
    initial: Termios,
    modes: Arc<Modes>,
    command: Cancellation,
    clock: Clock,
    interrupts: Interrupts,
    echo: Arc<Mutex<Vec<u8>>>,
    stopped: PipeReader,
}

impl Keys {
    pub(super) fn start(terminal: File, modes: Arc<Modes>, command: Cancellation, clock: Clock) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let to = terminal.try_clone()?;
        // It starts with the modes of this program's terminal, including the erase key.
        tcsetattr(&to, OptionalActions::Now, modes.before())?;
        let initial = tcgetattr(&to)?;
        let echo = Arc::<Mutex<Vec<u8>>>::default();
        // Before the command can print anything.
        modes.prepare(false);
        let interrupts = Interrupts::default();
        let passing = Passing { to, initial, modes, command, clock, interrupts, echo: Arc::clone(&echo), stopped };
        let thread = std::thread::Builder::new().name(String::from("keys")).spawn(move || passing.run())?;
        Ok(Self { terminal: terminal.into(), echo, stop: Some(stop), thread: Some(thread) })
    }

    pub(super) fn resize(&self, size: TerminalSize) {
        // The command may have just ended.
        stockade_sandboxing::resize(&self.terminal, size).ok();
    }

    pub(super) fn interrupt(&self, key: SpecialCodeIndex) -> bool {
        let Ok(modes) = tcgetattr(&self.terminal) else { return false };
        let is_set = modes.local_modes.contains(LocalModes::ISIG) && modes.special_codes[key] != 0;
        is_set && rustix::io::write(&self.terminal, &[modes.special_codes[key]]).is_ok()
    }

    /// The number of leading bytes of an output that this program's terminal has echoed already.
    pub(super) fn is_echo(&self, bytes: &[u8]) -> usize {
        let mut echo = self.echo.lock().unwrap_or_else(PoisonError::into_inner);
        let same = echo.iter().zip(bytes).take_while(|(one, other)| one == other).count();
        // Other output came in between: nothing is certainly an echo.
        if same < echo.len().min(bytes.len()) {
            echo.clear();
            return 0;
        }
        echo.drain(..same);
        same
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, no more keys are forwarded, as intended.
            thread.join().ok();
        }
    }
}

impl Passing {
    /// Forwards keys until it is stopped. It reads only keys that the command will get.
    fn run(mut self) {
        let look = Timespec::try_from(LOOK).ok();
        loop {
            let has_changed = tcgetattr(&self.to).is_ok_and(|modes| !are_same(&modes, &self.initial));
            let reads = !stage::is_taken() && self.modes.prepare(has_changed);
            let keys = if reads { PollFlags::IN } else { PollFlags::empty() };
            let mut files = [PollFd::new(&self.stopped, PollFlags::IN), PollFd::new(&self.modes.terminal, keys)];
            match poll(&mut files, look.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            let [stop, keys] = files.map(|file| file.revents());
            // A terminal that was closed is ready for ever, and has no keys.
            if !stop.is_empty() || keys.intersects(PollFlags::HUP | PollFlags::ERR) {
                return;
            }
            if !reads && !keys.is_empty() {
                std::thread::sleep(LOOK);
            }
            if reads && !keys.is_empty() && !stage::is_taken() && self.pass().is_err() {
                return;
            }
        }
    }

    fn pass(&mut self) -> Result<(), Errno> {
        let mut buffer = [0; 1024];
        let count = match rustix::io::read(&self.modes.terminal, &mut buffer) {
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            found => found?,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        if self.modes.is_raw() {
            return bytes.iter().try_for_each(|byte| self.press(*byte));
        }
        if bytes.is_empty() {
            // End of input, not the end of the terminal.
            let end = self.initial.special_codes[SpecialCodeIndex::VEOF];
            return self.write(end);
        }
        let shown =
            bytes.iter().flat_map(|byte| if *byte == b'\n' { &b"\r\n"[..] } else { std::slice::from_ref(byte) });
        self.echo.lock().unwrap_or_else(PoisonError::into_inner).extend(shown);
        bytes.iter().try_for_each(|byte| self.write(*byte))
    }

    /// Handles one key in raw mode.
    fn press(&mut self, key: u8) -> Result<(), Errno> {
        let modes = tcgetattr(&self.to)?;
        let signals = modes.local_modes.contains(LocalModes::ISIG);
        let is = |code: SpecialCodeIndex| signals && key != 0 && key == modes.special_codes[code];
        // Programs in raw mode, such as shells and editors, use this key themselves.
        let takes_lines = modes.local_modes.contains(LocalModes::ICANON);
        if is(SpecialCodeIndex::VINTR) && takes_lines && self.interrupts.add() {
            self.command.end_by(crate::signals::INTERRUPT);
        }
        if is(SpecialCodeIndex::VSUSP) && self.modes.share == Share::Whole && self.would_stop() {
            self.modes.restore();
            job::suspend(&self.command, &self.clock, sys::Stops::Job);
            return Ok(());
        }
        self.write(key)
    }

    /// Whether Ctrl-Z would stop the command if a shell had started it. A shell inside has its own jobs in the
    /// foreground, and other programs handle the key themselves.
    fn would_stop(&self) -> bool {
        let (Ok(group), Ok(leader)) = (tcgetpgrp(&self.to), tcgetsid(&self.to)) else { return false };
        group == leader && job::is_stopped_by_key(leader) && !sys::is_ignored(rustix::process::Signal::TSTP.as_raw())
    }

    /// Writes one byte, unless forwarding stops before the command's terminal accepts it.
    fn write(&self, byte: u8) -> Result<(), Errno> {
        loop {
            let mut files = [PollFd::new(&self.to, PollFlags::OUT), PollFd::new(&self.stopped, PollFlags::IN)];
            match poll(&mut files, None) {
                Err(Errno::INTR) => continue,
                found => found?,
            };
            let [to, stop] = files.map(|file| file.revents());
            if !stop.is_empty() {
                return Err(Errno::CANCELED);
            }
            if !to.is_empty() {
                return rustix::io::write(&self.to, &[byte]).map(drop);
            }
        }
    }
}
