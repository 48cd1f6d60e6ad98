//! The terminal of a program that runs elsewhere: a pseudo-terminal, whose other end the stub has. The stub is a process of
//! its caller's job, so the kernel's job control holds for it: in the foreground it passes keys on, in the background only
//! output.
//!
//! - If standard input and output are the caller's terminal, both are the program's own one, and every key is the
//!   program's. Otherwise only standard error is, and `/dev/tty`; other programs of a pipeline may read keys, so they are
//!   the program's only while it has switched off echo or lines, as for a password.
//! - Echo and lines are made by the program's terminal. The caller's has them off meanwhile; for signals, flow and output
//!   it has the program's modes.
//! - A signal key is given to the program's terminal, which has it signal the program's own foreground group.

use crate::sys::{self, EAGAIN, Modes, Poll};
use crate::wire;

const INPUT: usize = 0;
const OUTPUT: usize = 1;
const ERRORS: usize = 2;
/// How often it is looked whether the program has changed its modes, or its job was moved, in milliseconds.
const BETWEEN_LOOKS: u64 = 100;
/// How long the last output is waited for, without a byte of it, in milliseconds.
const LAST_OUTPUT: u64 = 300;

#[derive(PartialEq)]
enum Keys {
    All,
    WhenModesDiffer,
}

/// Both terminals.
pub(crate) struct Terminal {
    /// The other end of the program's.
    own: usize,
    /// The caller's.
    callers: usize,
    /// Where it is told that the caller's has other modes.
    socket: usize,
    keys: Keys,
    before: Modes,
    /// The modes that the caller's has while keys are passed on.
    set: Option<Modes>,
    pending: [u8; 256],
    pending_from: usize,
    pending_to: usize,
    /// A carriage return at the end of what was read, before which it is not known whether a new line follows.
    holds_return: bool,
    /// Whether the caller's terminal has no more keys.
    is_closed: bool,
    /// Whether no process had the program's terminal open at the last look. One may open it again (`/dev/tty`).
    is_unused: bool,
}

impl Terminal {
    /// `before` are the modes that the caller's terminal had before any stub changed them.
    pub(crate) fn new(own: usize, before: Option<Modes>, socket: usize) -> Option<Self> {
        let mut streams = [0];
        sys::read(socket, &mut streams).ok()?;
        let (callers, keys) = match streams {
            [wire::INPUT_AND_OUTPUT] => (INPUT, Keys::All),
            [wire::ERRORS] => (ERRORS, Keys::WhenModesDiffer),
            _ => return None,
        };
        let before = before?.on_line_of(&sys::modes(callers)?);
        let terminal = Self {
            own,
            callers,
            socket,
            keys,
            before,
            set: None,
            pending: [0; 256],
            pending_from: 0,
            pending_to: 0,
            holds_return: false,
            is_closed: false,
            is_unused: false,
        };
        terminal.resize();
        Some(terminal)
    }

    /// Waits until something can be read, passes it on, and tells whether the two descriptors can be read.
    pub(crate) fn wait_for(&mut self, first: usize, second: usize) -> (bool, bool) {
        let reads_keys = self.adapt() && self.pending_from == self.pending_to && !self.is_closed;
        let has_keys = self.pending_from < self.pending_to;
        let mut files = [
            Poll::readable(first),
            Poll::readable(second),
            match core::mem::take(&mut self.is_unused) {
                // It would be ready at once, as long as no process opens it.
                true => Poll::nothing(),
                false if has_keys => Poll::both(self.own),
                false => Poll::readable(self.own),
            },
            if reads_keys { Poll::readable(self.callers) } else { Poll::nothing() },
        ];
        let found = sys::poll(&mut files, Some(BETWEEN_LOOKS));
        let [first, second, own, keys] = files;
        if found.is_err() {
            return (true, false);
        }
        if own.has_happened() {
            self.is_unused = !self.pass_output() && own.is_hung_up();
            self.pass_keys();
        }
        if keys.has_happened() {
            self.read_keys();
        }
        (first.has_happened(), second.has_happened())
    }

    /// Gives the caller's terminal the modes for the program, if keys are to be passed on, and tells whether they are.
    fn adapt(&mut self) -> bool {
        let Some(own) = sys::modes(self.own) else { return false };
        let is_foreground = sys::is_foreground(self.callers);
        let wants_keys = self.keys == Keys::All || !own.echoes_lines();
        if !is_foreground || !wants_keys {
            self.restore();
            return false;
        }
        let wanted = self.before.passing_on_for(&own);
        // By another stub of the job that has ended, or by a shell while this process was stopped.
        let is_set_back = wanted != self.before && sys::modes(self.callers) == Some(self.before);
        if self.set != Some(wanted) || is_set_back {
            sys::send(self.socket, wire::MODES_CHANGED);
            sys::set_modes(self.callers, &wanted);
            self.set = Some(wanted);
        }
        true
    }

    /// Gives the caller's terminal its own modes back. If another job has it, that one has set them.
    pub(crate) fn restore(&mut self) {
        if self.set.take().is_some() {
            if sys::is_foreground(self.callers) {
                sys::set_modes(self.callers, &self.before);
            }
            sys::send(self.socket, wire::MODES_RESTORED);
        }
    }

    /// Gives the program's terminal the size of the caller's. The program is signalled by the kernel.
    pub(crate) fn resize(&self) {
        sys::copy_size(self.callers, self.own);
    }

    /// Gives the key of a signal to the program's terminal, and tells whether there is one.
    pub(crate) fn press(&mut self, signal: u32) -> bool {
        let key = sys::modes(self.own).and_then(|modes| modes.key_of(signal));
        if let Some(key) = key {
            sys::send(self.own, key);
        }
        key.is_some()
    }

    /// Whether the program's terminal makes signals of keys.
    pub(crate) fn has_signals(&self) -> bool {
        sys::modes(self.own).is_none_or(|modes| modes.has_signals())
    }

    fn read_keys(&mut self) {
        match sys::read(self.callers, &mut self.pending) {
            Ok(count @ 1..) => (self.pending_from, self.pending_to) = (0, count),
            // Another process has read them.
            Err(EAGAIN) => {}
            // The job was moved to the background meanwhile.
            Err(_) if !sys::is_foreground(self.callers) => {}
            Ok(_) | Err(_) => self.is_closed = true,
        }
        self.pass_keys();
    }

    /// Passes on what fits into the program's terminal.
    fn pass_keys(&mut self) {
        let Some(rest) = self.pending.get(self.pending_from..self.pending_to) else { return };
        if !rest.is_empty() {
            self.pending_from += sys::write(self.own, rest).unwrap_or_default();
        }
    }

    fn pass_output(&mut self) -> bool {
        let mut output = [0; 4096];
        let Ok(count @ 1..) = sys::read(self.own, &mut output) else { return false };
        let translates = sys::modes(self.own).is_some_and(|modes| modes.translates_output());
        let bytes = output.get(..count).unwrap_or_default();
        if !translates {
            self.end_line();
            self.show(bytes);
            return true;
        }
        // The program's terminal has put a return before each new line, and the caller's does so again.
        let mut from = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.holds_return {
                self.holds_return = false;
                if *byte != b'\n' {
                    self.show(b"\r");
                }
            }
            if *byte == b'\r' {
                self.show(bytes.get(from..at).unwrap_or_default());
                (from, self.holds_return) = (at + 1, true);
            }
        }
        self.show(bytes.get(from..).unwrap_or_default());
        true
    }

    /// Writes a return that was held back.
    fn end_line(&mut self) {
        if core::mem::take(&mut self.holds_return) {
            self.show(b"\r");
        }
    }

    /// Writes to the caller's terminal.
    fn show(&self, bytes: &[u8]) {
        let stream = if self.callers == INPUT { OUTPUT } else { ERRORS };
        sys::write_all(stream, bytes, self.socket);
    }

    /// Passes on what the program wrote last, and gives the caller's terminal its modes back.
    pub(crate) fn end(&mut self) {
        loop {
            let mut files = [Poll::readable(self.own)];
            let found = sys::poll(&mut files, Some(LAST_OUTPUT));
            let [own] = files;
            if found.is_err() || !own.has_happened() || !self.pass_output() {
                break;
            }
        }
        self.end_line();
        self.restore();
    }
}
