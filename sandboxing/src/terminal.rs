//! A pseudo-terminal: one end for the command, one for the caller.

use std::io;

use stockade_protocol::TerminalSize;

use crate::backend::OwnedStream;

/// The two ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    /// The caller's end: it reads the command's output and writes its input.
    pub ours: OwnedStream,
    /// The command's end, for all three of its standard streams.
    pub theirs: OwnedStream,
}

#[cfg(unix)]
impl Terminal {
    /// Makes a terminal of this size.
    pub fn open(size: TerminalSize) -> io::Result<Self> {
        use rustix::pty::{grantpt, ptsname, unlockpt};

        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
        // Like `openpt`, which on macOS can't set close-on-exec.
        let ours = rustix::fs::open("/dev/ptmx", flags, rustix::fs::Mode::empty())?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let theirs = rustix::fs::open(ptsname(&ours, Vec::new())?, flags, rustix::fs::Mode::empty())?;
        let terminal = Self { ours, theirs };
        resize(&terminal.ours, size)?;
        Ok(terminal)
    }
}

/// Sets the size of a terminal, by either end. The command gets `SIGWINCH`.
#[cfg(unix)]
pub fn resize(terminal: &OwnedStream, size: TerminalSize) -> io::Result<()> {
    let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(terminal, size)?)
}

#[cfg(not(unix))]
impl Terminal {
    /// Makes a terminal of this size.
    pub fn open(_: TerminalSize) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "a pseudo-terminal of this system can't be shared as two ends"))
    }
}

/// Sets the size of a terminal, by either end.
#[cfg(not(unix))]
pub fn resize(_: &OwnedStream, _: TerminalSize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
