//! The modes of the person's terminal while a command runs.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr};
use stockade_protocol::TerminalSize;

use stockade::terminal::stage;

/// Whether other programs may read the person's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// No: each key is the command's.
    Whole,
    /// Later programs of a pipeline, such as a pager. Lines are the command's as long as no other program changes the
    /// terminal, and each key once the command changes its own.
    Lines,
    /// Earlier programs of a pipeline, too. Keys are the command's only while it has changed its own terminal, as
    /// `less` and password prompts do.
    OnDemand,
}

/// The person's terminal.
#[derive(Debug)]
pub(super) struct Modes {
    pub(super) terminal: File,
    pub(super) share: Share,
    before: Termios,
    is_raw: AtomicBool,
}

impl Modes {
    pub(super) fn new(terminal: File, share: Share) -> io::Result<Self> {
        let before = tcgetattr(&terminal)?;
        Ok(Self { terminal, share, before, is_raw: AtomicBool::new(false) })
    }

    pub(super) fn size(&self) -> TerminalSize {
        let (rows, columns) = tcgetwinsize(&self.terminal).map_or((24, 80), |size| (size.ws_row, size.ws_col));
        TerminalSize { rows, columns }
    }

    pub(super) fn is_raw(&self) -> bool {
        self.is_raw.load(Ordering::Acquire)
    }

    /// The initial modes of the command's terminal.
    pub(super) fn before(&self) -> &Termios {
        &self.before
    }

    /// Prepares the terminal for a command that has changed its own, or not. Returns whether to read keys.
    pub(super) fn prepare(&self, has_changed: bool) -> bool {
        if !self.is_foreground() {
            return false;
        }
        let raw = self.share == Share::Whole || has_changed;
        stage::set_up(|| {
            if raw {
                self.make_raw();
            } else if self.is_raw() {
                self.give_back();
            }
            self.is_raw()
        });
        let is_as_before = || tcgetattr(&self.terminal).is_ok_and(|modes| are_same(&modes, &self.before));
        self.is_raw() || (self.share == Share::Lines && is_as_before())
    }

    /// Whether this program is in the foreground: a background program that changes or reads its terminal is stopped.
    fn is_foreground(&self) -> bool {
        // An error means that it is not the controlling terminal, which has no background.
        tcgetpgrp(&self.terminal).map_or(true, |group| group == rustix::process::getpgrp())
    }

    fn make_raw(&self) {
        let mut raw = self.before.clone();
        // The command's own terminal turns Ctrl-C and Ctrl-Z into signals.
        raw.make_raw();
        let is_so = tcgetattr(&self.terminal).is_ok_and(|modes| are_same(&modes, &raw));
        if is_so || tcsetattr(&self.terminal, OptionalActions::Now, &raw).is_ok() {
            self.is_raw.store(true, Ordering::Release);
        }
    }

    fn give_back(&self) {
        // Without draining output: a blocked terminal must not delay this. A terminal that is gone can't be restored.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.before).ok();
        self.is_raw.store(false, Ordering::Release);
    }

    pub(super) fn restore(&self) {
        if self.is_raw() && self.is_foreground() {
            stage::set_up(|| {
                self.give_back();
                false
            });
        }
    }
}

/// Whether two terminals have the same modes.
pub(super) fn are_same(one: &Termios, other: &Termios) -> bool {
    (one.input_modes, one.output_modes, one.local_modes) == (other.input_modes, other.output_modes, other.local_modes)
}
