//! Attacks on a writer outside the sandbox by a command inside, which owns the workspace.
//! The names are those of the list of known escapes.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

mod world;

use std::fs;
use std::os::unix::fs::symlink;

use stockade_apply_patch::{PatchError, Roots, prepare, resolved_paths};
use stockade_protocol::FileChange;
use world::{DIFF, World, abs};

/// Each change of `link`, which leads to the file outside.
fn changes(world: &World, link: &str) -> Vec<FileChange> {
    vec![
        world.update(link, DIFF),
        world.delete(link, "old\n"),
        world.add(link, "new\n"),
        world.rename(link, DIFF, "moved"),
    ]
}

#[test]
fn fs25_a_root_with_a_longer_name_is_another_root() {
    let world = World::new();
    let evil = world.workspace.with_file_name("workspace-evil");
    fs::create_dir(&evil).unwrap();
    let change = FileChange::Add { path: abs(&evil.join("t")), content: "x".into() };
    let error = world.prepare(&[change]).unwrap_err();
    assert!(matches!(error, PatchError::OutsideRoots { .. }), "{error}");
}

#[test]
fn fs26_a_planted_link_is_not_followed() {
    let world = World::with("kept", "kept\n");
    let outside = world.outside.join("t");
    // The file itself, by an absolute and a relative link; a directory on the way; a link to nothing.
    symlink(&outside, world.at("note.md")).unwrap();
    symlink("../outside/t", world.at("relative.md")).unwrap();
    symlink(&world.outside, world.at("directory")).unwrap();
    symlink(world.outside.join("new"), world.at("dangling")).unwrap();
    symlink("/proc/self/cwd", world.at("magic")).unwrap();
    for name in ["note.md", "relative.md", "directory/t"] {
        for change in changes(&world, name) {
            let error = world.prepare(std::slice::from_ref(&change)).unwrap_err();
            let PatchError::Link { resolved, .. } = &error else { panic!("{change:?}: {error}") };
            assert_eq!(*resolved, abs(&outside));
        }
    }
    for name in ["dangling", "directory/new", "directory/sub/new", "magic/new"] {
        for change in [world.add(name, "x"), world.rename("kept", "", name)] {
            let error = world.prepare(std::slice::from_ref(&change)).unwrap_err();
            assert!(matches!(error, PatchError::Link { .. }), "{change:?}: {error}");
        }
    }
    // Nor to another file in the workspace: the named file would not be the one changed.
    symlink("kept", world.at("inside")).unwrap();
    assert!(matches!(world.prepare(&[world.update("inside", DIFF)]).unwrap_err(), PatchError::Link { .. }));
    world.outside_is_untouched();
    assert_eq!(world.read("kept"), b"kept\n");
}

#[test]
fn fs26_a_planted_hard_link_is_cut() {
    let world = World::new();
    fs::hard_link(world.outside.join("t"), world.at("note.md")).unwrap();
    world.apply(&[world.update("note.md", DIFF)]);
    assert_eq!(world.read("note.md"), b"new\n");
    world.outside_is_untouched();
}

#[test]
fn fs27_a_parent_swapped_after_the_approval_is_noticed() {
    type Swap = (&'static str, fn(&World));
    let swaps: [Swap; 5] = [
        ("parent for a link", |world| {
            fs::rename(world.at("a"), world.at("a2")).unwrap();
            symlink(&world.outside, world.at("a")).unwrap();
        }),
        ("parent for another directory with the same file", |world| {
            fs::rename(world.at("a"), world.at("a2")).unwrap();
            fs::create_dir(world.at("a")).unwrap();
            fs::write(world.at("a/t"), "old\n").unwrap();
        }),
        ("parent for the directory outside itself", |world| {
            fs::rename(world.at("a"), world.at("a2")).unwrap();
            fs::rename(&world.outside, world.at("a")).unwrap();
        }),
        ("file for a link", |world| {
            fs::remove_file(world.at("a/t")).unwrap();
            symlink(world.outside.join("t"), world.at("a/t")).unwrap();
        }),
        ("file for the file outside", |world| {
            fs::remove_file(world.at("a/t")).unwrap();
            fs::hard_link(world.outside.join("t"), world.at("a/t")).unwrap();
        }),
    ];
    for (what, swap) in swaps {
        for kind in 0..3 {
            let world = World::with("a/t", "old\n");
            let change = match kind {
                0 => world.update("a/t", DIFF),
                1 => world.delete("a/t", "old\n"),
                _ => world.add("a/new", "x"),
            };
            if kind == 2 && what.starts_with("file") {
                continue;
            }
            let prepared = world.prepare(std::slice::from_ref(&change)).unwrap();
            swap(&world);
            let error = prepared.apply().unwrap_err();
            assert!(matches!(*error.cause, PatchError::Changed { .. }), "{what}: {error:?}");
            assert_eq!((error.written.len(), error.restored.len()), (0, 0), "{what}");
            if world.outside.exists() {
                world.outside_is_untouched();
            } else {
                assert_eq!(world.read("a/t"), b"old\n");
                assert_eq!(world::names(&world.at("a")), ["t"]);
            }
        }
    }
}

#[test]
fn fs27_a_root_swapped_after_the_approval_is_noticed() {
    let world = World::with("t", "old\n");
    let roots = world.roots();
    let update = || [world.update("t", DIFF)];
    let prepared = prepare(&update(), &roots, |_| true).unwrap();
    let moved = world.workspace.with_file_name("moved");
    fs::rename(&world.workspace, &moved).unwrap();
    symlink(&world.outside, &world.workspace).unwrap();
    let error = prepared.apply().unwrap_err();
    assert!(matches!(*error.cause, PatchError::Changed { .. }), "{error:?}");
    // A patch that comes later, with roots that were opened before the swap.
    let error = prepare(&update(), &roots, |_| true).unwrap_err();
    assert!(matches!(error, PatchError::OutsideRoots { .. }), "{error}");
    world.outside_is_untouched();
    assert_eq!(fs::read(moved.join("t")).unwrap(), b"old\n");
}

#[test]
fn fs27_a_missing_directory_that_appears_after_the_approval_is_noticed() {
    let world = World::new();
    let prepared = world.prepare(&[world.add("new/t", "x")]).unwrap();
    symlink(&world.outside, world.at("new")).unwrap();
    let error = prepared.apply().unwrap_err();
    assert!(matches!(*error.cause, PatchError::Changed { .. }), "{error:?}");
    world.outside_is_untouched();
    assert_eq!(world.names(), ["new"]);
}

#[test]
fn fs27_contents_changed_after_the_approval_are_noticed() {
    let world = World::with("t", "old\n");
    for change in [world.update("t", DIFF), world.delete("t", "old\n")] {
        fs::write(world.at("t"), "old\n").unwrap();
        let prepared = world.prepare(std::slice::from_ref(&change)).unwrap();
        // Same length, same inode.
        fs::write(world.at("t"), "0ld\n").unwrap();
        let error = prepared.apply().unwrap_err();
        assert!(matches!(*error.cause, PatchError::Changed { .. }), "{error:?}");
        assert_eq!(world.read("t"), b"0ld\n");
        assert_eq!(world.names(), ["t"]);
    }
}

#[test]
fn fs28_the_question_shows_where_a_link_leads() {
    let world = World::new();
    let keys = world.outside.join(".ssh/authorized_keys");
    symlink(&keys, world.at("config.toml")).unwrap();
    let change = [world.update("config.toml", DIFF)];
    // The file need not exist to be shown.
    let shown = resolved_paths(&change);
    assert_eq!(shown[0].given, abs(&world.at("config.toml")));
    assert_eq!(shown[0].resolved, abs(&keys));
    assert_eq!(shown.len(), 1);
    let error = world.prepare(&change).unwrap_err().to_string();
    assert!(error.contains(&keys.display().to_string()), "{error}");
    // Below a root that is granted for it, the real name can be used.
    fs::create_dir(keys.parent().unwrap()).unwrap();
    fs::write(&keys, "old\n").unwrap();
    let roots = Roots::open([&abs(&world.workspace), &abs(keys.parent().unwrap())]).unwrap();
    let named = FileChange::Update { path: abs(&keys), unified_diff: DIFF.into(), move_path: None };
    prepare(&[named], &roots, |_| true).unwrap().apply().unwrap();
    assert_eq!(fs::read(&keys).unwrap(), b"new\n");
    assert!(fs::symlink_metadata(world.at("config.toml")).unwrap().is_symlink());
}

/// The owner of the directory continuously plants links over every name that appears in it.
#[test]
fn fs30_temporary_names_can_be_seen_but_not_used() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    let world = World::with("t", "old\n");
    let (stop, hits) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for entry in fs::read_dir(&world.workspace).unwrap().flatten() {
                    if entry.file_name().to_string_lossy().starts_with('.') {
                        let _ = fs::remove_file(entry.path());
                        hits.fetch_add(
                            usize::from(symlink(world.outside.join("t"), entry.path()).is_ok()),
                            Ordering::Relaxed,
                        );
                    }
                }
            }
        });
        let mut rounds = 0;
        while rounds < 300 || (hits.load(Ordering::Relaxed) < 20 && rounds < 20_000) {
            rounds += 1;
            let _ = fs::remove_file(world.at("t"));
            fs::write(world.at("t"), "old\n").unwrap();
            let Ok(prepared) = world.prepare(&[world.update("t", DIFF), world.add("new", "x")]) else { continue };
            let _ = prepared.apply();
            world.outside_is_untouched();
            let _ = fs::remove_file(world.at("new"));
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(hits.load(Ordering::Relaxed) > 0, "the attacker never had a chance");
    world.outside_is_untouched();
}
