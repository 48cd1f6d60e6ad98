//! The observer deceived, flooded and interrupted: nothing is allowed that was not, nothing hangs, and what it keeps has a bound.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{AbsPath, Argv, HostPaths, HostRules, NetworkPolicy, Permissions, SandboxPolicy};
use stockade_sandbox_linux::{Bwrap, Native};
use stockade_sandboxing::{
    Answer, Attempt, Backend, CommandSpec, DeniedAct, Gatekeeper, Running, Stdio, Streams, Verdict, WaitStatus,
};

/// A workspace, and a directory beside it that no command may write.
struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["ws", "out"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("out/file"), "before").unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn permissions(&self) -> Permissions {
        let workspace = AbsPath::from_path(&self.path("ws")).unwrap();
        SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace])).unwrap()
    }

    fn command(&self, program: &str) -> CommandSpec {
        fs::write(self.path("ws/program.py"), program).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let argv = Argv::parse(["python3", "program.py"]).unwrap();
        let cwd = AbsPath::from_path(&self.path("ws")).unwrap();
        CommandSpec { argv, cwd, environment, process: Default::default() }
    }

    /// Runs a program of Python, which has to end well and to have changed nothing outside.
    fn run(&self, engine: &dyn Backend, program: &str) -> Box<dyn Running> {
        let plan = engine.compile(&self.command(program), &self.permissions()).unwrap();
        let errors = fs::File::create(self.path("errors")).unwrap();
        let mut running = plan.spawn(Stdio { stderr: Streams::To(errors.into()), ..Stdio::default() }).unwrap();
        let status = running.wait(Some(Duration::from_secs(120))).unwrap();
        let errors = fs::read_to_string(self.path("errors")).unwrap();
        assert_eq!(status, Some(WaitStatus::Exited(0)), "{errors}");
        assert_eq!(fs::read_dir(self.path("out")).unwrap().count(), 1, "something was made outside");
        assert_eq!(fs::read_to_string(self.path("out/file")).unwrap(), "before");
        running
    }
}

fn engines() -> [Box<dyn Backend>; 2] {
    [Box::new(Native::new()), Box::new(Bwrap::new())]
}

/// What is read is not what the kernel takes afterwards. It decides on what it takes.
#[test]
fn a_path_that_changes_while_it_is_read_gains_nothing() {
    let program = r#"
import ctypes, threading, os
libc = ctypes.CDLL(None, use_errno=True)
inside, outside = b"inside\0\0\0\0", b"../out/new\0"
path = ctypes.create_string_buffer(inside, 16)
ends = False
def change():
    while not ends:
        ctypes.memmove(path, outside, len(outside))
        ctypes.memmove(path, inside, len(inside))
threads = [threading.Thread(target=change) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(5000):
    fd = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    if fd >= 0: os.close(fd)
ends = True
for thread in threads: thread.join()
assert os.path.exists("inside")
"#;
    for engine in engines() {
        World::new().run(&*engine, program);
    }
}

#[test]
fn a_flood_is_counted() {
    let program = r#"
import os
for number in range(30000):
    try: os.mkdir("../out/%d" % number)
    except OSError: pass
    try: os.open("../out/file", os.O_WRONLY)
    except OSError: pass
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        for number in range(5000):
            try: os.mkdir("../out/file")
            except OSError: pass
        os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
"#;
    for engine in engines() {
        let world = World::new();
        let running = world.run(&*engine, program);
        let notes = running.observations().unwrap();
        assert_eq!(notes.kept().len(), 256);
        assert!(notes.left_out() >= 29_000, "{}", notes.left_out());
    }
}

/// A caller that is killed while its call waits leaves nothing behind, and those that come after are answered.
#[test]
fn callers_that_are_killed_are_forgotten() {
    let program = r#"
import os, signal, time
for number in range(200):
    child = os.fork()
    if child == 0:
        while True:
            try: os.mkdir("../out/x")
            except OSError: pass
    time.sleep(0.0005 * (number % 3))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
os.mkdir("inside")
"#;
    for engine in engines() {
        World::new().run(&*engine, program);
    }
}

/// A process that does not let itself be looked at: the kernel decides, and nothing is known of it.
#[test]
fn a_process_that_cannot_be_read_is_held_all_the_same() {
    let program = r#"
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
open("inside", "w").close()
try:
    open("../out/x", "w")
    raise SystemExit(1)
except OSError: pass
"#;
    for engine in engines() {
        World::new().run(&*engine, program);
    }
}

#[test]
fn strange_paths_fail_as_they_do_without_an_observer() {
    let program = r#"
import ctypes, errno, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
def fails(call, wanted):
    assert call < 0 and ctypes.get_errno() == wanted, (call, ctypes.get_errno(), wanted)
fails(libc.mkdir(ctypes.c_void_p(8), 0o700), errno.EFAULT)
fails(libc.mkdir(ctypes.c_void_p(2**47 - 1), 0o700), errno.EFAULT)
fails(libc.mkdir(b"", 0o700), errno.ENOENT)
fails(libc.mkdir(b"x" * 5000, 0o700), errno.ENAMETOOLONG)
fails(libc.mkdir(b"./" * 2040 + b"x" * 300, 0o700), errno.ENAMETOOLONG)
fails(libc.mkdirat(999, b"x", 0o700), errno.EBADF)
assert libc.mkdir(b"./" * 2000 + b"inside", 0o700) == 0
# A path up to the very end of a page, with nothing behind it.
page = mmap.mmap(-1, 2 * mmap.PAGESIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
assert libc.mprotect(ctypes.c_void_p(address + mmap.PAGESIZE), mmap.PAGESIZE, 0) == 0
page[mmap.PAGESIZE - 6:mmap.PAGESIZE] = b"edges\0"
assert libc.mkdir(ctypes.c_void_p(address + mmap.PAGESIZE - 6), 0o700) == 0
page[mmap.PAGESIZE - 6:mmap.PAGESIZE] = b"edgesx"
fails(libc.mkdir(ctypes.c_void_p(address + mmap.PAGESIZE - 6), 0o700), errno.EFAULT)
for _ in range(300):
    os.mkdir("deep"); os.chdir("deep")
open("file", "w").close()
try:
    open("../" * 301 + "out/x", "w")
    raise SystemExit(1)
except OSError as error: assert error.errno in (errno.EROFS, errno.EACCES), error
"#;
    for engine in engines() {
        World::new().run(&*engine, program);
    }
}

/// Signals during a call that is looked at do not make it fail, and programs in many threads go on.
#[test]
fn signals_and_threads_do_not_get_in_its_way() {
    let program = r#"
import os, signal, threading
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
failed = []
def work(name):
    try:
        for number in range(500):
            path = "%s-%d" % (name, number)
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.rename(path, path + "-new")
            os.unlink(path + "-new")
    except OSError as error: failed.append(error)
threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
signal.setitimer(signal.ITIMER_REAL, 0)
assert not failed, failed
"#;
    for engine in engines() {
        let world = World::new();
        let running = world.run(&*engine, program);
        assert!(running.observations().unwrap().kept().is_empty());
    }
}

/// Refuses everything.
struct Closed;

impl Gatekeeper for Closed {
    fn decide(&self, _: Attempt, answer: Answer) {
        answer.give(Verdict::Refuse);
    }
}

/// One listener for both: connections are decided on, files are looked at.
#[test]
fn connections_that_are_decided_on_are_not_let_through() {
    let program = r#"
import errno, socket
for _ in range(50):
    try:
        socket.create_connection(("203.0.113.1", 80))
        raise SystemExit(1)
    except OSError as error: assert error.errno == errno.EACCES, error
    try:
        open("../out/x", "w")
        raise SystemExit(2)
    except OSError: pass
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
"#;
    for engine in engines() {
        let world = World::new();
        let network = NetworkPolicy::Hosts(HostRules::default());
        let permissions = Permissions { network, ..world.permissions() };
        let plan = engine.compile(&world.command(program), &permissions).unwrap();
        let mut running = plan.spawn_guarded(Stdio::default(), Arc::new(Closed).into()).unwrap();
        let status = running.wait(Some(Duration::from_secs(60))).unwrap();
        assert_eq!(status, Some(WaitStatus::Exited(0)));
        let kept = running.observations().unwrap().kept();
        let [only] = kept.as_slice() else { panic!("{kept:?}") };
        assert!(matches!(&only.act, DeniedAct::Create(path) if path.to_string().ends_with("/out/x")), "{only:?}");
    }
}
