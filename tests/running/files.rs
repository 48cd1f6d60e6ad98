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
            "stockade: writing `{0}/x` was denied: `/` may only be read; \
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
        ("mkdir .codex", format!("writing `{workspace}/.codex` was denied: {missing}")),
        ("mkdir -p .codex/a/b", format!("writing `{workspace}/.codex` was denied: {missing}")),
        // The name that is printed is not where it leads.
        (
            "touch link/x",
            format!("writing `{outside}/x` was denied: `/` may only be read; `--writable {outside}` would allow it"),
        ),
        (
            "unshare -Ur true",
            String::from(
                "the system call `unshare` was denied: no sandboxed command may use it; nothing less than `--sandbox danger-full-access` would allow it",
            ),
        ),
        (
            "nc -U socket",
            String::from(
                "the system call `socket` was denied: only internet sockets are allowed; `--allow-socket PATH` grants a unix socket",
            ),
        ),
        // The port is the command's own where the message has none.
        (
            "curl -sS http://name.test/",
            String::from(
                "connecting to `name.test:80` was denied: nothing grants it; `--allow-host name.test:80` would allow it",
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
    let told = home.runs_in(Path::new("/"), &[], "touch stockade-was-here", 125);
    assert!(told.stderr.contains("`/` can't be the workspace"), "{}", told.stderr);
    assert!(!Path::new("/stockade-was-here").exists());
    home.runs_in(&directory, &["--workspace", "."], "touch .profile", 0);
    assert!(home.exists("home/.profile"));
    for (link, target) in [("to-home", directory.as_path()), ("to-root", Path::new("/"))] {
        std::os::unix::fs::symlink(target, home.path("ws").join(link)).unwrap();
        let told = home.runs(&["--workspace", link], "touch ~/.bashrc", 125);
        assert!(told.stderr.contains(&format!("`{link}` links to")), "{}", told.stderr);
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

/// The working directory names nothing: what is masked or protected, or holds a home, is no workspace.
#[test]
fn a_directory_that_must_not_be_written_is_no_workspace() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        home.write("home/.ssh/id", "hunter2");
        home.write("home/.config/gh/hosts.yml", "hunter2");
        home.write("config/stockade/rules/x.rules", "");
        for directory in ["ws/.git/hooks", "ws/.claude/a", "ws/.stockade", "ws/a/.codex"] {
            std::fs::create_dir_all(home.path(directory)).unwrap();
        }
        home.give_to_user();
        for (directory, reason) in [
            ("home/.ssh", "holds credentials"),
            ("home/.config/gh", "holds credentials"),
            ("ws/.git", "`.git` is protected"),
            ("ws/.git/hooks", "`.git` is protected"),
            ("ws/.claude/a", "`.claude` is protected"),
            ("ws/.stockade", "`.stockade` is protected"),
            ("ws/a/.codex", "`.codex` is protected"),
            ("config/stockade/rules", "holds Stockade's own files"),
            (".", "contains the home directory"),
        ] {
            let here = home.path(directory).canonicalize().unwrap();
            let told = home.runs_in(&here, &[], "cat id; cat hosts.yml; touch here", 125);
            let expected = format!("stockade: `{}` can't be the workspace: ", here.display());
            assert!(told.stderr.contains(&expected) && told.stderr.contains(reason), "{directory}: {}", told.stderr);
            let remedy = format!("`--workspace {}`", here.display());
            assert!(told.stderr.contains(&remedy), "{directory}: {}", told.stderr);
            assert!(!told.stdout.contains("hunter2") && !here.join("here").exists(), "{directory}");
            let told = home.says_in(&here, &["explain", "--", "true"], 125);
            assert!(told.stderr.contains(&expected), "{directory}: {}", told.stderr);
        }
        // Nothing is written there, so there is nothing to be refused; what is masked stays so.
        let told = home.runs_in(&home.path("home/.ssh"), &["--sandbox", "read-only"], "cat id", 1);
        assert!(!told.stdout.contains("hunter2"));
        // Named by hand, it is meant; what lies inside a home stays masked.
        home.runs_in(&home.path("ws/.git"), &["--workspace", "."], "touch hooks/x", 0);
        let line = "cat .ssh/id .config/gh/hosts.yml; echo x > .ssh/authorized_keys; touch .profile";
        let told = home.runs_in(&home.path("home"), &["--workspace", "."], line, 0);
        assert!(!told.stdout.contains("hunter2") && !home.exists("home/.ssh/authorized_keys"), "{}", told.stdout);
        assert!(home.exists("home/.profile"));
    }
}

/// What an earlier command did to the tree does not take the protection from a nested repository.
#[test]
fn a_command_cannot_hide_a_nested_repository_from_the_next_run() {
    let home = Home::of(User::Ordinary);
    for directory in ["ws/sub/.git/hooks", "ws/worktree", "ws/a/b/c/d/gd/hooks", "ws/z/.git/hooks"] {
        std::fs::create_dir_all(home.path(directory)).unwrap();
    }
    home.write("ws/worktree/.git", "gitdir: ../a/b/c/d/gd\n");
    home.give_to_user();
    let hide = "chmod 0311 sub; chmod 0 a/b/c/d; i=0; while [ $i -lt 400 ]; do mkdir $i; i=$((i+1)); done; \
                mkdir -p p/.git; mkfifo p/.git/commondir";
    home.runs(&[], hide, 0);
    let plant = "chmod 755 sub a/b/c/d; for d in sub/.git a/b/c/d/gd z/.git; do echo x > $d/hooks/pre-commit; done; \
                 mv a/b/c/d a/b/c/e; mv sub sub2; exit 0";
    home.runs(&[], plant, 0);
    for hook in ["ws/sub/.git", "ws/a/b/c/d/gd", "ws/z/.git"] {
        assert!(home.exists(hook) && !home.exists(&format!("{hook}/hooks/pre-commit")), "{hook}");
    }
    home.runs(&[], "chmod 0311 .", 0);
    let told = home.runs(&[], "true", 125);
    assert!(told.stderr.contains("can't be listed; open it with `chmod u+rx "), "{}", told.stderr);
}

/// What an earlier command did to the tree does not bring back into sight what a glob denies.
#[test]
fn a_command_cannot_hide_a_match_from_the_next_run() {
    let home = Home::of(User::Ordinary);
    for file in ["ws/shut/a.pem", "ws/seen/deep/a.pem", "ws/far/secret", "ws/dark/secret", "ws/real/x.pem"] {
        home.write(file, "hunter2");
    }
    home.give_to_user();
    let hide = "chmod 0311 shut; chmod 0644 seen; ln -s middle a.pem; ln -s far/secret middle; \
                ln -s dark/secret b.pem; chmod 0 dark; ln -s real way";
    home.runs(&[], hide, 0);
    let denied = ["--deny-read", "**/*.pem", "--deny-read", "way/?.pem"];
    let open = "chmod -R 755 shut seen dark; cat shut/a.pem seen/deep/a.pem a.pem middle far/secret dark/secret way/x.pem; \
                rm -f middle; ln -s nothing middle; mv far far2; mv shut shut2; exit 0";
    for run in 1..=2 {
        let told = home.runs(&denied, open, 0);
        assert!(!told.stdout.contains("hunter2"), "{run}: {}", told.stdout);
        let warning = format!("`{}` is denied as a whole", home.path("ws/shut").display());
        assert!(told.stderr.contains(&warning), "{run}: {}", told.stderr);
    }
    assert!(home.exists("ws/far/secret") && home.exists("ws/shut"));
    assert_eq!(std::fs::read_link(home.path("ws/middle")).unwrap(), Path::new("far/secret"));
    home.runs(&[], "ln -s ../ws c.pem", 0);
    let told = home.runs(&denied, "true", 125);
    assert!(told.stderr.contains("a link that matches leads to it, and it is granted"), "{}", told.stderr);
}
