//! The second phase: writes a prepared patch, completely or not at all.
//!
//! 1. Roots, directories and files are checked again.
//! 2. New contents are written to temporary files in the same directories and synced. Most failures (a full disk, a
//!    quota, a read-only directory) occur here.
//! 3. Each file is replaced by one rename. The old file stays beside it under a random name and is compared once more
//!    with the contents read by `prepare`, so a change up to the rename itself is detected.
//! 4. When all are in place, the old files are removed. If one can't be put in place, all are restored.

use crate::journal::Journal;
use crate::prepare::{Change, PlannedFile};
use crate::{Applied, ApplyError, PatchError, Prepared};

/// Points between the steps at which tests interfere as an attacker would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Checked,
    Staged,
    /// This many files are in place.
    Placed(usize),
}

impl Prepared {
    /// Writes the files. On an error nothing is changed unless the error says otherwise.
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
    /// Fails if the file or a directory above it has changed since `prepare`.
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
