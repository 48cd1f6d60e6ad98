//! Marks put on a tree, and read back.

use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::{Acl, Descriptor, Entry, Says};
use crate::disk::{Disk, Part, invalid};
use crate::journal::EarlierLabel;
use crate::mark::{Grant, Label, Mark, Place, TO_LOOK, Way, is_open_to_all, labelled, right};
use crate::walk::{Object, Step, open, open_to_mark, visit};

/// What became of a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    /// How many objects were looked at.
    pub(crate) visited: usize,
    /// Objects that do not have it.
    pub(crate) missing: Vec<AbsPath>,
    /// Files with other names, which were left alone.
    pub(crate) linked: usize,
    /// Objects that every sandbox could write then, which were left alone.
    pub(crate) open_to_all: usize,
    /// Objects of a tree to be opened that could not be marked: they stay closed.
    pub(crate) unreached: usize,
    /// Objects that still bear marks of earlier runs, which can't be taken off.
    pub(crate) left_behind: Vec<AbsPath>,
}

impl Put {
    pub(crate) fn missing(path: AbsPath) -> Self {
        Self { missing: vec![path], ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.missing.extend(other.missing);
        self.linked += other.linked;
        self.open_to_all += other.open_to_all;
        self.unreached += other.unreached;
        self.left_behind.extend(other.left_behind);
    }
}

pub(crate) fn list<D: Disk>(disk: &D, object: &Object<D::Handle>) -> io::Result<Option<Acl>> {
    Ok(disk.descriptor(&object.handle, Part::List)?.dacl)
}

pub(crate) fn label<D: Disk>(disk: &D, object: &Object<D::Handle>) -> io::Result<Option<Entry>> {
    Ok(disk.descriptor(&object.handle, Part::Label)?.sacl.unwrap_or_default().label().cloned())
}

pub(crate) fn set_label<D: Disk>(disk: &D, object: &Object<D::Handle>, label: Option<Entry>) -> io::Result<()> {
    let sacl = Some(Acl(label.into_iter().collect()));
    let descriptor = Descriptor { control: 0, dacl: None, sacl };
    match object.way {
        Way::Directly => disk.set_descriptor(&object.handle, Part::Label, &descriptor),
        Way::ByOwnEntry => {
            with_own_entry(disk, object, |reopened| disk.set_descriptor(&reopened.handle, Part::Label, &descriptor))
        }
    }
}

/// Does something with an object that takes the right to change its owner, for which an entry of the user's is there
/// for that moment.
fn with_own_entry<D: Disk>(
    disk: &D,
    object: &Object<D::Handle>,
    act: impl FnOnce(&Object<D::Handle>) -> io::Result<()>,
) -> io::Result<()> {
    let before = disk.descriptor(&object.handle, Part::List)?;
    let list = before.dacl.clone().unwrap_or_default();
    let own = Entry::Known { says: Says::Allow, flags: 0, mask: right::WRITE_OWNER, sid: disk.user()? };
    let with_own = Descriptor { control: before.control, dacl: Some(list.with(vec![own])), sacl: None };
    disk.set_descriptor(&object.handle, Part::List, &with_own)?;
    let reopened = open(disk, &object.path, object.place, TO_LOOK | right::WRITE_OWNER);
    let done = reopened.and_then(|reopened| act(&reopened));
    disk.set_descriptor(&object.handle, Part::List, &Descriptor { sacl: None, ..before })?;
    done
}

/// The labels that a mark which comes off again is about to replace, among all marks of a plan.
pub(crate) fn earlier_labels<D: Disk>(disk: &D, mark: &Mark, all: &[Mark]) -> io::Result<Vec<EarlierLabel>> {
    let mut earlier = Vec::new();
    let Some(wanted) = mark.label.filter(|_| !mark.placeholder) else { return Ok(earlier) };
    let look = |path: &AbsPath, place| open(disk, path, place, TO_LOOK);
    visit(disk, &mark.path, mark, all, look, |step| {
        let object = match step {
            Step::Object(object) => object,
            Step::Failed(path, error) => return may_go_on(mark, path, error),
        };
        let found = label(disk, object)?;
        let wanted = labelled(found.as_ref(), wanted, object.place, object.kind);
        if let Some(Entry::Known { flags, mask, sid, .. }) = found.filter(|found| Some(found) != wanted.as_ref()) {
            earlier.push(EarlierLabel { path: object.path.clone(), flags, mask, level: sid });
        }
        Ok(())
    })?;
    Ok(earlier)
}

/// Whether every sandbox could write an object if it had a low label.
pub(crate) fn is_path_open_to_all<D: Disk>(disk: &D, path: &AbsPath) -> io::Result<bool> {
    let object = open(disk, path, Place::Top, TO_LOOK)?;
    Ok(is_open_to_all(list(disk, &object)?.as_ref()))
}

/// Puts a mark on everything that it speaks of, for the time of a run.
pub(crate) fn put<D: Disk>(disk: &D, mark: &Mark, all: &[Mark], sid: &Sid) -> io::Result<Put> {
    if mark.placeholder {
        match disk.create_directory(&mark.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    put_part(disk, &mark.path, mark, all, sid)
}

/// What is only opened up may miss an object below its top: it stays closed. What is taken away may not, unless the object
/// was removed meanwhile.
fn may_go_on(mark: &Mark, path: &AbsPath, error: io::Error) -> io::Result<()> {
    let may_miss = mark.opens() || error.kind() == io::ErrorKind::NotFound;
    if may_miss && *path != mark.path { Ok(()) } else { Err(error) }
}

/// Puts a mark on a part of its tree.
pub(crate) fn put_part<D: Disk>(disk: &D, part: &AbsPath, mark: &Mark, all: &[Mark], sid: &Sid) -> io::Result<Put> {
    let mut put = Put::default();
    let open = |path: &AbsPath, place| open_to_mark(disk, path, place, mark.label);
    visit(disk, part, mark, all, open, |step| {
        let object = match step {
            Step::Object(object) => object,
            Step::Failed(path, error) => {
                put.unreached += usize::from(error.kind() != io::ErrorKind::NotFound);
                return may_go_on(mark, path, error);
            }
        };
        put.visited += 1;
        if mark.opens() && object.kind == Kind::File && disk.names(&object.handle)? > 1 {
            put.linked += 1;
            return Ok(());
        }
        if mark.opens() && is_open_to_all(list(disk, object)?.as_ref()) {
            put.open_to_all += 1;
            return Ok(());
        }
        let listed = mark.grant.map_or(Ok(true), |grant| put_entries(disk, object, grant, sid))?;
        let labelled = mark.label.map_or(Ok(true), |label| put_label(disk, object, label))?;
        if !(listed && labelled) {
            put.missing.push(object.path.clone());
        }
        Ok(())
    })?;
    Ok(put)
}

/// Whether a mark is on an object already.
pub(crate) fn has_mark<D: Disk>(disk: &D, object: &Object<D::Handle>, mark: &Mark, sid: &Sid) -> io::Result<bool> {
    let list = list(disk, object)?.unwrap_or_default();
    let entries = mark.grant.map(|grant| grant.entries(sid, object.place, object.kind)).unwrap_or_default();
    let listed = entries.iter().all(|entry| list.0.contains(entry));
    let labelled = match mark.label {
        Some(wanted) => label(disk, object)? == Some(wanted.entry(object.place, object.kind)),
        None => true,
    };
    Ok(listed && labelled)
}

/// Whether the entries are there afterwards.
fn put_entries<D: Disk>(disk: &D, object: &Object<D::Handle>, grant: Grant, sid: &Sid) -> io::Result<bool> {
    let wanted = grant.entries(sid, object.place, object.kind);
    let descriptor = disk.descriptor(&object.handle, Part::List)?;
    let no_list = || invalid(format!("`{}` has no access control list", object.path));
    let found = descriptor.dacl.as_ref().ok_or_else(no_list)?;
    // Another run may have put the same entries there.
    if !wanted.iter().all(|entry| found.0.contains(entry)) {
        let dacl = Some(found.with(wanted.clone()));
        let changed = Descriptor { control: descriptor.control, dacl, sacl: None };
        disk.set_descriptor(&object.handle, Part::List, &changed)?;
    }
    let found = list(disk, object)?.unwrap_or_default();
    Ok(wanted.iter().all(|entry| found.0.contains(entry)))
}

fn put_label<D: Disk>(disk: &D, object: &Object<D::Handle>, wanted: Label) -> io::Result<bool> {
    let found = label(disk, object)?;
    let wanted = labelled(found.as_ref(), wanted, object.place, object.kind);
    if found != wanted {
        set_label(disk, object, wanted.clone())?;
    }
    Ok(label(disk, object)? == wanted)
}
