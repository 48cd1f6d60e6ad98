//! `stockade run --session`: what lasts from one command to the next, and what is as without a session.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stockade_tests::screen::Screen;

use super::home::{Home, Said, User, fed, said};
use crate::support::{program, text};

/// A user with sessions, which end with the test.
pub(super) struct Sessions {
    pub(super) home: Home,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.stockade(&["session", "end", "--all"]).output().ok();
    }
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self::of(User::Own)
    }

    pub(super) fn of(user: User) -> Self {
        let home = Home::of(user);
        std::fs::create_dir(home.path("run")).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(home.path("run"), mode).unwrap();
        if user == User::Ordinary && rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(home.path("run"), Some(65534), Some(65534)).unwrap();
        }
        Self { home }
    }

    pub(super) fn stockade(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.stockade(arguments);
        command.env("XDG_RUNTIME_DIR", self.home.path("run"));
        command
    }

    pub(super) fn says(&self, arguments: &[&str], exit_code: i32) -> Said {
        said(&mut self.stockade(arguments), exit_code)
    }

    /// A line in the session `s`.
    pub(super) fn runs(&self, line: &str, exit_code: i32) -> Said {
        self.says(&["run", "--session", "s", "-c", line], exit_code)
    }

    /// The same in a terminal.
    pub(super) fn screen(&self, arguments: &[&str]) -> Screen {
        let mut screen = Screen::open();
        let mut command = program("env");
        command.args(["--default-signal", "setsid", "--ctty", "--wait"]).args(self.home.words()).args(arguments);
        self.home.surround(&mut command);
        command.env("XDG_RUNTIME_DIR", self.home.path("run")).env("NO_COLOR", "1");
        screen.start(&mut command);
        screen
    }

    pub(super) fn list(&self) -> Vec<serde_json::Value> {
        let told = self.says(&["session", "list", "--json"], 0).stdout;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told.get("sessions").unwrap().as_array().unwrap().clone()
    }
}

#[test]
fn private_directories_and_loopback_last_as_long_as_the_session() {
    for user in [User::Own, User::Ordinary] {
        let sessions = Sessions::of(user);
        sessions.home.give_to_user();
        sessions.runs("echo kept > /tmp/x", 0);
        assert_eq!(sessions.runs("cat /tmp/x", 0).stdout, "kept\n");
        assert_eq!(sessions.says(&["run", "--session", "other", "-c", "cat /tmp/x || echo none"], 0).stdout, "none\n");
        let server = "import socket; s = socket.create_server((\"127.0.0.1\", 7002)); open(\"/tmp/up\", \"w\"); \
            c, _ = s.accept(); c.sendall(b\"heard\\n\")";
        let mut running = sessions.stockade(&["run", "--session", "s", "--", "/usr/bin/python3", "-c", server]);
        let mut running = running.spawn().unwrap();
        let client = "until test -e /tmp/up; do sleep 0.05; done; cat < /dev/tcp/127.0.0.1/7002";
        assert_eq!(sessions.runs(client, 0).stdout, "heard\n");
        assert!(running.wait().unwrap().success());
        assert_eq!(sessions.says(&["session", "end", "s"], 0).stdout, "ended s, and 0 running commands\n");
        assert_eq!(sessions.runs("cat /tmp/x || echo gone", 0).stdout, "gone\n");
        assert!(!sessions.home.exists("outside/x"));
    }
}

/// The directory, environment, umask, limits, streams and exit code are the caller's.
#[test]
fn a_command_is_its_callers() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    std::fs::create_dir(sessions.home.path("ws/below")).unwrap();
    let line = "pwd; umask; ulimit -n; echo $ONE; cat; echo told >&2; exit 7";
    let mut command = program("sh");
    let own =
        format!("umask 027; ulimit -n 200; exec {} run --session s -c '{line}'", sessions.home.words()[0].display());
    command.args(["-c", &own]);
    sessions.home.surround(&mut command);
    command.current_dir(sessions.home.path("ws/below")).env("XDG_RUNTIME_DIR", sessions.home.path("run"));
    let output = fed(command.env("ONE", "1"), b"fed\n");
    let below = sessions.home.path("ws/below");
    let expected = format!("{}\n0027\n200\n1\nfed\n", below.display());
    assert_eq!(
        (text(&output.stdout), text(&output.stderr), output.status.code()),
        (expected, "told\n".into(), Some(7))
    );
    for (line, code) in [("kill -TERM $$", 143), ("exec no-such-program", 127), ("exec /etc/passwd", 126)] {
        sessions.runs(line, code);
    }
    sessions.says(&["run", "--session", "s", "--", "no-such-program"], 127);
    sessions.says(&["run", "--session", "s", "--", "/etc/passwd"], 126);
    let told = sessions.says(&["run", "--session", "s", "--json", "--", "sh", "-c", "echo out; exit 3"], 3).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["exited"]["exit_code"], 3, "{told}");
    assert!(told.to_string().contains("out\\n"), "{told}");
    let told = sessions.says(&["run", "--session", "s", "--timeout", "1s", "--", "sleep", "60"], 124);
    assert!(told.stderr.contains("stockade: "), "{}", told.stderr);
    // Much output, whose reader goes away.
    let mut command = sessions.stockade(&["run", "--session", "s", "--", "yes"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn it_is_held_by_the_sandbox() {
    let sessions = Sessions::new();
    sessions.runs("echo in > inside", 0);
    let told = sessions.runs("echo out > ../outside/x", 1);
    assert!(told.stderr.contains("stockade: writing `"), "{}", told.stderr);
    assert!(sessions.home.exists("ws/inside") && !sessions.home.exists("outside/x"));
    let rules = "prefix_rule(pattern = [\"ls\"], decision = \"forbidden\")";
    sessions.home.write("config/stockade/rules/x.rules", rules);
    sessions.runs("ls", 126);
    // Flags can't change a session that is open.
    let told = sessions.says(&["run", "--session", "s", "--sandbox", "danger-full-access", "--", "true"], 125);
    assert!(told.stderr.contains("stockade session end s"), "{}", told.stderr);
    let told = sessions.says(&["run", "--session", "a/b", "--", "true"], 125);
    assert!(told.stderr.contains("letters"), "{}", told.stderr);
}

/// No command, in a session or without one, finds what would let it join a session or answer.
#[test]
fn commands_find_neither_the_socket_nor_a_ticket() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let directory = sessions.home.path("run/stockade");
    assert!(directory.join("serve.sock").exists() && directory.join("s.session").exists());
    assert!(UnixStream::connect(directory.join("serve.sock")).is_ok());
    let connect = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])";
    let directory = directory.to_str().unwrap();
    let line = format!(
        "cat {directory}/s.session; ls -A {directory}; /usr/bin/python3 -c '{connect}' {directory}/serve.sock && echo connected; \
         env | grep -i capab; ls -A /proc/*/fd 2>/dev/null | grep -c nothing"
    );
    for options in [&["--session", "s"][..], &[], &["--writable", "../run"], &["--readable", "/"]] {
        if options == ["--readable", "/"] {
            continue;
        }
        let mut command = sessions.stockade(&[&["run"], options, &["--", "sh", "-c", &line]].concat());
        let output = command.output().unwrap();
        assert_eq!(text(&output.stdout), "0\n", "{options:?}: {}", text(&output.stderr));
    }
    assert!(sessions.home.exists("run/stockade/s.session"));
}

/// A run whose environment does not say where the server is, as after `su` or in a job of cron, hides it all the same.
#[test]
fn a_run_with_another_environment_finds_no_ticket_either() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let directory = sessions.home.path("run/stockade");
    let (ticket, socket) = (directory.join("s.session"), directory.join("serve.sock"));
    assert!(ticket.exists() && socket.exists());
    let (ticket, socket) = (ticket.to_str().unwrap(), socket.to_str().unwrap());
    for without in [&[][..], &["XDG_STATE_HOME"], &["XDG_STATE_HOME", "XDG_CONFIG_HOME"]] {
        let run = |words: &[&str]| {
            let mut command = sessions.home.stockade(&[&["run", "--ask", "never"], words].concat());
            for name in without {
                command.env_remove(name);
            }
            command.output().unwrap()
        };
        let output = run(&["--", "cat", ticket]);
        assert!(output.stdout.is_empty() && !output.status.success(), "{without:?}: {}", text(&output.stdout));
        let output = run(&["--allow-socket", socket, "--", "true"]);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(125) && told.contains("Stockade's own files"), "{without:?}: {told}");
    }
    // Nothing is on record below another home directory, and the directory itself says what it is.
    let mut command = sessions.home.stockade(&["run", "--allow-socket", socket, "--", "true"]);
    let elsewhere = sessions.home.path("outside");
    let told = said(command.env("HOME", &elsewhere).env("XDG_STATE_HOME", elsewhere.join("state")), 125).stderr;
    assert!(told.contains("Stockade's own files"), "{told}");
    // What can't be read could name one more.
    sessions.home.write("state/stockade/servers/broken", "?");
    let told = sessions.home.says(&["run", "--", "true"], 125).stderr;
    assert!(told.contains("servers/broken"), "{told}");
    std::fs::remove_file(sessions.home.path("state/stockade/servers/broken")).unwrap();
}

/// A question is ended by a signal as it is without a session.
#[test]
fn a_signal_ends_a_question_of_a_session() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    for (signal, exit_code) in [(Signal::INT, 130), (Signal::QUIT, 131), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut screen = Screen::open();
        let mut command = program("env");
        command.args(["--default-signal", "setsid", "--ctty", "--wait", "sh", "-c", "echo pid:$$:; exec \"$@\"", "sh"]);
        command.args(sessions.home.words()).args(["run", "--session", "s", "-c", "echo x > ../outside/x"]);
        sessions.home.surround(&mut command);
        command.env("XDG_RUNTIME_DIR", sessions.home.path("run")).env("NO_COLOR", "1");
        screen.start(&mut command);
        let shown = screen.sees("]? ");
        let pid = shown.split(':').nth(1).and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
        let (found, rest) = screen.ends();
        assert_eq!(found, exit_code, "{signal:?}: {rest}");
        assert!(!sessions.home.exists("outside/x"));
    }
}

#[test]
fn a_variable_names_a_session_and_loosens_nothing() {
    let sessions = Sessions::new();
    let run = |name: &str, words: &[&str], code: i32| {
        said(sessions.stockade(&[&["run"], words].concat()).env("STOCKADE_SESSION", name), code)
    };
    run("plain", &["-c", "echo kept > /tmp/x"], 0);
    assert_eq!(run("plain", &["--", "cat", "/tmp/x"], 0).stdout, "kept\n");
    sessions.says(&["run", "--session", "open", "--sandbox", "danger-full-access", "--", "true"], 0);
    let told = run("open", &["-c", "echo out > ../outside/x"], 125);
    assert!(told.stderr.contains("--sandbox") && !sessions.home.exists("outside/x"), "{}", told.stderr);
    // Elsewhere it would grant another workspace.
    let mut command = sessions.stockade(&["run", "-c", "true"]);
    let told = said(command.env("STOCKADE_SESSION", "plain").current_dir(sessions.home.path("outside")), 125);
    assert!(told.stderr.contains("whose workspace is"), "{}", told.stderr);
    // The shell's name takes it, too.
    std::os::unix::fs::symlink("stockade", sessions.home.path("stockade-sh")).unwrap();
    let mut command = program(sessions.home.path("stockade-sh"));
    sessions.home.surround(&mut command);
    command.env("XDG_RUNTIME_DIR", sessions.home.path("run")).env("STOCKADE_SESSION", "plain");
    assert_eq!(said(command.args(["-c", "cat /tmp/x; env | grep STOCKADE"]), 1).stdout, "kept\n");
}

/// A yes for the session is offered, and the next command is not asked about.
#[test]
fn a_yes_for_the_session_holds_for_the_next_command() {
    let sessions = Sessions::new();
    let line = "echo x >> ../outside/x";
    let mut screen = sessions.screen(&["run", "--session", "s", "-c", line]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("wants to create") && asked.contains("outside for the rest of this session"), "{asked}");
    screen.types("s");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, sessions.home.read("outside/x").as_str()), (0, "x\n"), "{rest}");
    let mut screen = sessions.screen(&["run", "--session", "s", "-c", line]);
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, sessions.home.read("outside/x").as_str()), (0, "x\nx\n"), "{rest}");
    let told = sessions.says(&["session", "show", "s"], 0).stdout;
    assert!(told.contains("outside"), "{told}");
    // No is no, and Ctrl-C at the question ends all of it.
    for (key, code) in [("n", 1), ("\u{3}", 1)] {
        let mut screen = sessions.screen(&["run", "--session", "s", "-c", "echo y > ../elsewhere"]);
        screen.sees("]? ");
        screen.types(key);
        if key == "n" {
            screen.sees("Why not?");
            screen.types("\r");
        }
        let (exit_code, rest) = screen.ends();
        assert_eq!((exit_code, sessions.home.exists("elsewhere")), (code, false), "{key:?}: {rest}");
    }
}

#[test]
fn a_terminal_is_as_without_a_session() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let line =
        "test -t 0 && test -t 1 && test -t 2 && stty size; echo ask >/dev/tty; read word; echo got:$word; exit 5";
    let mut screen = sessions.screen(&["run", "--session", "s", "-c", line]);
    screen.sees("40 160");
    screen.sees("ask");
    screen.types("word\r");
    screen.sees("got:word");
    assert_eq!(screen.ends().0, 5);
    // Keys that make signals reach what is in the foreground.
    let mut screen =
        sessions.screen(&["run", "--session", "s", "-c", "trap 'echo trapped; exit 9' INT; echo up; sleep 60 & wait"]);
    screen.sees("up");
    screen.types("\u{3}");
    screen.sees("trapped");
    assert_eq!(screen.ends().0, 9);
    // The size follows.
    let mut screen = sessions.screen(&[
        "run",
        "--session",
        "s",
        "-c",
        "trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.1; done",
    ]);
    screen.sees("up");
    let size = rustix::termios::Winsize { ws_row: 30, ws_col: 90, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&screen.outside, size).unwrap();
    screen.sees("30 90");
    assert_eq!(screen.ends().0, 0);
    // Much is printed, and all of it arrives.
    let mut screen = sessions.screen(&["run", "--session", "s", "-c", "seq 1 20000"]);
    let (exit_code, shown) = screen.ends();
    assert_eq!((exit_code, shown.lines().count()), (0, 20000));
}

#[test]
fn signals_reach_the_command_and_a_killed_client_takes_it_along() {
    let sessions = Sessions::new();
    sessions.runs("true", 0);
    let start = |line: &str| {
        // A shell can't trap what its caller ignores, and the tests may be run by `nohup`.
        let mut command = program("env");
        sessions.home.surround(&mut command);
        command.arg("--default-signal").arg(&sessions.home.words()[0]).args(["run", "--session", "s", "-c", line]);
        command.env("XDG_RUNTIME_DIR", sessions.home.path("run"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut ready = [0; 3];
        child.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
        child
    };
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        let mut child = start(&format!("trap 'exit 9' {name}; echo up; while :; do sleep 0.05; done"));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(9), "{name}");
    }
    let mut child = start("echo up; while :; do date +%s%N > beat; sleep 0.05; done");
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    loop {
        let before = sessions.home.read("ws/beat");
        std::thread::sleep(Duration::from_millis(500));
        if before == sessions.home.read("ws/beat") {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it runs on");
    }
    sessions.runs("true", 0);
}

/// However many want the session at once, there is one server and one session.
#[test]
fn ten_at_once_open_one_session() {
    let sessions = Sessions::new();
    let start = |number: usize| {
        let line = format!("echo {number} >> /tmp/all; sleep 0.2");
        let mut command = sessions.stockade(&["run", "--session", "s", "-c", &line]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let all: Vec<_> = (0..10).map(start).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(sessions.runs("sort -n /tmp/all | tr '\\n' ' '", 0).stdout, "0 1 2 3 4 5 6 7 8 9 ");
    assert_eq!(sessions.list().len(), 1);
    assert_eq!(sessions.list()[0]["name"], "s");
}

/// The server has nothing of the client that started it.
#[test]
fn the_server_outlives_its_first_client_and_holds_nothing_of_it() {
    let sessions = Sessions::new();
    let own = sessions.home.words()[0].display().to_string();
    // The reader of the pipe ends, although the server was started with its other end open as 9.
    let line = format!("{{ {own} run --session s -- true; }} 9>&1 | cat; echo read");
    let mut command = program("setsid");
    command.args(["--wait", "sh", "-c", &line]);
    sessions.home.surround(&mut command);
    command.env("XDG_RUNTIME_DIR", sessions.home.path("run"));
    assert_eq!(said(&mut command, 0).stdout, "read\n");
    assert_eq!(sessions.list().len(), 1);
    assert!(sessions.home.exists("state/stockade/serve.log"));
    let told = sessions.says(&["session", "show", "s", "--json"], 0).stdout;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["name"], &told["approvals"]), (&"s".into(), &serde_json::json!([])), "{told}");
    sessions.says(&["session", "show", "none"], 1);
    sessions.says(&["session", "end", "none"], 1);
    sessions.says(&["session", "end"], 125);
    sessions.says(&["session", "end", "s"], 0);
    assert!(sessions.list().is_empty() && !sessions.home.exists("run/stockade/s.session"));
}

#[test]
fn looking_at_a_session_does_not_end_its_idle_time() {
    let sessions = Sessions::new();
    sessions.says(&["run", "--session", "s", "--", "true"], 0);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let idle = |sessions: &Sessions| {
        let told = sessions.says(&["session", "show", "s", "--json"], 0).stdout;
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["idle_ms"].as_u64().unwrap()
    };
    let (first, second) = (idle(&sessions), idle(&sessions));
    assert!(first >= 1500 && second > first, "{first}, {second}");
    let told = sessions.says(&["session", "show", "s"], 0).stdout;
    assert!(told.contains("sandbox  workspace-write, network off\n"), "{told}");
    sessions.says(&["session", "end", "s"], 0);
}

#[test]
fn a_home_directory_is_no_workspace_unless_it_is_named() {
    let sessions = Sessions::new();
    let home = sessions.home.path("home");
    for (options, variable) in [(&["--session", "flag"][..], ""), (&[], "variable")] {
        let arguments = [&["run"], options, &["-c", "echo planted >> .bashrc"]].concat();
        let run = || {
            let mut command = sessions.stockade(&arguments);
            command.current_dir(&home).env("STOCKADE_SESSION", variable);
            said(&mut command, 1)
        };
        let told = run();
        assert!(told.stderr.contains("is not made writable"), "{}", told.stderr);
        run();
        assert!(!sessions.home.exists("home/.bashrc"));
    }
    let arguments = ["run", "--session", "named", "--workspace", ".", "-c", "echo wanted > notes"];
    said(sessions.stockade(&arguments).current_dir(&home), 0);
    assert_eq!(sessions.home.read("home/notes"), "wanted\n");
}

#[test]
fn an_environment_that_names_other_secrets_needs_a_session_of_its_own() {
    let sessions = Sessions::new();
    sessions.home.write("outside/kube", "secret");
    sessions.runs("true", 0);
    let (kube, other) = (sessions.home.path("outside/kube"), sessions.home.path("ws/other"));
    for (name, value) in [
        ("KUBECONFIG", &kube),
        ("AWS_SHARED_CREDENTIALS_FILE", &kube),
        ("HOME", &other),
        ("XDG_CONFIG_HOME", &other),
        ("XDG_STATE_HOME", &other),
    ] {
        let mut command = sessions.stockade(&["run", "--session", "s", "-c", "cat ../outside/kube; echo > ran"]);
        let output = command.env(name, value).output().unwrap();
        let told = text(&output.stderr);
        assert!(!output.status.success() && told.contains("open another session"), "{name}: {told}");
        assert!(output.stdout.is_empty() && !sessions.home.exists("ws/ran"), "{name}");
    }
    let below = sessions.home.path("home/.kube/other");
    said(sessions.stockade(&["run", "--session", "s", "-c", "true"]).env("KUBECONFIG", below), 0);
}
