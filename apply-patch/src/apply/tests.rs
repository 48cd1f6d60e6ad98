//! Attacks between the steps, which would otherwise need a race.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, FileChange};

use super::*;
use crate::{Roots, prepare};

struct World {
    _directory: tempfile::TempDir,
    workspace: PathBuf,
    outside: PathBuf,
}

impl World {
    /// `one`, `two` and `sub/three` in a workspace, and a directory outside it.
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(directory.path()).unwrap();
        let (workspace, outside) = (real.join("workspace"), real.join("outside"));
        fs::create_dir_all(workspace.join("sub")).unwrap();
        fs::create_dir(&outside).unwrap();
        for name in ["one", "two", "sub/three"] {
            fs::write(workspace.join(name), "old\n").unwrap();
        }
        fs::write(outside.join("three"), "old\n").unwrap();
        Self { _directory: directory, workspace, outside }
    }

    fn path(&self, name: &str) -> AbsPath {
        AbsPath::from_path(&self.workspace.join(name)).unwrap()
    }

    fn update(&self, name: &str) -> FileChange {
        let unified_diff = "@@ -1 +1 @@\n-old\n+new\n".into();
        FileChange::Update { path: self.path(name), unified_diff, move_path: None }
    }

    fn delete(&self, name: &str) -> FileChange {
        FileChange::Delete { path: self.path(name), content: "old\n".into() }
    }

    fn add(&self, name: &str) -> FileChange {
        FileChange::Add { path: self.path(name), content: "new\n".into() }
    }

    fn prepare(&self, changes: &[FileChange]) -> Prepared {
        prepare(changes, &Roots::open([&self.path("")]).unwrap(), |_| true).unwrap()
    }

    /// Every file with its contents, and every directory and link, below a directory.
    fn tree(&self) -> Vec<String> {
        let mut tree = Vec::new();
        list(&self.workspace, &mut tree);
        list(&self.outside, &mut tree);
        tree.sort();
        tree
    }
}

fn list(directory: &Path, tree: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            tree.push(format!("{}/", path.display()));
            list(&path, tree);
        } else if kind.is_symlink() {
            tree.push(format!("{} -> {}", path.display(), fs::read_link(&path).unwrap().display()));
        } else {
            tree.push(format!("{} = {}", path.display(), fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Applies with `attack` at one moment; afterwards the tree has to be as the attacker left it.
fn attack(changes: fn(&World) -> Vec<FileChange>, at: Moment, attack: fn(&World)) -> ApplyError {
    let world = World::new();
    let expected = {
        let untouched = World::new();
        attack(&untouched);
        let names = untouched.workspace.parent().unwrap().to_str().unwrap().to_owned();
        let own = world.workspace.parent().unwrap().to_str().unwrap();
        untouched.tree().into_iter().map(|line| line.replace(&names, own)).collect::<Vec<_>>()
    };
    let mut attacked = 0;
    let result = world.prepare(&changes(&world)).apply_watched(|moment| {
        if moment == at {
            attacked += 1;
            attack(&world);
        }
    });
    let error = result.unwrap_err();
    assert_eq!(attacked, 1, "{error:?}");
    assert_eq!(world.tree(), expected, "{error:?}");
    assert_eq!((&error.written, &error.leftovers), (&vec![], &vec![]), "{error}");
    error
}

fn all(world: &World) -> Vec<FileChange> {
    vec![world.update("one"), world.add("new/deep/four"), world.update("sub/three"), world.delete("two")]
}

fn change(path: &Path) {
    fs::write(path, "theirs\n").unwrap();
}

#[test]
fn a_file_that_changes_at_the_last_moment_stays_and_the_rest_goes_back() {
    let error = attack(all, Moment::Placed(3), |world| change(&world.workspace.join("two")));
    assert!(matches!(*error.cause, PatchError::Changed { .. }), "{error:?}");
    assert_eq!(error.restored.len(), 4, "{error}");
    attack(all, Moment::Placed(2), |world| change(&world.workspace.join("sub/three")));
    attack(all, Moment::Staged, |world| change(&world.workspace.join("one")));
    let error = attack(all, Moment::Checked, |world| change(&world.workspace.join("one")));
    assert_eq!(error.restored.len(), 1, "{error}");
    assert_eq!(error.untouched.len(), 3, "{error}");
}

#[test]
fn the_same_contents_in_another_file_are_noticed() {
    for at in [Moment::Checked, Moment::Staged] {
        attack(all, at, |world| {
            fs::rename(world.workspace.join("one"), world.outside.join("moved")).unwrap();
            fs::write(world.workspace.join("one"), "old\n").unwrap();
        });
    }
}

#[test]
fn a_link_in_the_place_of_a_file_is_neither_followed_nor_removed() {
    for (name, at) in [("one", Moment::Staged), ("sub/three", Moment::Placed(2)), ("two", Moment::Placed(3))] {
        let planted: fn(&World) = match name {
            "one" => |world| link_over(world, "one"),
            "two" => |world| link_over(world, "two"),
            _ => |world| link_over(world, "sub/three"),
        };
        attack(all, at, planted);
    }
}

fn link_over(world: &World, name: &str) {
    fs::remove_file(world.workspace.join(name)).unwrap();
    symlink(world.outside.join("three"), world.workspace.join(name)).unwrap();
}

#[test]
fn a_directory_in_the_place_of_a_file_goes_back_to_its_place() {
    for at in [Moment::Staged, Moment::Checked] {
        attack(all, at, |world| {
            fs::remove_file(world.workspace.join("one")).unwrap();
            fs::create_dir_all(world.workspace.join("one/theirs")).unwrap();
        });
    }
}

#[test]
fn a_new_name_that_is_taken_at_the_last_moment_stays_theirs() {
    let add = |world: &World| vec![world.update("one"), world.add("four")];
    attack(add, Moment::Placed(1), |world| change(&world.workspace.join("four")));
    attack(add, Moment::Staged, |world| symlink(&world.outside, world.workspace.join("four")).unwrap());
}

#[test]
fn a_directory_that_appears_is_not_used() {
    attack(all, Moment::Checked, |world| symlink(&world.outside, world.workspace.join("new")).unwrap());
    attack(all, Moment::Checked, |world| fs::create_dir(world.workspace.join("new")).unwrap());
}

#[test]
fn a_parent_that_is_swapped_while_writing_is_not_followed() {
    // The patch goes on in the directory that was approved, which now has another name.
    let world = World::new();
    world
        .prepare(&[world.update("sub/three")])
        .apply_watched(|moment| {
            if moment == Moment::Checked {
                fs::rename(world.workspace.join("sub"), world.workspace.join("sub2")).unwrap();
                symlink(&world.outside, world.workspace.join("sub")).unwrap();
            }
        })
        .unwrap();
    assert_eq!(fs::read_to_string(world.outside.join("three")).unwrap(), "old\n");
    assert_eq!(fs::read_to_string(world.workspace.join("sub2/three")).unwrap(), "new\n");
}

#[test]
fn what_somebody_else_wrote_after_us_is_kept_and_said() {
    let world = World::new();
    let error = world
        .prepare(&[world.update("one"), world.update("two")])
        .apply_watched(|moment| {
            if moment == Moment::Placed(1) {
                fs::remove_file(world.workspace.join("one")).unwrap();
                change(&world.workspace.join("one"));
                change(&world.workspace.join("two"));
            }
        })
        .unwrap_err();
    assert_eq!(error.written, [world.path("one")]);
    assert_eq!(error.restored, [world.path("two")]);
    assert_eq!(fs::read_to_string(world.workspace.join("one")).unwrap(), "theirs\n");
    assert_eq!(fs::read_to_string(world.workspace.join("two")).unwrap(), "theirs\n");
    // The old file is kept under the reported name.
    let [leftover] = error.leftovers.as_slice() else { panic!("{error}") };
    assert_eq!(fs::read_to_string(leftover.to_host_path().unwrap()).unwrap(), "old\n");
    assert!(error.to_string().contains(&format!("still written: `{}`", world.path("one"))), "{error}");
}

#[test]
fn old_and_temporary_files_are_beside_the_place_and_closed_to_others() {
    let world = World::new();
    let mut seen = Vec::new();
    fs::set_permissions(world.workspace.join("one"), std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let names = |world: &World| -> Vec<String> {
        let entries = fs::read_dir(&world.workspace).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with('.')).collect()
    };
    for _ in 0..2 {
        let prepared = world.prepare(&[world.update("one")]);
        prepared
            .apply_watched(|moment| {
                if moment == Moment::Staged {
                    seen.extend(names(&world));
                    let metadata = fs::symlink_metadata(world.workspace.join(seen.last().unwrap())).unwrap();
                    assert_eq!(metadata.mode(), 0o100_640);
                }
            })
            .unwrap();
        fs::write(world.workspace.join("one"), "old\n").unwrap();
    }
    // Two runs, two names, 128 random bits each.
    assert_eq!(seen.len(), 2);
    assert_ne!(seen.first(), seen.last());
    assert!(seen.iter().all(|name| name.len() == ".stockade-".len() + 32), "{seen:?}");
    assert_eq!(names(&world), Vec::<String>::new());
}
