//! Marks that stay taken off a directory, by a command of the user's.

use std::io;

use serde::Serialize;
use stockade_protocol::AbsPath;

use crate::Sid;
use crate::disk::Disk;
use crate::journal::{Journal, Record};
use crate::mark::{Grant, Label, Mark, Place, READ_ATTRIBUTES, TO_LOOK, is_low};
use crate::root_record::{Root, RootRecord};
use crate::taking_off::{self, Before};
use crate::tree;
use crate::walk::{self, Object, Step};

/// What was taken off a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmarked {
    /// The directory.
    pub path: AbsPath,
    /// The current paths of trees that were marked there and moved out of it since. Their marks were taken off, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<AbsPath>,
    /// How many files and directories were looked at.
    pub visited: usize,
    /// How many of them bore marks.
    pub changed: usize,
    /// Objects that still bear marks, or may do so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<StillMarked>,
}

/// An object whose marks could not be taken off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StillMarked {
    /// The object.
    pub path: AbsPath,
    /// The error of the system.
    pub why: String,
}

/// Why marks could not be taken off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnmarkError {
    /// A command needs them.
    #[error("a command that may write `{path}` is running: try again when it has ended")]
    InUse {
        /// The tree that it may write.
        path: AbsPath,
    },
    /// The records of what is on files can't be read or written.
    #[error("the records of marks can't be used")]
    Records(#[from] io::Error),
}

/// Where a marked tree is.
#[derive(Debug)]
enum Located {
    At(AbsPath),
    Removed,
    /// Another volume is mounted there, or the file system can't tell.
    Unknown(io::Error),
}

fn locate<D: Disk>(disk: &D, root: &Root) -> Located {
    let there = disk.open(&root.path, READ_ATTRIBUTES).and_then(|handle| disk.identity(&handle));
    if there.is_ok_and(|identity| identity == root.identity) {
        return Located::At(root.path.clone());
    }
    match disk.locate(root.identity, &root.path) {
        Ok(Some(path)) => Located::At(path),
        Ok(None) => Located::Removed,
        Err(error) => Located::Unknown(error),
    }
}

/// The directories that bear marks, each at its current path as far as it is known.
pub(crate) fn marked<D: Disk>(disk: &D, journal: &Journal) -> io::Result<Vec<AbsPath>> {
    let current = |root: Root| match locate(disk, &root) {
        Located::At(path) => path,
        Located::Removed | Located::Unknown(_) => root.path,
    };
    let mut paths: Vec<AbsPath> = journal.roots()?.into_iter().map(current).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Takes off everything that opens a directory, and what lies in it, to sandboxes; also trees that were opened there and
/// moved elsewhere since. In a tree that was opened all low labels go, also those of what commands have made; elsewhere
/// those of objects with an entry of a known tree. An object that can't be changed is skipped, and stays known.
pub(crate) fn unmark<D: Disk>(disk: &D, journal: &Journal, path: &AbsPath) -> Result<Unmarked, UnmarkError> {
    let locked = journal.lock()?;
    let recovered = locked.recover(|record, living| taking_off::take_off(disk, record, living, Before::Run))?;
    let roots: Vec<(Root, Located)> =
        journal.roots()?.into_iter().map(|root| (root.clone(), locate(disk, &root))).collect();
    let mut moved: Vec<AbsPath> =
        roots.iter().filter_map(|(root, located)| moved_out_of(path, root, located)).collect();
    moved.sort();
    moved.dedup();
    let places: Vec<&AbsPath> = std::iter::once(path).chain(&moved).collect();
    refuse_in_use(&places, &recovered.living)?;
    let mut off = Off { disk, sids: Vec::new(), tops: Vec::new(), visited: 0, changed: 0, left: Vec::new() };
    off.sids.extend(roots.iter().map(|(root, _)| root.sid.clone()));
    off.tops.extend(roots.iter().filter_map(|(_, located)| match located {
        Located::At(path) => Some(path.clone()),
        Located::Removed | Located::Unknown(_) => None,
    }));
    places.iter().for_each(|place| off.walk(place));
    off.of_ended_runs(&places, &recovered.left);
    for (root, located) in roots {
        let lies_in = |place: &&AbsPath| matches!(&located, Located::At(now) if now.starts_with(place));
        let surrounds = |place: &&AbsPath| matches!(&located, Located::At(now) if place.starts_with(now));
        let bears_more = matches!(&located, Located::At(now) if off.left.iter().any(|left| left.path.starts_with(now)));
        match &located {
            _ if places.iter().any(lies_in) && !bears_more => journal.lock_root(&root)?.forget()?,
            // A part of it is closed now, or could not be: it is walked again when it is next opened.
            _ if places.iter().any(lies_in) || places.iter().any(surrounds) => {
                journal.lock_root(&root)?.write(&RootRecord { root: root.clone(), left_out: None })?;
            }
            Located::Removed if root.path.starts_with(path) => journal.lock_root(&root)?.forget()?,
            Located::Unknown(error) if root.path.starts_with(path) => {
                off.left.push(StillMarked { path: root.path.clone(), why: error.to_string() });
            }
            Located::At(_) | Located::Removed | Located::Unknown(_) => {}
        }
    }
    Ok(Unmarked { path: path.clone(), moved, visited: off.visited, changed: off.changed, left: off.left })
}

/// The current path of a tree that was opened in a directory, and is no longer there.
fn moved_out_of(path: &AbsPath, root: &Root, located: &Located) -> Option<AbsPath> {
    match located {
        Located::At(now) if root.path.starts_with(path) && !now.starts_with(path) => Some(now.clone()),
        Located::At(_) | Located::Removed | Located::Unknown(_) => None,
    }
}

fn refuse_in_use(places: &[&AbsPath], living: &[Record]) -> Result<(), UnmarkError> {
    let meets = |mark: &&Mark| places.iter().any(|place| mark.path.starts_with(place) || place.starts_with(&mark.path));
    let opened = living.iter().flat_map(|record| &record.marks).filter(|mark| mark.opens());
    match opened.filter(meets).map(|mark| mark.path.clone()).next() {
        Some(path) => Err(UnmarkError::InUse { path }),
        None => Ok(()),
    }
}

/// Marks being taken off.
struct Off<'a, D> {
    disk: &'a D,
    /// The identifiers of all known trees.
    sids: Vec<Sid>,
    /// The current paths of all known trees.
    tops: Vec<AbsPath>,
    visited: usize,
    changed: usize,
    left: Vec<StillMarked>,
}

/// The marks on one object.
struct Borne {
    entries: bool,
    low_label: bool,
}

impl<D: Disk> Off<'_, D> {
    fn walk(&mut self, place: &AbsPath) {
        let disk = self.disk;
        let whole = Mark { path: place.clone(), grant: Some(Grant::Protect), label: None, placeholder: false };
        let open = |path: &AbsPath, place| walk::open_to_mark(disk, path, place, Some(Label::Low));
        let walked = walk::visit(disk, place, &whole, &[], open, |step| {
            match step {
                Step::Object(object) => {
                    self.visited += 1;
                    let borne = self.borne(object)?;
                    if borne.entries {
                        taking_off::take_off_entries(disk, object, &self.sids)?;
                    }
                    if borne.low_label {
                        tree::set_label(disk, object, None)?;
                    }
                    self.changed += usize::from(borne.entries || borne.low_label);
                }
                Step::Failed(path, error) => self.failed(path, &error),
            }
            Ok(())
        });
        // A failure never ends the walk.
        debug_assert!(walked.is_ok());
    }

    fn borne(&self, object: &Object<D::Handle>) -> io::Result<Borne> {
        let list = tree::list(self.disk, object)?.unwrap_or_default();
        let entries = list.0.iter().any(|entry| self.sids.iter().any(|sid| entry.speaks_of(sid)));
        let is_known = entries || self.tops.iter().any(|top| object.path.starts_with(top));
        let low_label = is_known && tree::label(self.disk, object)?.is_some_and(|label| is_low(&label));
        Ok(Borne { entries, low_label })
    }

    /// An object that can't be changed matters only if it bears marks, or if that can't be told. A child whose name no path
    /// can hold is never visited.
    fn failed(&mut self, path: &AbsPath, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return;
        }
        if error.kind() == io::ErrorKind::InvalidData {
            self.left.push(StillMarked { path: path.clone(), why: error.to_string() });
            return;
        }
        let looked = walk::open(self.disk, path, Place::Below, TO_LOOK).and_then(|object| self.borne(&object));
        if looked.is_ok_and(|borne| !borne.entries && !borne.low_label) {
            self.visited += 1;
        } else {
            self.left.push(StillMarked { path: path.clone(), why: error.to_string() });
        }
    }

    /// Objects that bear marks of runs that have ended.
    fn of_ended_runs(&mut self, places: &[&AbsPath], left: &[Record]) {
        for left in left.iter().flat_map(Record::left_objects) {
            let is_told = self.left.iter().any(|told| told.path == left.path);
            if !is_told && places.iter().any(|place| left.path.starts_with(place)) {
                let why = String::from("marks of a command that has ended could not be taken off");
                self.left.push(StillMarked { path: left.path.clone(), why });
            }
        }
    }
}
