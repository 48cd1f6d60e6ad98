//! What a command may read and write.

use std::path::Path;

use super::home::{Home, User};

/// The story that the program is for, for root and for anybody else.
#[test]
fn the_workspace_is_written_and_nothing_else() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        let line = "echo hi > f; echo x > ../outside/x; status=$?; mkdir .git && echo x > .git/config; exit $status";
        let told = home.runs(&[], line, 2);
        assert_eq!(home.read("ws/f"), "hi\n", "{user:?}");
        assert!(!home.exists("outside/x") && !home.exists("ws/.git/config"), "{user:?}");
        let outside = home.path("outside");
        let denial = format!(
            "stockade: writing `{0}/x` was denied, judging by the output: `/` may only be read; \
             `--writable {0}` would allow it\n",
            outside.display()
        );
        assert!(told.stderr.contains(&denial), "{user:?}: {}", told.stderr);
        home.runs(&["--writable", "../outside"], line, 0);
        assert_eq!(home.read("outside/x"), "x\n", "{user:?}");
        let told = home.runs(&["--sandbox", "read-only"], "echo x > g", 2);
        assert!(told.stderr.contains("was denied") && !home.exists("ws/g"), "{user:?}: {}", told.stderr);
        assert!(home.says(&["audit", "verify"], 0).stdout.contains(" records are whole"), "{user:?}");
    }
}

/// What a command was kept from is said in the words of the policy, whatever words the command has for it.
#[test]
fn denials_are_explained() {
    let home = Home::new();
    std::os::unix::fs::symlink(home.path("outside"), home.path("ws/link")).unwrap();
    let (workspace, outside) = (home.path("ws"), home.path("outside"));
    let (workspace, outside) = (workspace.display(), outside.display());
    let missing = format!(
        "`{workspace}/.codex` is protected from writing; after `mkdir -p {workspace}/.codex`, `--writable \
         {workspace}/.codex` would allow it"
    );
    let cases = [
        // A name that must not be made is taken as long as the command runs, and gone when it has ended.
        ("mkdir .codex", format!("writing `{workspace}/.codex` was denied, judging by the output: {missing}")),
        ("mkdir -p .codex/a/b", format!("writing `{workspace}/.codex/a` was denied, judging by the output: {missing}")),
        // The name that is printed is not where it leads.
        (
            "touch link/x",
            format!(
                "writing `{outside}/x` was denied, judging by the output: `/` may only be read; `--writable {outside}` would allow it"
            ),
        ),
        (
            "unshare -Ur true",
            String::from(
                "the system call `unshare` was denied, judging by the output: no sandboxed command may use it",
            ),
        ),
        (
            "nc -U socket",
            String::from(
                "the system call `socket` was denied, judging by the output: only internet sockets are allowed; `--allow-socket PATH` grants a unix socket",
            ),
        ),
        // The port is the command's own where the message has none.
        (
            "curl -sS http://name.test/",
            String::from(
                "connecting to `name.test:80` was denied, judging by the output: nothing grants it; `--allow-host name.test:80` would allow it",
            ),
        ),
    ];
    for (line, expected) in cases {
        let told = home.runs(&[], &format!("{line} || exit 3"), 3);
        let lines: Vec<&str> = told.stderr.lines().filter(|line| line.starts_with("stockade: ")).collect();
        assert_eq!(lines, [format!("stockade: {expected}")], "{line}: {}", told.stderr);
    }
    // What is there, and granted, was not denied.
    let told = home.runs(&[], "mkdir there; mkdir there || exit 3", 3);
    assert!(told.stderr.contains("exists") && !told.stderr.contains("stockade: "), "{}", told.stderr);
}

/// fs24: where a command starts makes nothing writable.
#[test]
fn a_working_directory_is_no_grant() {
    let home = Home::new();
    let told = home.runs(&["--cwd", "/"], "pwd; touch /stockade-was-here", 1);
    assert_eq!(told.stdout, "/\n");
    assert!(!Path::new("/stockade-was-here").exists());
    home.runs(&["--cwd", "../outside"], "touch here", 1);
    assert!(!home.exists("outside/here"));
    home.runs(&["--cwd", "/"], &format!("touch {}", home.path("ws/there").display()), 0);
    assert!(home.exists("ws/there"));
}

#[test]
fn a_workspace_is_named_in_place_of_the_current_one() {
    let home = Home::new();
    home.runs(&["--workspace", "../outside"], "touch here", 1);
    home.runs(&["--workspace", "../outside"], "touch ../outside/there", 0);
    assert!(!home.exists("ws/here") && home.exists("outside/there"));
    let told = home.runs(&["--workspace", "nowhere"], "true", 125);
    assert!(told.stderr.contains("`nowhere` is no directory"), "{}", told.stderr);
}

#[test]
fn a_home_and_the_root_are_nobodys_workspace() {
    let home = Home::new();
    let directory = home.path("home");
    let told = home.runs_in(&directory, &[], "touch .profile", 1);
    let note = format!("stockade: `{}` is not made writable: start in a project's", directory.display());
    assert!(told.stderr.starts_with(&note) && !home.exists("home/.profile"), "{}", told.stderr);
    let told = home.runs_in(Path::new("/"), &[], "touch stockade-was-here", 1);
    assert!(told.stderr.contains("`/` is not made writable"), "{}", told.stderr);
    assert!(!Path::new("/stockade-was-here").exists());
    home.runs_in(&directory, &["--workspace", "."], "touch .profile", 0);
    assert!(home.exists("home/.profile"));
    for (link, target) in [("to-home", directory.as_path()), ("to-root", Path::new("/"))] {
        std::os::unix::fs::symlink(target, home.path("ws").join(link)).unwrap();
        let told = home.runs(&["--workspace", link], "touch ~/.bashrc", 125);
        assert!(told.stderr.contains(&format!("`{link}` leads to")), "{}", told.stderr);
    }
    assert!(!home.exists("home/.bashrc"));
}

/// fs29: a denied path is the same path in any spelling.
#[test]
fn a_denied_read_holds_in_every_spelling() {
    let home = Home::new();
    home.write("ws/keys/secret", "hunter2");
    home.write("home/vault/secret", "hunter2");
    let absolute = home.path("ws/./keys//secret/");
    for spelling in [
        "keys/secret",
        "./keys//secret",
        "keys/",
        "keys/../keys/secret",
        "../ws/keys/secret/",
        "keys/*",
        "**/secret",
        absolute.to_str().unwrap(),
    ] {
        let told = home.runs(&["--deny-read", spelling], "cat keys/secret", 1);
        assert!(!told.stdout.contains("hunter2"), "{spelling}");
        assert!(
            told.stderr.contains("is denied by the policy, and no approval lifts that"),
            "{spelling}: {}",
            told.stderr
        );
    }
    for spelling in ["~/vault", "~/vault/", "~/./vault//secret"] {
        let told = home.runs(&["--deny-read", spelling], "cat ~/vault/secret", 1);
        assert!(!told.stdout.contains("hunter2"), "{spelling}");
    }
    assert_eq!(home.runs(&[], "cat keys/secret ~/vault/secret", 0).stdout, "hunter2hunter2");
}

#[test]
fn with_readable_directories_nothing_else_is_read() {
    let home = Home::new();
    home.write("outside/a", "a");
    home.write("home/b", "b");
    home.write("ws/c", "c");
    let told = home.runs(&["--readable", "../outside"], "cat ../outside/a c; cat ~/b", 1);
    assert_eq!(told.stdout, "ac");
    assert!(told.stderr.contains("No such file") || told.stderr.contains("denied"), "{}", told.stderr);
    assert_eq!(home.runs(&[], "cat ~/b", 0).stdout, "b");
}

#[test]
fn credentials_are_masked_until_they_are_named() {
    let home = Home::new();
    home.write("home/.ssh/id_ed25519", "hunter2");
    let told = home.runs(&[], "cat ~/.ssh/id_ed25519", 1);
    assert!(told.stderr.contains("holds credentials, which are masked"), "{}", told.stderr);
    assert_eq!(home.runs(&["--readable", "../home/.ssh"], "cat ~/.ssh/id_ed25519", 0).stdout, "hunter2");
}

#[test]
fn every_engine_says_which_layers_held() {
    let home = Home::new();
    for engine in ["native", "bwrap"] {
        let told = home.runs(&["--json", "--engine", engine], "echo x > made; echo x > ../outside/x", 2);
        assert!(told.stdout.contains(&format!("\"engine\": \"{engine}\"")), "{}", told.stdout);
        assert!(home.exists("ws/made") && !home.exists("outside/x"), "{engine}");
        std::fs::remove_file(home.path("ws/made")).unwrap();
    }
    // It can't mask credentials inside of what is read, so little is.
    let options = ["--json", "--engine", "landlock", "--sandbox", "read-only", "--readable", "."];
    let told = home.runs(&options, "echo x > made", 2);
    assert!(told.stdout.contains("\"engine\": \"landlock\"") && !home.exists("ws/made"), "{}", told.stdout);
    let told = home.says(&["run", "--engine", "firejail", "--", "true"], 125);
    assert!(told.stderr.contains("possible values: auto, native, bwrap, landlock"), "{}", told.stderr);
}
