//! The calls for terminals, and the kernel's structure of their modes, which is the same on both processors.
//!
//! <https://man7.org/linux/man-pages/man2/TCSETS.2const.html>

use super::{SIGINT, SIGQUIT, call, nr};

/// A call that the launcher does not make.
const GETPGID: usize = if cfg!(target_arch = "x86_64") { 121 } else { 155 };

const GET_MODES: usize = 0x5401;
const SET_MODES: usize = 0x5402;
const GET_FOREGROUND: usize = 0x540f;
const GET_SIZE: usize = 0x5413;
const SET_SIZE: usize = 0x5414;

/// `struct termios`, as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Modes {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    line: u8,
    keys: [u8; 19],
}

const TIME: usize = 5;
const LEAST: usize = 6;

/// `ISTRIP`, `INLCR`, `IGNCR`, `ICRNL`.
const INPUT_CHANGES: u32 = 0o40 | 0o100 | 0o200 | 0o400;
/// `IXON`.
const FLOW: u32 = 0o2000;
/// `OPOST`.
const TRANSLATE: u32 = 1;
/// `ISIG`.
const SIGNALS: u32 = 1;
/// `ICANON`.
const LINES: u32 = 2;
/// `ECHO`.
const ECHO: u32 = 0o10;
/// `IEXTEN`.
const EXTENSIONS: u32 = 0o100_000;

impl Modes {
    pub(crate) fn echoes_lines(&self) -> bool {
        self.local & (ECHO | LINES) == ECHO | LINES
    }

    pub(crate) fn has_signals(&self) -> bool {
        self.local & SIGNALS != 0
    }

    pub(crate) fn translates_output(&self) -> bool {
        self.output & TRANSLATE != 0
    }

    /// The key that makes a signal, if one does.
    pub(crate) fn key_of(&self, signal: u32) -> Option<u8> {
        let [interrupt, quit, ..] = self.keys;
        let key = match signal {
            SIGINT => interrupt,
            SIGQUIT => quit,
            _ => 0,
        };
        (key != 0).then_some(key)
    }

    /// These modes for a terminal of another kind: speed and parity of a serial line stay, of which a pseudo-terminal has
    /// none.
    pub(crate) fn on_line_of(&self, other: &Self) -> Self {
        Self { control: other.control, line: other.line, ..*self }
    }

    /// These modes for a terminal that passes keys on to another one with the modes `own`.
    pub(crate) fn passing_on_for(&self, own: &Self) -> Self {
        let mut modes = *self;
        modes.input = modes.input & !(INPUT_CHANGES | FLOW) | own.input & FLOW;
        modes.output = modes.output & !TRANSLATE | own.output & TRANSLATE;
        modes.local = modes.local & !(ECHO | LINES | EXTENSIONS | SIGNALS) | own.local & SIGNALS;
        modes.keys = own.keys;
        modes.keys[TIME] = 0;
        modes.keys[LEAST] = 1;
        modes
    }
}

/// The modes of a terminal; `None` if it is none.
pub(crate) fn modes(file: usize) -> Option<Modes> {
    let mut modes = Modes::default();
    (call(nr::IOCTL, [file, GET_MODES, &raw mut modes as usize, 0, 0]) == 0).then_some(modes)
}

pub(crate) fn set_modes(file: usize, modes: &Modes) {
    call(nr::IOCTL, [file, SET_MODES, core::ptr::from_ref(modes) as usize, 0, 0]);
}

/// Whether this process is in the foreground of its terminal.
pub(crate) fn is_foreground(file: usize) -> bool {
    let mut group = 0_i32;
    let found = call(nr::IOCTL, [file, GET_FOREGROUND, &raw mut group as usize, 0, 0]);
    found == 0 && group as isize == call(GETPGID, [0; 5])
}

/// Gives a terminal the size of another.
pub(crate) fn copy_size(from: usize, to: usize) {
    let mut size = [0_u16; 4];
    if call(nr::IOCTL, [from, GET_SIZE, size.as_mut_ptr() as usize, 0, 0]) == 0 {
        call(nr::IOCTL, [to, SET_SIZE, size.as_ptr() as usize, 0, 0]);
    }
}
