//! Unix sockets that the commands of one sandbox listen at: the only ones, besides those that are granted, that they
//! connect to.
//!
//! A socket is known when it begins to listen, which is done here, on a socket that was made in the sandbox's own
//! network. The kernel says which file it is bound to, whatever stands at the path by then. Binding makes a new file each
//! time, so a file is one socket's for good; it is held open as long as it is known, so that its number is no other
//! file's. So neither a foreign socket that is renamed or linked over an own one, nor a number that is used again, is
//! taken for one.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::caller::Caller;
use crate::sys::notify;

/// As many are known at once. Each takes a descriptor.
const MOST: usize = 128;
/// How often a path is looked up that changes meanwhile.
const MOST_TRIES: usize = 16;

/// By device and inode.
#[derive(Debug, Default)]
pub(super) struct OwnSockets(HashMap<(u64, u64), OwnedFd>);

impl OwnSockets {
    /// A socket that listens now. One without a file needs no entry, and one whose file can't be told is nobody's.
    pub(super) fn add(&mut self, socket: BorrowedFd<'_>) {
        let Ok(file) = notify::bound_file(socket) else { return };
        let Some((key, _)) = identity(file.as_fd()) else { return };
        if self.0.len() >= MOST {
            // Those that have no name any more can't be connected to.
            self.0.retain(|_, known| identity(known.as_fd()).is_some_and(|(_, links)| links > 0));
        }
        if self.0.len() < MOST {
            self.0.insert(key, file);
        }
    }

    /// The socket that a path of a command leads to, if it is one of these.
    pub(super) fn find(&self, caller: &Caller, path: &[u8]) -> Option<OwnedFd> {
        if self.0.is_empty() {
            return None;
        }
        let there = open(caller, path).ok()?;
        let (key, _) = identity(there.as_fd())?;
        // The one that is held, whatever was opened.
        self.0.get(&key)?.try_clone().ok()
    }
}

/// Device and inode of a socket's file, and how many names it has.
fn identity(file: BorrowedFd<'_>) -> Option<((u64, u64), u64)> {
    let found = rustix::fs::fstat(file).ok()?;
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    is_socket.then_some(((found.st_dev, found.st_ino), found.st_nlink))
}

/// Opens what a path leads to in the caller's view, without doing anything with it. Should that be another file than the
/// kernel would find for the caller, it is none of those that are known, or another one of them.
fn open(caller: &Caller, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = format!("/proc/{}/root", caller.thread());
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty())?;
    let mut text = if path.starts_with(b"/") { Vec::new() } else { directory(caller, &root)? };
    text.push(b'/');
    text.extend(path);
    // The kernel gives up where something is renamed meanwhile, and has to be asked again.
    let mut found = Err(Errno::AGAIN);
    for _ in 0..MOST_TRIES {
        found = rustix::fs::openat2(&root, OsStr::from_bytes(&text), flags, Mode::empty(), ResolveFlags::IN_ROOT);
        if !matches!(found, Err(Errno::AGAIN)) {
            break;
        }
    }
    Ok(found?)
}

/// The caller's working directory, from its root on.
fn directory(caller: &Caller, root: &OwnedFd) -> io::Result<Vec<u8>> {
    let root = std::fs::read_link(format!("/proc/self/fd/{}", root.as_raw_fd()))?;
    let directory = caller.directory()?;
    let below = directory.strip_prefix(&root).map_err(|_| io::ErrorKind::NotFound)?;
    Ok([b"/", below.as_os_str().as_bytes()].concat())
}
