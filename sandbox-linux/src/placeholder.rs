//! Names in a workspace that must not be created by a command, although they do not exist.
//!
//! A mount needs something to be attached to. So for the time of a run an empty directory stands
//! under such a name, marked by its mode, and each run that needs it holds a shared lock on it. The
//! last one to let go removes it; so does the next run, if all that held it were killed at once.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use stockade_protocol::AbsPath;
use stockade_sandboxing::PLACEHOLDER_MODE;

const MARK: Mode = Mode::from_bits_retain(PLACEHOLDER_MODE);
/// How often to try again when another run removes the name at the same moment.
const TRIES: usize = 100;

/// A name that is going to be held. The launcher knows of it before anything is made under it, so
/// that it can clean up whenever this program is killed.
#[derive(Debug)]
pub(crate) struct Name {
    name: Vec<u8>,
    parent: OwnedFd,
}

/// A name that is held.
#[derive(Debug)]
pub(crate) struct Placeholder {
    name: Name,
    /// What keeps others from removing it, until the launcher has.
    held: Option<OwnedFd>,
}

impl Name {
    pub(crate) fn new(path: &AbsPath) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let name = path.components().last().ok_or_else(invalid)?.to_vec();
        let parent = path.parent().and_then(|parent| parent.to_host_path()).ok_or_else(invalid)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        Ok(Self { name, parent })
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn parent(&self) -> BorrowedFd<'_> {
        self.parent.as_fd()
    }

    /// Puts an empty directory at the path, or shares the one that another run has put there.
    pub(crate) fn hold(self) -> io::Result<Placeholder> {
        for _ in 0..TRIES {
            if let Some(held) = take(self.parent(), &self.name)? {
                return Ok(Placeholder { name: self, held: Some(held) });
            }
        }
        Err(io::Error::other("the name keeps changing"))
    }
}

impl Placeholder {
    /// What keeps others from removing it; the launcher has it too.
    pub(crate) fn held(&self) -> Option<BorrowedFd<'_>> {
        self.held.as_ref().map(AsFd::as_fd)
    }

    /// Leaves the rest to the launcher.
    pub(crate) fn forget(&mut self) {
        self.held = None;
    }
}

/// Whether it was put there by a run, and not by somebody who wanted such a directory.
fn is_ours(held: &OwnedFd) -> bool {
    rustix::fs::fstat(held).is_ok_and(|found| Mode::from_raw_mode(found.st_mode) == MARK)
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
        let Name { name, parent, .. } = &self.name;
        let Some(held) = &self.held else { return };
        let is_last = is_ours(held)
            && rustix::fs::flock(held, FlockOperation::NonBlockingLockExclusive).is_ok()
            // Another run may have removed this one, and yet another put its own there.
            && is_still_there(parent.as_fd(), name, held).is_ok_and(|is_there| is_there);
        if is_last {
            rustix::fs::unlinkat(parent, &**name, AtFlags::REMOVEDIR).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_in(directory: &tempfile::TempDir) -> AbsPath {
        AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap().join(".codex").unwrap()
    }

    fn hold(path: &AbsPath) -> Placeholder {
        Name::new(path).and_then(Name::hold).unwrap()
    }

    #[test]
    fn a_later_runs_directory_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        let first = hold(&path);
        std::fs::remove_dir(directory.path().join(".codex")).unwrap();
        let second = hold(&path);
        drop(first);
        assert!(directory.path().join(".codex").exists(), "it is the second one's");
        drop(second);
        assert!(!directory.path().join(".codex").exists());
    }

    #[test]
    fn the_last_holder_removes_the_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        let exists = || directory.path().join(".codex").exists();
        let (first, second) = (hold(&path), hold(&path));
        drop(first);
        assert!(exists(), "another run still needs it");
        drop(second);
        assert!(!exists());
    }

    #[test]
    fn what_somebody_else_made_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".codex")).unwrap();
        drop(hold(&name_in(&directory)));
        assert!(directory.path().join(".codex").exists());
    }
}
