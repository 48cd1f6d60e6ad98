//! The recorded session in the README: what the program really shows at a terminal, with what was typed.
//!
//! `scripts/record` writes it anew.

use std::fs;

use rustix::termios::{Winsize, tcsetwinsize};
use stockade_tests::screen::{STRING_ENDED, Screen};

use super::home::Home;
use crate::support::{program, repository};

const BEGIN: &str = "<!-- recording: made by scripts/record -->\n```text\n";
const END: &str = "```\n<!-- end of the recording -->";

/// A denial at a terminal, its question, the answer, and what the trail has of it.
fn record() -> String {
    let home = Home::new();
    home.write("ws/report.txt", "all green\n");
    let mut shown = String::from("~/ws$ stockade run -- cp report.txt ../outside/\n");
    let mut screen = Screen::open();
    tcsetwinsize(&screen.outside, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait"]).args(home.words());
    command.args(["run", "--", "cp", "report.txt", "../outside/"]);
    home.surround(&mut command);
    screen.start(command.env("NO_COLOR", "1"));
    shown += &screen.sees("]? ");
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("outside/report.txt").as_str()), (0, "all green\n"), "{rest}");
    shown += &rest;
    shown += "~/ws$ cat ../outside/report.txt\nall green\n";
    let directory = home.path("");
    let shown = shown
        .replace(STRING_ENDED, "")
        .replace("\r\n", "\n")
        .replace(directory.to_str().unwrap().trim_end_matches('/'), "/home/you");
    // The name of a saved profile depends on the paths in it.
    match shown.split_once("saved-cp-") {
        Some((before, rest)) => {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_hexdigit());
            format!("{before}saved-cp-0a1b2c3d4e5f{rest}")
        }
        None => shown,
    }
}

#[test]
fn the_readmes_recording_is_what_the_program_shows() {
    let path = repository().join("README.md");
    let readme = fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (kept, after) = rest.split_once(END).unwrap();
    let recorded = record();
    if std::env::var_os("STOCKADE_RECORD").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{recorded}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(kept, recorded, "run scripts/record");
}

/// The picture is made of its text.
#[test]
fn the_readmes_picture_is_made_of_its_text() {
    let checked = program(repository().join("scripts/picture")).arg("--check").output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
