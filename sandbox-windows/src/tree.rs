//! Marks put on real files, read back, and taken off again.
//!
//! Each object is opened by its name and then asked where it is: a link that somebody has put in the way
//! in the meantime leads elsewhere, and nothing is done there.

use std::fs::{self, File};
use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::{Acl, Descriptor, Entry, Says};
use crate::journal::{EarlierLabel, Living, Record};
use crate::mark::{Grant, Label, Mark, Place, labelled, right, unlabelled};
use crate::sys::file::{self, Others, Part};

const READ_ATTRIBUTES: u32 = 0x80;
const READ_LIST: u32 = 0x2_0000;
const TO_MARK: u32 = READ_ATTRIBUTES | READ_LIST | right::WRITE_LIST;

/// An object of a marked tree.
struct Object {
    file: File,
    path: AbsPath,
    kind: Kind,
    place: Place,
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn host_path(path: &AbsPath) -> io::Result<std::path::PathBuf> {
    path.to_host_path().ok_or_else(|| invalid("not a path of this system"))
}

fn open(path: &AbsPath, place: Place, rights: u32) -> io::Result<Object> {
    let file = file::open(&host_path(path)?, rights, Others::Everything)?;
    let found = AbsPath::parse(file::final_path(&file)?).map_err(invalid)?;
    if !(found.starts_with(path) && path.starts_with(&found)) {
        return Err(invalid(format!("`{path}` leads to `{found}`")));
    }
    let kind = file.metadata()?.file_type();
    let kind = match () {
        () if kind.is_symlink() => Kind::Symlink,
        () if kind.is_dir() => Kind::Directory,
        () => Kind::File,
    };
    Ok(Object { file, path: path.clone(), kind, place })
}

/// Visits a mark's top and everything below that no other mark speaks of.
fn visit(mark: &Mark, others: &[Mark], rights: u32, mut act: impl FnMut(&Object) -> io::Result<()>) -> io::Result<()> {
    // What is only opened up may miss an object: it stays closed. What is taken away may not.
    let may_miss = mark.grant == Some(Grant::Write);
    let mut waiting = vec![(mark.path.clone(), Place::Top)];
    while let Some((path, place)) = waiting.pop() {
        let object = match open(&path, place, rights) {
            Err(error) if place == Place::Below && (may_miss || error.kind() == io::ErrorKind::NotFound) => continue,
            other => other?,
        };
        act(&object)?;
        if object.kind != Kind::Directory || !mark.is_tree() {
            continue;
        }
        for entry in fs::read_dir(host_path(&path)?)? {
            match AbsPath::from_path(&entry?.path()) {
                Ok(child) if others.iter().any(|other| other.is_tree() && other.path == child) => {}
                Ok(child) => waiting.push((child, Place::Below)),
                Err(_) if may_miss => {}
                Err(error) => return Err(invalid(error)),
            }
        }
    }
    Ok(())
}

fn read(object: &Object, part: Part) -> io::Result<Descriptor> {
    Descriptor::from_bytes(&file::descriptor(&object.file, part)?).map_err(invalid)
}

fn write(object: &Object, part: Part, descriptor: &Descriptor) -> io::Result<()> {
    let bytes = descriptor.to_bytes().ok_or_else(|| invalid("the access control list is too long"))?;
    file::set_descriptor(&object.file, part, &bytes)
}

fn label(object: &Object) -> io::Result<Option<Entry>> {
    Ok(read(object, Part::Label)?.sacl.unwrap_or_default().label().cloned())
}

fn set_label(object: &Object, label: Option<Entry>) -> io::Result<()> {
    let sacl = Some(Acl(label.into_iter().collect()));
    write(object, Part::Label, &Descriptor { control: 0, dacl: None, sacl })
}

/// Labels of others that a mark is about to replace.
pub(crate) fn earlier_labels(marks: &[Mark]) -> io::Result<Vec<EarlierLabel>> {
    let mut earlier = Vec::new();
    for mark in marks.iter().filter(|mark| !mark.placeholder) {
        let Some(wanted) = mark.label else { continue };
        visit(mark, marks, READ_ATTRIBUTES | READ_LIST, |object| {
            let found = label(object)?;
            let wanted = labelled(found.as_ref(), wanted, object.place, object.kind);
            if let Some(Entry::Known { flags, mask, sid, .. }) = found.filter(|found| Some(found) != wanted.as_ref()) {
                earlier.push(EarlierLabel { path: object.path.clone(), flags, mask, level: sid });
            }
            Ok(())
        })?;
    }
    Ok(earlier)
}

/// Puts a mark on everything that it speaks of. What does not have it afterwards is given back.
pub(crate) fn put(mark: &Mark, all: &[Mark], capability: &Sid) -> io::Result<Vec<AbsPath>> {
    if mark.placeholder {
        match fs::create_dir(host_path(&mark.path)?) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    let mut missing = Vec::new();
    let rights = TO_MARK | if mark.label.is_some() { right::WRITE_OWNER } else { 0 };
    visit(mark, all, rights, |object| {
        let listed = mark.grant.map_or(Ok(true), |grant| put_entries(object, grant, capability))?;
        let labelled = mark.label.map_or(Ok(true), |label| put_label(object, label))?;
        if !(listed && labelled) {
            missing.push(object.path.clone());
        }
        Ok(())
    })?;
    Ok(missing)
}

/// Whether the entries are there afterwards.
fn put_entries(object: &Object, grant: Grant, capability: &Sid) -> io::Result<bool> {
    let wanted = grant.entries(capability, object.place, object.kind);
    let descriptor = read(object, Part::List)?;
    let no_list = || invalid(format!("`{}` has no access control list", object.path));
    let list = descriptor.dacl.as_ref().ok_or_else(no_list)?;
    // Another run may have put the same entries there.
    if !wanted.iter().all(|entry| list.0.contains(entry)) {
        let dacl = Some(list.with(wanted.clone()));
        write(object, Part::List, &Descriptor { control: descriptor.control, dacl, sacl: None })?;
    }
    let found = read(object, Part::List)?.dacl.unwrap_or_default();
    Ok(wanted.iter().all(|entry| found.0.contains(entry)))
}

fn put_label(object: &Object, wanted: Label) -> io::Result<bool> {
    let found = label(object)?;
    let wanted = labelled(found.as_ref(), wanted, object.place, object.kind);
    if found != wanted {
        set_label(object, wanted.clone())?;
    }
    Ok(label(object)? == wanted)
}

/// Takes off what a run has put on, as far as no living run needs it.
pub(crate) fn take_off(record: &Record, living: Living<'_>) -> io::Result<()> {
    for mark in record.marks.iter().rev() {
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match take_off_mark(mark, record, living) {
            // What the command or somebody else has removed has nothing on it.
            Err(error) if !gone(&error) => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    if let Some(directory) = record.private.as_ref().and_then(AbsPath::to_host_path) {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn take_off_mark(mark: &Mark, record: &Record, living: Living<'_>) -> io::Result<()> {
    if mark.placeholder && !living.need_placeholder(&mark.path) {
        // Something that the host has put in there stays, and so does the directory.
        if fs::remove_dir(host_path(&mark.path)?).is_ok() {
            return Ok(());
        }
    }
    let keeps_entries = living.need_entries_of(&record.capability);
    let rights = TO_MARK | if mark.label.is_some() { right::WRITE_OWNER } else { 0 };
    visit(mark, &record.marks, rights, |object| {
        if mark.grant.is_some() && !keeps_entries {
            take_off_entries(object, &record.capability)?;
        }
        match mark.label {
            Some(label) if !living.need_label(&object.path, label) => take_off_label(object, label, record),
            Some(_) | None => Ok(()),
        }
    })
}

fn take_off_entries(object: &Object, capability: &Sid) -> io::Result<()> {
    let descriptor = read(object, Part::List)?;
    let Some(list) = &descriptor.dacl else { return Ok(()) };
    let left = list.without(capability);
    if left == *list {
        return Ok(());
    }
    write(object, Part::List, &Descriptor { control: descriptor.control, dacl: Some(left), sacl: None })
}

fn take_off_label(object: &Object, own: Label, record: &Record) -> io::Result<()> {
    let found = label(object)?;
    let earlier = record.earlier_labels.iter().find(|earlier| earlier.path == object.path);
    let earlier = earlier.map(|EarlierLabel { flags, mask, level, .. }| Entry::Known {
        says: Says::Label,
        flags: *flags,
        mask: *mask,
        sid: level.clone(),
    });
    let left = earlier.or_else(|| unlabelled(found.as_ref(), own, object.place, object.kind));
    if found == left { Ok(()) } else { set_label(object, left) }
}

/// Opens an object so that nobody can remove or rename it, or what lies above it.
pub(crate) fn keep_open(path: &AbsPath) -> io::Result<File> {
    file::open(&host_path(path)?, right::READ_DATA, Others::ButMove)
}
