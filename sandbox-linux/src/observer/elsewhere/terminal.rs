//! The terminal of a program that runs elsewhere at its caller's terminal: a pseudo-terminal of its own, whose other end
//! goes to the stub.
//!
//! If standard input and output are the caller's terminal, both are the program's own; otherwise only standard error is,
//! since other programs of a pipeline may read from the caller's. The stub passes keys and output on, in its caller's
//! job. A stub that is killed leaves its caller's terminal with other modes, so those are set back here.
//!
//! While a stub passes keys on, its caller's terminal has modes that are not the caller's. A program that starts meanwhile at
//! the same terminal has the modes from before ([`CallersTerminals`]), and so has its stub.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::OFlags;
use rustix::termios::{LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use stockade_protocol::TerminalSize;
use stockade_sandboxing::Terminal;

use crate::stub_wire as wire;

/// The standard streams of a program, as far as its caller has them.
pub(super) type StandardStreams = [Option<OwnedFd>; 3];

/// The terminal of a program.
pub(super) struct OwnTerminal {
    pub(super) other_end: OwnedFd,
    /// The streams that it is, as the stub is told.
    pub(super) streams: u8,
    pub(super) before: Arc<Before>,
}

/// The number of a terminal's device.
type DeviceNumber = (u32, u32);

/// What tells a terminal from all others. A sandbox has a devpts of its own, which numbers its terminals anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    filesystem: u64,
    device: u64,
}

impl Identity {
    fn of(terminal: &OwnedFd) -> Option<Self> {
        let found = rustix::fs::fstat(terminal.as_fd()).ok()?;
        Some(Self { filesystem: found.st_dev, device: found.st_rdev })
    }

    fn number(self) -> DeviceNumber {
        (rustix::fs::major(self.device), rustix::fs::minor(self.device))
    }
}

/// A caller's terminal as it was.
pub(super) struct Before {
    terminal: OwnedFd,
    identity: Identity,
    modes: Termios,
}

/// The terminals at which programs run elsewhere now, as they were before.
#[derive(Clone, Default)]
pub(super) struct CallersTerminals(Arc<Mutex<Vec<Weak<Before>>>>);

impl CallersTerminals {
    /// A terminal as it was before any stub changed it.
    fn before(&self, terminal: &OwnedFd, identity: Identity) -> io::Result<Arc<Before>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|before| before.strong_count() > 0);
        let others: Vec<Arc<Before>> = known.iter().rev().filter_map(Weak::upgrade).collect();
        // Read after that: a stub that is not among them has set them back.
        let modes = tcgetattr(terminal)?;
        // A stub switches all of them off.
        let may_be_changed = !modes.local_modes.intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::IEXTEN);
        if let Some(before) = others.into_iter().find(|before| may_be_changed && before.identity == identity) {
            return Ok(before);
        }
        let before = Arc::new(Before { terminal: terminal.try_clone()?, identity, modes });
        known.push(Arc::downgrade(&before));
        Ok(before)
    }
}

impl Before {
    /// Gives the terminal its modes back.
    pub(super) fn restore(&self) {
        // A terminal that is gone has none.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.modes).ok();
    }
}

/// Gives a program a terminal of its own, in place of streams that are the controlling terminal of its caller. `None` if
/// none is, or none can be made: the streams stay as they are. A stream that is another terminal stays in any case.
pub(super) fn own_terminal(
    process: i32,
    streams: &mut StandardStreams,
    terminals: &CallersTerminals,
) -> Option<OwnTerminal> {
    let controlling = controlling_terminal(process)?;
    let identity_of_callers = |stream: &Option<OwnedFd>| {
        let stream = stream.as_ref().filter(|stream| isatty(stream))?;
        Identity::of(stream).filter(|found| found.number() == controlling)
    };
    let [input, output, errors] = streams.each_ref().map(identity_of_callers);
    let is_whole = input.is_some() && input == output;
    let (told, replaced): (u8, &[usize]) = match (is_whole, errors) {
        (true, _) if input == errors => (wire::INPUT_AND_OUTPUT, &[0, 1, 2]),
        (true, _) => (wire::INPUT_AND_OUTPUT, &[0, 1]),
        (false, Some(_)) => (wire::ERRORS, &[2]),
        (false, None) => return None,
    };
    let callers = streams.get(*replaced.first()?)?.as_ref()?;
    let before = terminals.before(callers, Identity::of(callers)?).ok()?;
    let (own, other_end) = open(callers, &before.modes).ok()?;
    // All of them, or none.
    let copies = replaced.iter().map(|_| own.try_clone()).collect::<io::Result<Vec<_>>>().ok()?;
    for (number, copy) in replaced.iter().zip(copies) {
        *streams.get_mut(*number)? = Some(copy);
    }
    Some(OwnTerminal { other_end, streams: told, before })
}

/// A terminal with these modes, and the size of another: the program's end, and the other one.
fn open(callers: &OwnedFd, modes: &Termios) -> io::Result<(OwnedFd, OwnedFd)> {
    let size = tcgetwinsize(callers)?;
    let Terminal { ours, theirs } = Terminal::open(TerminalSize { rows: size.ws_row, columns: size.ws_col })?;
    tcsetwinsize(&ours, size)?;
    tcsetattr(&theirs, OptionalActions::Now, modes)?;
    // The stub never waits for a program that does not read.
    let flags = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
    Ok((theirs, ours))
}

/// The device of a process's controlling terminal, if it has one.
fn controlling_terminal(process: i32) -> Option<DeviceNumber> {
    parse_controlling_terminal(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The seventh field, `tty_nr`; the second one may hold any text, in parentheses.
fn parse_controlling_terminal(stat: &str) -> Option<DeviceNumber> {
    let (_, rest) = stat.rsplit_once(')')?;
    let number = rest.split_whitespace().nth(4)?.parse::<i32>().ok()?.cast_unsigned();
    let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00));
    (number != 0).then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_controlling_terminal_of_a_process_is_read() {
        let read = |number: &str| parse_controlling_terminal(&format!("7 (a) b (c) S 1 7 7 {number} 7 4194304"));
        assert_eq!(read("0"), None);
        assert_eq!(read("34817"), Some((136, 1)));
        // `/dev/pts/300`
        assert_eq!(read("1083436"), Some((136, 44 + 256)));
        for text in ["", "7 (a", "7 (a) S", "7 (a) S 1 7 7 x 7"] {
            assert_eq!(parse_controlling_terminal(text), None, "{text}");
        }
    }

    /// A second program at a terminal that a stub has changed has the modes from before, until the first has ended.
    #[test]
    fn modes_that_a_stub_has_set_are_not_taken_for_the_callers() {
        let Terminal { ours: _ours, theirs } = Terminal::open(TerminalSize { rows: 24, columns: 80 }).unwrap();
        let (terminals, identity) = (CallersTerminals::default(), Identity::of(&theirs).unwrap());
        let lines = LocalModes::ICANON | LocalModes::ECHO;
        let first = terminals.before(&theirs, identity).unwrap();
        let mut raw = tcgetattr(&theirs).unwrap();
        raw.local_modes.remove(lines | LocalModes::IEXTEN);
        tcsetattr(&theirs, OptionalActions::Now, &raw).unwrap();
        let second = terminals.before(&theirs, identity).unwrap();
        assert!(second.modes.local_modes.contains(lines));
        drop(first);
        second.restore();
        // Changed by the caller, meanwhile.
        let mut silent = tcgetattr(&theirs).unwrap();
        assert!(silent.local_modes.contains(lines));
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&theirs, OptionalActions::Now, &silent).unwrap();
        assert!(!terminals.before(&theirs, identity).unwrap().modes.local_modes.contains(lines));
        drop(second);
        tcsetattr(&theirs, OptionalActions::Now, &raw).unwrap();
        assert_eq!(terminals.before(&theirs, identity).unwrap().modes.local_modes, raw.local_modes, "its caller's own");
    }

    #[test]
    fn streams_that_are_no_terminal_stay() {
        let mut streams = [None, None, None];
        let process = rustix::process::getpid().as_raw_nonzero().get();
        assert!(own_terminal(process, &mut streams, &CallersTerminals::default()).is_none());
    }
}
