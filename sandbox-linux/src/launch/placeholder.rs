//! Placeholders for names in a workspace that do not exist and must not be created by a command.
//!
//! A mount needs a mount point. So during a run an empty directory, marked by its mode, has such a name, and each run
//! that needs it holds a shared lock on it. The last one to release it removes it; so does the next run, if all
//! holders were killed at once.

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use stockade_protocol::AbsPath;
use stockade_sandboxing::PLACEHOLDER_MODE;

use crate::launch::kept_names::KeptNames;

pub(crate) const MARK: Mode = Mode::from_bits_retain(PLACEHOLDER_MODE);
/// The mode while it is moved: moving a directory to another one needs write permission on it.
pub(crate) const MOVED: Mode = MARK.union(Mode::WUSR);
/// The number of retries if another run removes the name concurrently.
const TRIES: usize = 100;
/// How long a run may take between locking and removing the name.
const LONGEST_REMOVING: Duration = Duration::from_secs(2);
/// How long the processes of a killed launcher may take to end.
const LONGEST_DYING: Duration = Duration::from_millis(200);

/// A name to be held. The launcher knows of it before it is created, so that it can clean up whenever this program is
/// killed.
#[derive(Debug)]
pub(crate) struct Name {
    name: Vec<u8>,
    /// The path of the directory that it is in.
    directory: AbsPath,
    parent: OwnedFd,
    /// The kept directory for it between runs, and its entry.
    kept: Option<(Arc<KeptNames>, Vec<u8>)>,
}

/// A held name.
#[derive(Debug)]
pub(crate) struct Placeholder {
    name: Name,
    holder: Holder,
}

/// What a launcher has left behind of the placeholders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    /// Nothing: it has removed each.
    None,
    /// Unknown: a name may still be there.
    Possible,
}

/// The process whose lock keeps the name.
#[derive(Debug)]
enum Holder {
    This(OwnedFd),
    /// The launcher and its first process, as long as either lives.
    Launcher,
    /// The launcher has released it.
    Nobody,
}

impl Name {
    pub(crate) fn new(path: &AbsPath, kept: Option<Arc<KeptNames>>) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
        let name = path.components().last().ok_or_else(invalid)?.to_vec();
        let directory = path.parent().ok_or_else(invalid)?;
        let parent = directory.to_host_path().ok_or_else(invalid)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let kept = kept.and_then(|kept| Some((kept, KeptNames::entry(parent.as_fd(), &name)?)));
        Ok(Self { name, directory, parent, kept })
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    pub(crate) fn directory(&self) -> &[u8] {
        self.directory.as_raw().as_bytes()
    }

    pub(crate) fn parent(&self) -> BorrowedFd<'_> {
        self.parent.as_fd()
    }

    /// The entry of its kept directory, if any.
    pub(crate) fn entry(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |(_, entry)| entry)
    }

    /// Removes the placeholder, unless another run holds it as well or another file has replaced it.
    fn remove(&self, held: &OwnedFd) -> rustix::io::Result<()> {
        if !is_ours(held) {
            return Ok(());
        }
        rustix::fs::flock(held, FlockOperation::NonBlockingLockExclusive)?;
        // Another run may have removed this one, and a third one created its own.
        let is_kept = || {
            let kept = self.kept.as_ref();
            kept.is_some_and(|(kept, entry)| kept.take_back(entry, self.parent(), &self.name, held))
        };
        if is_still_there(self.parent(), &self.name, held)? && !is_kept() {
            rustix::fs::unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// Creates the placeholder, or shares that of another run.
    pub(crate) fn hold(self) -> io::Result<Placeholder> {
        for _ in 0..TRIES {
            if let Some(held) = self.take()? {
                return Ok(Placeholder { name: self, holder: Holder::This(held) });
            }
        }
        Err(io::Error::other("the name keeps changing"))
    }

    /// Creates, opens and locks the directory; `None` if it was removed by then.
    fn take(&self) -> io::Result<Option<OwnedFd>> {
        let (parent, name) = (self.parent(), &*self.name);
        let given = self.kept.as_ref().and_then(|(kept, entry)| kept.give(entry, parent, name));
        let opened = given.map_or_else(|| make(parent, name), |held| Ok(Some(held)))?;
        let Some(held) = opened else { return Ok(None) };
        // A file that is not a placeholder is never removed, and needs no lock.
        if is_ours(&held) {
            lock(&held)?;
        }
        Ok(is_still_there(parent, name, &held)?.then_some(held))
    }
}

impl Placeholder {
    /// The lock, for the launcher.
    pub(crate) fn held(&self) -> Option<BorrowedFd<'_>> {
        if let Holder::This(held) = &self.holder { Some(held.as_fd()) } else { None }
    }

    /// Passes the lock to the launcher. The last close of a removed directory waits for the disk, which must not delay
    /// this program.
    pub(crate) fn leave_to_launcher(&mut self) {
        self.holder = Holder::Launcher;
    }

    /// Called when the launcher has released it, and removed it unless another run holds it. In its user namespace it
    /// may lack the permission, in a directory of another user; then it is removed here.
    pub(crate) fn finish(mut self, leftovers: Leftovers) {
        self.holder = Holder::Nobody;
        if leftovers == Leftovers::Possible
            && let Ok(Some(held)) = open(self.name.parent(), &self.name.name)
        {
            // A placeholder that another run holds is removed by that run.
            self.name.remove(&held).ok();
        }
    }
}

/// Creates the directory, unless another run has, and opens it; `None` if it was removed by then.
fn make(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    // A directory that can't be opened can't be removed again: the descriptor is reserved before it is created.
    let reserved = rustix::io::fcntl_dupfd_cloexec(parent, 0)?;
    match rustix::fs::mkdirat(parent, name, MARK) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    drop(reserved);
    restore_mark(parent, name);
    Ok(open(parent, name)?)
}

/// Whether it is a placeholder, and not an ordinary directory.
pub(crate) fn is_ours(held: &OwnedFd) -> bool {
    rustix::fs::fstat(held).is_ok_and(|found| [MARK, MOVED].contains(&Mode::from_raw_mode(found.st_mode)))
}

/// Restores the mode of a placeholder after the umask reduced it, or after a move, for any run. It may not even be
/// readable otherwise. Other files, and those of other users, are left alone.
fn restore_mark(parent: BorrowedFd<'_>, name: &[u8]) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Directories in one with the set-group-ID bit inherit that.
    let is_masked = |mode: Mode| mode.contains(Mode::SVTX) && MOVED.union(Mode::SGID).contains(mode) && mode != MARK;
    let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if !found.is_ok_and(|found| is_masked(Mode::from_raw_mode(found.st_mode))) {
        return;
    }
    // By its descriptor: another file may have the name by now.
    if let Ok(file) = rustix::fs::openat(parent, name, flags, Mode::empty())
        && rustix::fs::fstat(&file).is_ok_and(|found| is_masked(Mode::from_raw_mode(found.st_mode)))
    {
        // Without the permission it is not a placeholder of this user.
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), MARK).ok();
    }
}

/// Waits for a run that is about to remove the name. A longer lock is not a run's: every process that may read the
/// directory can lock it, also a command with another workspace.
fn lock(held: &OwnedFd) -> io::Result<()> {
    let end = Instant::now() + LONGEST_REMOVING;
    loop {
        match rustix::fs::flock(held, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK) if Instant::now() < end => thread::sleep(Duration::from_millis(1)),
            Err(Errno::WOULDBLOCK) => return Err(io::Error::other("some process keeps it locked")),
            other => return Ok(other?),
        }
    }
}

fn open(parent: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(held) => Ok(Some(held)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn is_still_there(parent: BorrowedFd<'_>, name: &[u8], held: &OwnedFd) -> rustix::io::Result<bool> {
    let own = rustix::fs::fstat(held)?;
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

impl Drop for Placeholder {
    /// Removes the placeholder, if no other run holds it and it has not been replaced. One that can't be removed is
    /// not empty.
    fn drop(&mut self) {
        match mem::replace(&mut self.holder, Holder::Nobody) {
            Holder::This(held) => drop(self.name.remove(&held)),
            // The launcher has removed it, unless it was killed. Its processes then end with it, and hold the lock
            // until then.
            Holder::Launcher => {
                let end = Instant::now() + LONGEST_DYING;
                while let Ok(Some(held)) = open(self.name.parent(), &self.name.name)
                    && self.name.remove(&held) == Err(Errno::WOULDBLOCK)
                    && Instant::now() < end
                {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            Holder::Nobody => {}
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
        Name::new(path, None).and_then(Name::hold).unwrap()
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
    fn a_name_that_is_kept_locked_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = name_in(&directory);
        rustix::fs::mkdir(directory.path().join(".codex"), MARK).unwrap();
        let locked = std::fs::File::open(directory.path().join(".codex")).unwrap();
        rustix::fs::flock(&locked, FlockOperation::LockExclusive).unwrap();
        let (answer, answered) = std::sync::mpsc::channel();
        let waiting = path.clone();
        thread::spawn(move || answer.send(Name::new(&waiting, None).and_then(Name::hold).err()));
        let error = answered.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
        assert!(error.to_string().contains("locked"), "{error}");
        drop(locked);
        drop(hold(&path));
        assert!(!directory.path().join(".codex").exists());
    }

    #[test]
    fn what_somebody_else_made_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(".codex")).unwrap();
        drop(hold(&name_in(&directory)));
        assert!(directory.path().join(".codex").exists());
    }
}
