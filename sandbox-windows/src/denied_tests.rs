//! Runs on a disk in memory whose lists keep this program out of something: directories with "Modify" alone, objects of
//! other users, empty lists.

use super::tests::{WORKSPACE, World, path};
use super::*;
use crate::Sid;
use crate::acl::{Acl, Entry, Says, flag};
use crate::disk::Identity;
use crate::fake_disk::{FakeObject, MODIFY, allow, modify_alone, user};
use crate::mark::right;
use crate::plan::tests::plan_of;
use crate::root_record::RootRecord;
use crate::unmark::{StillMarked, marked, unmark};

fn stranger() -> Sid {
    "S-1-5-21-9-9-9-1002".parse().unwrap()
}

/// Makes a tree one of this owner's in which every user has "Modify", as directories outside of a profile have it.
fn modify_only(world: &World, top: &str, owner: &Sid) {
    for path in world.disk.paths().iter().filter(|path| path.starts_with(&self::path(top))) {
        world.disk.change(path, |object| {
            object.owner = owner.clone();
            object.list = Some(modify_alone(object.kind));
        });
    }
}

fn change(world: &World, text: &str, change: impl FnOnce(&mut FakeObject)) {
    world.disk.change(&path(text), change);
}

/// An empty list: not even the owner gets more than the right to change it.
fn close(world: &World, text: &str) {
    change(world, text, |object| object.list = Some(Acl(Vec::new())));
}

fn records(world: &World) -> usize {
    let files = std::fs::read_dir(world.journal.directory()).unwrap().flatten();
    files.filter(|file| file.path().extension().is_some_and(|ending| ending == "json")).count()
}

fn without_roots(world: &World, lines: &[&str]) -> (Marks<std::rc::Rc<crate::fake_disk::FakeDisk>>, Put) {
    Marks::put(world.disk.clone(), &plan_of(lines), &world.journal, Vec::new(), Checks::Required).unwrap()
}

/// The entry that lets the owner change the label is there for that moment alone.
#[test]
fn a_tree_with_modify_alone_is_marked_and_unmarked_by_its_owner() {
    let world = World::new();
    modify_only(&world, r"C:\w", &user());
    let before = world.disk.all();
    assert!(!before[&path(r"C:\w\a\file")].lets_user(right::WRITE_OWNER), "a label can't be changed directly");
    let own = allow(user(), right::WRITE_OWNER);
    for (lines, low) in [(WORKSPACE, true), (&[r"C:\ read", r"C:\w none"][..], false)] {
        let (run, put) = world.start(lines).unwrap();
        assert_eq!((put.missing.len(), put.unreached), (0, 0), "{put:?}");
        for text in [r"C:\w", r"C:\w\a", r"C:\w\a\file"] {
            assert!(world.label(text).is_some() && world.is_low(text) == low, "{text}");
            assert!(!world.list(text).0.contains(&own), "{text}");
        }
        drop(run);
        assert_eq!(records(&world), 0);
        assert_eq!(world.list(r"C:\w\.git"), before[&path(r"C:\w\.git")].list.clone().unwrap());
        unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
        assert_eq!(world.disk.all(), before);
    }
    let (run, _) = without_roots(&world, WORKSPACE);
    assert!(world.is_low(r"C:\w\a\file"));
    drop(run);
    assert_eq!(world.disk.all(), before, "also on a Windows on which nothing stays");
}

/// "Modify" on a directory of another user is not enough, and neither is a list that keeps the owner from changing it.
#[test]
fn a_tree_that_can_not_be_marked_is_refused_and_later_runs_start() {
    let owner_rights = Entry::Known { says: Says::Allow, flags: 0, mask: MODIFY, sid: "S-1-3-4".parse().unwrap() };
    let closed: [&dyn Fn(&World); 3] = [
        &|world| modify_only(world, r"C:\w", &stranger()),
        &|world| {
            change(world, r"C:\w\.git", |object| object.list = Some(Acl(vec![owner_rights.clone()])));
        },
        // It can't even be looked at.
        &|world| close(world, r"C:\w\.git\config"),
    ];
    for (number, closed) in closed.into_iter().enumerate() {
        let world = World::new();
        closed(&world);
        let before = world.disk.all();
        let error = world.start(WORKSPACE).unwrap_err();
        assert!(error.to_string().contains("you may not change the access control list"), "{number}: {error}");
        assert_eq!(records(&world), 0, "{number}: nothing is left on record");
        unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
        assert_eq!(world.disk.all(), before, "{number}: nothing is left on files");
        let (_run, put) = world.start(&[r"C:\ read", r"C:\v write"]).unwrap();
        assert_eq!(put.left_behind, Vec::<AbsPath>::new(), "{number}");
    }
}

/// The same for what is denied, of which labels are read first.
#[test]
fn a_denied_directory_that_can_not_be_looked_at_is_named() {
    let world = World::new();
    close(&world, r"C:\home\id");
    let error = world.start(&[r"C:\ read", r"C:\home none"]).unwrap_err().to_string();
    assert!(error.contains(r"C:\home") && error.contains("you may not change the access control list"), "{error}");
    assert_eq!(records(&world), 0);
}

/// An object that a stranger owns inside of a writable tree stays closed; what lies in it is opened.
#[test]
fn objects_that_can_not_be_marked_in_a_writable_tree_stay_closed_and_are_counted() {
    let world = World::new();
    change(&world, r"C:\w\a", |object| {
        object.owner = stranger();
        object.list = Some(modify_alone(object.kind));
    });
    let before = world.disk.at(&path(r"C:\w\a"));
    let (_run, put) = world.start(WORKSPACE).unwrap();
    assert_eq!((put.unreached, world.disk.at(&path(r"C:\w\a"))), (1, before));
    assert!(world.is_low(r"C:\w\a\file"));
}

/// A command or another program takes the user's rights away while the marks are on.
#[test]
fn an_object_that_marks_can_not_be_taken_off_is_left_to_later_starts() {
    let world = World::new();
    let lines = &[r"C:\ read", r"C:\home none"];
    let before = world.disk.all();
    let (run, _) = world.start(lines).unwrap();
    let sealed = world.list(r"C:\home\id");
    close(&world, r"C:\home\id");
    drop(run);
    assert!(records(&world) == 1 && world.label(r"C:\home").is_none(), "the rest is taken off");
    for _ in 0..2 {
        let (_run, put) = world.start(WORKSPACE).unwrap();
        assert_eq!(put.left_behind, [path(r"C:\home\id")]);
    }
    assert_eq!(records(&world), 1);
    let told = unmark(&world.disk, &world.journal, &path(r"C:\home")).unwrap().left;
    assert!(matches!(told.as_slice(), [StillMarked { path, .. }] if *path == self::path(r"C:\home\id")), "{told:?}");
    change(&world, r"C:\home\id", |object| object.list = Some(sealed));
    let (_run, put) = world.start(&[r"C:\ read"]).unwrap();
    assert_eq!(
        (put.left_behind.len(), world.disk.at(&path(r"C:\home\id"))),
        (0, before.get(&path(r"C:\home\id")).cloned())
    );
}

/// On a Windows on which nothing stays, such an object may be open to later commands: each start tries it.
#[test]
fn an_object_that_stays_open_is_tried_by_later_starts() {
    let world = World::new();
    let (run, _) = without_roots(&world, WORKSPACE);
    close(&world, r"C:\w\a\file");
    drop(run);
    assert!(!world.is_low(r"C:\w\a") && world.is_low(r"C:\w\a\file"));
    let (run, put) = without_roots(&world, &[r"C:\ read"]);
    assert_eq!((put.left_behind, run.known_roots().unwrap()), (vec![path(r"C:\w\a\file")], vec![path(r"C:\w\a\file")]));
    drop(run);
    world.disk.remove_tree(&path(r"C:\w\a")).unwrap();
    let (_run, put) = without_roots(&world, &[r"C:\ read"]);
    assert!(put.left_behind.is_empty(), "an object that was removed bears nothing");
}

/// A run that is killed while it puts marks on leaves a record, and no way to tell how far it came.
#[test]
fn a_run_that_was_killed_at_an_object_of_a_stranger_refuses_no_other() {
    let world = World::new();
    let (mut killed, _) = world.start(&[r"C:\ read", r"C:\home none"]).unwrap();
    drop(killed.entry.take());
    // It bears nothing, as can be seen; it can't be changed.
    change(&world, r"C:\home\id", |object| {
        object.owner = stranger();
        object.label = None;
        object.list = Some(Acl(vec![allow(Sid::everyone(), 0x12_00a9)]));
    });
    let (_run, put) = world.start(WORKSPACE).unwrap();
    assert!(put.left_behind.is_empty() && world.label(r"C:\home").is_none(), "{put:?}");
}

/// A command can make a directory in its private one that can't be listed.
#[test]
fn what_a_command_has_closed_in_its_own_directory_is_removed_or_left() {
    let world = World::new();
    let plan = plan_of(&[r"C:\ read"]);
    // A list of the first kind can be changed by its owner. `CreateFile` opens no object with one of the second kind.
    let synchronize = 0x10_0000;
    for (list, left) in [(vec![allow(user(), synchronize)], 0), (Vec::new(), 1)] {
        let (run, _) = Marks::put(world.disk.clone(), &plan, &world.journal, Vec::new(), Checks::Required).unwrap();
        let own = run.own_file("made").unwrap();
        world.disk.create_directory(&own).unwrap();
        let inside = own.join("inside").unwrap();
        world.disk.create_file(&inside).unwrap();
        world.disk.change(&own, |object| object.list = Some(Acl(list)));
        drop(run);
        assert_eq!((world.disk.at(&own).is_some(), records(&world)), (left == 1, left));
        let (run, put) = world.start(WORKSPACE).unwrap();
        assert_eq!(put.left_behind.len(), 0);
        drop(run);
        if left == 1 {
            world.disk.change(&own, |object| object.list = Some(Acl(vec![allow(user(), right::ALL)])));
            drop(world.start(WORKSPACE).unwrap());
        }
        assert_eq!((world.disk.at(&own), records(&world)), (None, 0));
    }
}

/// A file with another name outside keeps its list when the directory of a run is cleared.
#[test]
fn clearing_a_runs_directory_changes_no_file_elsewhere() {
    let world = World::new();
    let (run, _) = without_roots(&world, &[r"C:\ read"]);
    let own = run.own_file("made").unwrap();
    world.disk.create_directory(&own).unwrap();
    // Names are removed in their order, and the first try ends at the directory.
    world.disk.link(&path(r"C:\home\id"), &run.own_file("z-linked").unwrap());
    world.disk.change(&own, |object| object.list = Some(Acl(Vec::new())));
    let before = world.disk.at(&path(r"C:\home\id"));
    drop(run);
    assert_eq!(world.disk.at(&path(r"C:\home\id")), before);
}

#[test]
fn marks_come_off_everything_but_what_can_not_be_opened() {
    let world = World::new();
    drop(world.start(WORKSPACE).unwrap());
    let list = world.list(r"C:\w\a");
    close(&world, r"C:\w\a");
    let unmarked = unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
    let left: Vec<AbsPath> = unmarked.left.iter().map(|left| left.path.clone()).collect();
    assert_eq!(left, [path(r"C:\w\a")]);
    assert!(unmarked.changed > 1 && !world.is_low(r"C:\w") && !world.is_low(r"C:\w\node_modules"));
    assert_eq!(marked(&world.disk, &world.journal).unwrap(), [path(r"C:\w")], "it stays known");
    change(&world, r"C:\w\a", |object| object.list = Some(list));
    assert_eq!(unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap().left, []);
    assert!(!world.is_low(r"C:\w\a") && !world.is_low(r"C:\w\a\file"));
    assert_eq!(marked(&world.disk, &world.journal).unwrap(), []);
}

/// Windows has names that are no text. What lies there under such a name can't be reached, and that is told.
#[test]
fn a_child_whose_name_is_no_path_is_told() {
    let world = World::new();
    drop(world.start(WORKSPACE).unwrap());
    let (run, _) = without_roots(&world, &[r"C:\ read", r"C:\v write"]);
    [r"C:\w\a", r"C:\v"].iter().for_each(|directory| world.disk.add_odd_name(&path(directory)));
    drop(run);
    let (_run, put) = world.start(&[r"C:\ read"]).unwrap();
    assert_eq!(put.left_behind, [path(r"C:\v")]);
    let unmarked = unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
    let left: Vec<&AbsPath> = unmarked.left.iter().map(|left| &left.path).collect();
    assert!(left == [&path(r"C:\w\a")] && !world.is_low(r"C:\w\a\file"), "{left:?}");
    assert_eq!(marked(&world.disk, &world.journal).unwrap(), [path(r"C:\w")], "it stays known");
    let error = world.start(&[r"C:\ read", r"C:\w none"]).unwrap_err();
    assert!(error.to_string().contains("C:\\w"), "{error}");
}

/// Whichever of its paths is named.
#[test]
fn a_tree_that_was_moved_is_found() {
    for named in [r"C:\w", r"C:\moved", r"C:\"] {
        let world = World::new();
        let before = world.disk.at(&path(r"C:\w\a\file"));
        drop(world.start(WORKSPACE).unwrap());
        world.disk.rename(&path(r"C:\w"), &path(r"C:\moved"));
        // What a command has made with a list of its own bears no entry by which it would be known.
        change(&world, r"C:\moved\a\file", |object| object.list = before.as_ref().unwrap().list.clone());
        // Another tree stands there now.
        world.disk.create_directory(&path(r"C:\w")).unwrap();
        assert_eq!(marked(&world.disk, &world.journal).unwrap(), [path(r"C:\moved")], "{named}");
        let unmarked = unmark(&world.disk, &world.journal, &path(named)).unwrap();
        let moved = if named == r"C:\w" { vec![path(r"C:\moved")] } else { Vec::new() };
        assert_eq!((unmarked.moved, unmarked.left), (moved, vec![]), "{named}");
        assert_eq!(world.disk.at(&path(r"C:\moved\a\file")), before, "{named}");
        assert!(!world.is_low(r"C:\moved"), "{named}");
        assert_eq!(marked(&world.disk, &world.journal).unwrap(), [], "{named}");
    }
}

/// As long as another volume is mounted there it is not known whether the tree is still marked.
#[test]
fn a_tree_on_another_volume_is_not_forgotten() {
    let world = World::new();
    drop(world.start(WORKSPACE).unwrap());
    let mut root = world.journal.roots().unwrap().remove(0);
    root.identity = Identity { volume: 8, ..root.identity };
    let record = RootRecord { root: root.clone(), left_out: Some(Vec::new()) };
    world.journal.lock_root(&root).unwrap().write(&record).unwrap();
    world.disk.remove_tree(&path(r"C:\w")).unwrap();
    let unmarked = unmark(&world.disk, &world.journal, &path(r"C:\w")).unwrap();
    assert_eq!((unmarked.visited, unmarked.left.len()), (0, 1), "{unmarked:?}");
    assert_eq!(marked(&world.disk, &world.journal).unwrap(), [path(r"C:\w")]);
}

/// Entries that deny count before those that allow, for this program as for every other.
#[test]
fn the_disk_in_memory_denies_as_windows_does() {
    let object = |owner: Sid, list: Vec<Entry>| FakeObject {
        kind: stockade_sandboxing::Kind::File,
        owner,
        list: Some(Acl(list)),
        label: None,
    };
    let deny = |mask| Entry::Known { says: Says::Deny, flags: 0, mask, sid: Sid::everyone() };
    let inherit_only = Entry::Known { says: Says::Allow, flags: flag::ONLY_BELOW, mask: right::ALL, sid: user() };
    let change_list = right::WRITE_LIST;
    assert!(object(user(), vec![deny(right::ALL)]).lets_user(change_list), "an owner may always change the list");
    assert!(!object(stranger(), vec![allow(user(), MODIFY)]).lets_user(change_list));
    assert!(!object(user(), vec![deny(right::DELETE), allow(user(), right::ALL)]).lets_user(right::DELETE));
    assert!(object(user(), vec![allow(user(), right::ALL), deny(right::DELETE)]).lets_user(right::DELETE));
    assert!(!object(stranger(), vec![inherit_only]).lets_user(right::READ_DATA));
    assert!(!object(user(), vec![allow(Sid::nt([11]), MODIFY)]).lets_user(right::WRITE_OWNER));
    assert!(FakeObject { list: None, ..object(stranger(), Vec::new()) }.lets_user(right::ALL));
}
