//! Names in a workspace that must not be created by a command, although they do not exist.
//!
//! A mount needs something to be attached to. So for the time of a run an empty directory stands
//! under such a name, marked by its mode, and each run that needs it holds a shared lock on it. The
//! last one to let go removes it; so does the next run, if all that held it were killed at once.

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

use crate::kept_names::KeptNames;

const MARK: Mode = Mode::from_bits_retain(PLACEHOLDER_MODE);
/// The mode on the way from and to where it waits: only who may write a directory may move it to another.
pub(crate) const MOVED: Mode = MARK.union(Mode::WUSR);
/// How often to try again when another run removes the name at the same moment.
const TRIES: usize = 100;
/// How long a run may take from locking the name to removing it.
const LONGEST_REMOVING: Duration = Duration::from_secs(2);
/// How long the processes of a killed launcher may take to be gone.
const LONGEST_DYING: Duration = Duration::from_millis(200);

/// A name that is going to be held. The launcher knows of it before anything is made under it, so
/// that it can clean up whenever this program is killed.
#[derive(Debug)]
pub(crate) struct Name {
    name: Vec<u8>,
    /// The path of the directory that it is in.
    directory: AbsPath,
    parent: OwnedFd,
    /// Where a directory for it waits between runs, and under which name.
    kept: Option<(Arc<KeptNames>, Vec<u8>)>,
}

/// A name that is held.
#[derive(Debug)]
pub(crate) struct Placeholder {
    name: Name,
    holder: Holder,
}

/// Whose descriptor keeps others from removing the name.
#[derive(Debug)]
enum Holder {
    This(OwnedFd),
    /// The launcher and the first process, which lock it as long as either lives.
    Launcher,
    /// The launcher has let it go.
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
        let entry = |kept| KeptNames::entry(parent.as_fd(), &name).map(|entry| (kept, entry));
        let kept = kept.map(entry).transpose()?;
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

    /// What its directory is kept under, if it is kept.
    pub(crate) fn entry(&self) -> &[u8] {
        self.kept.as_ref().map_or(&[], |(_, entry)| entry)
    }

    /// Removes what is held, unless another run holds it as well or it is not what stands there.
    fn remove(&self, held: &OwnedFd) -> rustix::io::Result<()> {
        if !is_ours(held) {
            return Ok(());
        }
        rustix::fs::flock(held, FlockOperation::NonBlockingLockExclusive)?;
        // Another run may have removed this one, and yet another put its own there.
        let is_kept = || {
            let kept = self.kept.as_ref();
            kept.is_some_and(|(kept, entry)| kept.take_back(entry, self.parent(), &self.name, held))
        };
        if is_still_there(self.parent(), &self.name, held)? && !is_kept() {
            rustix::fs::unlinkat(&self.parent, &*self.name, AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }

    /// Puts an empty directory at the path, or shares the one that another run has put there.
    pub(crate) fn hold(self) -> io::Result<Placeholder> {
        for _ in 0..TRIES {
            if let Some(held) = self.take()? {
                return Ok(Placeholder { name: self, holder: Holder::This(held) });
            }
        }
        Err(io::Error::other("the name keeps changing"))
    }

    /// Makes, opens and locks the directory; `None` if it was gone again by then.
    fn take(&self) -> io::Result<Option<OwnedFd>> {
        let (parent, name) = (self.parent(), &*self.name);
        // What can't be opened can't be removed again: the descriptor is reserved before anything is made.
        let reserved = rustix::io::fcntl_dupfd_cloexec(parent, 0)?;
        if !self.kept.as_ref().is_some_and(|(kept, entry)| kept.give(entry, parent, name)) {
            match rustix::fs::mkdirat(parent, name, MARK) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        drop(reserved);
        restore_mark(parent, name);
        let Some(held) = open(parent, name)? else { return Ok(None) };
        // What somebody wanted there is nobody's to remove, and needs no lock.
        if is_ours(&held) {
            lock(&held)?;
        }
        Ok(is_still_there(parent, name, &held)?.then_some(held))
    }
}

impl Placeholder {
    /// What keeps others from removing it, for the launcher to have.
    pub(crate) fn held(&self) -> Option<BorrowedFd<'_>> {
        if let Holder::This(held) = &self.holder { Some(held.as_fd()) } else { None }
    }

    /// The launcher has it now. Whoever closes a directory last that was removed has to wait until the disk
    /// has freed it, and that must not be this program.
    pub(crate) fn leave_to_launcher(&mut self) {
        self.holder = Holder::Launcher;
    }

    /// The launcher has let it go, and has removed it unless another run holds it. In its user namespace it may
    /// have lacked the right to, in a directory of another user; then it is removed here.
    pub(crate) fn finish(mut self) {
        self.holder = Holder::Nobody;
        if let Ok(Some(held)) = open(self.name.parent(), &self.name.name) {
            // What another run holds is that run's to remove.
            self.name.remove(&held).ok();
        }
    }
}

/// Whether it was put there by a run, and not by somebody who wanted such a directory.
pub(crate) fn is_ours(held: &OwnedFd) -> bool {
    rustix::fs::fstat(held).is_ok_and(|found| [MARK, MOVED].contains(&Mode::from_raw_mode(found.st_mode)))
}

/// Gives a directory its mark back that the mask for new files has taken something from, or that has just been moved,
/// whichever run put it there.
/// It may not even be readable without. What is no such directory, or another user's, is left alone.
fn restore_mark(parent: BorrowedFd<'_>, name: &[u8]) {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let is_masked = |mode: Mode| mode.contains(Mode::SVTX) && MOVED.contains(mode) && mode != MARK;
    let found = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if !found.is_ok_and(|found| is_masked(Mode::from_raw_mode(found.st_mode))) {
        return;
    }
    // By the directory that is looked at: another may stand there by now.
    if let Ok(file) = rustix::fs::openat(parent, name, flags, Mode::empty())
        && rustix::fs::fstat(&file).is_ok_and(|found| is_masked(Mode::from_raw_mode(found.st_mode)))
    {
        // Without the right to it, it is nobody's placeholder.
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), MARK).ok();
    }
}

/// Waits for a run that is about to remove the name. Whoever has it locked for longer is no run: whatever may
/// read the directory can do that, also a command with another workspace.
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
    /// Removes the name, if nobody else holds it and it is what was put there. What can't be removed
    /// is not ours: somebody has put something into it.
    fn drop(&mut self) {
        match mem::replace(&mut self.holder, Holder::Nobody) {
            Holder::This(held) => drop(self.name.remove(&held)),
            // The launcher has removed it, unless it was killed. Then what it has started goes with it, and
            // holds the name until then.
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
