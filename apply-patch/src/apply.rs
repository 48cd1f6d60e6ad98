//! The second half: what was prepared is written, all of it or nothing.
//!
//! 1. Everything is looked at again: roots, directories, files.
//! 2. New contents are written to temporary files beside their places and brought to the disk. Most
//!    that can fail (a full disk, a quota, a directory that may not be written) fails here.
//! 3. Each file is put in its place by one rename. The old one stays beside it under a random name, and
//!    is compared once more with what was seen: a file that was changed up to the very rename is found.
//! 4. When all are in place, the old ones are removed. If one could not be put in place, all go back.

use crate::journal::Journal;
use crate::prepare::{Change, PlannedFile};
use crate::{Applied, ApplyError, PatchError, Prepared};

/// Points between the steps, where tests do what an attacker would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Checked,
    Staged,
    /// So many files are in their place.
    Placed(usize),
}

impl Prepared {
    /// Writes the files. On an error nothing is changed, as far as the error does not say otherwise.
    pub fn apply(self) -> Result<Applied, ApplyError> {
        self.apply_watched(|_| ())
    }

    fn apply_watched(self, mut watch: impl FnMut(Moment)) -> Result<Applied, ApplyError> {
        let mut journal = Journal::new(&self.files);
        match self.write(&mut journal, &mut watch) {
            Ok(()) => Ok(journal.finish()),
            Err(cause) => Err(journal.undo(cause)),
        }
    }

    fn write<'a>(&'a self, journal: &mut Journal<'a>, watch: &mut dyn FnMut(Moment)) -> Result<(), PatchError> {
        self.files.iter().try_for_each(PlannedFile::check)?;
        watch(Moment::Checked);
        self.files.iter().try_for_each(|file| journal.stage(file))?;
        watch(Moment::Staged);
        for number in 0..self.files.len() {
            journal.put_in_place(number)?;
            watch(Moment::Placed(number + 1));
        }
        journal.sync()
    }
}

impl PlannedFile {
    /// Fails if anything on the way to the file, or the file itself, is no longer as it was seen.
    fn check(&self) -> Result<(), PatchError> {
        let place = &self.place;
        place.check()?;
        let system = crate::place::system("look at", &place.path.resolved);
        let unchanged = match &self.change {
            Change::Create { .. } => {
                !place.missing.is_empty() || place.directory.entry(&place.name).map_err(system)?.is_none()
            }
            Change::Replace { seen, .. } | Change::Remove { seen } => {
                seen.is_still(&place.directory, &place.name).map_err(system)?
            }
        };
        if unchanged { Ok(()) } else { Err(place.changed()) }
    }
}

#[cfg(test)]
mod tests;
