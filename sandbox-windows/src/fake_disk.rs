//! A disk in memory: lists and labels as Windows keeps them, and passed on to what is made in a directory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::{FakeHost, Kind};

use crate::Sid;
use crate::acl::{Acl, Descriptor, Entry, Says, flag};
use crate::disk::{Disk, Identity, Part};
use crate::mark::right;

/// One object. Files with several names are one object at several paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FakeObject {
    pub(crate) kind: Kind,
    /// None at all: everybody may do everything.
    pub(crate) list: Option<Acl>,
    pub(crate) label: Option<Entry>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<AbsPath, usize>,
    objects: Vec<FakeObject>,
    /// How often an object was opened.
    opened: usize,
}

#[derive(Debug, Default)]
pub(crate) struct FakeDisk(RefCell<State>);

pub(crate) fn user() -> Sid {
    "S-1-5-21-9-9-9-1001".parse().unwrap()
}

pub(crate) fn allow(sid: Sid, mask: u32) -> Entry {
    Entry::Known { says: Says::Allow, flags: 0, mask, sid }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl FakeDisk {
    /// A host's files, all of the user's.
    pub(crate) fn new(host: &FakeHost) -> Self {
        let disk = Self::default();
        let entry = |sid: Sid| Entry::Known { says: Says::Allow, flags: flag::INHERITED, mask: right::ALL, sid };
        let list = Acl(vec![entry(Sid::nt([18])), entry(Sid::nt([32, 544])), entry(user())]);
        for (path, kind) in host.iter() {
            disk.place(path.clone(), FakeObject { kind, list: Some(list.clone()), label: None });
        }
        disk
    }

    pub(crate) fn place(&self, path: AbsPath, object: FakeObject) {
        let mut state = self.0.borrow_mut();
        let number = state.objects.len();
        state.objects.push(object);
        state.names.insert(path, number);
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

    fn create(&self, path: &AbsPath, kind: Kind) -> io::Result<()> {
        if self.at(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Where nothing lies above, nothing is passed on.
        let above = path.parent().and_then(|parent| self.at(&parent));
        let list = above.as_ref().and_then(|above| above.list.clone()).unwrap_or_default();
        let list =
            Acl(list.0.iter().filter_map(|entry| passed_on(entry, kind)).chain([allow(user(), right::ALL)]).collect());
        let label = above.and_then(|above| above.label).and_then(|label| passed_on(&label, kind));
        self.place(path.clone(), FakeObject { kind, list: Some(list), label });
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
    type Handle = AbsPath;
    type Kept = AbsPath;

    fn open(&self, path: &AbsPath, _: u32) -> io::Result<AbsPath> {
        self.0.borrow_mut().opened += 1;
        self.at(path).map(|_| path.clone()).ok_or_else(not_found)
    }

    fn kind(&self, path: &AbsPath) -> io::Result<Kind> {
        self.at(path).map(|object| object.kind).ok_or_else(not_found)
    }

    fn names(&self, path: &AbsPath) -> io::Result<u32> {
        let state = self.0.borrow();
        let number = state.names.get(path).ok_or_else(not_found)?;
        Ok(u32::try_from(state.names.values().filter(|other| *other == number).count()).unwrap())
    }

    fn identity(&self, path: &AbsPath) -> io::Result<Identity> {
        let state = self.0.borrow();
        Ok(Identity { volume: 7, index: u64::try_from(*state.names.get(path).ok_or_else(not_found)?).unwrap() })
    }

    fn descriptor(&self, path: &AbsPath, part: Part) -> io::Result<Descriptor> {
        let object = self.at(path).ok_or_else(not_found)?;
        Ok(match part {
            Part::List => Descriptor { dacl: object.list, ..Descriptor::default() },
            Part::Label => Descriptor { sacl: Some(Acl(object.label.into_iter().collect())), ..Descriptor::default() },
        })
    }

    fn set_descriptor(&self, path: &AbsPath, part: Part, descriptor: &Descriptor) -> io::Result<()> {
        self.change(path, |object| match part {
            Part::List => object.list.clone_from(&descriptor.dacl),
            Part::Label => object.label = descriptor.sacl.as_ref().and_then(|list| list.label().cloned()),
        });
        Ok(())
    }

    fn children(&self, path: &AbsPath) -> io::Result<Vec<Option<AbsPath>>> {
        let is_child = |child: &AbsPath| child.parent().as_ref() == Some(path);
        Ok(self.paths().into_iter().filter(is_child).map(Some).collect())
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
            0 => self.0.borrow_mut().names.remove(path).map(drop).ok_or_else(not_found),
            _ => Err(io::ErrorKind::DirectoryNotEmpty.into()),
        }
    }

    fn remove_tree(&self, path: &AbsPath) -> io::Result<()> {
        self.0.borrow_mut().names.retain(|other, _| !other.starts_with(path));
        Ok(())
    }

    fn keep_open(&self, path: &AbsPath) -> io::Result<AbsPath> {
        self.open(path, 0)
    }
}
