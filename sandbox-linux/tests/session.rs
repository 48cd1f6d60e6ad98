//! A sandbox that runs many commands: what they share and what not, on the real kernel.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Argv, HostPaths, LayerStatus, PROTECTED_NAMES, SandboxPolicy};
use stockade_sandbox_linux::{Native, Session};
use stockade_sandboxing::{CommandSpec, Running, SpawnError, Stdio, Streams, WaitStatus};

/// Tests look at this program's children, so one has to be alone.
static ALONE: Mutex<()> = Mutex::new(());

/// A workspace with a repository in it, and a session.
struct World {
    directory: tempfile::TempDir,
    session: Session,
    launcher: u32,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir(directory.path().join(".git")).unwrap();
        let workspace = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let permissions = SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace])).unwrap();
        let before = children(std::process::id());
        let session = Native::new().session(&permissions).unwrap();
        let launcher = children(std::process::id()).into_iter().find(|pid| !before.contains(pid)).unwrap();
        Self { directory, session, launcher }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn command(&self, words: &[&str]) -> CommandSpec {
        let cwd = AbsPath::from_path(&self.path("")).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        CommandSpec { argv: Argv::parse(words.iter().copied()).unwrap(), cwd, environment, process: Default::default() }
    }

    fn spawn(&self, script: &str, output: File) -> Box<dyn Running> {
        let stdio = Stdio { stdout: Streams::To(output.into()), ..Stdio::default() };
        self.session.spawn(&self.command(&["bash", "-c", script]), stdio).unwrap()
    }

    fn run(&self, script: &str) -> (WaitStatus, String) {
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut running = self.spawn(script, output.reopen().unwrap());
        let status = running.wait(Some(Duration::from_secs(20))).unwrap();
        (status.unwrap_or_else(|| panic!("`{script}` does not end")), fs::read_to_string(output.path()).unwrap())
    }
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let texts = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts.flat_map(|text| text.split_whitespace().map(|pid| pid.parse().unwrap()).collect::<Vec<u32>>()).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn alone() -> impl Drop {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[test]
fn each_command_has_processes_of_its_own_and_its_own_end() {
    let _alone = alone();
    let world = World::new();
    for code in [0, 7, 255] {
        // The first process and this shell: what the command before has left is gone.
        let script = format!("sleep 1000 & cd /proc; echo $$ [0-9]*; exit {code}");
        assert_eq!(world.run(&script), (WaitStatus::Exited(code), String::from("2 1 2 3\n")));
    }
    assert_eq!(world.run("kill -KILL $$").0, WaitStatus::Signaled(9));
    assert_eq!(world.run("touch /tmp/shared").0, WaitStatus::Exited(0));
    assert_eq!(world.run("test -e /tmp/shared").0, WaitStatus::Exited(0), "private directories are the session's");
}

#[test]
fn every_layer_holds_for_every_command() {
    let _alone = alone();
    let world = World::new();
    for _ in 0..3 {
        let script = "echo x > .git/config; mkdir .codex/x; mv .codex y; : > /etc/x; unshare -n true; exit 5";
        let mut running = world.spawn(script, File::create("/dev/null").unwrap());
        for layer in &running.enforcement().layers {
            assert_eq!(layer.status, LayerStatus::FullyEnforced, "{layer:?}");
        }
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(5)));
        assert!(fs::read_dir(world.path(".git")).unwrap().next().is_none());
        assert!(!world.path("y").exists());
    }
    let facts = "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' /proc/self/status | tr -d '\\n\\t'";
    let (status, text) = world.run(facts);
    assert_eq!(status, WaitStatus::Exited(0));
    assert_eq!(text, "CapEff:0000000000000000CapBnd:0000000000000000NoNewPrivs:1Seccomp:2");
}

#[test]
fn many_at_once_are_kept_apart() {
    let _alone = alone();
    let world = World::new();
    thread::scope(|scope| {
        for number in 0..8 {
            let world = &world;
            scope.spawn(move || {
                for turn in 0..5 {
                    let script = format!("sleep 0.0{turn}; echo {number} {turn}; cd /proc; echo [0-9]*");
                    assert_eq!(world.run(&script).1, format!("{number} {turn}\n1 2\n"));
                }
            });
        }
    });
}

/// A launcher has room for 64. The others wait, without an error.
#[test]
fn more_at_once_than_there_is_room_for_wait_for_it() {
    let _alone = alone();
    let world = World::new();
    thread::scope(|scope| {
        for number in 0..100 {
            let world = &world;
            scope.spawn(move || {
                for _ in 0..2 {
                    assert_eq!(world.run(&format!("sleep 0.2; exit {number}")).0, WaitStatus::Exited(number));
                }
            });
        }
    });
}

#[test]
fn a_command_can_be_signalled_and_killed() {
    let _alone = alone();
    let world = World::new();
    let output = tempfile::NamedTempFile::new().unwrap();
    let script = "trap 'echo caught; exit 3' TERM; echo ready; while :; do sleep 0.01; done";
    let mut running = world.spawn(script, output.reopen().unwrap());
    assert_eq!(running.wait(Some(Duration::from_millis(20))).unwrap(), None);
    eventually("it starts", || fs::read_to_string(output.path()).unwrap() == "ready\n");
    running.signal(15).unwrap();
    assert_eq!(running.wait(Some(Duration::from_secs(10))).unwrap(), Some(WaitStatus::Exited(3)));
    let mut running = world.spawn("sleep 1000", File::create("/dev/null").unwrap());
    running.kill().unwrap();
    assert_eq!(running.wait(Some(Duration::from_secs(10))).unwrap(), Some(WaitStatus::Signaled(9)));
    // Dropping it is the same.
    let first = children(world.launcher);
    drop(world.spawn("sleep 1000", File::create("/dev/null").unwrap()));
    eventually("it ends", || children(world.launcher).iter().all(|child| !first.contains(child)));
    assert_eq!(world.run("exit 4").0, WaitStatus::Exited(4));
}

#[test]
fn a_waiting_process_that_is_killed_is_replaced() {
    let _alone = alone();
    let world = World::new();
    // Before the first command it is being built.
    assert_eq!(world.run("exit 0").0, WaitStatus::Exited(0));
    for code in 0..5 {
        eventually("one waits", || !children(world.launcher).is_empty());
        let waiting = children(world.launcher);
        for child in &waiting {
            let pid = rustix::process::Pid::from_raw((*child).try_into().unwrap()).unwrap();
            // One of them may have been what was left of the command before.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        // One that takes the command while it dies takes the command along.
        eventually("it dies", || children(world.launcher).iter().all(|child| !waiting.contains(child)));
        assert_eq!(world.run(&format!("exit {code}")).0, WaitStatus::Exited(code));
    }
}

#[test]
fn nothing_is_left_of_a_session() {
    let _alone = alone();
    let world = World::new();
    let launcher = world.launcher;
    assert_eq!(world.run("exit 0").0, WaitStatus::Exited(0));
    let mut running = world.spawn("sleep 1000", File::create("/dev/null").unwrap());
    let World { directory, session, .. } = world;
    drop(session);
    assert_eq!(running.wait(Some(Duration::from_millis(50))).unwrap(), None, "what runs may go on");
    running.kill().unwrap();
    assert_eq!(running.wait(Some(Duration::from_secs(10))).unwrap(), Some(WaitStatus::Signaled(9)));
    drop(running);
    let state = || fs::read_to_string(format!("/proc/{launcher}/stat")).unwrap_or_default();
    eventually("the launcher ends", || state().is_empty() || state().contains(") Z "));
    for name in PROTECTED_NAMES.iter().filter(|name| **name != ".git") {
        eventually("the names are free again", || !directory.path().join(name).exists());
    }
}

#[test]
fn a_long_session_does_not_grow() {
    let _alone = alone();
    let world = World::new();
    let size = || {
        let maps = fs::read_to_string(format!("/proc/{}/maps", world.launcher)).unwrap().lines().count();
        maps + fs::read_dir(format!("/proc/{}/fd", world.launcher)).unwrap().count()
    };
    let mut first = None;
    for _ in 0..3 {
        for _ in 0..20 {
            assert_eq!(world.run("exit 0").0, WaitStatus::Exited(0));
        }
        eventually("one waits", || children(world.launcher).len() == 1);
        // What is left of the last commands goes soon. One that stayed for each command would be many.
        let first = *first.get_or_insert_with(size);
        eventually("it is as large as before", || size() <= first + 4);
    }
}

#[test]
fn what_is_not_there_is_not_found() {
    let _alone = alone();
    let world = World::new();
    let mut running = world.session.spawn(&world.command(&["no-such-program"]), Stdio::default()).unwrap();
    let error = running.wait(Some(Duration::from_secs(10))).unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    let gone = CommandSpec { cwd: "/no/such/directory".parse().unwrap(), ..world.command(&["true"]) };
    let error = world.session.spawn(&gone, Stdio::default()).map(drop).unwrap_err();
    assert!(matches!(error, SpawnError::Setup { .. }), "{error}");
    assert_eq!(world.run("exit 0").0, WaitStatus::Exited(0));
}

/// A command's process is confined before its streams are known. One that leads to a file outside of the view
/// gives no more than was opened, although a link of `/proc` leads there past every mount.
#[test]
fn a_file_that_is_read_can_not_be_cut() {
    const CUT: &[&str] = &["perl", "-e", "truncate('/proc/self/fd/0', 0) or die $!"];
    let _alone = alone();
    let outside = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let stdin = || File::open(outside.path()).unwrap();
    let size = || fs::metadata(outside.path()).unwrap().len();
    fs::write(outside.path(), "original").unwrap();
    #[expect(clippy::disallowed_methods, reason = "without a sandbox it works")]
    let bare = std::process::Command::new("perl").args(&CUT[1..]).stdin(stdin()).status().unwrap();
    assert!(bare.success() && size() == 0, "the attack does not work");

    fs::write(outside.path(), "original").unwrap();
    let world = World::new();
    let stdio = Stdio { stdin: Streams::To(stdin().into()), ..Stdio::default() };
    let mut running = world.session.spawn(&world.command(CUT), stdio).unwrap();
    assert_ne!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Exited(0)));
    assert_eq!(size(), 8);
}

/// A command that goes on when its session is let go is still kept from the names that must not be made, and
/// they are gone when it has ended.
#[test]
fn names_are_held_as_long_as_a_command_runs() {
    let _alone = alone();
    let world = World::new();
    let script = "while [ ! -e go ]; do sleep 0.01; done; mkdir .codex || rmdir .codex || echo x > .codex/made";
    let mut running = world.session.spawn(&world.command(&["bash", "-c", script]), Stdio::default()).unwrap();
    let World { directory, session, .. } = world;
    let begun = Instant::now();
    drop(session);
    assert!(begun.elapsed() < Duration::from_millis(500), "whoever lets a session go does not wait for its commands");
    fs::write(directory.path().join("go"), "").unwrap();
    let status = running.wait(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(status, Some(WaitStatus::Exited(1)), "it has made or removed a name");
    eventually("a name is left", || !directory.path().join(".codex").exists());
}

/// While there is no room for another command, a caller is only watched for its end.
#[test]
fn a_full_session_can_be_let_go() {
    let _alone = alone();
    let world = World::new();
    let sleep = world.command(&["sleep", "1000"]);
    let mut running: Vec<_> = (0..64).map(|_| world.session.spawn(&sleep, Stdio::default()).unwrap()).collect();
    let World { directory, session, .. } = world;
    let begun = Instant::now();
    drop(session);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert!(directory.path().join(".codex").exists(), "the names are not held any more");
    running.iter_mut().for_each(|command| command.kill().unwrap());
    drop(running);
    eventually("a name is left", || !directory.path().join(".codex").exists());
}
