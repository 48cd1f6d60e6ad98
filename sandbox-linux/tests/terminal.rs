//! A pseudo-terminal as the standard streams of a command, from a program with many threads: what an
//! interactive shell needs works, and nothing of the caller's own terminal can be reached.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can't go on fails, and starts itself again as another user"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, Permissions, TerminalSize};
use stockade_sandbox_linux::{Bwrap, LandlockOnly, Native};
use stockade_sandboxing::{Backend, CommandSpec, Running, Stdio, Streams, Terminal, WaitStatus, resize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{SignalKind, signal};

const SIZE: TerminalSize = TerminalSize { rows: 37, columns: 91 };
const LONG: Duration = Duration::from_secs(60);

/// The person's side: types, and sees what is printed.
struct Screen {
    ours: OwnedFd,
    seen: Arc<Mutex<String>>,
}

impl Screen {
    /// A command on a terminal of its own.
    fn start(engine: &dyn Backend, argv: &[&str]) -> (Self, Box<dyn Running>) {
        let terminal = Terminal::open(SIZE).unwrap();
        let plan = engine.compile(&command(argv), &permissions()).unwrap();
        let running = plan.spawn(stdio(&terminal)).unwrap();
        (Self::watch(terminal), running)
    }

    fn watch(terminal: Terminal) -> Self {
        let Terminal { ours, theirs } = terminal;
        // The command has it now: while it is open here as well, its end would go unnoticed.
        drop(theirs);
        let seen = Arc::new(Mutex::new(String::new()));
        let (reader, writer) = (ours.try_clone().unwrap(), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = rustix::io::read(&reader, &mut bytes) {
                let text = String::from_utf8_lossy(bytes.get(..count).unwrap()).into_owned();
                writer.lock().unwrap().push_str(&text);
            }
        });
        Self { ours, seen }
    }

    fn type_in(&self, text: &str) {
        assert_eq!(rustix::io::write(&self.ours, text.as_bytes()).unwrap(), text.len());
    }

    fn all(&self) -> String {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until something is printed, and forgets what was printed up to it.
    fn shows(&self, text: &str) {
        let end = Instant::now() + LONG;
        loop {
            let mut seen = self.seen.lock().unwrap();
            if let Some(at) = seen.find(text) {
                seen.drain(..at + text.len());
                return;
            }
            drop(seen);
            assert!(Instant::now() < end, "`{text}` is not shown, but:\n{}", self.all());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A line for the shell once it asks for one, and what has to be shown then. The line itself is shown
    /// as well, so the two must differ.
    fn line(&self, line: &str, shows: &str) {
        assert!(!line.contains(shows), "{line}");
        self.shows("prompt: ");
        self.type_in(&format!("{line}\n"));
        self.shows(shows);
    }
}

fn stdio(terminal: &Terminal) -> Stdio {
    let end = || Streams::To(terminal.theirs.try_clone().unwrap());
    Stdio { stdin: end(), stdout: end(), stderr: end(), controlling_terminal: true }
}

fn command(argv: &[&str]) -> CommandSpec {
    let variables = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("PS1", "prompt: "), ("TERM", "dumb"), ("HOME", "/")];
    CommandSpec {
        argv: Argv::parse(argv.iter().copied()).unwrap(),
        cwd: AbsPath::parse("/").unwrap(),
        environment: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect::<BTreeMap<_, _>>(),
        process: Default::default(),
    }
}

fn permissions() -> Permissions {
    let rule = FileRule::path("/".parse().unwrap(), Access::Read);
    Permissions { files: FileRules::new([rule]).unwrap(), ..Permissions::default() }
}

fn engines() -> [(&'static str, Box<dyn Backend>); 3] {
    [
        ("native", Box::new(Native::new())),
        ("bwrap", Box::new(Bwrap::new())),
        ("landlock", Box::new(LandlockOnly::new())),
    ]
}

fn ends(running: &mut dyn Running) -> WaitStatus {
    running.wait(Some(LONG)).unwrap().unwrap_or_else(|| panic!("it does not end"))
}

/// With the default signals: the tests may be run in the background, by a shell that has its jobs ignore `SIGINT`.
const SHELL: &[&str] = &["env", "--default-signal", "sh", "-i"];

/// A shell as a person uses it.
fn shell_works(name: &str, screen: &Screen, running: &mut dyn Running) {
    screen.line("test -t 0 && test -t 1 && test -t 2 && echo 'is a' terminal", "is a terminal");
    screen.line("stty size", "37 91");
    screen.line(
        "sh -c 'trap \"echo has changed; exit\" WINCH; echo 'wait'ing; while :; do sleep 0.05; done'",
        "waiting\r\n",
    );
    resize(&screen.ours, TerminalSize { rows: 11, columns: 22 }).unwrap();
    screen.shows("has changed\r\n");
    screen.line("stty size", "11 22");
    screen.line("echo to 'the' terminal > /dev/tty", "to the terminal");
    // The shell leads a session, and its process group is the one that the terminal talks to.
    screen.line("sh -c 'set -- $(cat /proc/$PPID/stat); echo leads $(($6 - $1)) $(($5 - $1))'", "leads 0 0");
    // Interrupting ends what runs in front, and not the shell.
    screen.line("sh -c 'echo in 'front'; exec sleep 1000'", "in front\r\n");
    screen.type_in("\x03");
    screen.line("echo interrupted $?", "interrupted 130");
    // So does stopping, and what was stopped can be had back.
    screen.line("sh -c 'echo in 'front'; exec sleep 1000'", "in front\r\n");
    screen.type_in("\x1a");
    screen.shows("Stopped");
    screen.line("kill %1; fg; echo ended $?", "ended 143");
    // Typing into the terminal in the person's place is refused.
    let typing = "perl -e '$c = \"x\"; print ioctl(STDIN, 0x5412, $c) ? \"typed\" : \"not typed: $!\", \"\\n\"'";
    screen.line(typing, "not typed: Operation not permitted");
    // It has a name, by which it can be opened. A session's view is built before the terminal is known.
    match name {
        "native" | "bwrap" => {
            screen.line("echo is $(tty)", "is /dev/console");
            screen.line("echo by its 'name' > $(tty)", "by its name");
        }
        "landlock" => screen.line("echo is $(tty)", "is /dev/pts/"),
        _ => screen.line("echo is $(tty)", "is not a tty"),
    }
    // It can have terminals of its own, and sees no others.
    if name != "landlock" {
        screen.line("ls /dev/pts; echo end of list", "ptmx\r\nend of list");
        screen.line("script -qc 'tty; ls /dev/pts' /dev/null", "/dev/pts/0\r\n0  ptmx");
    }
    screen.line("exit 7", "\r\n");
    assert_eq!(ends(running), WaitStatus::Exited(7), "{}", screen.all());
}

#[test]
fn an_interactive_shell_works() {
    for (name, engine) in engines() {
        println!("{name}");
        let (screen, mut running) = Screen::start(&*engine, SHELL);
        shell_works(name, &screen, &mut *running);
    }
}

#[test]
fn an_interactive_shell_works_in_a_session() {
    let session = Native::new().session(&permissions()).unwrap();
    for _ in 0..2 {
        let terminal = Terminal::open(SIZE).unwrap();
        let mut running = session.spawn(&command(SHELL), stdio(&terminal)).unwrap();
        shell_works("session", &Screen::watch(terminal), &mut *running);
    }
}

/// Closing the terminal hangs up on the command.
#[tokio::test]
async fn closing_the_terminal_ends_the_command() {
    // A signal that the caller ignores stays ignored in the command, and the tests may be run by `nohup`.
    let _handled = signal(SignalKind::hangup()).unwrap();
    for (name, engine) in engines() {
        let terminal = Terminal::open(SIZE).unwrap();
        let plan = engine.compile(&command(&["sh", "-c", "echo ready; sleep 1000"]), &permissions()).unwrap();
        let mut running = plan.spawn(stdio(&terminal)).unwrap();
        drop(terminal);
        assert_eq!(ends(&mut *running), WaitStatus::Signaled(libc::SIGHUP), "{name}");
    }
}

/// Without asking for it, a terminal that is passed on is a stream like any other.
#[test]
fn a_terminal_is_taken_only_when_asked_for() {
    for (name, engine) in engines() {
        let terminal = Terminal::open(SIZE).unwrap();
        // Without a view of its own, `landlock` shows the host's names.
        let named = if name == "landlock" { "" } else { "test ! -e /dev/console || echo 'a name';" };
        let script =
            format!("test -t 1 && echo a stream; {named} (echo reached > /dev/tty) 2>/dev/null || echo 'no terminal'");
        let plan = engine.compile(&command(&["sh", "-c", &script]), &permissions()).unwrap();
        let mut running = plan.spawn(Stdio { controlling_terminal: false, ..stdio(&terminal) }).unwrap();
        let screen = Screen::watch(terminal);
        screen.shows("a stream\r\nno terminal");
        assert_eq!(ends(&mut *running), WaitStatus::Exited(0), "{name}: {}", screen.all());
    }
}

/// What can't be a controlling terminal is an error before anything runs.
#[test]
fn a_pipe_is_no_terminal() {
    for (name, engine) in engines() {
        let plan = engine.compile(&command(&["sh", "-c", "true"]), &permissions()).unwrap();
        let error = plan.spawn(Stdio { controlling_terminal: true, ..Stdio::default() }).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("Inappropriate ioctl"), "{name}: {error}: {cause}");
    }
}

/// Commands that were started by a thread go on when that thread has ended, and a task that is told to
/// cancel one ends it and all that it has started.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_task_waits_for_commands_and_cancels_them() {
    for (salt, (name, engine)) in (1..).zip(engines()) {
        let engine: Arc<dyn Backend> = Arc::from(engine);
        let tasks = (0..8).map(|number| tokio::spawn(wait_or_cancel(Arc::clone(&engine), name, salt, number)));
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
}

async fn wait_or_cancel(engine: Arc<dyn Backend>, name: &str, salt: u32, number: u32) {
    let nap = format!("{}{salt}{number}", 20_000 + std::process::id());
    let cancelled = number % 2 == 1;
    let script = if cancelled {
        format!("(setsid sleep {nap} &); echo ready; sleep {nap}")
    } else {
        String::from("echo ready; exit 5")
    };
    // A thread of its own, which is gone before the command has ended.
    let start = std::thread::spawn(move || Screen::start(&*engine, &["sh", "-c", &script]));
    let (screen, mut running) = tokio::task::spawn_blocking(|| start.join().unwrap()).await.unwrap();
    let readable = running.readable().try_clone_to_owned().unwrap();
    #[allow(deprecated, reason = "its successor is unsafe, and the descriptor is borrowed from one that outlives it")]
    let ended = AsyncFd::with_interest(readable.as_fd(), Interest::READABLE).unwrap();
    tokio::select! {
        ready = ended.readable() => assert!(!cancelled && ready.is_ok(), "{name}"),
        () = tokio::time::sleep(if cancelled { Duration::from_millis(300) } else { LONG }) => {
            assert!(cancelled, "{name}: {}", screen.all());
            running.kill().unwrap();
            ended.readable().await.unwrap().retain_ready();
        }
    }
    // Told that it would not block, it does not.
    let status = running.wait(Some(Duration::ZERO)).unwrap();
    assert_eq!(status, Some(if cancelled { WaitStatus::Signaled(9) } else { WaitStatus::Exited(5) }), "{name}");
    screen.shows("ready");
    assert!(!is_running(&nap), "{name}: something is left");
}

fn is_running(word: &str) -> bool {
    let lines = fs::read_dir("/proc").unwrap().flatten().map(|entry| fs::read(entry.path().join("cmdline")));
    lines.flatten().any(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
}

/// All of the above once more.
#[test]
fn all_works_for_an_ordinary_user() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let directory = tempfile::Builder::new().prefix("terminal").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy: PathBuf = directory.path().join("terminal");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy)
        .current_dir("/")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}
