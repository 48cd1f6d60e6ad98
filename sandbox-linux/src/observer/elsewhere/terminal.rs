//! The terminal of a program that runs elsewhere at its caller's terminal: a pseudo-terminal of its own, whose other end
//! goes to the stub.
//!
//! If standard input and output are the caller's terminal, both are the program's own; otherwise only standard error is,
//! since other programs of a pipeline may read from the caller's. The stub passes keys and output on, in its caller's
//! job. A stub that is killed leaves its caller's terminal with other modes, so those are set back here.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::OFlags;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use stockade_protocol::TerminalSize;
use stockade_sandboxing::Terminal;

/// The standard streams of a program, as far as its caller has them.
pub(super) type StandardStreams = [Option<OwnedFd>; 3];

/// The other end of a program's terminal.
pub(super) struct OtherEnd(pub(super) OwnedFd);

/// The caller's terminal as it was.
pub(super) struct Before {
    terminal: OwnedFd,
    modes: Termios,
}

impl Before {
    /// Gives the terminal its modes back.
    pub(super) fn restore(&self) {
        // A terminal that is gone has none.
        tcsetattr(&self.terminal, OptionalActions::Now, &self.modes).ok();
    }
}

/// Gives a program a terminal of its own, in place of streams that are the terminal of its caller. `None` if none is, or
/// none can be made: the streams stay as they are.
pub(super) fn own_terminal(process: i32, streams: &mut StandardStreams) -> Option<(OtherEnd, Before)> {
    let is_terminal = |stream: &Option<OwnedFd>| stream.as_ref().is_some_and(isatty);
    let [input, output, errors] = &*streams;
    let replaced: &[usize] = match (is_terminal(input) && is_terminal(output), is_terminal(errors)) {
        (true, true) => &[0, 1, 2],
        (true, false) => &[0, 1],
        (false, true) => &[2],
        (false, false) => return None,
    };
    let callers = streams.get(*replaced.first()?)?.as_ref()?;
    if controlling_terminal(process)? != device(callers)? {
        return None;
    }
    let (own, other, before) = open(callers).ok()?;
    for number in replaced {
        *streams.get_mut(*number)? = Some(own.try_clone().ok()?);
    }
    Some((OtherEnd(other), before))
}

/// A terminal with the modes and the size of another.
fn open(callers: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd, Before)> {
    let (modes, size) = (tcgetattr(callers)?, tcgetwinsize(callers)?);
    let Terminal { ours, theirs } = Terminal::open(TerminalSize { rows: size.ws_row, columns: size.ws_col })?;
    tcsetwinsize(&ours, size)?;
    tcsetattr(&theirs, OptionalActions::Now, &modes)?;
    // The stub never waits for a program that does not read.
    let flags = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
    Ok((theirs, ours, Before { terminal: callers.try_clone()?, modes }))
}

/// A terminal's device.
fn device(terminal: &OwnedFd) -> Option<(u32, u32)> {
    let found = rustix::fs::fstat(terminal.as_fd()).ok()?.st_rdev;
    Some((rustix::fs::major(found), rustix::fs::minor(found)))
}

/// The device of a process's controlling terminal, if it has one.
fn controlling_terminal(process: i32) -> Option<(u32, u32)> {
    parse_controlling_terminal(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The seventh field, `tty_nr`; the second one may hold any text, in parentheses.
fn parse_controlling_terminal(stat: &str) -> Option<(u32, u32)> {
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

    #[test]
    fn streams_that_are_no_terminal_stay() {
        let mut streams = [None, None, None];
        assert!(own_terminal(rustix::process::getpid().as_raw_nonzero().get(), &mut streams).is_none());
    }
}
