//! The journal of a patch that is being written, for completion or rollback.
//!
//! All operations use open directories and random names that must be free, so a link planted there is never followed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;
use stockade_protocol::AbsPath;

use crate::directory::Directory;
use crate::place::{Place, system};
use crate::prepare::{Change, PlannedFile};
use crate::seen::{Attributes, Seen};
use crate::{Applied, ApplyError, PatchError};

pub(crate) struct Journal<'a> {
    files: &'a [PlannedFile],
    entries: Vec<Entry<'a>>,
    /// Created directories, outermost first.
    made: Vec<MadeDirectory>,
    made_paths: BTreeMap<AbsPath, Arc<Directory>>,
}

struct MadeDirectory {
    path: AbsPath,
    parent: Arc<Directory>,
    name: OsString,
}

/// One file that is being written.
struct Entry<'a> {
    file: &'a PlannedFile,
    directory: Arc<Directory>,
    /// The new file, under its temporary name until it is put in place.
    new: Option<NewFile>,
    state: State,
}

struct NewFile {
    temporary: OsString,
    status: Option<Stat>,
}

enum State {
    Staged,
    /// Put in place; the old file, if any, has this name.
    Placed {
        old: Option<OsString>,
    },
}

impl<'a> Journal<'a> {
    pub(crate) fn new(files: &'a [PlannedFile]) -> Self {
        Self { files, entries: Vec::new(), made: Vec::new(), made_paths: BTreeMap::new() }
    }

    /// Writes the new contents to a temporary file in the same directory.
    pub(crate) fn stage(&mut self, file: &'a PlannedFile) -> Result<(), PatchError> {
        let (content, attributes) = match &file.change {
            Change::Create { content, attributes } => (content, attributes.as_ref()),
            Change::Replace { seen, content } => (content, Some(&seen.attributes)),
            Change::Remove { .. } => {
                let directory = Arc::clone(&file.place.directory);
                self.entries.push(Entry { file, directory, new: None, state: State::Staged });
                return Ok(());
            }
        };
        let directory = self.make_directories(&file.place)?;
        let temporary = random_name(&file.place)?;
        // A new file gets the umask's permissions; a replacement stays private until it has its owner.
        let mode = Mode::from_raw_mode(if attributes.is_some() { 0o600 } else { 0o666 });
        let path = &file.place.path.resolved;
        let handle = directory.create_file(&temporary, mode).map_err(system("create a file beside", path))?;
        // From here on the temporary file has to be removed on failure.
        let new = Some(NewFile { temporary, status: None });
        self.entries.push(Entry { file, directory, new, state: State::Staged });
        let status = fill(handle, content, attributes, path)?;
        if let Some(new) = self.entries.last_mut().and_then(|entry| entry.new.as_mut()) {
            new.status = Some(status);
        }
        Ok(())
    }

    /// The directory of a place, created if missing. It is an error if one has appeared since `prepare`.
    fn make_directories(&mut self, place: &Place) -> Result<Arc<Directory>, PatchError> {
        let mut directory = Arc::clone(&place.directory);
        let mut paths: Vec<AbsPath> = place.path.resolved.ancestors().skip(1).take(place.missing.len()).collect();
        paths.reverse();
        for (path, name) in paths.into_iter().zip(&place.missing) {
            if let Some(made) = self.made_paths.get(&path) {
                directory = Arc::clone(made);
                continue;
            }
            match directory.create_directory(name) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Err(PatchError::Changed { path }),
                Err(errno) => return Err(system("create the directory", &path)(errno)),
            }
            self.made.push(MadeDirectory { path: path.clone(), parent: Arc::clone(&directory), name: name.clone() });
            let below = directory.walk(std::slice::from_ref(name)).map_err(system("open the directory", &path))?;
            directory = Arc::new(below);
            self.made_paths.insert(path, Arc::clone(&directory));
        }
        Ok(directory)
    }

    /// Puts a file in place and verifies that the old file is the one seen by `prepare`.
    pub(crate) fn put_in_place(&mut self, number: usize) -> Result<(), PatchError> {
        let Some(entry) = self.entries.get_mut(number) else { return Ok(()) };
        let place = &entry.file.place;
        let failed = |errno: Errno| match errno {
            Errno::EXIST | Errno::NOENT | Errno::NOTDIR | Errno::ISDIR => place.changed(),
            other => system("put in place", &place.path.resolved)(other),
        };
        let spare = random_name(place)?;
        let old = match (&entry.file.change, &entry.new) {
            (Change::Create { .. }, Some(new)) => {
                entry.directory.rename_to_free(&new.temporary, &place.name).map_err(failed)?;
                None
            }
            (Change::Replace { .. }, Some(new)) => {
                let old = entry.directory.replace(&place.name, &new.temporary, &spare).map_err(failed)?;
                Some(old.to_owned())
            }
            (Change::Remove { .. } | Change::Create { .. } | Change::Replace { .. }, _) => {
                entry.directory.rename_to_free(&place.name, &spare).map_err(failed)?;
                Some(spare)
            }
        };
        entry.state = State::Placed { old };
        if entry.is_as_planned().map_err(failed)? { Ok(()) } else { Err(place.changed()) }
    }

    /// Syncs the directories.
    pub(crate) fn sync(&self) -> Result<(), PatchError> {
        let directories = self.entries.iter().map(|entry| (&entry.directory, &entry.file.place.path.resolved));
        let parents = self.made.iter().map(|made| (&made.parent, &made.path));
        let mut done = BTreeSet::new();
        for (directory, path) in directories.chain(parents) {
            if done.insert(Arc::as_ptr(directory)) {
                directory.sync().map_err(system("bring to the disk", path))?;
            }
        }
        Ok(())
    }

    /// Removes the old files; rollback is no longer possible.
    pub(crate) fn finish(self) -> Applied {
        let mut leftovers = Vec::new();
        for entry in &self.entries {
            if let State::Placed { old: Some(old) } = &entry.state {
                entry.remove(old, &mut leftovers);
            }
        }
        Applied { paths: self.files.iter().map(|file| file.place.path.resolved.clone()).collect(), leftovers }
    }

    /// Rolls everything back in reverse order.
    pub(crate) fn undo(self, cause: PatchError) -> ApplyError {
        let mut error = ApplyError {
            cause: Box::new(cause),
            written: vec![],
            restored: vec![],
            untouched: vec![],
            leftovers: vec![],
        };
        let untouched = self.files.iter().skip(self.entries.len());
        error.untouched.extend(untouched.map(|file| file.place.path.resolved.clone()));
        for entry in self.entries.iter().rev() {
            let path = entry.file.place.path.resolved.clone();
            match &entry.state {
                State::Staged => {
                    if let Some(new) = &entry.new {
                        entry.remove(&new.temporary, &mut error.leftovers);
                    }
                    error.untouched.push(path);
                }
                State::Placed { old } => match entry.put_back(old.as_deref(), &mut error.leftovers) {
                    Ok(()) => error.restored.push(path),
                    Err(_) => {
                        error.written.push(path);
                        error.leftovers.extend(old.as_deref().map(|old| entry.file.place.beside(old)));
                    }
                },
            }
        }
        for made in self.made.iter().rev() {
            if made.parent.remove_directory(&made.name).is_err() {
                error.leftovers.push(made.path.clone());
            }
        }
        error
    }
}

impl Entry<'_> {
    /// Whether the place has the new file and the old name the file seen by `prepare`.
    fn is_as_planned(&self) -> Result<bool, Errno> {
        let old_is_what_was_seen = match (&self.file.change, &self.state) {
            (Change::Replace { seen, .. } | Change::Remove { seen }, State::Placed { old: Some(old) }) => {
                seen.is_still(&self.directory, old)?
            }
            _ => true,
        };
        Ok(old_is_what_was_seen && (self.new.is_none() || self.holds_new(&self.file.place.name)?))
    }

    fn holds_new(&self, name: &OsStr) -> Result<bool, Errno> {
        let status = self.new.as_ref().and_then(|new| new.status);
        match (&self.file.change, status) {
            (Change::Create { content, .. } | Change::Replace { content, .. }, Some(status)) => {
                Seen::has(&self.directory, name, &status, content)
            }
            (Change::Create { .. } | Change::Replace { .. } | Change::Remove { .. }, _) => Ok(false),
        }
    }

    /// Undoes `put_in_place`. A file that another process has put there since stays.
    fn put_back(&self, old: Option<&OsStr>, leftovers: &mut Vec<AbsPath>) -> Result<(), PatchError> {
        let place = &self.file.place;
        let failed = system("put back", &place.path.resolved);
        let is_taken = self.directory.entry(&place.name).map_err(&failed)?.is_some();
        if is_taken && !self.holds_new(&place.name).map_err(&failed)? {
            return Err(place.changed());
        }
        match old {
            None if is_taken => self.directory.remove_file(&place.name).map_err(failed),
            None => Ok(()),
            Some(old) if is_taken => {
                let spare = random_name(place)?;
                let new = self.directory.replace(&place.name, old, &spare).map_err(failed)?;
                self.remove(new, leftovers);
                Ok(())
            }
            Some(old) => self.directory.rename_to_free(old, &place.name).map_err(failed),
        }
    }

    fn remove(&self, name: &OsStr, leftovers: &mut Vec<AbsPath>) {
        match self.directory.remove_file(name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => leftovers.push(self.file.place.beside(name)),
        }
    }
}

fn fill(
    mut file: std::fs::File,
    content: &[u8],
    attributes: Option<&Attributes>,
    path: &AbsPath,
) -> Result<Stat, PatchError> {
    let failed = |source| PatchError::System { act: "write the new contents of", path: path.clone(), source };
    file.write_all(content).map_err(failed)?;
    if let Some(attributes) = attributes {
        let lost = |errno: Errno| PatchError::Ownership { path: path.clone(), source: errno.into() };
        attributes.give_to(&file).map_err(lost)?;
    }
    file.sync_all().map_err(failed)?;
    rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))
}

/// An unpredictable name.
fn random_name(place: &Place) -> Result<OsString, PatchError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| PatchError::System {
        act: "find a temporary name for",
        path: place.path.resolved.clone(),
        source: error.into(),
    })?;
    let mut name = ".stockade-".to_owned();
    for byte in bytes {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(name.into())
}
