//! `stockade patch`: shown, asked about, written.

use stockade_tests::screen::Screen;

use super::home::{Home, User, fed};
use super::terminal::start;
use crate::support::{program, run, text};

const CHANGE: &str = "--- a/notes\n+++ b/notes\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n";

fn home_with_notes() -> Home {
    let home = Home::new();
    home.write("ws/notes", "one\ntwo\n");
    home
}

/// A patch of a file outside of the workspace, by its absolute name.
fn outside(home: &Home) -> String {
    home.write("outside/notes", "one\ntwo\n");
    let path = home.path("outside/notes");
    format!("--- {0}\n+++ {0}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n", path.display())
}

#[test]
fn inside_the_workspace_it_is_written_unasked() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        home.write("ws/notes", "one\ntwo\n");
        home.write("ws/p", &format!("{CHANGE}--- /dev/null\n+++ b/new/file\n@@ -0,0 +1 @@\n+new\n"));
        home.give_to_user();
        let told = home.says(&["patch", "p"], 0);
        let [notes, new] = ["ws/notes", "ws/new/file"].map(|name| home.path(name));
        assert_eq!(told.stdout, format!("changed  {}\nadded    {}\n", notes.display(), new.display()));
        assert_eq!((home.read("ws/notes").as_str(), home.read("ws/new/file").as_str()), ("one\n2\n", "new\n"));
        let trail = home.says(&["audit", "list"], 0).stdout;
        assert!(trail.contains("patch"), "{trail}");
        // Once more it fits no longer, and nothing is half written.
        let told = home.says(&["patch", "p"], 125);
        assert!(told.stderr.contains("hunk 1 does not match"), "{}", told.stderr);
    }
}

#[test]
fn it_comes_from_standard_input_and_answers_in_json() {
    let home = home_with_notes();
    let envelope = "*** Begin Patch\n*** Update File: notes\n@@\n one\n-two\n+2\n*** Delete File: old\n*** End Patch\n";
    home.write("ws/old", "x\n");
    let output = fed(&mut home.stockade(&["patch", "--json", "-"]), envelope.as_bytes());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let paths = [home.path("ws/notes"), home.path("ws/old")];
    assert_eq!(told, serde_json::json!({ "applied": { "paths": paths } }), "{}", text(&output.stderr));
    assert!(home.read("ws/notes") == "one\n2\n" && !home.exists("ws/old"));

    let output = fed(&mut home.stockade(&["patch", "--json", "-"]), outside(&home).as_bytes());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &told["refused"]["by"]), (Some(126), &"approval_policy".into()), "{told}");
    let output = fed(&mut home.stockade(&["patch", "--json", "-"]), b"no patch\n");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(told["error"].as_str().unwrap().contains("*** Begin Patch"), "{told}");
}

#[test]
fn outside_of_the_workspace_it_is_shown_and_asked_about() {
    for (key, written) in [("y", true), ("n\r", false), ("q", false)] {
        let home = home_with_notes();
        home.write("ws/p", &format!("{CHANGE}{}", outside(&home)));
        let mut screen = start(&home, &["patch", "p"]);
        let asked = screen.sees("]? ");
        let path = home.path("outside/notes");
        assert!(asked.contains(&format!("change {}", path.display())), "{asked}");
        assert!(asked.contains("-two\r\n") && asked.contains("+2\r\n"), "{asked}");
        assert_eq!(home.read("ws/notes"), "one\ntwo\n", "before the answer");
        for key in key.chars() {
            screen.types(&key.to_string());
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
        let (exit_code, rest) = screen.ends();
        assert_eq!(exit_code, if written { 0 } else { 126 }, "{key}: {rest}");
        let expected = if written { "one\n2\n" } else { "one\ntwo\n" };
        assert_eq!(
            (home.read("ws/notes").as_str(), home.read("outside/notes").as_str()),
            (expected, expected),
            "{key}"
        );
        assert!(written || rest.contains("nothing was written"), "{rest}");
    }
}

/// The patch comes through a pipe, and the question is asked at the terminal all the same.
#[test]
fn whoever_wants_to_see_every_patch_is_asked_about_each() {
    let home = home_with_notes();
    home.write("ws/p", CHANGE);
    let mut screen = Screen::open();
    let mut command = program("env");
    let line = "cat p | \"$0\" patch --ask untrusted - ";
    command.args(["--default-signal", "setsid", "--ctty", "--wait", "sh", "-c", line]).args(home.words());
    home.surround(&mut command);
    screen.start(command.env("NO_COLOR", "1"));
    let asked = screen.sees("]? ");
    assert!(asked.contains("-two\r\n") && asked.contains("+2\r\n"), "{asked}");
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("ws/notes").as_str()), (0, "one\n2\n"), "{rest}");
}

#[test]
fn a_check_writes_nothing_and_says_what_would_happen() {
    let home = home_with_notes();
    home.write("ws/p", CHANGE);
    let told = home.says(&["patch", "--check", "p"], 0).stdout;
    let path = home.path("ws/notes");
    assert_eq!(told, format!("patch    is written without asking\nchange   {}\n", path.display()));
    assert_eq!(
        home.says(&["patch", "--check", "--ask", "untrusted", "p"], 1).stdout.lines().next(),
        Some("patch    asks first")
    );
    home.write("ws/q", &outside(&home));
    let told = home.says(&["patch", "--check", "--ask", "on-request", "--json", "q"], 1).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["outside"][0], serde_json::json!(home.path("outside/notes")));
    assert!(told["requirement"]["needs_approval"].is_object(), "{told}");
    assert!(home.says(&["patch", "--check", "q"], 126).stdout.contains("is refused"));
    home.write("ws/notes", "three\n");
    home.says(&["patch", "--check", "p"], 125);
    assert_eq!((home.read("ws/notes").as_str(), home.read("outside/notes").as_str()), ("three\n", "one\ntwo\n"));
    assert!(!home.says(&["audit", "list"], 0).stdout.contains("patch"), "a check leaves no record");
}

/// What no command may write, a patch does not write either; what none may read is not read for one.
#[test]
fn a_patch_is_held_as_a_command_is() {
    let home = home_with_notes();
    home.write("config/stockade/config.toml", "[sandbox]\nmode = \"workspace-write\"\n");
    home.write("ws/secret/key", "one\ntwo\n");
    home.write("home/.ssh/id", "key\n");
    std::os::unix::fs::symlink("../outside/notes", home.path("ws/link")).unwrap();
    let _ = outside(&home);
    let change = |path: &str| format!("--- {path}\n+++ {path}\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
    let own = home.path("config/stockade/config.toml");
    let own = own.to_str().unwrap();
    let ssh = home.path("home/.ssh/id");
    for (patch, options, exit_code, says) in [
        (change("secret/key"), &["--deny-read", "secret"][..], 126, "no approval lifts that"),
        (change("link"), &[], 125, "symbolic link"),
        (change("../outside/notes"), &[], 125, "`..`"),
        (
            format!("--- {own}\n+++ {own}\n@@ -1,2 +1,2 @@\n-[sandbox]\n+#\n mode = \"workspace-write\"\n"),
            &["--ask", "on-request"],
            126,
            "own files",
        ),
        (
            String::from("--- /dev/null\n+++ b/.git/hooks/x\n@@ -0,0 +1 @@\n+x\n"),
            &[],
            126,
            "outside of what may be written",
        ),
        (
            format!("*** Begin Patch\n*** Delete File: {}\n*** End Patch\n", ssh.display()),
            &["--ask", "on-request"],
            125,
            "may not be read",
        ),
        (change("notes"), &["--sandbox", "read-only"], 126, "outside of what may be written"),
    ] {
        std::fs::create_dir_all(home.path("ws/.git")).unwrap();
        home.write("ws/p", &patch);
        let told = home.says(&[&["patch"], options, &["p"]].concat(), exit_code);
        assert!(told.stderr.contains(says), "{patch}\n{}", told.stderr);
        assert!(!told.stdout.contains("key") && !told.stderr.contains("key\n"), "{}", told.stderr);
    }
    let untouched = ["ws/notes", "ws/secret/key", "outside/notes"].map(|name| home.read(name));
    assert!(untouched.iter().all(|text| text == "one\ntwo\n") && !home.exists("ws/.git/hooks"));
    assert!(home.exists("home/.ssh/id"));
}

/// What git writes is read as git means it: the same tree comes out.
#[test]
fn diffs_of_git_make_the_same_tree() {
    let home = Home::new();
    let git = |directory: &str, words: &[&str]| {
        let mut command = program("git");
        home.surround(&mut command);
        command.env("GIT_CONFIG_NOSYSTEM", "1").current_dir(home.path(directory));
        command.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]).args(words);
        text(&run(&mut command, 0).stdout)
    };
    let long: String = (0..60).map(|number| format!("line {number}\n")).collect();
    for (name, content) in
        [("long", long.as_str()), ("gone", "a\nb\n"), ("empty", ""), ("no end", "x\ny"), ("ä\t", "1\n")]
    {
        home.write(&format!("ws/{name}"), content);
    }
    git("ws", &["init", "-q"]);
    git("ws", &["add", "."]);
    git("ws", &["commit", "-qm", "one"]);
    git("ws", &["clone", "-q", ".", "../outside/clone"]);
    let changed = long.replace("line 3\n", "line three\n").replace("line 50\n", "") + "last\n";
    home.write("outside/clone/dir/moved", &changed);
    for gone in ["long", "gone", "empty"] {
        std::fs::remove_file(home.path(&format!("outside/clone/{gone}"))).unwrap();
    }
    for (name, content) in [("no end", "x\nz"), ("ä\t", "2\n"), ("new", "n\n"), ("new empty", "")] {
        home.write(&format!("outside/clone/{name}"), content);
    }
    git("outside/clone", &["add", "-A"]);
    git("outside/clone", &["commit", "-qm", "two"]);
    for options in [
        &["diff", "HEAD~"][..],
        &["format-patch", "-1", "--stdout"],
        &["diff", "--no-prefix", "HEAD~"],
        &["diff", "-U0", "HEAD~"],
    ] {
        let patch = git("outside/clone", options);
        let output = fed(&mut home.stockade(&["patch", "-"]), patch.as_bytes());
        if options.contains(&"-U0") {
            // Without context nothing says whether a place is right.
            assert_eq!(output.status.code(), Some(125));
            continue;
        }
        assert_eq!(output.status.code(), Some(0), "{options:?}\n{patch}\n{}", text(&output.stderr));
        run(program("diff").args(["-r", "--exclude=.git"]).arg(home.path("ws")).arg(home.path("outside/clone")), 0);
        git("ws", &["clean", "-qfd"]);
        git("ws", &["checkout", "-q", "."]);
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path("outside/clone/new"), mode).unwrap();
    let patch = git("outside/clone", &["diff"]);
    let output = fed(&mut home.stockade(&["patch", "-"]), patch.as_bytes());
    assert!(output.status.code() == Some(125) && text(&output.stderr).contains("chmod"), "{}", text(&output.stderr));
}
