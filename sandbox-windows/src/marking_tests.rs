//! Runs on a disk in memory, with real records and locks: who may do what before, during and after them.

use std::rc::Rc;

use stockade_sandboxing::{FakeHost, Kind};

use super::*;
use crate::Sid;
use crate::acl::{Acl, Entry};
use crate::disk::{Identity, Part};
use crate::fake_disk::{FakeDisk, allow};
use crate::mark::{Place, is_low, right};
use crate::plan::tests::{FILES, plan_of};
use crate::unmark::{UnmarkError, unmark};

/// The same disk for several runs.
impl<D: Disk> Disk for Rc<D> {
    type Handle = D::Handle;
    type Kept = D::Kept;

    fn open(&self, path: &AbsPath, rights: u32) -> io::Result<D::Handle> {
        (**self).open(path, rights)
    }
    fn kind(&self, handle: &D::Handle) -> io::Result<Kind> {
        (**self).kind(handle)
    }
    fn names(&self, handle: &D::Handle) -> io::Result<u32> {
        (**self).names(handle)
    }
    fn identity(&self, handle: &D::Handle) -> io::Result<Identity> {
        (**self).identity(handle)
    }
    fn locate(&self, identity: Identity, near: &AbsPath) -> io::Result<Option<AbsPath>> {
        (**self).locate(identity, near)
    }
    fn descriptor(&self, handle: &D::Handle, part: Part) -> io::Result<crate::acl::Descriptor> {
        (**self).descriptor(handle, part)
    }
    fn set_descriptor(&self, handle: &D::Handle, part: Part, descriptor: &crate::acl::Descriptor) -> io::Result<()> {
        (**self).set_descriptor(handle, part, descriptor)
    }
    fn children(&self, path: &AbsPath) -> io::Result<Vec<Option<AbsPath>>> {
        (**self).children(path)
    }
    fn user(&self) -> io::Result<Sid> {
        (**self).user()
    }
    fn create_directory(&self, path: &AbsPath) -> io::Result<()> {
        (**self).create_directory(path)
    }
    fn create_file(&self, path: &AbsPath) -> io::Result<()> {
        (**self).create_file(path)
    }
    fn remove_directory(&self, path: &AbsPath) -> io::Result<()> {
        (**self).remove_directory(path)
    }
    fn remove_tree(&self, path: &AbsPath) -> io::Result<()> {
        (**self).remove_tree(path)
    }
    fn keep_open(&self, path: &AbsPath) -> io::Result<D::Kept> {
        (**self).keep_open(path)
    }
}

pub(super) struct World {
    pub(super) disk: Rc<FakeDisk>,
    pub(super) journal: Journal,
    _directory: tempfile::TempDir,
}

pub(super) const WORKSPACE: &[&str] = &[r"C:\ read", r"C:\w write", r"C:\w\.git read protected"];

pub(super) fn path(text: &str) -> AbsPath {
    text.parse().unwrap()
}

impl World {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().join("records")).unwrap();
        let disk = FakeDisk::new(&FakeHost::new(FILES));
        disk.link(&path(r"C:\store\linked"), &path(r"C:\w\node_modules\linked"));
        Self { disk: Rc::new(disk), journal, _directory: directory }
    }

    pub(super) fn start(&self, lines: &[&str]) -> Result<(Marks<Rc<FakeDisk>>, Put), SpawnError> {
        let plan = plan_of(lines);
        let staying = roots::identify(&self.disk, &plan.marks).unwrap();
        Marks::put(self.disk.clone(), &plan, &self.journal, staying, Checks::Required)
    }

    pub(super) fn label(&self, text: &str) -> Option<Entry> {
        self.disk.at(&path(text)).unwrap().label
    }

    pub(super) fn is_low(&self, text: &str) -> bool {
        self.label(text).as_ref().is_some_and(is_low)
    }

    pub(super) fn list(&self, text: &str) -> Acl {
        self.disk.at(&path(text)).unwrap().list.unwrap()
    }
}

#[test]
fn the_next_command_looks_at_the_top_alone() {
    let world = World::new();
    let (run, put) = world.start(WORKSPACE).unwrap();
    drop(run);
    assert!(put.visited > 6, "{put:?}");
    let marks = plan_of(WORKSPACE).marks;
    let root = roots::identify(&world.disk, &marks).unwrap().remove(0);
    let before = world.disk.opened();
    let put = roots::open(&world.disk, &marks[0], &root, &marks, &world.journal).unwrap();
    assert_eq!((put.visited, world.disk.opened() - before), (1, 1));
    // A list that was reset is seen there, and the tree is walked again.
    world.disk.change(&path(r"C:\w"), |object| object.label = None);
    let put = roots::open(&world.disk, &marks[0], &root, &marks, &world.journal).unwrap();
    assert!(put.visited > 3 && world.is_low(r"C:\w"), "{put:?}");
}

#[test]
fn files_with_other_names_are_left_alone_in_a_writable_tree_and_closed_in_a_denied_one() {
    let world = World::new();
    let before = world.disk.at(&path(r"C:\store\linked")).unwrap();
    let (run, put) = world.start(WORKSPACE).unwrap();
    assert_eq!(put.linked, 1);
    assert_eq!(world.disk.at(&path(r"C:\store\linked")).unwrap(), before, "neither an entry nor a label");
    assert!(world.is_low(r"C:\w\a\file"), "others have both");
    drop(run);
    let (_run, put) = world.start(&[r"C:\ read", r"C:\w none"]).unwrap();
    assert_eq!(put.linked, 0);
    assert_ne!(world.disk.at(&path(r"C:\store\linked")).unwrap(), before, "what is denied is denied by all names");
}

/// Nothing of a refused run's is on files, not even for a moment: a living one relies on what is there.
#[test]
fn a_run_that_another_one_excludes_touches_nothing() {
    let world = World::new();
    let (_living, _) = world.start(&[r"C:\ read", r"C:\w none"]).unwrap();
    let before = world.disk.all();
    let error = world.start(&[r"C:\ read", r"C:\w write"]).unwrap_err();
    assert!(error.to_string().contains("a sandbox that is running needs it to be otherwise"), "{error}");
    assert_eq!(world.disk.all(), before);
    assert_eq!(world.label(r"C:\w"), Some(Label::Sealed.entry(Place::Top, Kind::Directory)));
}

/// What a killed run has sealed is unsealed before the tree is walked, or the walk would leave it closed for good.
#[test]
fn a_tree_is_walked_after_what_a_killed_run_has_left_is_off() {
    let world = World::new();
    let (mut killed, _) = world.start(&[r"C:\ read", r"C:\w none"]).unwrap();
    // Its lock goes with the program; its record and its marks stay.
    drop(killed.entry.take());
    assert!(!world.is_low(r"C:\w\a\file") && world.label(r"C:\w\a\file").is_some());
    let (_run, _) = world.start(&[r"C:\ read", r"C:\w write"]).unwrap();
    assert!(world.is_low(r"C:\w\a\file") && world.is_low(r"C:\w"));
}

#[test]
fn what_is_only_for_a_run_comes_off_and_what_opens_stays() {
    let world = World::new();
    let before = world.disk.all();
    let (run, _) = world.start(WORKSPACE).unwrap();
    assert_ne!(world.list(r"C:\w\.git"), before[&path(r"C:\w\.git")].list.clone().unwrap());
    drop(run);
    assert_eq!(world.list(r"C:\w\.git"), before[&path(r"C:\w\.git")].list.clone().unwrap());
    assert!(world.is_low(r"C:\w\a"));
    world.disk.create_file(&path(r"C:\w\a\made")).unwrap();
    assert!(world.is_low(r"C:\w\a\made"), "what is made there inherits");
    let runs = std::fs::read_dir(world.journal.directory()).unwrap().flatten();
    assert_eq!(runs.filter(|file| file.path().extension().is_some_and(|ending| ending == "json")).count(), 0);
}

/// On a Windows where nothing stays, everything is as it was before, also what was raised above the command's level.
#[test]
fn where_nothing_stays_everything_comes_off() {
    let world = World::new();
    let made = Label::Low.entry(Place::Top, Kind::File);
    world.disk.change(&path(r"C:\w\.git\config"), |object| object.label = Some(made));
    let before = world.disk.all();
    let plan = plan_of(WORKSPACE);
    let (run, _) = Marks::put(world.disk.clone(), &plan, &world.journal, Vec::new(), Checks::Required).unwrap();
    assert!(world.is_low(r"C:\w\a\file") && !world.is_low(r"C:\w\.git\config"));
    drop(run);
    assert_eq!(world.disk.all(), before);
}

/// What the token is tried with is there, and variables lead to directories of the run's own, which go with it.
#[test]
fn a_run_has_files_and_directories_of_its_own() {
    let world = World::new();
    drop(world.start(WORKSPACE).unwrap());
    let mut plan = plan_of(&[r"C:\ read"]);
    let variable = |name: &str| (name.to_owned(), r"C:\temp".to_owned());
    plan.environment = vec![variable("OTHER"), variable("TEMP")];
    plan.scratch = vec![crate::plan::Scratch { path: path(r"C:\temp"), variables: vec!["TEMP".to_owned()] }];
    let (run, _) = Marks::put(world.disk.clone(), &plan, &world.journal, Vec::new(), Checks::Required).unwrap();
    let label = |name: &str| world.disk.at(&run.own_file(name).unwrap()).unwrap().label.as_ref().is_some_and(is_low);
    assert!(!label(CANARY) && label(LOW_CANARY) && label(CONTROL));
    assert_eq!(run.known_roots().unwrap(), [path(r"C:\w")], "those of other policies are tried");
    let environment = run.environment(&plan);
    assert!(environment[0] == variable("OTHER") && environment[1].1.contains(run.id()), "{environment:?}");
    let own = path(&environment[1].1);
    assert!(world.disk.at(&own).is_some_and(|object| object.kind == Kind::Directory));
    drop(run);
    assert_eq!(world.disk.at(&own), None);
}

#[test]
fn another_tree_at_the_same_path_has_another_identifier() {
    let world = World::new();
    let marks = plan_of(WORKSPACE).marks;
    let first = roots::identify(&world.disk, &marks).unwrap().remove(0).sid;
    drop(world.start(WORKSPACE).unwrap());
    world.disk.rename(&path(r"C:\w"), &path(r"C:\moved"));
    for directory in [r"C:\w", r"C:\w\.git"] {
        world.disk.create_directory(&path(directory)).unwrap();
    }
    let second = roots::identify(&world.disk, &marks).unwrap().remove(0).sid;
    assert_ne!(first, second);
    let (_run, put) = world.start(WORKSPACE).unwrap();
    assert!(put.visited > 0 && world.is_low(r"C:\w"));
    assert!(world.list(r"C:\moved\a").0.iter().all(|entry| !entry.speaks_of(&second)), "the moved tree stays closed");
    assert!(world.list(r"C:\moved\a").0.iter().any(|entry| entry.speaks_of(&first)));
}

#[test]
fn what_everybody_may_write_is_refused_at_the_top_and_left_alone_below() {
    let world = World::new();
    let open = |text: &str| {
        world.disk.change(&path(text), |object| {
            object.list = object.list.take().map(|list| list.with(vec![allow(Sid::everyone(), right::ALL)]));
        });
    };
    open(r"C:\w\a");
    let (run, put) = world.start(WORKSPACE).unwrap();
    assert_eq!((put.open_to_all, world.label(r"C:\w\a")), (1, None));
    assert!(world.is_low(r"C:\w\a\file"), "what lies in it has a list of its own");
    drop(run);
    open(r"C:\v");
    let before = world.disk.all();
    let error = world.start(&[r"C:\ read", r"C:\v write"]).unwrap_err();
    assert!(error.to_string().contains("Everyone") && world.disk.all() == before, "{error}");
}

#[test]
fn marks_are_taken_off_a_tree_and_it_can_be_opened_again() {
    let world = World::new();
    let before = world.disk.all();
    let (run, _) = world.start(WORKSPACE).unwrap();
    let refused = unmark(&world.disk, &world.journal, &path(r"C:\w\a")).unwrap_err();
    assert!(matches!(&refused, UnmarkError::InUse { path } if *path == self::path(r"C:\w")), "{refused}");
    drop(run);
    // What a command has made bears the label of its level, without flags of inheritance, and may have a list of its own.
    world.disk.create_file(&path(r"C:\w\built.exe")).unwrap();
    let made = Label::Low.entry(Place::Top, Kind::File);
    world.disk.change(&path(r"C:\w\built.exe"), |object| {
        object.label = Some(made.clone());
        object.list = Some(Acl(vec![allow(crate::fake_disk::user(), right::ALL)]));
    });
    world.disk.change(&path(r"C:\home\id"), |object| object.label = Some(made));
    let unmarked = unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
    assert!(unmarked.changed >= 4 && unmarked.visited > unmarked.changed, "{unmarked:?}");
    assert_eq!(world.label(r"C:\w\built.exe"), None);
    for (path, object) in before.iter().filter(|(path, _)| path.starts_with(&self::path(r"C:\w"))) {
        assert_eq!(world.disk.at(path).as_ref(), Some(object), "{path}");
    }
    assert_eq!(world.journal.roots().unwrap(), vec![]);
    // Where no tree was opened, labels of others stay.
    let elsewhere = unmark(&world.disk, &world.journal, &path(r"C:\home")).unwrap();
    assert!(elsewhere.changed == 0 && world.is_low(r"C:\home\id"));
    drop(world.start(WORKSPACE).unwrap());
    assert!(world.is_low(r"C:\w\a\file"), "it is walked again");
}

#[test]
fn marks_come_off_a_part_of_a_tree_a_moved_tree_and_one_that_is_gone() {
    let world = World::new();
    drop(world.start(WORKSPACE).unwrap());
    assert!(unmark(&world.disk, &world.journal, &path(r"C:\w\a")).unwrap().changed > 0);
    assert!(!world.is_low(r"C:\w\a\file") && world.is_low(r"C:\w"));
    drop(world.start(WORKSPACE).unwrap());
    assert!(world.is_low(r"C:\w\a\file"), "the tree around it was walked again");
    world.disk.rename(&path(r"C:\w"), &path(r"C:\moved"));
    assert!(unmark(&world.disk, &world.journal, &path(r"C:\moved")).unwrap().changed > 0);
    assert!(!world.is_low(r"C:\moved\a\file"));
    assert_eq!(unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap().visited, 0);
    assert_eq!(world.journal.roots().unwrap(), vec![]);
}
