//! Ends of sessions and of their commands, and what a caller is told of them.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::home::said;
use super::sessions::Sessions;
use crate::serving::abuse::none_left;
use crate::serving::talk::Talk;
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

/// One client too many waits for a place, and is told what to do if there is none.
#[test]
fn one_client_too_many_waits_for_a_place() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let socket = sessions.home.path("run/stockade/serve.sock");
    let mut others: Vec<Talk> = (0..64).map(|_| Talk::at(&socket).initialize(false)).collect();
    let told = sessions.runs("true", 125).stderr;
    assert!(told.contains("run the command without a session"), "{told}");
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        others.truncate(60);
        others
    });
    assert_eq!(sessions.runs("echo served", 0).stdout, "served\n");
    drop(leaves.join().unwrap());
}

#[test]
fn a_name_has_one_form_and_leaves_no_lock() {
    let sessions = Sessions::new();
    for name in [".", "..", "-x", "", "a/b", "a b", "a\nb", "a\u{1b}[1m", &"x".repeat(65)] {
        let told = sessions.says(&["run", &format!("--session={name}"), "--", "true"], 125).stderr;
        assert!(told.contains("letters, digits") && !told.contains('\u{1b}'), "{name:?}: {told}");
        let told = sessions.says(&["session", "show", "--", name], 125).stderr;
        assert!(told.contains("letters, digits"), "{name:?}: {told}");
    }
    let name = "x".repeat(64);
    sessions.says(&["run", "--session", &name, "--", "true"], 0);
    // Several at once open it once.
    let command = || sessions.stockade(&["run", "--session", "many", "--", "true"]).spawn().unwrap();
    let mut children: Vec<Child> = (0..8).map(|_| command()).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(sessions.list().len(), 2);
    let left = std::fs::read_dir(sessions.home.path("run/stockade")).unwrap().flatten();
    let locks: Vec<_> =
        left.map(|entry| entry.file_name()).filter(|name| text(name.as_encoded_bytes()).contains(".lock")).collect();
    assert!(locks.is_empty(), "{locks:?}");
}

/// Client programs that are killed at any moment take their commands along, and hold no name.
#[test]
fn killed_clients_leave_nothing() {
    let sessions = Sessions::new();
    let mark = format!("stockade-killed-{}", std::process::id());
    let line = format!("sleep 300 # {mark}");
    sessions.runs("true", 0);
    let python = |server: &str| {
        format!(
            "import asyncio, stockade\nasync def main():\n  async with stockade.connect({server}) as client, \
             client.open({:?}, linger=0) as session:\n    await session.run(['sh', '-c', {line:?}])\nasyncio.run(main())",
            sessions.home.path("ws"),
        )
    };
    // A server that is there, and one of its own.
    let servers = [
        python(&format!("socket={:?}", sessions.home.path("run/stockade/serve.sock"))),
        python(&format!("program={:?}", sessions.home.path("stockade"))),
    ];
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/python/src");
    for round in 0..50_u64 {
        let mut command = if round % 5 == 4 {
            let mut command = program("python3");
            sessions.home.surround(&mut command);
            command.args(["-c", &servers[usize::from(round % 10 == 9)]]).env("PYTHONPATH", sources);
            command
        } else {
            let mut command = sessions.home.program();
            // Some open the session themselves.
            let name = if round % 5 == 3 { "new" } else { "s" };
            command.args(["run", "--session", name, "--", "sh", "-c", &line]);
            command
        };
        command.env("XDG_RUNTIME_DIR", sessions.home.path("run"));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(if round % 5 == 4 { 150 } else { 0 } + round * 13 % 140));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    none_left(&mark);
    sessions.says(&["run", "--session", "new", "--", "true"], 0);
    sessions.says(&["session", "end", "--all"], 0);
    let verified = sessions.says(&["audit", "verify", "--json"], 0).stdout;
    assert!(verified.contains("\"whole\":true"), "{verified}");
    // No name is held in the workspace, once the last server of a killed client has ended.
    let left = || -> Vec<_> { std::fs::read_dir(sessions.home.path("ws")).unwrap().flatten().collect() };
    let begun = Instant::now();
    while !left().is_empty() || !sessions.list().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?} {:?}", left(), sessions.list());
        std::thread::sleep(Duration::from_millis(50));
    }
}
