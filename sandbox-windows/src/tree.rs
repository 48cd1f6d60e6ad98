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
use crate::journal::{EarlierLabel, Journal, Living, Record, RootRecord};
use crate::mark::{Grant, Label, Mark, Place, TO_LOOK, Way, labelled, parts, reach, right, unlabelled};
use crate::sys::file::{self, Others, Part};
use crate::sys::token;

/// An object of a marked tree.
struct Object {
    file: File,
    path: AbsPath,
    kind: Kind,
    place: Place,
    way: Way,
}

/// What became of a mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Put {
    /// How many objects were looked at.
    pub(crate) visited: usize,
    /// Objects that do not have it.
    pub(crate) missing: Vec<AbsPath>,
    /// Files with other names, which were left alone.
    pub(crate) linked: usize,
}

impl Put {
    pub(crate) fn missing(path: AbsPath) -> Self {
        Self { missing: vec![path], ..Self::default() }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.visited += other.visited;
        self.missing.extend(other.missing);
        self.linked += other.linked;
    }
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
    Ok(Object { file, path: path.clone(), kind, place, way: Way::Directly })
}

fn open_to_mark(path: &AbsPath, place: Place, label: Option<Label>) -> io::Result<Object> {
    let (object, way) = reach(label, |rights| open(path, place, rights))?;
    Ok(Object { way, ..object })
}

/// Visits a mark's top and everything below that no other mark speaks of.
fn visit(
    mark: &Mark,
    others: &[Mark],
    open: impl FnMut(&AbsPath, Place) -> io::Result<Object>,
    act: impl FnMut(&Object) -> io::Result<()>,
) -> io::Result<()> {
    visit_part((&mark.path, Place::Top), mark, others, open, act)
}

/// The same for a part of the mark's tree.
fn visit_part(
    (start, place): (&AbsPath, Place),
    mark: &Mark,
    others: &[Mark],
    mut open: impl FnMut(&AbsPath, Place) -> io::Result<Object>,
    mut act: impl FnMut(&Object) -> io::Result<()>,
) -> io::Result<()> {
    // What is only opened up may miss an object: it stays closed. What is taken away may not.
    let may_miss = mark.grant == Some(Grant::Write);
    let mut waiting = vec![(start.clone(), place)];
    while let Some((path, place)) = waiting.pop() {
        let object = match open(&path, place) {
            Err(error) if path != *start && (may_miss || error.kind() == io::ErrorKind::NotFound) => continue,
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
    let descriptor = Descriptor { control: 0, dacl: None, sacl };
    match object.way {
        Way::Directly => write(object, Part::Label, &descriptor),
        Way::ByOwnEntry => with_own_entry(object, |reopened| write(reopened, Part::Label, &descriptor)),
    }
}

/// Does something with an object that takes the right to change its owner, for which an entry of the user's is there
/// for that moment.
fn with_own_entry(object: &Object, act: impl FnOnce(&Object) -> io::Result<()>) -> io::Result<()> {
    let before = read(object, Part::List)?;
    let list = before.dacl.clone().unwrap_or_default();
    let user = token::user(&token::own()?)?;
    let own = Entry::Known { says: Says::Allow, flags: 0, mask: right::WRITE_OWNER, sid: user };
    let with_own = Descriptor { control: before.control, dacl: Some(list.with(vec![own])), sacl: None };
    write(object, Part::List, &with_own)?;
    let done = open(&object.path, object.place, TO_LOOK | right::WRITE_OWNER).and_then(|reopened| act(&reopened));
    write(object, Part::List, &Descriptor { sacl: None, ..before })?;
    done
}

/// Labels of others that marks are about to replace which come off again, among all marks of a plan.
pub(crate) fn earlier_labels(coming_off: &[Mark], all: &[Mark]) -> io::Result<Vec<EarlierLabel>> {
    let mut earlier = Vec::new();
    for mark in coming_off.iter().filter(|mark| !mark.placeholder) {
        let Some(wanted) = mark.label else { continue };
        let look = |path: &AbsPath, place| open(path, place, TO_LOOK);
        visit(mark, all, look, |object| {
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

/// Opens a tree for writing. It is walked only if that was never done to the end, or as far as it was left out then;
/// what is made in it later inherits. Files with other names are left alone: an entry would open those, too.
pub(crate) fn open_root(mark: &Mark, all: &[Mark], journal: &Journal) -> io::Result<Put> {
    let root = journal.lock_root(&mark.path)?;
    let sid = Sid::root(&mark.path);
    let top = open_to_mark(&mark.path, Place::Top, mark.label)?;
    // Lists are reset by others, too.
    let known = root.read()?.filter(|_| has_mark(&top, mark, &sid).unwrap_or(false));
    let others: Vec<AbsPath> =
        all.iter().filter(|other| other.is_tree() && other.path != mark.path).map(|other| other.path.clone()).collect();
    let (walked, left_out) = parts(&mark.path, known.as_ref().map(|known| known.left_out.as_slice()), &others);
    if known.is_some() && walked.is_empty() {
        return Ok(Put { visited: 1, ..Put::default() });
    }
    root.forget()?;
    let mut put = Put::default();
    for part in &walked {
        let place = if *part == mark.path { Place::Top } else { Place::Below };
        match put_part((part, place), mark, all, &sid) {
            // What was left out then is no longer there.
            Err(error) if place == Place::Below && error.kind() == io::ErrorKind::NotFound => {}
            other => put.add(other?),
        }
    }
    root.write(&RootRecord { left_out })?;
    Ok(put)
}

/// Puts a mark on an object of a run's own, in the name of its policy.
pub(crate) fn put_for(mark: &Mark, capability: &Sid) -> io::Result<Put> {
    put_part((&mark.path, Place::Top), mark, &[], capability)
}

/// Puts a mark on everything that it speaks of, for the time of a run.
pub(crate) fn put(mark: &Mark, all: &[Mark], capability: &Sid) -> io::Result<Put> {
    if mark.placeholder {
        match fs::create_dir(host_path(&mark.path)?) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    put_part((&mark.path, Place::Top), mark, all, &mark.sid(capability))
}

fn put_part(part: (&AbsPath, Place), mark: &Mark, all: &[Mark], sid: &Sid) -> io::Result<Put> {
    let mut put = Put::default();
    let open = |path: &AbsPath, place| open_to_mark(path, place, mark.label);
    visit_part(part, mark, all, open, |object| {
        put.visited += 1;
        if mark.opens() && object.kind == Kind::File && file::names(&object.file)? > 1 {
            put.linked += 1;
            return Ok(());
        }
        let listed = mark.grant.map_or(Ok(true), |grant| put_entries(object, grant, sid))?;
        let labelled = mark.label.map_or(Ok(true), |label| put_label(object, label))?;
        if !(listed && labelled) {
            put.missing.push(object.path.clone());
        }
        Ok(())
    })?;
    Ok(put)
}

/// Whether a mark is on an object already.
fn has_mark(object: &Object, mark: &Mark, sid: &Sid) -> io::Result<bool> {
    let list = read(object, Part::List)?.dacl.unwrap_or_default();
    let entries = mark.grant.map(|grant| grant.entries(sid, object.place, object.kind)).unwrap_or_default();
    let listed = entries.iter().all(|entry| list.0.contains(entry));
    let labelled = match mark.label {
        Some(label) => self::label(object)? == Some(label.entry(object.place, object.kind)),
        None => true,
    };
    Ok(listed && labelled)
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
    for mark in record.marks.iter().rev().filter(|mark| !(record.keeps_roots && mark.opens())) {
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
    let sid = mark.sid(&record.capability);
    let keeps_entries = living.need_entries_of(&sid);
    let open = |path: &AbsPath, place| open_to_mark(path, place, mark.label);
    visit(mark, &record.marks, open, |object| {
        if mark.grant.is_some() && !keeps_entries {
            take_off_entries(object, &sid)?;
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
