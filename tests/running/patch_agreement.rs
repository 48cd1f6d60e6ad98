//! `explain --path`, `run` and `patch` judge a path alike: a patch is written where a command could write, and no
//! file is read for it that a command could not read.

use std::os::unix::fs::symlink;

use super::home::{Home, User, fed};
use crate::support::text;

/// A workspace with repositories of every kind below it, and rules that lead through links.
fn workspace() -> Home {
    let home = Home::of(User::Ordinary);
    for file in [
        "ws/notes",
        "ws/deep/er/notes",
        "ws/.git/hooks/x",
        "ws/vendor/.git/config",
        "ws/vendor/lib/.git/hooks/x",
        "ws/a/b/c/.git/config",
        "ws/real/hooks/x",
        "ws/common/hooks/x",
        "ws/target/hooks/x",
        "ws/priv/s",
        "ws/open/k.pem",
        "ws/dot/ssh/key",
        "outside/notes",
    ] {
        home.write(file, "one\n");
    }
    home.write("ws/separate/.git", "gitdir: ../real\n");
    home.write("ws/real/commondir", "../common\n");
    std::fs::create_dir(home.path("ws/linked")).unwrap();
    for (target, link) in [
        ("../target", "ws/linked/.git"),
        ("priv", "ws/lp"),
        ("open", "ws/lo"),
        ("../ws/dot/ssh", "home/.ssh"),
        ("deep", "ws/way"),
    ] {
        symlink(target, home.path(link)).unwrap();
    }
    home.give_to_user();
    home
}

/// Paths and what may be done with them.
const TABLE: &[(&str, &str)] = &[
    ("notes", "write"),
    ("deep/er/notes", "write"),
    (".git/hooks/x", "read"),
    ("vendor/.git/config", "read"),
    ("vendor/lib/.git/hooks/x", "read"),
    ("a/b/c/.git/config", "read"),
    ("separate/.git", "read"),
    ("real/hooks/x", "read"),
    ("common/hooks/x", "read"),
    ("linked/.git/hooks/x", "read"),
    ("target/hooks/x", "read"),
    ("../outside/notes", "read"),
    ("priv/s", "none"),
    ("lp/s", "none"),
    ("open/k.pem", "none"),
    ("dot/ssh/key", "none"),
];

fn with_denials<'a>(home: &Home, words: &[&'a str], rest: &[&'a str]) -> std::process::Command {
    let link = home.path("ws/lp");
    let mut command = home.stockade(words);
    command.arg("--deny-read").arg(link).args(["--deny-read", "lo/*.pem"]).args(rest);
    command
}

#[test]
fn all_three_agree_on_every_path() {
    let home = workspace();
    let first = |name: &str| std::fs::read_to_string(home.path("ws").join(name)).unwrap();
    for (path, access) in TABLE {
        let explained = with_denials(&home, &["explain", "--json"], &["--path", path]).output().unwrap();
        let explained: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
        assert_eq!(explained["paths"][0]["access"], *access, "explain: {path}");

        let real = home.path("ws").join(path);
        let given = real.to_str().unwrap().replace("/ws/../", "/");
        let line = first(path);
        let line = line.trim_end();
        let diff = format!("--- {given}\n+++ {given}\n@@ -1 +1 @@\n-{line}\n+two\n");
        let checked = |ask: &str| {
            let mut command = with_denials(&home, &["patch", "--check", "--ask", ask], &["-"]);
            let output = fed(&mut command, diff.as_bytes());
            (output.status.code(), text(&output.stdout) + &text(&output.stderr))
        };
        let (code, told) = checked("never");
        assert_eq!(code, Some(if *access == "write" { 0 } else { 126 }), "patch: {path}: {told}");
        let (code, told) = checked("on-request");
        let expected = match *access {
            "write" => 0,
            "read" => 1,
            _ => 126,
        };
        assert_eq!(code, Some(expected), "patch, if a person can be asked: {path}: {told}");

        let reads = with_denials(&home, &["run"], &["--", "cat", path]).output().unwrap();
        assert_eq!(reads.status.success(), *access != "none", "read by a command: {path}: {}", text(&reads.stderr));
        let writes = with_denials(&home, &["run"], &["--", "sh", "-c", "printf '' >> \"$0\"", path]).output().unwrap();
        assert_eq!(
            writes.status.success(),
            *access == "write",
            "written by a command: {path}: {}",
            text(&writes.stderr)
        );
    }
}

/// Neither form of a patch shows, moves or deletes what a link hides, or adds to it.
#[test]
fn what_a_rule_hides_through_a_link_is_hidden_from_patches() {
    let home = workspace();
    home.write("ws/priv/s", "TOPSECRET\n");
    home.give_to_user();
    for patch in [
        "*** Begin Patch\n*** Delete File: priv/s\n*** End Patch\n",
        "*** Begin Patch\n*** Update File: priv/s\n@@\n-TOPSECRET\n+x\n*** End Patch\n",
        "diff --git a/priv/s b/open.txt\nsimilarity index 100%\nrename from priv/s\nrename to open.txt\n",
        "--- /dev/null\n+++ b/priv/new\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/dot/ssh/authorized_keys\n@@ -0,0 +1 @@\n+x\n",
        "--- /dev/null\n+++ b/vendor/lib/.git/hooks/new\n@@ -0,0 +1 @@\n+x\n",
    ] {
        for words in [&["patch", "--check", "--json"][..], &["patch"]] {
            let output = fed(&mut with_denials(&home, words, &["-"]), patch.as_bytes());
            assert!(matches!(output.status.code(), Some(125 | 126)), "{patch}: {}", text(&output.stdout));
            assert!(!text(&output.stdout).contains("TOPSECRET") || patch.contains("TOPSECRET"), "{patch}");
        }
    }
    assert_eq!(home.read("ws/priv/s"), "TOPSECRET\n");
    let made = ["open.txt", "priv/new", "dot/ssh/authorized_keys", "vendor/lib/.git/hooks/new"];
    assert!(made.iter().all(|name| !home.exists(&format!("ws/{name}"))));
}

/// A guess at what is in a file that may not be read gets the same answer, right or wrong.
#[test]
fn a_refusal_does_not_depend_on_what_may_not_be_read() {
    let home = workspace();
    for path in ["priv/s", "dot/ssh/key", "open/k.pem"] {
        let answers = ["one", "two"].map(|guess| {
            let bodies = [
                format!("--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-{guess}\n+x\n"),
                format!("--- a/{path}\n+++ /dev/null\n@@ -1 +0,0 @@\n-{guess}\n"),
                format!("*** Begin Patch\n*** Update File: {path}\n@@\n-{guess}\n+x\n*** End Patch\n"),
                // Whether a name is taken is not told either.
                format!("--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+{guess}\n"),
            ];
            bodies.map(|body| {
                let asking = ["patch", "--check", "--ask", "on-request"];
                let output = fed(&mut with_denials(&home, &asking, &["-"]), body.as_bytes());
                (output.status.code(), text(&output.stdout), text(&output.stderr))
            })
        });
        let [right, wrong] = answers;
        assert_eq!(right, wrong, "{path}");
        for (code, _, told) in &right {
            assert!(matches!(code, Some(125 | 126)) && !told.contains("unified diff"), "{path}: {code:?} {told}");
        }
    }
}
