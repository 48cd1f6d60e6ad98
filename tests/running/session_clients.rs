//! Clients of sessions that are stopped, that stop, and that are told what others did.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use stockade_tests::screen::Screen;

use super::sessions::Sessions;
use crate::support::{program, text};

const LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program in a terminal, and its process.
fn screen(sessions: &Sessions, line: &str) -> (Screen, Pid) {
    let mut screen = Screen::open();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait", "sh", "-c", "echo pid:$$:; exec \"$@\"", "sh"]);
    command.args(sessions.home.words()).args(["run", "--session", "s", "-c", line]);
    sessions.home.surround(&mut command);
    command.env("XDG_RUNTIME_DIR", sessions.home.path("run")).env("NO_COLOR", "1");
    screen.start(&mut command);
    let shown = screen.sees("started");
    let pid = shown.split(':').nth(1).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).unwrap();
    (screen, pid)
}

/// A client whose terminal shows a command, and that is stopped, holds up its own command and nothing else.
#[test]
fn a_stopped_client_slows_its_own_command_only() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    // It says how far it came.
    let line = "echo started; i=0; while [ $i -lt 500 ]; do printf '%04096d\\n' $i; i=$((i+1)); echo $i > far; done; \
        echo all done";
    let (mut stopped, pid) = screen(&sessions, line);
    kill_process(pid, Signal::STOP).unwrap();
    let far = || {
        let text = std::fs::read_to_string(sessions.home.path("ws/far")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(0)
    };
    let mut before = far();
    until("it goes on", || {
        std::thread::sleep(Duration::from_millis(700));
        let now = far();
        std::mem::replace(&mut before, now) == now && now > 0
    });
    assert!(before < 500, "all of it was taken");
    for number in 0..3 {
        assert_eq!(
            sessions.runs(&format!("echo {number}; head -c 2000000 /dev/zero >&2"), 0).stdout,
            format!("{number}\n")
        );
    }
    assert_eq!(far(), before, "it went on");
    kill_process(pid, Signal::CONT).unwrap();
    stopped.sees("all done");
    assert_eq!(stopped.ends().0, 0);
    assert_eq!(far(), 500);

    // One that stays stopped keeps no session open.
    let (stopped, pid) = screen(&sessions, &line.replace("far", "other"));
    kill_process(pid, Signal::STOP).unwrap();
    until("nothing is printed", || sessions.home.exists("ws/other"));
    let ended = sessions.says(&["session", "end", "s"], 0).stdout;
    assert_eq!(ended, "ended s, and 1 running commands\n");
    sessions.runs("true", 0);
    kill_process(pid, Signal::CONT).unwrap();
    drop(stopped);
}

/// What a reader that goes away does to a command is the same with a session and without one.
#[test]
fn a_reader_that_goes_away_ends_a_command_as_without_a_session() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let stockade = sessions.home.words()[0].display().to_string();
    for line in ["yes", "yes >&2", "trap \"\" PIPE; yes; echo $? > code", "sh -c \"yes; echo \\$? > code\""] {
        let found = ["", "--session s"].map(|options| {
            let mut command = program("bash");
            let pipe = format!(
                "{stockade} run {options} -c '{line}' 2>&1 | head -c 100000 > /dev/null; echo ${{PIPESTATUS[0]}}"
            );
            command.args(["-c", &pipe]);
            sessions.home.surround(&mut command);
            command.env("XDG_RUNTIME_DIR", sessions.home.path("run"));
            let output = command.stdin(Stdio::null()).output().unwrap();
            let code = std::fs::read_to_string(sessions.home.path("ws/code")).unwrap_or_default();
            (text(&output.stdout), code)
        });
        assert_eq!(found[0], found[1], "{line}");
        let is_ended = line.starts_with("yes");
        assert_eq!(found[0].0 != "0\n", is_ended, "{line}");
    }
}

/// `q` says what it does to a session, and the client that pressed it is told what to do next.
#[test]
fn the_prompt_says_that_q_stops_the_session() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let mut screen = sessions.screen(&["run", "--session", "s", "-c", "echo x > ../outside/x"]);
    let shown = screen.sees("]? ");
    assert!(shown.contains("stop the session, for all its clients"), "{shown}");
    screen.types("q");
    let (_, rest) = screen.ends();
    assert!(rest.contains("stockade session end s"), "{rest}");
    let told = sessions.runs("true", 126).stderr;
    assert!(told.contains("stockade session end s"), "{told}");
    sessions.says(&["session", "end", "s"], 0);
    sessions.runs("true", 0);
}

/// A server that answers no `session/close` before it has got all of them.
fn closes_together(socket: &UnixStream, count: usize) -> Vec<String> {
    let mut held: Vec<(Value, String)> = Vec::new();
    for line in BufReader::new(socket).lines() {
        let Ok(line) = line else { break };
        let request: Value = serde_json::from_str(&line).unwrap();
        let id = request.get("id").unwrap().clone();
        let say = |id: &Value, result: Value| {
            let line = json!({"jsonrpc": "2.0", "id": id, "result": result});
            (&*socket).write_all(format!("{line}\n").as_bytes()).unwrap();
        };
        if request.get("method").unwrap() != "session/close" {
            say(&id, json!({}));
            continue;
        }
        held.push((id, request.pointer("/params/session_id").unwrap().as_str().unwrap().to_owned()));
        if held.len() == count {
            held.iter().rev().for_each(|(id, _)| say(id, json!({"ended_commands": 0})));
        }
    }
    held.into_iter().map(|(_, session)| session).collect()
}

/// Several sessions are ended side by side: each takes its time.
#[test]
fn sessions_are_ended_side_by_side() {
    let sessions = Sessions::new();
    let directory = sessions.home.path("run/stockade");
    std::fs::create_dir(&directory).unwrap();
    let private = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    std::fs::set_permissions(&directory, private(0o700)).unwrap();
    let names: Vec<String> = (0..5).map(|number| format!("s{number}")).collect();
    for name in &names {
        let ticket =
            json!({"session_id": name, "capability": "0123456789abcdef".repeat(4), "flags": [], "workspace": []});
        let path = directory.join(format!("{name}.session"));
        std::fs::write(&path, ticket.to_string()).unwrap();
        std::fs::set_permissions(&path, private(0o600)).unwrap();
    }
    let listener = UnixListener::bind(directory.join("serve.sock")).unwrap();
    let count = names.len();
    let server = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        closes_together(&socket, count)
    });
    let ended = sessions.says(&["session", "end", "--all"], 0).stdout;
    assert_eq!(ended.lines().count(), count, "{ended}");
    assert_eq!(server.join().unwrap(), names);
    assert!(sessions.list().is_empty());
}

/// A patch in a session is judged by the session, and a yes for the session holds for the next one.
#[test]
fn an_answer_about_a_patch_lasts_in_a_session() {
    let sessions = Sessions::new();
    let patch = |text: &str| {
        let file = sessions.home.path("outside/file");
        let old = std::fs::read_to_string(&file).unwrap_or_default();
        let before = if old.is_empty() { String::from("/dev/null") } else { file.display().to_string() };
        let (from, lines) = if old.is_empty() { ("0,0", String::new()) } else { ("1", format!("-{old}")) };
        format!("--- {before}\n+++ {}\n@@ -{from} +1 @@\n{lines}+{text}\n", file.display())
    };
    // Without a session there is no next one.
    std::fs::write(sessions.home.path("ws/one.diff"), patch("one")).unwrap();
    let mut screen = sessions.screen(&["patch", "one.diff"]);
    let shown = screen.sees("]? ");
    assert!(!shown.contains("for the rest of this"), "{shown}");
    screen.types("n");
    screen.sees("Why not?");
    screen.types("\r");
    assert_eq!(screen.ends().0, 126);
    let mut screen = sessions.screen(&["patch", "--session", "s", "one.diff"]);
    let shown = screen.sees("]? ");
    assert!(shown.contains("for the rest of this session"), "{shown}");
    screen.types("s");
    assert_eq!(screen.ends().0, 0);
    assert_eq!(sessions.home.read("outside/file"), "one\n");
    // Unasked, without a terminal, by the variable as well, and from a directory below.
    std::fs::write(sessions.home.path("ws/two.diff"), patch("two")).unwrap();
    let told = sessions.says(&["patch", "--session", "s", "--json", "two.diff"], 0).stdout;
    assert!(told.contains("applied"), "{told}");
    std::fs::create_dir(sessions.home.path("ws/below")).unwrap();
    std::fs::write(sessions.home.path("ws/in.diff"), "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+in\n").unwrap();
    let mut command = sessions.stockade(&["patch", "../in.diff"]);
    super::home::said(command.env("STOCKADE_SESSION", "s").current_dir(sessions.home.path("ws/below")), 0);
    assert_eq!(sessions.home.read("ws/below/new"), "in\n");
    assert_eq!(sessions.home.read("outside/file"), "two\n");
}

/// A caller that ignores broken pipes has its commands ignore them, in a session and without one.
#[test]
fn broken_pipes_are_the_callers() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let stockade = sessions.home.words()[0].display().to_string();
    for (before, expected) in [("", "141\n"), ("trap \"\" PIPE;", "1\n")] {
        for options in ["", "--session s"] {
            let mut command = program("bash");
            let line =
                format!("{before} {{ {stockade} run {options} -c 'yes; echo $? > code'; }} | head -c 1000 > /dev/null");
            command.args(["-c", &line]);
            sessions.home.surround(&mut command);
            command.env("XDG_RUNTIME_DIR", sessions.home.path("run"));
            command.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert_eq!(sessions.home.read("ws/code"), expected, "{before} {options}");
        }
    }
}
