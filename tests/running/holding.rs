//! A denied write waits, is asked about at the terminal, and is made after a yes: in that one run.

use super::home::{Home, User};
use super::terminal::start;

/// As a package manager does: a cache in the home directory, with a file in it.
const INSTALL: &str = "mkdir -p ~/.cache/tool/entries && echo one > ~/.cache/tool/entries/1 && \
    mv ~/.cache/tool/entries/1 ~/.cache/tool/index && rm -f ~/.cache/tool/none && \
    ln -s index ~/.cache/tool/link && cat ~/.cache/tool/link";

fn home() -> Home {
    let home = Home::of(User::Ordinary);
    std::fs::create_dir(home.path("home/.cache")).unwrap();
    home.give_to_user();
    home
}

fn run<'a>(engine: &'a str, line: &'a str) -> [&'a str; 7] {
    ["run", "--engine", engine, "--", "sh", "-c", line]
}

#[test]
fn a_new_cache_is_asked_about_once_and_written_in_that_run() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let mut screen = start(&home, &run(engine, INSTALL));
        let asked = screen.sees("]? ");
        let tool = home.path("home/.cache/tool").canonicalize().unwrap_or_else(|_| home.path("home/.cache/tool"));
        assert!(asked.contains(&format!("mkdir wants to create {}", tool.display())), "{asked}");
        assert!(!home.exists("home/.cache/tool"), "before the answer");
        screen.types("r");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && rest.ends_with("one\r\n") && !rest.contains("stockade asks"), "{engine}: {rest}");
        assert_eq!(home.read("home/.cache/tool/index"), "one\n");
        let told = home.says(&["audit", "list"], 0).stdout;
        assert!(told.contains("\"asked\":1") && told.contains("\"violations\":0"), "{told}");
        let id = told.split("\"request_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let shown = home.says(&["audit", "show", id.unwrap_or("last")], 0).stdout;
        assert!(
            shown.contains("a person was asked  to create") && shown.contains("yes, until the command ends"),
            "{shown}"
        );
        assert!(shown.contains("written outside of the sandbox, in "), "{shown}");
    }
}

#[test]
fn once_is_asked_again_and_no_is_the_ordinary_error() {
    let home = home();
    let line = "echo 1 > ../outside/a && echo 2 >> ../outside/a; echo code $?";
    let mut screen = start(&home, &run("native", line));
    screen.sees("]? ");
    screen.types("y");
    let asked = screen.sees("]? ");
    assert!(asked.contains("sh wants to write"), "{asked}");
    screen.types("n");
    screen.sees("Why not? (Enter alone gives no reason) ");
    screen.types("\r");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && rest.contains("Read-only file system") && rest.contains("code 2"), "{rest}");
    assert_eq!(home.read("outside/a"), "1\n");
}

/// A no ends the matter: neither is the same asked again, nor is a second run.
#[test]
fn a_no_is_not_asked_again() {
    let line = "echo 1 > ../outside/a; echo 2 > ../outside/b; echo 3 > ~/c; exit 3";
    for (keys, asked_again) in [("n", true), ("x", false), ("q", false)] {
        let home = home();
        let mut screen = start(&home, &run("native", line));
        screen.sees("]? ");
        screen.types(keys);
        if keys == "n" {
            screen.sees("Why not? (Enter alone gives no reason) ");
            screen.types("\r");
        }
        if asked_again {
            let asked = screen.sees("]? ");
            assert!(asked.contains("home/c"), "{asked}");
            screen.types("x");
        }
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 3 && !rest.contains("stockade asks"), "{keys}: {rest}");
        assert!(rest.contains("stockade: writing `"), "{keys}: {rest}");
        assert!(!home.exists("outside/a") && !home.exists("outside/b") && !home.exists("home/c"), "{keys}");
    }
}

/// Neither what programs do without, nor what no answer lifts, nor what another policy only reports.
#[test]
fn what_is_not_to_be_asked_is_not() {
    let home = home();
    home.write("ws/.git/config", "");
    home.write("home/.ssh/id", "");
    home.give_to_user();
    let line = "echo h >> ~/.bash_history; echo x > .git/hook; echo x > ~/.ssh/id; \
        echo x > ~/.config/stockade/rules; mkdir -p /tmp/x/y && echo x > /tmp/x/y/z && true";
    let mut screen = start(&home, &run("native", line));
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && !rest.contains("stockade asks"), "{rest}");
    for ask in ["never", "on-request"] {
        let mut screen = start(&home, &["run", "--ask", ask, "--", "sh", "-c", "echo x > ../outside/x; true"]);
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && !rest.contains("stockade asks"), "{ask}: {rest}");
    }
    assert!(!home.exists("outside/x"));
}

/// The time at the question is not the command's.
#[test]
fn the_clock_stands_still_while_it_is_asked() {
    let home = home();
    let mut screen = start(&home, &["run", "--timeout", "8s", "--", "sh", "-c", "echo x > ../outside/x"]);
    screen.sees("]? ");
    std::thread::sleep(std::time::Duration::from_secs(9));
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("outside/x").as_str()), (0, "x\n"), "{rest}");
}

/// A question goes with the process that waits, and the run with a signal or Ctrl-C.
#[test]
fn a_question_ends_with_its_caller() {
    let home = home();
    let line = "sh -c 'echo x > ../outside/x' & sleep 2; kill -KILL $!; wait $!; echo gone; exit 4";
    let mut screen = start(&home, &run("native", line));
    screen.sees("]? ");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 4 && rest.contains("gone") && !home.exists("outside/x"), "{rest}");
    let mut screen = start(&home, &run("native", "echo x > ../outside/x"));
    screen.sees("]? ");
    screen.types("\u{3}");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code != 0 && !home.exists("outside/x"), "{rest}");
}

/// What is granted is what lies below a directory. Its own name stays what it is, so that a link in its place moves nothing;
/// metadata stays protected in it; and no file in it gets a second name that outlasts the run.
#[test]
fn a_directory_that_is_granted_opens_nothing_else() {
    for engine in ["native", "bwrap"] {
        let home = home();
        home.write("home/.bashrc", "mine\n");
        home.write("home/.cache/tool/env.sh", "mine\n");
        home.write("home/.cache/tool/.git/hooks/.keep", "");
        home.give_to_user();
        let line = "cd ~/.cache; touch tool/a; mv tool other; rmdir tool; rm -rf tool; ln -sfn ~/.bashrc tool; \
            ln ~/.cache/tool/env.sh $OLDPWD/second; echo evil > tool/.git/hooks/post-commit; mkdir tool/.claude; \
            rm tool/env.sh/.; true";
        let mut screen = start(&home, &run(engine, line));
        screen.sees("]? ");
        screen.types("r");
        // The new name of `tool` is beyond the grant.
        screen.sees("]? ");
        screen.types("x");
        screen.ends();
        assert!(home.path("home/.cache/tool").symlink_metadata().unwrap().is_dir(), "{engine}");
        assert_eq!(home.read("home/.bashrc"), "mine\n");
        for planted in
            ["ws/second", "home/.cache/tool/.git/hooks/post-commit", "home/.cache/tool/.claude", "home/.cache/other"]
        {
            assert!(!home.exists(planted), "{engine}: {planted}");
        }
    }
}

/// A directory that holds the home is not offered as a whole.
#[test]
fn a_home_is_not_granted_as_a_whole() {
    let home = home();
    let mut screen = start(&home, &run("native", "touch ~; echo evil > ~/.profile"));
    let asked = screen.sees("]? ");
    assert!(!asked.contains("until the command ends") && asked.contains("[y/n/x/q]? "), "{asked}");
    screen.types("x");
    screen.ends();
    assert!(!home.exists("home/.profile"));
}
