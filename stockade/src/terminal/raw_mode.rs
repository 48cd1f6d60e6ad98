//! Raw mode: the terminal passes each key as it is pressed, while a prompt is open.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};

use super::sys::RestoredBySignals;

/// Keys come one by one without echo. Dropping it restores the terminal.
pub(super) struct RawMode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
    // Dropped last: until the terminal is restored, signals have to do it.
    _signals: RestoredBySignals,
}

impl<'a> RawMode<'a> {
    pub(super) fn enter(terminal: BorrowedFd<'a>) -> io::Result<Self> {
        let signals = RestoredBySignals::arm(terminal)?;
        let before = tcgetattr(terminal)?;
        let mut raw = before.clone();
        // The prompt handles Ctrl-C and Ctrl-Z itself.
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        // Ctrl-S must not stop the prompt itself.
        raw.input_modes.remove(InputModes::IXON);
        // A relayed command's terminal needs its line ends.
        raw.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
        raw.special_codes[SpecialCodeIndex::VMIN] = 1;
        raw.special_codes[SpecialCodeIndex::VTIME] = 0;
        let mode = Self { terminal, before, _signals: signals };
        tcsetattr(mode.terminal, OptionalActions::Now, &raw)?;
        Ok(mode)
    }
}

impl Drop for RawMode<'_> {
    fn drop(&mut self) {
        // Pending keys must not reach the shell. If the terminal is gone, there is nothing to restore.
        tcflush(self.terminal, QueueSelector::IFlush).ok();
        tcsetattr(self.terminal, OptionalActions::Now, &self.before).ok();
    }
}
