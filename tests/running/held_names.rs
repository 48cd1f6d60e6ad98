//! Names that must not be made in a workspace: what stands in for them is gone after a run, and is used again in the next.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;

use super::home::{Home, User};

/// The directories that wait for the next run, with their inodes.
fn waiting(home: &Home) -> BTreeMap<PathBuf, u64> {
    let entries = std::fs::read_dir(home.path("state/stockade/held")).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), std::fs::symlink_metadata(&path).unwrap().ino())).collect()
}

fn names_in(home: &Home) -> Vec<String> {
    let names = [".git", ".agents", ".claude", ".codex", ".gemini", ".mcp.json", ".opencode", ".stockade"];
    names.into_iter().filter(|name| home.exists(&format!("ws/{name}"))).map(str::to_owned).collect()
}

#[test]
fn what_stands_in_for_a_name_is_used_again() {
    for user in [User::Own, User::Ordinary] {
        for engine in ["native", "bwrap"] {
            let home = Home::of(user);
            let run = || home.runs(&["--engine", engine], "mkdir .claude 2> /dev/null; ls -A .codex", 0);
            run();
            let first = waiting(&home);
            assert!(first.len() >= 4, "{engine} as {user:?}: {first:?}");
            assert_eq!(names_in(&home), Vec::<String>::new());
            let changed = || std::fs::metadata(home.path("state/stockade/held")).unwrap().modified().unwrap();
            let before = changed();
            run();
            assert_eq!(waiting(&home), first, "{engine} as {user:?}");
            assert_ne!(changed(), before, "{engine} as {user:?}: they were not moved");
            assert_eq!(names_in(&home), Vec::<String>::new());
        }
    }
}

/// A directory that waits is not put into a workspace once something is in it.
#[test]
fn what_was_planted_in_one_is_not_put_into_the_workspace() {
    let home = Home::of(User::Ordinary);
    home.runs(&[], "true", 0);
    for (path, _) in waiting(&home) {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1700)).unwrap();
        std::fs::write(path.join("settings.json"), "{}").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1500)).unwrap();
    }
    let told = home.runs(
        &[],
        "for name in .git .agents .claude .codex .gemini .mcp.json .opencode .stockade; do ls -A $name; done",
        0,
    );
    assert_eq!(told.stdout, "");
    assert_eq!(names_in(&home), Vec::<String>::new());
}
