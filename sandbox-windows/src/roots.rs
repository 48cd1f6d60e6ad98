//! Trees that can be written: opened once, for this command and all that follow, until their marks are taken off.

use std::io;

use stockade_protocol::AbsPath;

use crate::Sid;
use crate::disk::Disk;
use crate::journal::Journal;
use crate::mark::{Mark, Place, TO_LOOK, parts};
use crate::root_record::{Root, RootRecord};
use crate::tree::{self, Put};
use crate::walk::open_to_mark;

/// The trees that marks open. Each has an identifier of its own, made of its path and of what tells it from another
/// tree that later stands there.
pub(crate) fn identify<D: Disk>(disk: &D, marks: &[Mark]) -> io::Result<Vec<Root>> {
    let identify = |mark: &Mark| {
        let identity = disk.identity(&disk.open(&mark.path, TO_LOOK)?)?;
        Ok(Root { path: mark.path.clone(), sid: Sid::root(&mark.path, identity), identity })
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
    let top = open_to_mark(disk, &mark.path, Place::Top, mark.label)?;
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
        put.add(tree::put_part(disk, part, mark, all, &root.sid)?);
    }
    Ok(put)
}
