//! Links that one run could leave behind to lead the next one elsewhere.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::home::{Home, User};

/// A workspace whose directory `data` is a link to `real`, beside `other`.
fn with_link(user: User) -> Home {
    let home = Home::of(user);
    for directory in ["real", "other"] {
        home.write(&format!("ws/{directory}/secret"), &format!("hunter2 of {directory}\n"));
    }
    symlink("real", home.path("ws/data")).unwrap();
    home.give_to_user();
    home
}

/// What the next run denies is what the first one denied, whatever the first command did to the links on the way.
#[test]
fn a_link_on_the_way_to_what_is_denied_cannot_be_led_elsewhere() {
    for denied in ["data/secret", "data/*cret", "data/deep/../secret", "data"] {
        for user in [User::Own, User::Ordinary] {
            let home = with_link(user);
            let swaps =
                "ln -sfn other data; rm -f data; ln -s other data; mv data moved; ln -s other x; mv -T x data; true";
            home.runs(&["--deny-read", denied], swaps, 0);
            assert_eq!(std::fs::read_link(home.path("ws/data")).unwrap(), Path::new("real"), "{denied} {user:?}");
            let told = home.runs(&["--deny-read", denied], "cat real/secret", 1);
            assert!(!told.stdout.contains("hunter2"), "{denied} {user:?}: {}", told.stdout);
        }
    }
}

/// Where `link/..` leads is decided by the link alone, of which nothing is left in the path that is denied.
#[test]
fn a_path_that_goes_back_behind_a_link_is_refused() {
    let home = with_link(User::Ordinary);
    for flag in ["--deny-read", "--writable", "--readable", "--allow-socket", "--rules"] {
        let told = home.runs(&[flag, "data/../other/secret"], "true", 125);
        let remedy = format!("write `{}`", home.path("ws").canonicalize().unwrap().join("other/secret").display());
        assert!(
            told.stderr.contains("`..` behind the link") && told.stderr.contains(&remedy),
            "{flag}: {}",
            told.stderr
        );
    }
    let hook = home.path("ws/data/../../outside/hook");
    home.write("outside/hook", "#!/bin/sh\necho '\"approved\"'\n");
    std::fs::set_permissions(home.path("outside/hook"), std::fs::Permissions::from_mode(0o755)).unwrap();
    for settings in [
        format!("[approver]\nhook = [{hook:?}]\n"),
        format!("[approver]\nhook = [\"/bin/sh\", {hook:?}]\n"),
        format!("[risk]\nhook = [\"/bin/sh\", {hook:?}]\n"),
        format!("[audit]\npath = {:?}\n", home.path("ws/data/../trail")),
        "[sandbox]\nwritable_roots = [\"~/l/../x\"]\n".to_owned(),
    ] {
        symlink("/var", home.path("home/l")).ok();
        home.write("config/stockade/config.toml", &settings);
        let told = home.runs(&[], "true", 125);
        assert!(told.stderr.contains("`..`"), "{settings}: {}", told.stderr);
    }
}
