//! Programs that run elsewhere, with a stub in their place: what the stub holds, what it passes on, and what becomes of
//! programs that can't be started elsewhere.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_protocol::{AbsPath, Argv, HostPaths, Permissions, SandboxPolicy, Umask};
use stockade_sandbox_linux::{Bwrap, Native, Warm};
use stockade_sandboxing::{
    Backend, CommandSpec, Concern, Deciders, DirectoryIdentity, ElsewhereStart, ProcessSettings, ProgramStart, Running,
    SpawnError, StartAnswer, StartCaller, StartCopy, StartKeeper, StartVerdict, Starts, Stdio, WaitStatus,
};

/// Starts programs called `elsewhere` in a sandbox of their own: a shell with their first argument as its line.
#[derive(Default)]
struct Keeper {
    impossible: Arc<Mutex<Vec<String>>>,
}

#[derive(Debug)]
struct Start {
    copy: StartCopy,
    impossible: Arc<Mutex<Vec<String>>>,
}

fn environment() -> BTreeMap<stockade_protocol::RawText, stockade_protocol::RawText> {
    BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())])
}

fn permissions(workspace: &AbsPath) -> Permissions {
    SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace.clone()])).unwrap()
}

impl ElsewhereStart for Start {
    fn start(
        self: Box<Self>,
        stdio: Stdio,
        umask: Option<Umask>,
        directory: DirectoryIdentity,
    ) -> Result<Box<dyn Running>, SpawnError> {
        let line = self.copy.words.get(1).unwrap().to_string();
        let process = ProcessSettings { umask, directory: Some(directory), ..ProcessSettings::default() };
        let argv = Argv::parse(["sh", "-c", &line]).unwrap();
        let command = CommandSpec { argv, cwd: self.copy.cwd, environment: environment(), process };
        let permissions = permissions(&command.cwd);
        Native::new().compile(&command, &permissions)?.spawn(stdio)
    }

    fn impossible(self: Box<Self>, why: String) {
        self.impossible.lock().unwrap().push(why);
    }
}

impl StartKeeper for Keeper {
    fn concerns(&self, name: &[u8]) -> bool {
        name == b"elsewhere"
    }

    fn judge(&self, _: &ProgramStart) -> Concern {
        Concern::Escalate { variables: Vec::new() }
    }

    fn decide(&self, start: ProgramStart, _: StartCaller, answer: StartAnswer) {
        let impossible = Arc::clone(&self.impossible);
        match start.copy {
            Some(copy) => answer.give(StartVerdict::Elsewhere(Box::new(Start { copy, impossible }))),
            None => answer.give(StartVerdict::Refused),
        }
    }

    fn restricts(&self) -> bool {
        false
    }

    fn unreadable(&self, caller: StartCaller) {
        panic!("{caller:?}");
    }
}

struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir(directory.path().join("ws")).unwrap();
        fs::copy("/bin/sleep", directory.path().join("ws/elsewhere")).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    /// Runs a line, and tells how it ended, and what could not be started elsewhere.
    fn run(&self, engine: &dyn Backend, line: &str) -> (Option<WaitStatus>, Vec<String>) {
        let workspace = AbsPath::from_path(&self.path("ws")).unwrap();
        let permissions = permissions(&workspace);
        let process = ProcessSettings { starts: Starts::Judged, ..ProcessSettings::default() };
        let argv = Argv::parse(["bash", "-c", line]).unwrap();
        let command = CommandSpec { argv, cwd: workspace, environment: environment(), process };
        let keeper = Arc::new(Keeper::default());
        let deciders = Deciders { starts: Some(Arc::clone(&keeper) as Arc<dyn StartKeeper>), ..Deciders::default() };
        let plan = engine.compile(&command, &permissions).unwrap();
        let mut running = plan.spawn_guarded(Stdio::inherit(), deciders).unwrap();
        let status = running.wait(Some(Duration::from_secs(120))).unwrap();
        drop(running);
        let impossible = keeper.impossible.lock().unwrap().clone();
        (status, impossible)
    }
}

fn engines() -> [Box<dyn Backend>; 3] {
    [Box::new(Native::new()), Box::new(Bwrap::new()), Box::new(Warm::new(Box::new(Native::new())))]
}

const WELL: Option<WaitStatus> = Some(WaitStatus::Exited(0));

#[test]
fn a_stub_holds_its_streams_and_nothing_of_the_library_is_in_its_caller() {
    let world = World::new();
    for engine in engines() {
        let line = "a=$(ls /proc/$$/fd | wc -l); ./elsewhere 'sleep 20' & p=$!; sleep 1; \
            ls -l /proc/$p/fd | sed -n 's/.* -> //p' > files; readlink /proc/$p/exe > exe; kill $p; wait $p; [ $? = 143 ] || exit 3; \
            for i in 1 2 3; do ./elsewhere 'exit 4'; [ $? = 4 ] || exit 5; done; [ $(ls /proc/$$/fd | wc -l) = $a ] || exit 6";
        assert_eq!(world.run(&*engine, line), (WELL, Vec::new()));
        let files = fs::read_to_string(world.path("ws/files")).unwrap();
        let own = |name: &str| files.lines().filter(|file| file.contains(name)).count();
        assert!(files.lines().count() == 5 && own("socket:") >= 1 && own("signalfd") == 1, "{files}");
        assert!(fs::read_to_string(world.path("ws/exe")).unwrap().contains("stockade-stub"));
    }
}

/// A stop of the job stops the program, and it goes on with the job.
#[test]
fn stops_are_passed_on() {
    let world = World::new();
    for engine in [&Native::new() as &dyn Backend, &Bwrap::new()] {
        let line = "./elsewhere 'exec python3 -c \"import itertools, time; [(print(1, flush=True), time.sleep(0.02)) for _ in itertools.count()]\"' > log & p=$!; \
            for i in $(seq 100); do [ -s log ] && break; sleep 0.1; done; kill -TSTP $p; sleep 1; a=$(wc -c < log); sleep 1; \
            b=$(wc -c < log); grep -q '^State:.T' /proc/$p/status || exit 3; [ $a = $b ] || exit 4; \
            kill -CONT $p; sleep 1; [ $(wc -c < log) -gt $b ] || exit 5; kill -KILL $p; wait $p; [ $? = 137 ] || exit 6; \
            sleep 0.5; a=$(wc -c < log); sleep 0.5; [ $(wc -c < log) = $a ] || exit 7; rm log";
        assert_eq!(world.run(engine, line), (WELL, Vec::new()));
    }
}

/// What can't be started elsewhere is started where it is, and told.
#[test]
fn too_many_go_on_inside() {
    let world = World::new();
    let line = "for i in $(seq 33); do ./elsewhere '5' & done; sleep 3; n=0; \
        for p in $(jobs -p); do readlink /proc/$p/exe | grep -q stub && n=$((n+1)); done; echo $n > stubs; kill $(jobs -p); wait";
    let (status, impossible) = world.run(&Native::new(), &line.replace("'5'", "'sleep 30'"));
    assert_eq!(status, WELL);
    assert_eq!(
        (fs::read_to_string(world.path("ws/stubs")).unwrap().trim(), impossible.len()),
        ("32", 1),
        "{impossible:?}"
    );
}

/// The directory of a start is swapped with a link all the time. It is the caller's, or the program is not run.
#[test]
fn a_directory_that_is_swapped_is_not_left_for_another() {
    let world = World::new();
    fs::create_dir(world.path("other")).unwrap();
    let swap = "import collections, ctypes, os, subprocess, sys, threading, time\n\
        libc = ctypes.CDLL(None)\n\
        own = os.getcwd()\n\
        os.mkdir('d'); os.symlink(sys.argv[1], 'l'); held = os.open('d', os.O_RDONLY)\n\
        going = True\n\
        def swap():\n    while going: libc.renameat2(-100, b'd', -100, b'l', 2)\n\
        threading.Thread(target=swap, daemon=True).start()\n\
        seen = collections.Counter(); end = time.time() + 4\n\
        while time.time() < end:\n\
        \x20   try: seen[subprocess.run([own + '/elsewhere', 'pwd -P'], preexec_fn=lambda: os.fchdir(held), capture_output=True).stdout] += 1\n\
        \x20   except OSError: pass\n\
        going = False\n\
        print(seen)\n\
        assert not any(sys.argv[1].encode() in out for out in seen), seen\n\
        assert any(b'/ws/' in out for out in seen), seen\n";
    fs::write(world.path("ws/swap.py"), swap).unwrap();
    let line = format!("python3 swap.py {}", world.path("other").display());
    let (status, _) = world.run(&Native::new(), &line);
    assert_eq!(status, WELL);
}

/// A stub's own file is its own: one that is spoiled spoils no other.
#[test]
fn a_stub_that_is_changed_changes_no_other() {
    let world = World::new();
    for engine in [&Native::new() as &dyn Backend, &Bwrap::new()] {
        let line = "./elsewhere 'sleep 20' & p=$!; sleep 1; chmod 0 /proc/$p/exe; chmod 600 /proc/$p/exe; kill $p; wait $p; \
            ./elsewhere 'exit 4'; [ $? = 4 ]";
        assert_eq!(world.run(engine, line), (WELL, Vec::new()));
    }
}

/// The question of a stub is answered to a stub alone, and only once.
#[test]
fn no_other_program_gets_a_socket() {
    let world = World::new();
    let ask = "import ctypes, os, threading, subprocess, time\n\
        libc = ctypes.CDLL(None, use_errno=True)\n\
        threading.Thread(target=lambda: subprocess.run(['./elsewhere', 'sleep 2'])).start()\n\
        end = time.time() + 2\n\
        while time.time() < end:\n    assert libc.syscall(322, -1, None, None, None, 0x53746f63) == -1\n";
    fs::write(world.path("ws/ask.py"), ask).unwrap();
    for engine in [&Native::new() as &dyn Backend, &Bwrap::new()] {
        assert_eq!(world.run(engine, "python3 ask.py"), (WELL, Vec::new()));
    }
}
