//! A command's standard streams: for passing on, and copies for a second attempt.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use stockade_sandboxing::{Stdio, Streams};

pub(crate) fn duplicate(stdio: &Stdio) -> io::Result<Stdio> {
    let stream = |stream: &Streams| {
        Ok::<_, io::Error>(match stream {
            Streams::Null => Streams::Null,
            Streams::Inherit => Streams::Inherit,
            Streams::To(file) => Streams::To(file.try_clone()?),
        })
    };
    Ok(Stdio {
        stdin: stream(&stdio.stdin)?,
        stdout: stream(&stdio.stdout)?,
        stderr: stream(&stdio.stderr)?,
        controlling_terminal: stdio.controlling_terminal,
    })
}

pub(crate) fn null() -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// The descriptors to pass on.
pub(crate) fn streams<'a>(stdio: &'a Stdio, null: BorrowedFd<'a>) -> [BorrowedFd<'a>; 3] {
    let stream = |stream: &'a Streams, own: BorrowedFd<'a>| match stream {
        Streams::Null => null,
        Streams::Inherit => own,
        Streams::To(file) => file.as_fd(),
    };
    [
        stream(&stdio.stdin, rustix::stdio::stdin()),
        stream(&stdio.stdout, rustix::stdio::stdout()),
        stream(&stdio.stderr, rustix::stdio::stderr()),
    ]
}
