//! `stockade trust`, from the outside.

use std::fs;

use crate::support::{run, stockade, text};

/// gm13: a worktree's metadata can name any repository; trust does not follow them.
#[test]
fn trust_does_not_follow_the_metadata_of_a_worktree() {
    let world = tempfile::tempdir().unwrap();
    let rules = "prefix_rule(pattern=[\"ls\"])\n";
    for project in ["trusted", "spoof"] {
        fs::create_dir_all(world.path().join(project).join(".stockade/rules")).unwrap();
        fs::write(world.path().join(project).join(".stockade/rules/a.rules"), rules).unwrap();
    }
    fs::create_dir_all(world.path().join("trusted/.git")).unwrap();
    // The same as a directory named `.git` that is a worktree, and as a file that names one.
    let metadata = world.path().join("spoof/.git/worktrees/x");
    fs::create_dir_all(&metadata).unwrap();
    let shared = world.path().join("trusted/.git").display().to_string();
    fs::write(metadata.join("commondir"), &shared).unwrap();
    fs::write(world.path().join("spoof/.git/commondir"), &shared).unwrap();
    fs::create_dir_all(world.path().join("spoof/below")).unwrap();
    fs::write(world.path().join("spoof/below/.git"), format!("gitdir: {shared}\n")).unwrap();
    let told = |project: &str, arguments: &[&str]| {
        let mut command = stockade();
        command.args(arguments).current_dir(world.path().join(project));
        command.env("XDG_STATE_HOME", world.path().join("state")).env("XDG_CONFIG_HOME", world.path().join("config"));
        let output = run(&mut command, 0);
        text(&output.stdout) + &text(&output.stderr)
    };
    told("trusted", &["trust"]);
    let untrusted = "are not used: look with";
    assert!(!told("trusted", &["explain", "--", "ls"]).contains(untrusted));
    assert!(told("spoof", &["explain", "--", "ls"]).contains(untrusted));
    assert!(!told("spoof", &["trust", "--list"]).contains("spoof"));
}

#[test]
fn a_project_is_trusted_until_it_changes() {
    let world = tempfile::tempdir().unwrap();
    let project = world.path().join("app");
    fs::create_dir_all(project.join(".stockade/rules")).unwrap();
    fs::write(project.join(".stockade/rules/a.rules"), "prefix_rule(pattern=[\"ls\"])\n").unwrap();
    let trust = |arguments: &[&str], exit_code: i32| {
        let mut command = stockade();
        command.arg("trust").args(arguments).current_dir(&project).env("XDG_STATE_HOME", world.path().join("state"));
        let output = run(&mut command, exit_code);
        text(&output.stdout) + &text(&output.stderr)
    };
    assert_eq!(trust(&["--list"], 0), "");
    let told = trust(&[], 0);
    assert!(told.contains("/app is trusted") && told.contains(".stockade/rules/a.rules"), "{told}");
    let listed = trust(&["--list"], 0);
    assert!(listed.ends_with("/app\n"), "{listed}");
    fs::write(project.join(".stockade/rules/a.rules"), "prefix_rule(pattern=[\"rm\"])\n").unwrap();
    let listed = trust(&["--list"], 0);
    assert!(listed.contains("no longer: `.stockade/rules/a.rules` has changed"), "{listed}");
    trust(&["--revoke", "."], 0);
    assert!(trust(&["--revoke", "."], 1).contains("was not trusted"));
    assert_eq!(trust(&["--list"], 0), "");
    assert!(trust(&["nowhere"], 125).contains("nowhere"));
}
