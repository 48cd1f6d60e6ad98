//! Directories that a grant adds are protected as the workspace is: their metadata stays as it was.

use std::os::unix::fs::symlink;

use stockade_tests::screen::STRING_ENDED;

use super::home::{Home, User};
use super::terminal::start;

/// Writes a file in the directory outside, then tries to take over what is protected there.
const TAKE_OVER: &str = "echo x > ../outside/f && { echo evil >> ../outside/.claude/settings.json; mkdir ../outside/.git; \
    mkdir ../outside/.codex; mv ../outside/.claude ../outside/moved; echo tried; }";

fn home() -> Home {
    let home = Home::of(User::Ordinary);
    home.write("outside/.claude/settings.json", "{}\n");
    home.give_to_user();
    home
}

fn assert_untouched(home: &Home, how: &str) {
    assert!(home.exists("outside/f"), "{how}: nothing was granted");
    assert_eq!(home.read("outside/.claude/settings.json"), "{}\n", "{how}");
    for name in [".git", ".codex", "moved"] {
        assert!(!home.exists(&format!("outside/{name}")), "{how}: {name}");
    }
    std::fs::remove_file(home.path("outside/f")).unwrap();
}

#[test]
fn a_profile_opens_no_metadata_in_its_directories() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let outside = home.path("outside").display().to_string();
        let text = format!("about = \"x\"\n[[write]]\npath = {outside:?}\nreason = \"because\"\n");
        home.write("config/stockade/profiles/mine.toml", &text);
        home.give_to_user();
        let line = ["run", "--ask", "never", "--engine", engine, "--with", "mine", "--", "sh", "-c", TAKE_OVER];
        assert!(home.says(&line, 0).stdout.contains("tried"));
        assert_untouched(&home, engine);
    }
}

/// The run that asks, and the next one, which is not asked.
#[test]
fn an_answer_for_always_opens_no_metadata() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let line = ["run", "--engine", engine, "--", "sh", "-c", TAKE_OVER];
        let mut screen = start(&home, &line);
        let asked = screen.sees("]? ");
        assert!(asked.contains("  p  yes, and everything in "), "{asked}");
        screen.types("p");
        let (_, rest) = screen.ends();
        assert!(rest.contains("tried"), "{rest}");
        assert_untouched(&home, "asked");
        let line = ["run", "--ask", "never", "--engine", engine, "--", "sh", "-c", TAKE_OVER];
        assert!(home.says(&line, 0).stdout.contains("tried"));
        assert_untouched(&home, "saved");
        // A directory that is made for the command is protected from its first run on.
        std::fs::remove_dir_all(home.path("outside")).unwrap();
        assert!(home.says(&line, 0).stdout.contains("tried"));
        assert_eq!(home.read("outside/f"), "x\n");
        for name in [".claude", ".git", ".codex", "moved"] {
            assert!(!home.exists(&format!("outside/{name}")), "{name}");
        }
    }
}

/// A link that was put in the place of the directory since is not what the answer was about.
#[test]
fn an_answer_for_always_follows_no_link() {
    let home = home();
    let line = "echo x >> ../outside/f";
    let mut screen = start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("]? ");
    screen.types("p");
    assert_eq!(screen.ends().0, 0);
    home.says(&["run", "--ask", "never", "--", "sh", "-c", line], 0);
    assert_eq!(home.read("outside/f"), "x\nx\n");
    std::fs::rename(home.path("outside"), home.path("elsewhere")).unwrap();
    symlink(home.path("elsewhere"), home.path("outside")).unwrap();
    let told = home.says(&["run", "--ask", "never", "--", "sh", "-c", line], 2).stderr;
    assert!(told.contains("by a link that was put there since the answer was saved"), "{told}");
    assert_eq!(home.read("elsewhere/f"), "x\nx\n");
}

/// A control string that the command leaves open does not swallow the question.
#[test]
fn an_open_control_string_is_ended_before_the_question() {
    let home = home();
    for string in ["\\033Px", "\\033]0;x", "\\302\\220x", ""] {
        let line = format!("printf 'go on? [y/n] {string}'; echo x > ../outside/f");
        let mut screen = start(&home, &["run", "--", "sh", "-c", &line]);
        let asked = screen.sees("stockade asks");
        let (_, after) = asked.split_once("[y/n] ").unwrap();
        assert!(after.contains(STRING_ENDED), "{string}: {asked:?}");
        screen.sees("]? ");
        screen.types("x");
        screen.ends();
    }
    assert!(!home.exists("outside/f"));
}
