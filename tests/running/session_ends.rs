//! Ends of sessions and of their commands, and what a caller is told of them.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::home::said;
use super::sessions::Sessions;
use crate::support::{program, text};

/// Waits until a command of a session has made a file.
fn until_exists(sessions: &Sessions, file: &str) {
    let begun = Instant::now();
    while !sessions.home.exists(file) {
        assert!(begun.elapsed() < Duration::from_secs(60), "`{file}` was not made");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn started(sessions: &Sessions, words: &[&str]) -> Child {
    let mut command = sessions.stockade(&[&["run", "--session", "s"], words].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_exists(sessions, "ws/up");
    std::fs::remove_file(sessions.home.path("ws/up")).unwrap();
    child
}

/// A command whose session is ended did not take too long.
#[test]
fn the_end_of_a_session_is_no_timeout() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    for json in [false, true] {
        let options: &[&str] = if json { &["--json"] } else { &[] };
        let child = started(&sessions, &[options, &["-c", "echo > up; sleep 60"]].concat());
        sessions.says(&["session", "end", "s"], 0);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(143), "{}", text(&output.stderr));
        if json {
            let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let reason = told["cancelled"]["reason"].as_str().unwrap();
            assert!(reason.starts_with("its session was ended"), "{told}");
        } else {
            let told = text(&output.stderr);
            assert!(told.contains("stockade: the command was ended: its session was ended"), "{told}");
            assert!(!told.contains("too long"), "{told}");
        }
    }
    // A shell's name ends by a signal, as a shell would.
    std::os::unix::fs::symlink("stockade", sessions.home.path("stockade-sh")).unwrap();
    sessions.runs("true", 0);
    let mut command = program(sessions.home.path("stockade-sh"));
    sessions.home.surround(&mut command);
    command.env("XDG_RUNTIME_DIR", sessions.home.path("run")).env("STOCKADE_SESSION", "s");
    let mut child = command.args(["-c", "echo > up; sleep 60"]).stderr(Stdio::null()).spawn().unwrap();
    until_exists(&sessions, "ws/up");
    sessions.says(&["session", "end", "s"], 0);
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15), "{status:?}");
    // One that does take too long, still does.
    sessions.runs("true", 0);
    let told = sessions.says(&["run", "--session", "s", "--timeout", "300ms", "--", "sleep", "60"], 124).stderr;
    assert!(told.contains("too long"), "{told}");
    let told = sessions.says(&["audit", "list", "--result", "cancelled"], 0).stdout;
    assert_eq!(told.lines().filter(|line| line.contains("sleep 60")).count(), 3, "{told}");
}

/// What is advised after a denial works in a session, where flags are refused.
#[test]
fn a_denial_in_a_session_advises_what_works_there() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let line = "echo x > ../outside/x";
    let told = sessions.runs(line, 1).stderr;
    let (_, advice) = told.rsplit_once("; ").unwrap();
    let typed: Vec<&str> = advice.split('`').skip(1).step_by(2).collect();
    let [end, flags] = typed.as_slice() else { panic!("{told}") };
    assert_eq!(*end, "stockade session end s", "{told}");
    let flags: Vec<&str> = flags.split(' ').collect();
    let again = [&["run", "--session", "s"], flags.as_slice(), &["-c", line]].concat();
    said(&mut sessions.stockade(&again), 125);
    let end: Vec<&str> = end.split(' ').skip(1).collect();
    sessions.says(&end, 0);
    said(&mut sessions.stockade(&again), 0);
    sessions.runs(line, 0);
}
