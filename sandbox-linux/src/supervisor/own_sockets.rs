//! Unix sockets at which the commands of one sandbox listen: the only ones, besides granted ones, that they may
//! connect to.
//!
//! A socket is recorded when it begins to listen, which is done here, on a socket created in the sandbox's own
//! network. The kernel returns the file it is bound to, independent of its path. Each bind creates a new file, so a
//! file belongs to one socket; it is held open while it is recorded, so that its inode number is not reused. So
//! neither a foreign socket renamed or linked over an own one, nor a reused inode number, is mistaken for one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::caller::Caller;
use crate::sys::notify;

/// Limit on recorded sockets. Each takes a descriptor.
const MOST: usize = 128;
/// The number of retries for a path that changes meanwhile.
const MOST_TRIES: usize = 16;

/// By device and inode.
#[derive(Debug, Default)]
pub(super) struct OwnSockets(HashMap<(u64, u64), OwnedFd>);

impl OwnSockets {
    /// Records a listening socket. One without a file needs no entry, and one whose file can't be determined is not
    /// recorded.
    pub(super) fn add(&mut self, socket: BorrowedFd<'_>) {
        let Ok(file) = notify::bound_file(socket) else { return };
        let Some((key, _)) = identity(file.as_fd()) else { return };
        if self.0.len() >= MOST {
            // Unlinked sockets can't be connected to.
            self.0.retain(|_, known| identity(known.as_fd()).is_some_and(|(_, links)| links > 0));
        }
        if self.0.len() < MOST {
            self.0.insert(key, file);
        }
    }

    /// The socket at a command's path, if it is recorded.
    pub(super) fn find(&self, caller: &Caller, path: &[u8]) -> Option<OwnedFd> {
        if self.0.is_empty() {
            return None;
        }
        let there = open(caller, path).ok()?;
        let (key, _) = identity(there.as_fd())?;
        // The held one, not the one just opened.
        self.0.get(&key)?.try_clone().ok()
    }
}

/// Whether a command sees nothing at this path.
pub(super) fn is_missing(caller: &Caller, path: &[u8]) -> bool {
    open(caller, path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Device and inode of a socket's file, and its link count.
fn identity(file: BorrowedFd<'_>) -> Option<((u64, u64), u64)> {
    let found = rustix::fs::fstat(file).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    #[allow(clippy::useless_conversion, reason = "half as long on AArch64")]
    let links = u64::from(found.st_nlink);
    is_socket.then_some(((found.st_dev, found.st_ino), links))
}

/// Opens a path in the caller's view, with `O_PATH`. If it is not the file that the kernel would find for the caller,
/// it is not recorded, or another recorded one.
fn open(caller: &Caller, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = format!("/proc/{}/root", caller.thread());
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut text = if path.starts_with(b"/") { Vec::new() } else { directory(caller, &root)? };
    text.push(b'/');
    text.extend(path);
    // The kernel returns `EAGAIN` after a concurrent rename.
    let mut found = Err(Errno::AGAIN);
    for _ in 0..MOST_TRIES {
        found = rustix::fs::openat2(&root, OsStr::from_bytes(&text), flags, Mode::empty(), ResolveFlags::IN_ROOT);
        if !matches!(found, Err(Errno::AGAIN)) {
            break;
        }
    }
    Ok(found?)
}

/// The caller's working directory, relative to its root.
fn directory(caller: &Caller, root: &OwnedFd) -> io::Result<Vec<u8>> {
    let root = std::fs::read_link(format!("/proc/self/fd/{}", root.as_raw_fd()))?;
    let directory = caller.directory()?;
    let below = directory.strip_prefix(&root).map_err(|_| io::ErrorKind::NotFound)?;
    Ok([b"/", below.as_os_str().as_bytes()].concat())
}
