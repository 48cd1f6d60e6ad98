//! Marks of a run taken off again, as far as they can be.
//!
//! An object that can't be opened is left and retried at the next start: it may belong to another user, or a command may
//! have made it so. It keeps no other run from starting. What it still bears either takes something away, or is tried
//! with the token of each later command that must not write it.

use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::{Acl, Descriptor, Entry, Says};
use crate::disk::{Disk, Part};
use crate::journal::{EarlierLabel, LeftObject, Living, Record};
use crate::mark::{Grant, Label, Mark, Place, TO_LOOK, right, unlabelled};
use crate::tree::{label, list, set_label};
use crate::walk::{Object, Step, open, open_to_mark, visit};

/// What happened before marks are taken off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// A command may have run, and other programs had time to change lists.
    Run,
    /// The start was refused a moment ago: an object that can't be opened now could not be marked then.
    RefusedStart,
}

/// Takes off what a run has put on, as far as no living run needs it. The result is the record of what is left.
pub(crate) fn take_off<D: Disk>(disk: &D, record: &Record, living: Living<'_>, before: Before) -> Option<Record> {
    let starts: Vec<(&AbsPath, &Mark)> = match &record.left {
        None => record.marks.iter().rev().filter(|mark| !record.stays(mark)).map(|mark| (&mark.path, mark)).collect(),
        Some(left) => left.iter().filter_map(|left| Some((&left.path, record.mark(&left.mark)?))).collect(),
    };
    let mut left = Vec::new();
    for (start, mark) in starts {
        left.extend(take_off_mark(disk, start, mark, record, living, before));
    }
    let private = record.private.clone().filter(|directory| !remove_private(disk, directory));
    if left.is_empty() && private.is_none() {
        return None;
    }
    Some(Record { left: Some(left), private, ..record.clone() })
}

/// Whether a run's own directory is gone. A command may have made directories in it that can't be listed:
/// this user owns them and can still change their lists.
fn remove_private<D: Disk>(disk: &D, directory: &AbsPath) -> bool {
    let is_gone = |removed: io::Result<()>| match removed {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    is_gone(disk.remove_tree(directory)) || {
        open_to_user(disk, directory).ok();
        is_gone(disk.remove_tree(directory))
    }
}

/// Gives this user all rights on everything in a directory but files that have another name, which may lie elsewhere.
fn open_to_user<D: Disk>(disk: &D, directory: &AbsPath) -> io::Result<()> {
    let own = Entry::Known { says: Says::Allow, flags: 0, mask: right::ALL, sid: disk.user()? };
    let whole = Mark { path: directory.clone(), grant: Some(Grant::Protect), label: None, placeholder: false };
    let open = |path: &AbsPath, place| open_to_mark(disk, path, place, None);
    visit(disk, directory, &whole, &[], open, |step| match step {
        Step::Object(object) if object.kind != Kind::Directory && disk.names(&object.handle)? > 1 => Ok(()),
        Step::Object(object) => {
            let opened = Descriptor { control: 0, dacl: Some(Acl(vec![own.clone()])), sacl: None };
            disk.set_descriptor(&object.handle, Part::List, &opened)
        }
        Step::Failed(..) => Ok(()),
    })
}

/// Takes a mark off a part of its tree, and gives the objects that it could not be taken off.
fn take_off_mark<D: Disk>(
    disk: &D,
    start: &AbsPath,
    mark: &Mark,
    record: &Record,
    living: Living<'_>,
    before: Before,
) -> Vec<LeftObject> {
    if mark.placeholder && !living.need_placeholder(&mark.path) {
        // Something that the host has put in there stays, and so does the directory.
        if disk.remove_directory(&mark.path).is_ok() {
            return Vec::new();
        }
    }
    let sid = record.sid(mark);
    let keeps_entries = mark.grant.is_none() || living.need_entries_of(sid);
    let mut left = Vec::new();
    let open = |path: &AbsPath, place| open_to_mark(disk, path, place, mark.label);
    let walked = visit(disk, start, mark, &record.marks, open, |step| match step {
        Step::Object(object) => {
            if !keeps_entries {
                take_off_entries(disk, object, std::slice::from_ref(sid))?;
            }
            match mark.label {
                Some(label) if !living.need_label(&object.path, label) => take_off_label(disk, object, label, record),
                Some(_) | None => Ok(()),
            }
        }
        Step::Failed(path, error) => {
            let could_not_be_marked = before == Before::RefusedStart && error.kind() == io::ErrorKind::PermissionDenied;
            // An object that was removed bears nothing.
            let is_gone = error.kind() == io::ErrorKind::NotFound;
            // A child whose name no path can hold may have been made by a command, and inherits.
            let is_odd = mark.opens() && error.kind() == io::ErrorKind::InvalidData;
            let is_bare = !is_odd && bears_nothing(disk, path, mark, record).unwrap_or(false);
            if !is_gone && !could_not_be_marked && !is_bare {
                left.push(LeftObject { path: path.clone(), mark: mark.path.clone() });
            }
            Ok(())
        }
    });
    // A failure never ends the walk.
    debug_assert!(walked.is_ok());
    left
}

/// Whether an object that can't be changed has neither entries nor a label of a mark's.
fn bears_nothing<D: Disk>(disk: &D, path: &AbsPath, mark: &Mark, record: &Record) -> io::Result<bool> {
    let place = if *path == mark.path { Place::Top } else { Place::Below };
    let object = open(disk, path, place, TO_LOOK)?;
    let list = list(disk, &object)?.unwrap_or_default();
    let found = label(disk, &object)?;
    let is_labelled = mark.label.is_some_and(|own| found != label_afterwards(&object, found.as_ref(), own, record));
    Ok(!is_labelled && list.0.iter().all(|entry| !entry.speaks_of(record.sid(mark))))
}
/// Takes off all entries that name one of these.
pub(crate) fn take_off_entries<D: Disk>(disk: &D, object: &Object<D::Handle>, sids: &[Sid]) -> io::Result<()> {
    let descriptor = disk.descriptor(&object.handle, Part::List)?;
    let Some(list) = &descriptor.dacl else { return Ok(()) };
    let left = sids.iter().fold(list.clone(), |list, sid| list.without(sid));
    if left == *list {
        return Ok(());
    }
    let changed = Descriptor { control: descriptor.control, dacl: Some(left), sacl: None };
    disk.set_descriptor(&object.handle, Part::List, &changed)
}

fn take_off_label<D: Disk>(disk: &D, object: &Object<D::Handle>, own: Label, record: &Record) -> io::Result<()> {
    let found = label(disk, object)?;
    let left = label_afterwards(object, found.as_ref(), own, record);
    if found == left { Ok(()) } else { set_label(disk, object, left) }
}

/// The label that an object has once a mark's own one is off it.
fn label_afterwards<H>(object: &Object<H>, found: Option<&Entry>, own: Label, record: &Record) -> Option<Entry> {
    let earlier = record.earlier_labels.iter().find(|earlier| earlier.path == object.path);
    let earlier = earlier.map(|EarlierLabel { flags, mask, level, .. }| Entry::Known {
        says: Says::Label,
        flags: *flags,
        mask: *mask,
        sid: level.clone(),
    });
    earlier.or_else(|| unlabelled(found, own, object.place, object.kind))
}
