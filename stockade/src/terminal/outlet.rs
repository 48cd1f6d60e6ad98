//! Writes to files that may block.

use std::io;
use std::time::Duration;

use super::stage::Outlet;

/// Writes everything, without a time limit.
#[cfg(unix)]
pub(super) fn write_all(outlet: &Outlet, bytes: &[u8]) -> io::Result<()> {
    use std::os::fd::AsFd as _;

    let (stderr, mut rest) = (io::stderr(), bytes);
    let file = match outlet {
        Outlet::Stderr => stderr.as_fd(),
        Outlet::Terminal(file) => file.as_fd(),
    };
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR) => {}
            // Another program may have made it non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                is_ready_within(file, None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes to standard error as much as it accepts within a time limit.
#[cfg(unix)]
pub(super) fn write_within(limit: Duration, bytes: &[u8]) {
    use std::os::fd::AsFd as _;

    /// A writable pipe accepts this much at once.
    const AT_ONCE: usize = 512;
    let start = std::time::Instant::now();
    let mut rest = bytes;
    while !rest.is_empty() && is_ready_within(io::stderr().as_fd(), Some(limit.saturating_sub(start.elapsed()))) {
        let part = rest.get(..AT_ONCE).unwrap_or(rest);
        match rustix::io::write(io::stderr(), part) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            // Nothing can be reported without standard error.
            Err(_) => return,
        }
    }
}

/// Whether a file becomes writable within a time limit.
#[cfg(unix)]
fn is_ready_within(file: std::os::fd::BorrowedFd<'_>, limit: Option<Duration>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut files = [PollFd::from_borrowed_fd(file, PollFlags::OUT)];
    loop {
        match poll(&mut files, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            found => return matches!(found, Ok(1..)),
        }
    }
}

#[cfg(not(unix))]
pub(super) fn write_all(outlet: &Outlet, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;

    match outlet {
        Outlet::Stderr => io::stderr().write_all(bytes),
        Outlet::Terminal(file) => (&**file).write_all(bytes),
    }
}

#[cfg(not(unix))]
pub(super) fn write_within(_: Duration, bytes: &[u8]) {
    // Nothing can be reported without standard error.
    write_all(&Outlet::Stderr, bytes).ok();
}
