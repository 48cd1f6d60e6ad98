//! The first phase: reads, checks and computes everything; writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stockade_protocol::{AbsPath, FileChange, ResolvedPath};

use crate::directory::Directory;
use crate::place::Place;
use crate::roots::Roots;
use crate::seen::{Attributes, Seen};
use crate::{PatchError, PreparedFile, UnifiedDiff};

/// Limit on the total size of old and new contents of a patch.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// A patch ready to be applied: the location, the current and the new contents of each file. It holds the directories
/// open, so that [`apply`](Prepared::apply) detects a swap.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) files: Vec<PlannedFile>,
}

#[derive(Debug)]
pub(crate) struct PlannedFile {
    pub(crate) place: Place,
    pub(crate) change: Change,
}

#[derive(Debug)]
pub(crate) enum Change {
    Create {
        content: Vec<u8>,
        /// The attributes of the file that is moved here.
        attributes: Option<Attributes>,
    },
    Replace {
        seen: Seen,
        content: Vec<u8>,
    },
    Remove {
        seen: Seen,
    },
}

/// Prepares a patch: finds each file below the roots, reads it, and computes its new contents.
///
/// `may_write` is called for each resolved path and each directory to be created, so that a policy can protect parts
/// of a root: `|path| permissions.access(path) == Access::Write`.
pub fn prepare(
    changes: &[FileChange],
    roots: &Roots,
    may_write: impl Fn(&AbsPath) -> bool,
) -> Result<Prepared, PatchError> {
    let mut planner = Planner {
        roots,
        may_write: &may_write,
        bytes_left: MOST_BYTES,
        files: Vec::new(),
        taken: BTreeSet::new(),
        above: BTreeSet::new(),
        directories: BTreeMap::new(),
    };
    for change in changes {
        planner.add(change)?;
    }
    Ok(Prepared { files: planner.files })
}

/// The resolved path of a file and its contents. A link in the last component is not followed.
pub(crate) fn look(path: &AbsPath) -> Result<(AbsPath, Vec<u8>), PatchError> {
    let missing = || PatchError::Missing { path: path.clone() };
    let above = path.parent().ok_or_else(missing)?;
    let is_there = above.to_host_path().is_some_and(|above| above.is_dir());
    let place = Place::find(path, &Roots::open([is_there.then_some(&above).ok_or_else(missing)?])?, &|_| true)?;
    let seen = place.look(MOST_BYTES)?.ok_or_else(missing)?;
    Ok((place.path.resolved, seen.content))
}

impl Prepared {
    /// The files, in the order in which they are written.
    pub fn files(&self) -> impl Iterator<Item = PreparedFile<'_>> {
        self.files.iter().map(|file| {
            let (before, after) = match &file.change {
                Change::Create { content, .. } => (None, Some(content)),
                Change::Replace { seen, content } => (Some(&seen.content), Some(content)),
                Change::Remove { seen } => (Some(&seen.content), None),
            };
            PreparedFile { path: &file.place.path, before: before.map(Vec::as_slice), after: after.map(Vec::as_slice) }
        })
    }

    /// The paths that differ when resolved, for an approval prompt to show.
    pub fn resolved_paths(&self) -> Vec<ResolvedPath> {
        self.files().map(|file| file.path).filter(|path| path.given != path.resolved).cloned().collect()
    }
}

struct Planner<'a> {
    roots: &'a Roots,
    may_write: &'a dyn Fn(&AbsPath) -> bool,
    bytes_left: u64,
    files: Vec<PlannedFile>,
    /// The paths of the files and of their ancestors.
    taken: BTreeSet<AbsPath>,
    above: BTreeSet<AbsPath>,
    /// Files of one directory share one descriptor of it.
    directories: BTreeMap<AbsPath, Arc<Directory>>,
}

impl Planner<'_> {
    fn add(&mut self, change: &FileChange) -> Result<(), PatchError> {
        match change {
            FileChange::Add { path, content } => {
                let place = self.free_place(path)?;
                self.create(place, content.as_bytes().to_vec(), None)
            }
            FileChange::Delete { path, content } => {
                let (place, seen) = self.file(path)?;
                if seen.content != content.as_bytes() {
                    return Err(PatchError::OtherContent { path: path.clone() });
                }
                self.push(place, Change::Remove { seen })
            }
            FileChange::Update { path, unified_diff, move_path } => {
                let (place, seen) = self.file(path)?;
                let problem = |source| PatchError::Diff { path: path.clone(), source };
                let diff = UnifiedDiff::parse(unified_diff.as_bytes()).map_err(problem)?;
                let content = diff.apply(&seen.content).map_err(problem)?;
                match move_path.as_ref().filter(|target| *target != path) {
                    Some(target) => {
                        let target = self.free_place(target)?;
                        self.create(target, content, Some(seen.attributes.clone()))?;
                        self.push(place, Change::Remove { seen })
                    }
                    None if diff.is_empty() => Err(PatchError::NoChange { path: path.clone() }),
                    None => {
                        self.count(path, content.len())?;
                        self.push(place, Change::Replace { seen, content })
                    }
                }
            }
        }
    }

    fn create(&mut self, place: Place, content: Vec<u8>, attributes: Option<Attributes>) -> Result<(), PatchError> {
        self.count(&place.path.given, content.len())?;
        self.push(place, Change::Create { content, attributes })
    }

    /// A place that must be free.
    fn free_place(&self, path: &AbsPath) -> Result<Place, PatchError> {
        let place = Place::find(path, self.roots, self.may_write)?;
        match place.look(MOST_BYTES) {
            Ok(None) => Ok(place),
            Ok(Some(_)) | Err(PatchError::TooLarge { .. }) => Err(PatchError::Exists { path: path.clone() }),
            Err(error) => Err(error),
        }
    }

    /// An existing file.
    fn file(&mut self, path: &AbsPath) -> Result<(Place, Seen), PatchError> {
        let place = Place::find(path, self.roots, self.may_write)?;
        let too_large = || PatchError::TooLarge { path: path.clone(), limit: MOST_BYTES };
        let seen = match place.look(self.bytes_left) {
            Err(PatchError::TooLarge { .. }) => return Err(too_large()),
            seen => seen?.ok_or_else(|| PatchError::Missing { path: path.clone() })?,
        };
        self.count(path, seen.content.len())?;
        Ok((place, seen))
    }

    fn count(&mut self, path: &AbsPath, bytes: usize) -> Result<(), PatchError> {
        let left = u64::try_from(bytes).ok().and_then(|bytes| self.bytes_left.checked_sub(bytes));
        self.bytes_left = left.ok_or_else(|| PatchError::TooLarge { path: path.clone(), limit: MOST_BYTES })?;
        Ok(())
    }

    fn push(&mut self, mut place: Place, change: Change) -> Result<(), PatchError> {
        let path = place.path.resolved.clone();
        if self.above.contains(&path) || path.ancestors().any(|above| self.taken.contains(&above)) {
            return Err(PatchError::Overlap { path: place.path.given });
        }
        self.above.extend(path.ancestors().skip(1));
        self.taken.insert(path);
        place.share_directory(&mut self.directories);
        self.files.push(PlannedFile { place, change });
        Ok(())
    }
}
