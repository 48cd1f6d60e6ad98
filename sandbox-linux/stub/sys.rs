//! Every system call that the stub makes, and all of its `unsafe` but for copying memory.
//!
//! Numbers and layouts are the kernel's own (<https://man7.org/linux/man-pages/man2/syscalls.2.html>).

#![allow(unsafe_code, reason = "the one room for it")]

// The launcher's way into the kernel, of which the stub needs a part.
#[allow(dead_code, reason = "the launcher uses the rest")]
#[path = "../launcher/sys/number.rs"]
mod number;
#[allow(dead_code, reason = "the launcher uses the rest")]
#[cfg_attr(target_arch = "x86_64", path = "../launcher/sys/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "../launcher/sys/aarch64.rs")]
mod processor;
mod terminal;

pub(crate) use processor::{copy_memory, fill_memory};
pub(crate) use terminal::{Modes, copy_size, is_foreground, modes, set_modes};

use number as nr;

pub(crate) const SIGINT: u32 = 2;
pub(crate) const SIGQUIT: u32 = 3;
pub(crate) const SIGCHLD: u32 = 17;
pub(crate) const SIGSTOP: u32 = 19;
pub(crate) const SIGTSTP: u32 = 20;
pub(crate) const SIGTTIN: u32 = 21;
pub(crate) const SIGTTOU: u32 = 22;
pub(crate) const SIGWINCH: u32 = 28;

/// Calls that the launcher does not make.
const EXECVEAT: usize = if cfg!(target_arch = "x86_64") { 322 } else { 281 };
const EXIT_GROUP: usize = if cfg!(target_arch = "x86_64") { 231 } else { 94 };
const SIGNALFD4: usize = if cfg!(target_arch = "x86_64") { 289 } else { 74 };

const EINTR: isize = -4;
pub(crate) const EAGAIN: isize = -11;
/// The bytes of a set of signals.
const SET: usize = 8;
const MOST_SIGNALS: u32 = 64;
/// How long room for output is waited for after the program has ended, in milliseconds.
const LONGEST_WRITE: u64 = 5000;

/// Makes a system call with up to five arguments.
fn call(number: usize, [a, b, c, d, e]: [usize; 5]) -> isize {
    processor::call(number, [a, b, c, d, e, 0])
}

pub(crate) fn exit(code: u32) -> ! {
    loop {
        // It does not come back; the loop is for the type.
        call(EXIT_GROUP, [code as usize, 0, 0, 0, 0]);
    }
}

pub(crate) fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The signals that this process was started to ignore.
pub(crate) fn ignored_signals() -> u64 {
    const IGNORE: u64 = 1;
    let mut ignored = 0;
    for signal in 1..=MOST_SIGNALS {
        // `struct kernel_sigaction`: the handler, flags, a restorer, and the mask.
        let mut action = [0_u64; 4];
        let found = call(nr::RT_SIGACTION, [signal as usize, 0, action.as_mut_ptr() as usize, SET, 0]);
        if found == 0 && action[0] == IGNORE {
            ignored |= bit(signal);
        }
    }
    ignored
}

/// Blocks these signals, and no others.
pub(crate) fn block_signals(mask: u64) {
    const SET_MASK: usize = 2;
    call(nr::RT_SIGPROCMASK, [SET_MASK, &raw const mask as usize, 0, SET, 0]);
}

/// Asks for a descriptor by an `execveat` that starts nothing.
pub(crate) fn ask_for(flags: usize) -> Result<usize, ()> {
    usize::try_from(call(EXECVEAT, [usize::MAX, 0, 0, 0, flags])).map_err(drop)
}

/// A descriptor from which these signals are read.
pub(crate) fn signal_file(mask: u64) -> Result<usize, ()> {
    const NEW: usize = usize::MAX;
    const CLOEXEC: usize = 0o2_000_000;
    usize::try_from(call(SIGNALFD4, [NEW, &raw const mask as usize, SET, CLOEXEC, 0])).map_err(drop)
}

/// `struct pollfd`.
#[repr(C)]
pub(crate) struct Poll {
    file: i32,
    events: i16,
    happened: i16,
}

impl Poll {
    const READABLE: i16 = 1;
    const WRITABLE: i16 = 4;
    const HUNG_UP: i16 = 0x10;

    pub(crate) fn readable(file: usize) -> Self {
        Self { file: file as i32, events: Self::READABLE, happened: 0 }
    }

    pub(crate) fn both(file: usize) -> Self {
        Self { file: file as i32, events: Self::READABLE | Self::WRITABLE, happened: 0 }
    }

    fn writable(file: usize) -> Self {
        Self { file: file as i32, events: Self::WRITABLE, happened: 0 }
    }

    /// Waits only for its other end to be closed.
    fn closed(file: usize) -> Self {
        Self { file: file as i32, events: 0, happened: 0 }
    }

    pub(crate) fn nothing() -> Self {
        Self { file: -1, events: 0, happened: 0 }
    }

    pub(crate) fn has_happened(&self) -> bool {
        self.happened != 0
    }

    pub(crate) fn is_hung_up(&self) -> bool {
        self.happened & Self::HUNG_UP != 0
    }
}

/// Waits until something has happened, or for so many milliseconds. What can't be waited for is over.
pub(crate) fn poll(files: &mut [Poll], longest: Option<u64>) -> Result<(), ()> {
    // `struct timespec`: seconds and nanoseconds.
    let time = longest.map(|time| [time / 1000, time % 1000 * 1_000_000]);
    let time = time.as_ref().map_or(0, |time| time.as_ptr() as usize);
    match call(nr::PPOLL, [files.as_mut_ptr() as usize, files.len(), time, 0, 0]) {
        found if found < 0 && found != EINTR => Err(()),
        _ => Ok(()),
    }
}

/// Waits until either can be read, and tells which.
pub(crate) fn wait_for(first: usize, second: usize) -> (bool, bool) {
    let mut files = [Poll::readable(first), Poll::readable(second)];
    let found = poll(&mut files, None);
    let [first, second] = files;
    (found.is_err() || first.has_happened(), found.is_ok() && second.has_happened())
}

/// The next signal, by its number, and whether the kernel sent it, as for a key.
pub(crate) fn next_signal(signals: usize) -> Option<(u32, bool)> {
    const FROM_KERNEL: u32 = 0x80;
    // `struct signalfd_siginfo` begins with the number, an error, and a code.
    let mut info = [0_u32; 32];
    let read = call(nr::READ, [signals, info.as_mut_ptr() as usize, size_of_val(&info), 0, 0]);
    (read == size_of_val(&info) as isize).then_some((info[0], info[2] == FROM_KERNEL))
}

/// Writes what fits, and tells how much that was, or the error.
pub(crate) fn write(file: usize, bytes: &[u8]) -> Result<usize, isize> {
    loop {
        match call(nr::WRITE, [file, bytes.as_ptr() as usize, bytes.len(), 0, 0]) {
            EINTR => {}
            written => return usize::try_from(written).map_err(|_| written),
        }
    }
}

/// Sends one byte. A library that is gone is noticed by the next wait.
pub(crate) fn send(socket: usize, byte: u8) {
    write(socket, &[byte]).ok();
}

/// Writes everything, unless the file is gone. The caller may have made it one that never waits (`O_NONBLOCK`); then room
/// is waited for here ([`has_room`]).
pub(crate) fn write_all(file: usize, mut bytes: &[u8], socket: usize) {
    while !bytes.is_empty() {
        match write(file, bytes) {
            Ok(written @ 1..) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(EAGAIN) if has_room(file, socket) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Waits until a file can be written: as long as the library has the other end of `socket` open, which it closes when the
/// program has ended, and for a limited time from then on.
fn has_room(file: usize, socket: usize) -> bool {
    let mut files = [Poll::writable(file), Poll::closed(socket)];
    if poll(&mut files, None).is_err() {
        return false;
    }
    let [room, end] = files;
    if room.has_happened() || !end.has_happened() {
        return true;
    }
    let mut files = [Poll::writable(file)];
    poll(&mut files, Some(LONGEST_WRITE)).is_ok() && files[0].has_happened()
}

/// Reads what there is, and tells how much that was, or the error.
pub(crate) fn read(file: usize, bytes: &mut [u8]) -> Result<usize, isize> {
    loop {
        match call(nr::READ, [file, bytes.as_mut_ptr() as usize, bytes.len(), 0, 0]) {
            EINTR => {}
            read => return usize::try_from(read).map_err(|_| read),
        }
    }
}

pub(crate) fn kill_itself(signal: u32) {
    let own = call(nr::GETPID, [0; 5]);
    call(nr::KILL, [own as usize, signal as usize, 0, 0, 0]);
}

pub(crate) fn dump_nothing() {
    const CORE: usize = 4;
    let none = [0_u64; 2];
    call(nr::PRLIMIT64, [0, CORE, none.as_ptr() as usize, 0, 0]);
}

/// Ends this process by a signal, if the signal ends processes.
pub(crate) fn end_by(signal: u32) {
    if !(1..=MOST_SIGNALS).contains(&signal) {
        return;
    }
    let default = [0_u64; 4];
    call(nr::RT_SIGACTION, [signal as usize, default.as_ptr() as usize, 0, SET, 0]);
    block_signals(!bit(signal));
    kill_itself(signal);
}
