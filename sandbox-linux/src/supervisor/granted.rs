//! Granted unix sockets of the host: those that existed when the supervisor started.
//!
//! A grant names a path, and means the service behind it. A socket moved to that path later is another service,
//! perhaps one without a grant; so is one that did not exist yet. Each socket is held open from the start, so that its
//! inode number can't be reused while it is compared.

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

/// Sockets by their resolved paths; `None` for a missing one.
#[derive(Debug, Default)]
pub(super) struct Granted(BTreeMap<AbsPath, Option<OwnedFd>>);

/// Why a connection to a socket is refused.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The path of the socket, if there is one that the user could connect to.
    NotGranted(Option<AbsPath>),
    /// It was granted, but replaced since the start.
    Replaced(AbsPath),
}

impl Granted {
    /// Opens the sockets that exist now.
    pub(super) fn hold(paths: &BTreeSet<AbsPath>) -> Self {
        let held = |path: &AbsPath| path.to_host_path().and_then(|path| open(&path).ok());
        Self(paths.iter().map(|path| (path.clone(), held(path))).collect())
    }

    /// The socket at a path, if it is the granted one.
    pub(super) fn find(&self, path: &Path) -> Result<OwnedFd, Refusal> {
        let nothing = || Refusal::NotGranted(None);
        let resolved = fs::canonicalize(path).map_err(|_| nothing())?;
        let known = AbsPath::parse(resolved.as_os_str().as_bytes().to_vec()).map_err(|_| nothing())?;
        let held = self.0.get(&known).ok_or_else(|| {
            let is_reachable = open(&resolved).is_ok() && permits(&known, Access::Write);
            Refusal::NotGranted(is_reachable.then(|| known.clone()))
        })?;
        // The held socket is connected to, not the one at the path by then.
        match (held, open(OsStr::from_bytes(known.as_raw().as_bytes()))) {
            (Some(held), Ok(there)) if is_same(held.as_fd(), there.as_fd()) => Ok(there),
            _ => Err(Refusal::Replaced(known)),
        }
    }
}

/// Opens a path; one that has become a link since is not the granted one.
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
