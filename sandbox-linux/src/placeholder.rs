//! Names in a workspace that must not be created by a command, although they do not exist.
//!
//! A mount needs something to be attached to. So for the time of a run an empty directory stands
//! under such a name, marked by its mode, and each run that needs it holds a shared lock on it. The
//! last one to let go removes it; so does the next run, if all that held it were killed at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Glob};
use stockade_sandboxing::{HostFiles, Kind, RealFiles, SpawnError};

/// Sticky, and readable for its owner alone: no program makes such a directory by itself.
const MARK: Mode = Mode::SVTX.union(Mode::RUSR).union(Mode::XUSR);
/// How often to try again when another run removes the name at the same moment.
const TRIES: usize = 100;

/// A name that is held.
#[derive(Debug)]
pub(crate) struct Placeholder {
    name: Vec<u8>,
    parent: OwnedFd,
    held: OwnedFd,
    /// Whether it is this program that removes the name.
    ours_to_remove: bool,
}

impl Placeholder {
    /// Puts an empty directory at a path, or shares the one that another run has put there.
    pub(crate) fn hold(path: &AbsPath) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let name = path.components().last().ok_or_else(invalid)?.to_vec();
        let parent = path.parent().and_then(|parent| parent.to_host_path()).ok_or_else(invalid)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        for _ in 0..TRIES {
            if let Some(held) = take(parent.as_fd(), &name)? {
                return Ok(Self { name, parent, held, ours_to_remove: true });
            }
        }
        Err(io::Error::other("the name keeps changing"))
    }

    /// Holds every one of these names, or none.
    pub(crate) fn hold_all(paths: &[AbsPath]) -> Result<Vec<Self>, SpawnError> {
        let hold = |path: &AbsPath| {
            Self::hold(path).map_err(|source| SpawnError::Setup { step: format!("hold the name `{path}`"), source })
        };
        paths.iter().map(hold).collect()
    }

    /// Leaves the name to a launcher that was given it. Both at once would get in each other's way:
    /// they share the lock, and the second one could remove what the next run has put there.
    pub(crate) fn leave(mut self) {
        self.ours_to_remove = false;
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it was put there by a run, and not by somebody who wanted such a directory.
    pub(crate) fn is_ours(&self) -> bool {
        rustix::fs::fstat(&self.held).is_ok_and(|found| is_marked(&found))
    }

    /// The descriptors that the launcher needs to remove the name if this program can't.
    pub(crate) fn files(&self) -> [BorrowedFd<'_>; 2] {
        [self.parent.as_fd(), self.held.as_fd()]
    }
}

/// The host's files without placeholders: a name that another run holds for a while is missing.
pub(crate) struct WithoutPlaceholders;

impl HostFiles for WithoutPlaceholders {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        let kind = RealFiles.kind(path)?;
        let marked = kind == Kind::Directory
            && path.to_host_path().and_then(|path| rustix::fs::lstat(path).ok()).is_some_and(|found| is_marked(&found));
        (!marked).then_some(kind)
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        RealFiles.canonical(path)
    }

    fn matches(&self, glob: &Glob) -> Vec<AbsPath> {
        RealFiles.matches(glob)
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        RealFiles.link_target(path)
    }
}

fn is_marked(found: &Stat) -> bool {
    Mode::from_raw_mode(found.st_mode) == MARK
}

/// Opens and locks the directory; `None` if it was gone again by then.
fn take(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::mkdirat(parent, name, MARK) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(held) => held,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    rustix::fs::flock(&held, FlockOperation::LockShared)?;
    Ok(is_still_there(parent, name, &held)?.then_some(held))
}

fn is_still_there(parent: BorrowedFd<'_>, name: &[u8], held: &OwnedFd) -> io::Result<bool> {
    let own = rustix::fs::fstat(held)?;
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

impl Drop for Placeholder {
    /// Removes the name, if nobody else holds it and it is what was put there. What can't be removed
    /// is not ours: somebody has put something into it.
    fn drop(&mut self) {
        if self.ours_to_remove
            && self.is_ours()
            && rustix::fs::flock(&self.held, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_still_there(self.parent.as_fd(), &self.name, &self.held).unwrap_or(false)
        {
            rustix::fs::unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_in(directory: &tempfile::TempDir) -> AbsPath {
        AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap().join(".codex").unwrap()
    }

    #[test]
    fn the_last_holder_removes_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        let exists = || directory.path().join(".codex").exists();
        let (first, second) = (Placeholder::hold(&path).unwrap(), Placeholder::hold(&path).unwrap());
        drop(first);
        assert!(exists(), "another run still needs it");
        drop(second);
        assert!(!exists());
    }

    #[test]
    fn a_name_that_another_run_holds_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        let held = Placeholder::hold(&path).unwrap();
        assert_eq!(WithoutPlaceholders.kind(&path), None);
        drop(held);
        std::fs::create_dir(directory.path().join(".codex")).unwrap();
        assert_eq!(WithoutPlaceholders.kind(&path), Some(Kind::Directory));
    }

    #[test]
    fn the_last_one_does_not_remove_what_the_next_one_holds() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        let first = Placeholder::hold(&path).unwrap();
        std::fs::remove_dir(directory.path().join(".codex")).unwrap();
        let second = Placeholder::hold(&path).unwrap();
        drop(first);
        assert!(directory.path().join(".codex").exists());
        drop(second);
    }

    #[test]
    fn what_somebody_else_made_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".codex")).unwrap();
        drop(Placeholder::hold(&name_in(&directory)).unwrap());
        assert!(directory.path().join(".codex").exists());
    }
}
