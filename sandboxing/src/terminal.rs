//! A pseudo-terminal: one end for the command, one for whoever watches it.

use std::io;

use stockade_protocol::TerminalSize;

use crate::backend::OwnedStream;

/// The two ends of a pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    /// What the command writes is read here, and what is written here the command reads.
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
        // What `openpt` does; on macOS that can't keep the terminal from other programs that are being started.
        let ours = rustix::fs::open("/dev/ptmx", flags, rustix::fs::Mode::empty())?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let theirs = rustix::fs::open(ptsname(&ours, Vec::new())?, flags, rustix::fs::Mode::empty())?;
        let terminal = Self { ours, theirs };
        resize(&terminal.ours, size)?;
        Ok(terminal)
    }
}

/// Tells a terminal, by either end, how large it is now. The command hears of it by `SIGWINCH`.
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

/// Tells a terminal, by either end, how large it is now.
#[cfg(not(unix))]
pub fn resize(_: &OwnedStream, _: TerminalSize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}
