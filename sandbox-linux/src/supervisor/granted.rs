//! Unix sockets of the host that were granted: the ones that were there when the supervisor started.
//!
//! A grant names a path, and means the service behind it. What is renamed to that path later is another
//! service, perhaps one that no grant was given for; so is one that was not there yet. Each socket is held open
//! from the start, so that its number is nobody else's as long as it is compared with.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use stockade_protocol::{AbsPath, Access};
use stockade_sandboxing::permits;

/// Sockets by their resolved paths. `None` stands for one that was not there.
#[derive(Debug, Default)]
pub(super) struct Granted(BTreeMap<AbsPath, Option<OwnedFd>>);

/// Why a socket is not reached.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The path of the socket, if there is one that the user could connect to.
    NotGranted(Option<AbsPath>),
    /// It was granted, and is not the one that was there at the start.
    Replaced(AbsPath),
}

impl Granted {
    /// Holds the sockets that are there now.
    pub(super) fn hold(paths: &BTreeSet<AbsPath>) -> Self {
        let held = |path: &AbsPath| path.to_host_path().and_then(|path| open(&path).ok());
        Self(paths.iter().map(|path| (path.clone(), held(path))).collect())
    }

    /// The socket that a path leads to, if it is the one that was granted.
    pub(super) fn find(&self, path: &Path) -> Result<OwnedFd, Refusal> {
        let nothing = || Refusal::NotGranted(None);
        let resolved = fs::canonicalize(path).map_err(|_| nothing())?;
        let known = AbsPath::parse(resolved.as_os_str().as_bytes().to_vec()).map_err(|_| nothing())?;
        let held = self.0.get(&known).ok_or_else(|| {
            let is_reachable = open(&resolved).is_ok() && permits(&known, Access::Write);
            Refusal::NotGranted(is_reachable.then(|| known.clone()))
        })?;
        // The one that is held is connected to, whatever stands at the path by then.
        match (held, open(OsStr::from_bytes(known.as_raw().as_bytes()))) {
            (Some(held), Ok(there)) if is_same(held.as_fd(), there.as_fd()) => Ok(there),
            _ => Err(Refusal::Replaced(known)),
        }
    }
}

/// What has become a link since is not the way that was granted.
fn open(path: &(impl AsRef<OsStr> + ?Sized)) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(CWD, path.as_ref(), flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    if kind == FileType::Socket { Ok(file) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    let identity = |file| rustix::fs::fstat(file).map(|found| (found.st_dev, found.st_ino));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}
