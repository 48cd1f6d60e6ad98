//! Effects and refusals of patches.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

mod world;

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;

use stockade_apply_patch::{PatchError, Roots, prepare};
use stockade_protocol::{AbsPath, FileChange};
use world::{DIFF, World, abs};

#[test]
fn adds_updates_moves_and_deletes() {
    let world = World::with("one", "old\n");
    fs::write(world.at("two"), "old\n").unwrap();
    fs::write(world.at("three"), "gone\n").unwrap();
    fs::write(world.at("four"), "same\n").unwrap();
    let changes = [
        world.update("one", DIFF),
        world.rename("two", DIFF, "sub/deep/two"),
        world.delete("three", "gone\n"),
        world.rename("four", "", "sub/four"),
        world.add("sub/deep/five", "5"),
    ];
    let prepared = world.prepare(&changes).unwrap();
    assert_eq!(world.names(), ["four", "one", "three", "two"], "preparing writes nothing");
    let files: Vec<_> = prepared.files().collect();
    assert_eq!(files.len(), 7);
    assert_eq!((files[0].before, files[0].after), (Some(b"old\n".as_slice()), Some(b"new\n".as_slice())));
    assert_eq!((files[1].before, files[1].after), (None, Some(b"new\n".as_slice())));
    assert_eq!((files[2].before, files[2].after), (Some(b"old\n".as_slice()), None));
    assert_eq!(prepared.resolved_paths(), []);

    let applied = prepared.apply().unwrap();
    assert_eq!(applied.paths.len(), 7);
    assert_eq!(applied.leftovers, []);
    assert_eq!(world.names(), ["one", "sub"]);
    assert_eq!(world::names(&world.at("sub")), ["deep", "four"]);
    assert_eq!(world::names(&world.at("sub/deep")), ["five", "two"]);
    assert_eq!(world.read("one"), b"new\n");
    assert_eq!(world.read("sub/deep/two"), b"new\n");
    assert_eq!(world.read("sub/deep/five"), b"5");
    assert_eq!(world.read("sub/four"), b"same\n");
}

#[test]
fn modes_owners_and_attributes_are_kept_and_privileges_dropped() {
    let world = World::with("run", "old\n");
    // Only root can give a file away; for others it stays their own.
    if fs::metadata(world.at("run")).unwrap().uid() == 0 {
        std::os::unix::fs::chown(world.at("run"), Some(1234), Some(2345)).unwrap();
    }
    fs::set_permissions(world.at("run"), Permissions::from_mode(0o6751)).unwrap();
    let before = fs::metadata(world.at("run")).unwrap();
    world.apply(&[world.update("run", DIFF)]);
    let after = fs::metadata(world.at("run")).unwrap();
    assert_eq!(after.mode(), 0o100_751);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()));
    assert_ne!(after.ino(), before.ino());

    world.apply(&[world.rename("run", "", "bin/run")]);
    let moved = fs::metadata(world.at("bin/run")).unwrap();
    assert_eq!((moved.mode(), moved.uid(), moved.gid()), (0o100_751, before.uid(), before.gid()));
}

#[test]
fn a_hard_link_keeps_the_old_contents() {
    let world = World::new();
    fs::hard_link(world.outside.join("t"), world.at("link")).unwrap();
    world.apply(&[world.update("link", DIFF)]);
    assert_eq!(world.read("link"), b"new\n");
    world.outside_is_untouched();
}

#[test]
fn what_is_no_file_is_refused_without_waiting() {
    let world = World::new();
    fs::create_dir(world.at("directory")).unwrap();
    let _socket = UnixListener::bind(world.at("socket")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        world.at("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for (name, kind) in [("directory", "a directory"), ("socket", "a socket"), ("pipe", "a pipe")] {
        for change in [world.update(name, DIFF), world.delete(name, ""), world.add(name, "")] {
            let error = world.prepare(&[change]).unwrap_err();
            assert!(error.to_string().contains(&format!("is {kind}, not a file")), "{name}: {error}");
        }
    }
    fs::write(world.at("one"), "old\n").unwrap();
    let device = abs("/dev/null".as_ref());
    let roots = Roots::open([&abs("/dev".as_ref())]).unwrap();
    let change = FileChange::Delete { path: device, content: "".into() };
    assert!(prepare(&[change], &roots, |_| true).unwrap_err().to_string().contains("is a device"));
    let error = world.prepare(&[world.add("one/below", "")]).unwrap_err();
    assert!(matches!(error, PatchError::NotADirectory { .. }), "{error}");
}

#[test]
fn what_does_not_fit_is_refused_before_anything_is_written() {
    let world = World::with("one", "old\n");
    fs::write(world.at("two"), "old\n").unwrap();
    let first = world.update("one", DIFF);
    for (change, words) in [
        (world.add("two", "x"), "exists already"),
        (world.delete("two", "other\n"), "does not hold what"),
        (world.delete("three", ""), "does not exist"),
        (world.update("three", DIFF), "does not exist"),
        (world.update("two", ""), "changes nothing"),
        (world.update("two", "@@ -1 +1 @@\n-x\n+y\n"), "can't change"),
        (world.update("two", "nonsense"), "can't change"),
        (world.rename("two", DIFF, "one"), "exists already"),
        (world.update("one", DIFF), "more than once"),
        (world.rename("two", DIFF, "new/x"), ""),
    ] {
        let result = world.prepare(&[first.clone(), change.clone()]);
        if words.is_empty() {
            assert!(result.is_ok());
            continue;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "{change:?}: {error}");
    }
    let nested = [world.add("new", "x"), world.add("new/below", "x")];
    assert!(matches!(world.prepare(&nested).unwrap_err(), PatchError::Overlap { .. }));
    let nested = [world.add("new/below", "x"), world.add("new", "x")];
    assert!(matches!(world.prepare(&nested).unwrap_err(), PatchError::Overlap { .. }));
    assert_eq!(world.read("one"), b"old\n");
    assert_eq!(world.names(), ["one", "two"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_directory_that_cannot_be_written_changes_nothing() {
    let world = World::with("one", "old\n");
    // Not even root can create files there.
    let closed = abs("/proc/self/task".as_ref());
    let roots = Roots::open([&abs(&world.workspace), &closed]).unwrap();
    let add = FileChange::Add { path: closed.join("x").unwrap(), content: "x".into() };
    let error = prepare(&[world.update("one", DIFF), add], &roots, |_| true).unwrap().apply().unwrap_err();
    assert!(matches!(*error.cause, PatchError::System { .. }), "{error:?}");
    assert_eq!(error.untouched.len(), 2, "{error}");
    assert_eq!(world.read("one"), b"old\n");
    assert_eq!(world.names(), ["one"]);
}

#[test]
fn a_policy_protects_parts_of_a_root() {
    let world = World::with(".git/config", "old\n");
    let protected: AbsPath = abs(&world.at(".git"));
    let stockade: AbsPath = abs(&world.at(".stockade"));
    let may_write = |path: &AbsPath| !path.starts_with(&protected) && *path != stockade;
    for change in [
        world.update(".git/config", DIFF),
        world.add(".git/hooks/pre-commit", "x"),
        world.rename(".git/config", "", "config"),
        // The directory would have to be made, though the policy only knows its name.
        world.add(".stockade/rules", "x"),
    ] {
        let error = prepare(std::slice::from_ref(&change), &world.roots(), may_write).unwrap_err();
        assert!(matches!(error, PatchError::Protected { .. }), "{change:?}: {error}");
    }
    let free = world.add("sub/file", "x");
    prepare(&[free], &world.roots(), may_write).unwrap().apply().unwrap();
    assert_eq!(world.read(".git/config"), b"old\n");
}

#[test]
fn more_files_than_descriptors_are_written() {
    let world = World::new();
    let changes: Vec<FileChange> = (0..1300).map(|n| world.add(&format!("d{}/f{n}", n % 7), "x")).collect();
    world.apply(&changes);
    assert_eq!(world.names().len(), 7);
    let changes: Vec<FileChange> = (0..1300).map(|n| world.delete(&format!("d{}/f{n}", n % 7), "x")).collect();
    world.apply(&changes);
    assert_eq!(world::names(&world.at("d3")), Vec::<String>::new());
}

#[test]
fn roots_may_be_reached_by_another_name() {
    let world = World::with("sub/one", "old\n");
    let alias = world.outside.parent().unwrap().join("alias");
    symlink(&world.workspace, &alias).unwrap();
    let change = FileChange::Update { path: abs(&alias.join("sub/one")), unified_diff: DIFF.into(), move_path: None };
    let prepared = world.prepare(&[change]).unwrap();
    let resolved = prepared.resolved_paths();
    assert_eq!(resolved[0].resolved, abs(&world.at("sub/one")));
    prepared.apply().unwrap();
    assert_eq!(world.read("sub/one"), b"new\n");
    // As a root's own name, too.
    let roots = Roots::open([&abs(&alias)]).unwrap();
    prepare(&[world.add("two", "x")], &roots, |_| true).unwrap().apply().unwrap();
    assert_eq!(world.read("two"), b"x");
}

#[test]
fn a_root_has_to_be_a_directory_of_this_host() {
    for root in ["/dev/null", "/missing-root", r"C:\work"] {
        let error = Roots::open([&root.parse().unwrap()]).unwrap_err();
        assert!(matches!(error, PatchError::Root { .. }), "{error}");
    }
}
