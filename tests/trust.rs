//! `stockade trust`, from the outside.

use std::fs;

use crate::support::{run, stockade, text};

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
