//! A disk in memory: owners, lists and labels as Windows keeps them, inherited by what is made in a directory, and
//! checked for each open object. The program itself runs at the medium level, so no label keeps it out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::{FakeHost, Kind};

use crate::Sid;
use crate::acl::{Acl, Descriptor, Entry, Says, flag};
use crate::disk::{Disk, Identity, Part};
use crate::mark::{READ_ATTRIBUTES, right};

/// Rights that the tests need and the code under test does not name.
const READ_LIST: u32 = 0x2_0000;
const SYNCHRONIZE: u32 = 0x10_0000;
/// The number of the only volume.
const VOLUME: u32 = 7;

/// One object. Files with several names are one object at several paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeObject {
    pub(crate) kind: Kind,
    pub(crate) owner: Sid,
    /// `None`: every user has all rights.
    pub(crate) list: Option<Acl>,
    pub(crate) label: Option<Entry>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<AbsPath, usize>,
    objects: Vec<FakeObject>,
    /// How often an object was opened.
    opened: usize,
    /// Directories with a child whose name no path can hold.
    odd: Vec<AbsPath>,
}

#[derive(Debug, Default)]
pub(crate) struct FakeDisk(RefCell<State>);

pub(crate) fn user() -> Sid {
    "S-1-5-21-9-9-9-1001".parse().unwrap()
}

pub(crate) fn allow(sid: Sid, mask: u32) -> Entry {
    Entry::Known { says: Says::Allow, flags: 0, mask, sid }
}

/// "Modify", as Windows calls it: everything but removing children, and changing list and owner.
pub(crate) const MODIFY: u32 = 0x13_01bf;

/// The list of an object outside of a profile: the system has all rights, and every user has "Modify".
pub(crate) fn modify_alone(kind: Kind) -> Acl {
    let down = if kind == Kind::Directory { flag::FILES | flag::DIRECTORIES } else { 0 };
    let entry = |sid, mask| Entry::Known { says: Says::Allow, flags: down | flag::INHERITED, mask, sid };
    Acl(vec![entry(Sid::nt([18]), right::ALL), entry(Sid::nt([11]), MODIFY)])
}

/// The user and the groups that every user is in.
pub(crate) fn user_and_groups() -> Vec<Sid> {
    vec![user(), Sid::everyone(), Sid::nt([11])]
}

/// Whether a list grants rights to identifiers, by the rules of [MS-DTYP]: entries count in their order.
pub(crate) fn list_grants(list: &Acl, whom: &[Sid], wanted: u32) -> bool {
    let mut left = wanted;
    for entry in list.0.iter().filter(|entry| entry.flags() & flag::ONLY_BELOW == 0) {
        let Entry::Known { says, mask, sid, .. } = entry else { continue };
        match says {
            Says::Deny if whom.contains(sid) && left & mask != 0 => return false,
            Says::Allow if whom.contains(sid) => left &= !mask,
            Says::Allow | Says::Deny | Says::Label => {}
        }
    }
    left == 0
}

impl FakeObject {
    /// Whether this program may do this. An owner may always read and change the list, whatever it denies, unless it
    /// has an entry for "owner rights".
    pub(crate) fn lets_user(&self, wanted: u32) -> bool {
        let Some(list) = &self.list else { return true };
        let limits_owner = list.0.iter().any(|entry| entry.speaks_of(&"S-1-3-4".parse().unwrap()));
        let implied = if self.owner == user() && !limits_owner { READ_LIST | right::WRITE_LIST } else { 0 };
        list_grants(list, &user_and_groups(), wanted & !implied)
    }
}

/// An open object, and the rights that it was opened with: later changes of its list do not matter to it.
#[derive(Clone, Debug)]
pub(crate) struct FakeHandle {
    number: usize,
    granted: u32,
}

impl FakeHandle {
    fn needs(&self, rights: u32) -> io::Result<()> {
        if self.granted & rights == rights { Ok(()) } else { Err(denied()) }
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn denied() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

impl FakeDisk {
    /// A host's files, all of the user's.
    pub(crate) fn new(host: &FakeHost) -> Self {
        let disk = Self::default();
        let entry = |sid: Sid| Entry::Known { says: Says::Allow, flags: flag::INHERITED, mask: right::ALL, sid };
        let list = Acl(vec![entry(Sid::nt([18])), entry(Sid::nt([32, 544])), entry(user())]);
        for (path, kind) in host.iter() {
            disk.place(path.clone(), FakeObject { kind, owner: user(), list: Some(list.clone()), label: None });
        }
        disk
    }

    pub(crate) fn place(&self, path: AbsPath, object: FakeObject) {
        let mut state = self.0.borrow_mut();
        let number = state.objects.len();
        state.objects.push(object);
        state.names.insert(path, number);
    }

    /// Puts something into a directory under a name that no path can hold.
    pub(crate) fn add_odd_name(&self, directory: &AbsPath) {
        self.0.borrow_mut().odd.push(directory.clone());
    }

    /// Gives a file another name.
    pub(crate) fn link(&self, from: &AbsPath, to: &AbsPath) {
        let mut state = self.0.borrow_mut();
        let number = state.names[from];
        state.names.insert(to.clone(), number);
    }

    /// Moves a tree.
    pub(crate) fn rename(&self, from: &AbsPath, to: &AbsPath) {
        let mut state = self.0.borrow_mut();
        let moved: Vec<AbsPath> = state.names.keys().filter(|path| path.starts_with(from)).cloned().collect();
        for path in moved {
            let number = state.names.remove(&path).unwrap();
            let names = path.components().skip(from.depth());
            let new = names.fold(to.clone(), |new, name| new.join(name.to_vec()).unwrap());
            state.names.insert(new, number);
        }
    }

    pub(crate) fn at(&self, path: &AbsPath) -> Option<FakeObject> {
        let state = self.0.borrow();
        state.names.get(path).map(|number| state.objects[*number].clone())
    }

    pub(crate) fn change(&self, path: &AbsPath, change: impl FnOnce(&mut FakeObject)) {
        let mut state = self.0.borrow_mut();
        let number = state.names[path];
        change(&mut state.objects[number]);
    }

    pub(crate) fn paths(&self) -> Vec<AbsPath> {
        self.0.borrow().names.keys().cloned().collect()
    }

    /// Everything there is.
    pub(crate) fn all(&self) -> BTreeMap<AbsPath, FakeObject> {
        self.paths().into_iter().map(|path| (path.clone(), self.at(&path).unwrap())).collect()
    }

    pub(crate) fn opened(&self) -> usize {
        self.0.borrow().opened
    }

    fn above(&self, path: &AbsPath) -> Option<FakeObject> {
        path.parent().and_then(|parent| self.at(&parent))
    }

    fn create(&self, path: &AbsPath, kind: Kind) -> io::Result<()> {
        if self.at(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // If nothing lies above, nothing is inherited.
        let above = self.above(path);
        let needed = if kind == Kind::Directory { right::APPEND } else { right::WRITE_DATA };
        if above.as_ref().is_some_and(|above| !above.lets_user(needed)) {
            return Err(denied());
        }
        let list = above.as_ref().and_then(|above| above.list.clone()).unwrap_or_default();
        let list =
            Acl(list.0.iter().filter_map(|entry| passed_on(entry, kind)).chain([allow(user(), right::ALL)]).collect());
        let label = above.and_then(|above| above.label).and_then(|label| passed_on(&label, kind));
        self.place(path.clone(), FakeObject { kind, owner: user(), list: Some(list), label });
        Ok(())
    }

    /// Removes one name.
    fn remove(&self, path: &AbsPath) -> io::Result<()> {
        let object = self.at(path).ok_or_else(not_found)?;
        let by_parent = self.above(path).is_none_or(|above| above.lets_user(right::DELETE_CHILD));
        if !by_parent && !object.lets_user(right::DELETE) {
            return Err(denied());
        }
        self.0.borrow_mut().names.remove(path);
        Ok(())
    }
}

/// An entry of a directory's, on what is made in it.
fn passed_on(entry: &Entry, kind: Kind) -> Option<Entry> {
    let Entry::Known { says, flags, mask, sid } = entry else { return None };
    let (wanted, kept) = match kind {
        Kind::Directory => (flag::DIRECTORIES, flag::FILES | flag::DIRECTORIES),
        Kind::File | Kind::Symlink => (flag::FILES, 0),
    };
    let flags = (flags & wanted != 0).then_some(flags & kept | flag::INHERITED)?;
    Some(Entry::Known { says: *says, flags, mask: *mask, sid: sid.clone() })
}

impl Disk for FakeDisk {
    type Handle = FakeHandle;
    type Kept = FakeHandle;

    fn open(&self, path: &AbsPath, rights: u32) -> io::Result<FakeHandle> {
        self.0.borrow_mut().opened += 1;
        let object = self.at(path).ok_or_else(not_found)?;
        // `CreateFile` asks for these, too. A directory that can be listed lets the attributes of its children be read.
        let granted = rights | READ_ATTRIBUTES | SYNCHRONIZE;
        let implied =
            if self.above(path).is_none_or(|above| above.lets_user(right::READ_DATA)) { READ_ATTRIBUTES } else { 0 };
        if !object.lets_user(granted & !implied) {
            return Err(denied());
        }
        Ok(FakeHandle { number: self.0.borrow().names[path], granted })
    }

    fn kind(&self, handle: &FakeHandle) -> io::Result<Kind> {
        handle.needs(READ_ATTRIBUTES)?;
        Ok(self.0.borrow().objects[handle.number].kind)
    }

    fn names(&self, handle: &FakeHandle) -> io::Result<u32> {
        handle.needs(READ_ATTRIBUTES)?;
        let state = self.0.borrow();
        Ok(u32::try_from(state.names.values().filter(|other| **other == handle.number).count()).unwrap())
    }

    fn identity(&self, handle: &FakeHandle) -> io::Result<Identity> {
        handle.needs(READ_ATTRIBUTES)?;
        Ok(Identity { volume: VOLUME, index: u64::try_from(handle.number).unwrap() })
    }

    fn locate(&self, identity: Identity, _: &AbsPath) -> io::Result<Option<AbsPath>> {
        if identity.volume != VOLUME {
            return Err(not_found());
        }
        let state = self.0.borrow();
        let is_it = |number: usize| u64::try_from(number).unwrap() == identity.index;
        Ok(state.names.iter().find(|(_, number)| is_it(**number)).map(|(path, _)| path.clone()))
    }

    fn descriptor(&self, handle: &FakeHandle, part: Part) -> io::Result<Descriptor> {
        handle.needs(READ_LIST)?;
        let object = self.0.borrow().objects[handle.number].clone();
        Ok(match part {
            Part::List => Descriptor { dacl: object.list, ..Descriptor::default() },
            Part::Label => Descriptor { sacl: Some(Acl(object.label.into_iter().collect())), ..Descriptor::default() },
        })
    }

    fn set_descriptor(&self, handle: &FakeHandle, part: Part, descriptor: &Descriptor) -> io::Result<()> {
        let object = &mut self.0.borrow_mut().objects[handle.number];
        match part {
            Part::List => {
                handle.needs(right::WRITE_LIST)?;
                object.list.clone_from(&descriptor.dacl);
            }
            Part::Label => {
                handle.needs(right::WRITE_OWNER)?;
                object.label = descriptor.sacl.as_ref().and_then(|list| list.label().cloned());
            }
        }
        Ok(())
    }

    fn children(&self, path: &AbsPath) -> io::Result<Vec<Option<AbsPath>>> {
        match self.at(path) {
            None => return Err(not_found()),
            Some(object) if object.kind != Kind::Directory => return Err(io::ErrorKind::NotADirectory.into()),
            Some(object) if !object.lets_user(right::READ_DATA) => return Err(denied()),
            Some(_) => {}
        }
        let is_child = |child: &AbsPath| child.parent().as_ref() == Some(path);
        let odd = self.0.borrow().odd.contains(path).then_some(None);
        Ok(self.paths().into_iter().filter(is_child).map(Some).chain(odd).collect())
    }

    fn user(&self) -> io::Result<Sid> {
        Ok(user())
    }

    fn create_directory(&self, path: &AbsPath) -> io::Result<()> {
        self.create(path, Kind::Directory)
    }

    fn create_file(&self, path: &AbsPath) -> io::Result<()> {
        self.create(path, Kind::File)
    }

    fn remove_directory(&self, path: &AbsPath) -> io::Result<()> {
        match self.children(path)?.len() {
            0 => self.remove(path),
            _ => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }

    fn remove_tree(&self, path: &AbsPath) -> io::Result<()> {
        for child in self.children(path)?.into_iter().flatten() {
            match self.at(&child).ok_or_else(not_found)?.kind {
                Kind::Directory => self.remove_tree(&child)?,
                Kind::File | Kind::Symlink => self.remove(&child)?,
            }
        }
        self.remove(path)
    }

    fn keep_open(&self, path: &AbsPath) -> io::Result<FakeHandle> {
        self.open(path, right::READ_DATA)
    }
}
