//! Trees that can be written: opened once, for this command and all that follow, until their marks are taken off.

use std::io;

use serde::Serialize;
use stockade_protocol::AbsPath;

use crate::Sid;
use crate::disk::{Disk, Part};
use crate::journal::Journal;
use crate::mark::{Grant, Label, Mark, Place, TO_LOOK, is_low, parts};
use crate::root_record::{Root, RootRecord};
use crate::tree::{self, Put};

/// The trees that marks open. Each has an identifier of its own, made of its path and of what tells it from another
/// tree that later stands there.
pub(crate) fn identify<D: Disk>(disk: &D, marks: &[Mark]) -> io::Result<Vec<Root>> {
    let identify = |mark: &Mark| {
        let identity = disk.identity(&disk.open(&mark.path, TO_LOOK)?)?;
        Ok(Root { path: mark.path.clone(), sid: Sid::root(&mark.path, identity) })
    };
    marks.iter().filter(|mark| mark.opens()).map(identify).collect()
}

/// Opens a tree for writing. It is walked only if that was never done to the end, or as far as it was left out then;
/// what is made in it later inherits. Left alone are files with other names, which an entry would open, too, and what
/// every sandbox could write once its label is low.
pub(crate) fn open<D: Disk>(disk: &D, mark: &Mark, root: &Root, all: &[Mark], journal: &Journal) -> io::Result<Put> {
    let locked = journal.lock_root(root)?;
    let before = locked.read()?.and_then(|record| record.left_out);
    let (walked, left_out) = still_closed(disk, mark, root, all, before)?;
    if walked.is_empty() {
        return Ok(Put { visited: 1, ..Put::default() });
    }
    locked.write(&RootRecord { root: root.clone(), left_out: None })?;
    let put = walk(disk, mark, root, all, &walked)?;
    locked.write(&RootRecord { root: root.clone(), left_out: Some(left_out) })?;
    Ok(put)
}

/// The parts of a tree that have to be walked, and those that are left out afterwards. `before` is what was left out
/// when it was last walked to the end.
pub(crate) fn still_closed<D: Disk>(
    disk: &D,
    mark: &Mark,
    root: &Root,
    all: &[Mark],
    before: Option<Vec<AbsPath>>,
) -> io::Result<(Vec<AbsPath>, Vec<AbsPath>)> {
    let top = tree::open_to_mark(disk, &mark.path, Place::Top, mark.label)?;
    // Lists are reset by other programs, too.
    let before = before.filter(|_| tree::has_mark(disk, &top, mark, &root.sid).unwrap_or(false));
    let others: Vec<AbsPath> =
        all.iter().filter(|other| other.is_tree() && other.path != mark.path).map(|other| other.path.clone()).collect();
    Ok(parts(&mark.path, before.as_deref(), &others))
}

/// Walks parts of a tree.
pub(crate) fn walk<D: Disk>(disk: &D, mark: &Mark, root: &Root, all: &[Mark], walked: &[AbsPath]) -> io::Result<Put> {
    let mut put = Put::default();
    for part in walked {
        let place = if *part == mark.path { Place::Top } else { Place::Below };
        match tree::put_part(disk, (part, place), mark, all, &root.sid) {
            // What was left out then is no longer there.
            Err(error) if place == Place::Below && error.kind() == io::ErrorKind::NotFound => {}
            other => put.add(other?),
        }
    }
    Ok(put)
}

/// What was taken off a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unmarked {
    /// The directory.
    pub path: AbsPath,
    /// How many files and directories were looked at.
    pub visited: usize,
    /// How many of them bore marks.
    pub changed: usize,
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
    /// Something in the directory could not be changed.
    #[error("the marks could not be taken off `{path}`; what came before it has none any more")]
    NotChanged {
        /// What it was.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// The records of what is on files can't be read or written.
    #[error("the records of marks can't be used")]
    Records(#[from] io::Error),
}

/// Takes off everything that opens a directory, and what lies in it, to sandboxes. In a tree that was opened all low
/// labels go, also those of what commands have made; elsewhere those that stand beside an entry of a known tree's.
pub(crate) fn unmark<D: Disk>(disk: &D, journal: &Journal, path: &AbsPath) -> Result<Unmarked, UnmarkError> {
    let locked = journal.lock()?;
    let living = locked.recover(|record, living| tree::take_off(disk, record, living))?;
    let opened = living.iter().flat_map(|record| &record.marks).filter(|mark| mark.opens());
    let mut meeting = opened.filter(|mark| mark.path.starts_with(path) || path.starts_with(&mark.path));
    if let Some(mark) = meeting.next() {
        return Err(UnmarkError::InUse { path: mark.path.clone() });
    }
    let roots = journal.roots()?;
    let unmarked = match walk_off(disk, path, &roots) {
        // A tree that is gone has no marks.
        Err((at, source)) if at == *path && source.kind() == io::ErrorKind::NotFound => {
            Ok(Unmarked { path: path.clone(), visited: 0, changed: 0 })
        }
        Err((path, source)) => Err(UnmarkError::NotChanged { path, source }),
        Ok(unmarked) => Ok(unmarked),
    }?;
    for root in &roots {
        match () {
            () if root.path.starts_with(path) => journal.lock_root(root)?.forget()?,
            // A part of it is closed now: it is walked again when it is next opened.
            () if path.starts_with(&root.path) => {
                journal.lock_root(root)?.write(&RootRecord { root: root.clone(), left_out: None })?;
            }
            () => {}
        }
    }
    Ok(unmarked)
}

fn walk_off<D: Disk>(disk: &D, path: &AbsPath, roots: &[Root]) -> Result<Unmarked, (AbsPath, io::Error)> {
    let sids: Vec<Sid> = roots.iter().map(|root| root.sid.clone()).collect();
    let whole = Mark { path: path.clone(), grant: Some(Grant::Protect), label: None, placeholder: false };
    let mut unmarked = Unmarked { path: path.clone(), visited: 0, changed: 0 };
    let mut at = path.clone();
    let open = |path: &AbsPath, place| tree::open_to_mark(disk, path, place, Some(Label::Low));
    let mut failed_at = None;
    let done = tree::visit_part(
        disk,
        (path, Place::Top),
        &whole,
        &[],
        |path, place| open(path, place).inspect_err(|_| failed_at = Some(path.clone())),
        |object| {
            at = object.path.clone();
            unmarked.visited += 1;
            let list = disk.descriptor(&object.handle, Part::List)?.dacl.unwrap_or_default();
            let named = list.0.iter().any(|entry| sids.iter().any(|sid| entry.speaks_of(sid)));
            let in_root = roots.iter().any(|root| object.path.starts_with(&root.path));
            let low = tree::label(disk, object)?.is_some_and(|label| is_low(&label)) && (named || in_root);
            if named {
                tree::take_off_entries(disk, object, &sids)?;
            }
            if low {
                tree::set_label(disk, object, None)?;
            }
            unmarked.changed += usize::from(named || low);
            Ok(())
        },
    );
    done.map_err(|source| (failed_at.unwrap_or(at), source))?;
    Ok(unmarked)
}
