//! The names that stand in the workspace for the time of a session, and removing them.
//!
//! What the caller has sent of the workspace was opened in the host's mounts, and keeps them from being
//! unmounted. So it is closed before the caller is told that all is done.

use crate::reader::Reader;
use crate::sys::{self, AT_FDCWD, CText, ENOENT, MOST_POLLED, Poll, Result};
use crate::wire;

/// The mode of a placeholder on the way from and to where it waits.
const MOVED: u32 = wire::PLACEHOLDER_MODE | 0o200;
/// How long all names together are waited for at the end of a session, if other processes hold them. After a command nothing is
/// waited for: another sandbox in the same workspace holds them for long.
pub(crate) const PATIENCE_MS: u64 = 5;

/// Whether the caller has to look at the names once more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cleaned {
    /// Each name is gone, or was gone already.
    Whole,
    /// A name is still there: another session holds it, something else has taken its place, or it could not be removed.
    Partly,
}

pub(crate) struct Names {
    /// The mounts that cover the names here.
    covers: Reader,
    /// The names, each behind the path of its directory, and before what it is kept under.
    names: Reader,
    /// Where placeholders wait for the next session.
    kept: Option<i32>,
    /// Their directories.
    parents: [i32; wire::MOST_FILES],
    /// The placeholders, once they stand there.
    held: [i32; wire::MOST_FILES],
}

/// Locks a name for this alone. A caller that has just told of it may not have closed it yet.
fn lock(found: i32, patience: &mut u64) -> bool {
    loop {
        if sys::lock_exclusively(found).is_ok() {
            return true;
        }
        if *patience == 0 {
            return false;
        }
        *patience -= 1;
        drop(sys::poll(&mut [Poll::NONE; MOST_POLLED], Some(1)));
    }
}

impl Names {
    /// Behind the directories of the names comes the place where placeholders are kept, if they are.
    pub(crate) fn new(covers: Reader, names: Reader, files: [i32; wire::MOST_FILES]) -> Self {
        let (mut left, mut count, mut is_kept) = (names.again(), 0, false);
        while let Ok((_, _, entry)) = Self::next(&mut left) {
            count += 1;
            // Without its end.
            is_kept = entry.bytes().len() > 1;
        }
        let kept = files.get(count).copied().filter(|_| is_kept);
        Self { covers, names, kept, parents: files, held: [-1; wire::MOST_FILES] }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The caller has put the placeholders there.
    pub(crate) fn hold(&mut self, held: [i32; wire::MOST_FILES]) {
        self.held = held;
    }

    fn next(names: &mut Reader) -> Result<(CText<'static>, CText<'static>, CText<'static>)> {
        Ok((names.text()?, names.text()?, names.text()?))
    }

    /// Removes the names, unless another session needs them.
    pub(crate) fn remove(mut self, mut patience: u64) -> Cleaned {
        let own = self.uncover();
        let mut cleaned = Cleaned::Whole;
        for ((parent, held), own) in self.parents.into_iter().zip(self.held).zip(own) {
            let Ok((_, name, entry)) = Self::next(&mut self.names) else { break };
            // If the caller was killed before it could say so, what it has made is found by its name.
            let found = if held > 0 { Ok(held) } else { sys::open_directory(parent, name) };
            if !matches!(found, Ok(_) | Err(ENOENT)) {
                cleaned = Cleaned::Partly;
            }
            if let Ok(found) = found {
                // The last one to close a directory that was removed waits until the disk has freed it. This
                // stays open until the launcher ends, for which the caller does not wait.
                drop(sys::open_exact(own, name, 0));
                // Only the last one to hold a name may remove it, and only if it is still what is there.
                let is_ours = lock(found, &mut patience) && sys::is_at(found, parent, name, MOVED);
                // In a user namespace the right to do so may be missing. Then the caller does it.
                if !is_ours || !self.keep(found, parent, name, entry) && sys::remove_directory(parent, name).is_err() {
                    cleaned = Cleaned::Partly;
                }
                // Lets the lock go as well.
                sys::close(found);
            }
            sys::close(parent);
        }
        self.kept.into_iter().for_each(sys::close);
        cleaned
    }

    /// Moves a placeholder to where it waits for the next session. What has something in it stays where it is.
    fn keep(&self, found: i32, parent: i32, name: CText<'_>, entry: CText<'_>) -> bool {
        let Some(kept) = self.kept else { return false };
        // Only who may write a directory may move it to another.
        if !sys::has_no_entries(found)
            || sys::change_mode(found, MOVED).is_err()
            || sys::move_directory(parent, name, kept, entry).is_err()
        {
            return false;
        }
        // Something was put into it between the two.
        if !sys::has_no_entries(found) {
            drop(sys::move_directory(kept, entry, parent, name));
        }
        true
    }

    /// Detaches the mounts that cover the names, and gives the names' directories as this mount namespace has
    /// them. A mount that covers several names goes with all of them, since each takes the kernel a while.
    fn uncover(&mut self) -> [i32; wire::MOST_FILES] {
        let mut own = [-1; wire::MOST_FILES];
        if self.covers.is_empty() {
            return own;
        }
        let mut names = self.names.again();
        for own in &mut own {
            let Ok((directory, ..)) = Self::next(&mut names) else { break };
            *own = sys::open_exact(AT_FDCWD, directory, 0).unwrap_or(-1);
        }
        while let Ok(path) = self.covers.text() {
            drop(sys::detach_mount(path));
        }
        own
    }
}
