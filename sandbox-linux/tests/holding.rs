//! Denied writes that wait for an answer, and are made outside after a yes: what passes, and every way that must not
//! become a way out. The host's side is looked at, not the command's word.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, Argv, FileRule, FileRules, HostPaths, Permissions, RuleSource, SandboxPolicy,
};
use stockade_sandbox_linux::{Bwrap, Native, Warm};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, DeniedAct, Running, Stdio, Streams, WaitStatus, WriteAnswer, WriteAttempt,
    WriteKeeper, WriteVerdict,
};

/// A workspace, directories beside it that no command may write, and one of these that is granted when it is asked for.
struct World {
    directory: tempfile::TempDir,
}

/// Says yes to what lies in `granted`, and no to all else.
struct Person {
    permissions: Permissions,
    granted: AbsPath,
    /// Whether a yes is for one call only.
    once: bool,
    asked: Mutex<Vec<DeniedAct>>,
    done: Mutex<Vec<AbsPath>>,
}

impl WriteKeeper for Person {
    fn is_asked(&self, _: &DeniedAct, _: &[AbsPath]) -> bool {
        true
    }

    fn decide(&self, attempt: WriteAttempt, answer: WriteAnswer) {
        self.asked.lock().unwrap().push(attempt.act);
        if !attempt.paths.iter().all(|path| path.starts_with(&self.granted)) {
            return answer.give(WriteVerdict::Refused);
        }
        let rule = |path: AbsPath| FileRule::path(path, Access::Write).from_source(RuleSource::Approval);
        let granted = if self.once { attempt.paths } else { vec![self.granted.clone()] };
        let more =
            Permissions { files: FileRules::new(granted.into_iter().map(rule)).unwrap(), ..Permissions::default() };
        let permissions = Box::new(self.permissions.merge(&more));
        answer.give(if self.once { WriteVerdict::Once(permissions) } else { WriteVerdict::Granted(permissions) });
    }

    fn done(&self, path: &AbsPath) {
        self.done.lock().unwrap().push(path.clone());
    }
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["ws", "out", "grant", "grant/kept"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("out/file"), "before").unwrap();
        fs::write(directory.path().join("grant/kept/secret"), "before").unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn at(&self, name: &str) -> AbsPath {
        AbsPath::from_path(&self.path(name)).unwrap()
    }

    /// `grant/kept` and `grant/later/kept` stay protected, regardless of grants around them.
    fn permissions(&self) -> Permissions {
        let base = SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([self.at("ws")])).unwrap();
        let protected = ["grant/kept", "grant/later/kept"]
            .map(|name| FileRule::path(self.at(name), Access::Read).from_source(RuleSource::ProtectedMetadata));
        // Writable for every run, if a test makes it.
        let open = Some(self.at("grant/open")).filter(|_| self.path("grant/open").exists());
        let open = open.map(|path| FileRule::path(path, Access::Write));
        let files = FileRules::new(base.files.iter().cloned().chain(protected).chain(open)).unwrap();
        Permissions { files, ..base }
    }

    fn person(&self, once: bool) -> Arc<Person> {
        let (permissions, granted) = (self.permissions(), self.at("grant"));
        Arc::new(Person { permissions, granted, once, asked: Mutex::default(), done: Mutex::default() })
    }

    fn start(&self, engine: &dyn Backend, person: &Arc<Person>, program: &str) -> Box<dyn Running> {
        fs::write(self.path("ws/program.py"), program).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let argv = Argv::parse(["python3", "program.py"]).unwrap();
        let command = CommandSpec { argv, cwd: self.at("ws"), environment, process: Default::default() };
        let plan = engine.compile(&command, &self.permissions()).unwrap();
        let errors = fs::File::create(self.path("errors")).unwrap();
        let stdio = Stdio { stderr: Streams::To(errors.into()), ..Stdio::default() };
        let writes = Arc::clone(person) as Arc<dyn WriteKeeper>;
        plan.spawn_guarded(stdio, Deciders { writes: Some(writes), ..Deciders::default() }).unwrap()
    }

    /// Runs a program of Python, which has to end well and to have changed nothing that was not granted.
    fn run(&self, engine: &dyn Backend, person: &Arc<Person>, program: &str) -> Box<dyn Running> {
        let mut running = self.start(engine, person, program);
        let status = running.wait(Some(Duration::from_secs(120))).unwrap();
        let errors = fs::read_to_string(self.path("errors")).unwrap();
        assert_eq!(status, Some(WaitStatus::Exited(0)), "{errors}");
        self.nothing_else_changed();
        running
    }

    fn nothing_else_changed(&self) {
        let names = |name: &str| -> Vec<_> {
            let all = fs::read_dir(self.path(name)).unwrap();
            all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        assert_eq!(names("out"), ["file"], "something was made outside");
        assert_eq!(fs::read_to_string(self.path("out/file")).unwrap(), "before");
        assert_eq!(fs::metadata(self.path("out/file")).unwrap().nlink(), 1);
        assert_eq!(names("grant/kept"), ["secret"]);
        assert_eq!(fs::read_to_string(self.path("grant/kept/secret")).unwrap(), "before");
        assert!(!self.path("grant/later/kept").exists());
    }
}

fn engines() -> [Box<dyn Backend>; 3] {
    [Box::new(Native::new()), Box::new(Bwrap::new()), Box::new(Warm::new(Box::new(Native::new())))]
}

/// What every program below begins with.
const PRELUDE: &str = r#"
import os, errno, ctypes, threading, subprocess, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def fails(act, *numbers):
    try: act()
    except OSError as error:
        assert not numbers or error.errno in numbers, error
        return
    raise AssertionError("it passed")
"#;

fn with_prelude(program: &str) -> String {
    format!("{PRELUDE}{program}")
}

#[test]
fn after_one_yes_a_directory_is_written_as_outside() {
    let program = with_prelude(
        r#"
os.umask(0o027)
os.mkdir("../grant/a")
os.makedirs("../grant/a/b/c", mode=0o777)
with open("../grant/a/b/file", "w") as file: file.write("one")
with open("../grant/a/b/file", "a") as file: file.write(" two")
with open("../grant/a/b/file", "r+") as file: file.seek(0); file.write("ONE")
fd = os.open("../grant/a/b/new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
assert not os.get_inheritable(fd)
os.write(fd, b"x" * 10); os.ftruncate(fd, 3); os.fsync(fd); os.close(fd)
fails(lambda: os.open("../grant/a/b/new", os.O_RDWR | os.O_CREAT | os.O_EXCL), errno.EEXIST)
fails(lambda: os.open("../grant/a/b/c", os.O_RDWR), errno.EISDIR)
fails(lambda: os.unlink("../grant/a/b/missing"), errno.ENOENT)
fails(lambda: os.rename("../grant/a/b/missing", "../grant/a/b/other"), errno.ENOENT)
fails(lambda: os.rmdir("../grant/a"), errno.ENOTEMPTY)
os.rename("../grant/a/b/new", "../grant/a/b/moved")
os.symlink("moved", "../grant/a/b/symbolic")
with open("../grant/a/b/symbolic", "a") as file: file.write("!")
os.truncate("../grant/a/b/file", 5)
os.chmod("../grant/a/b/file", 0o640)
os.utime("../grant/a/b/file", (1, 2))
for path in ("../grant/a/b/file", "../grant/a/b"):
    os.setxattr(path, "user.kind", b"one"); os.setxattr(path, "user.gone", b"x" * 4000)
    fails(lambda: os.setxattr(path, "user.kind", b"two", os.XATTR_CREATE), errno.EEXIST)
    os.removexattr(path, "user.gone")
    assert os.listxattr(path) == ["user.kind"] and os.getxattr(path, "user.kind") == b"one"
fails(lambda: os.removexattr("../grant/a/b/file", "user.none"), errno.ENODATA)
os.mkdir("../grant/a/gone"); os.rmdir("../grant/a/gone")
directory = os.open("../grant/a/b", os.O_RDONLY)
os.close(os.open("below", os.O_WRONLY | os.O_CREAT, 0o666, dir_fd=directory))
os.chdir("../grant/a/b/c")
open("relative", "w").close()
"#,
    );
    for engine in engines() {
        let world = World::new();
        let person = world.person(false);
        let running = world.run(&*engine, &person, &program);
        assert_eq!(*person.asked.lock().unwrap(), [DeniedAct::MakeDirectory(world.at("grant/a"))]);
        assert!(running.observations().unwrap().kept().is_empty(), "nothing was denied");
        let mode = |name: &str| fs::metadata(world.path(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("grant/a"), mode("grant/a/b/below")), (0o750, 0o640));
        assert_eq!(fs::read_to_string(world.path("grant/a/b/file")).unwrap(), "ONE t");
        assert_eq!(mode("grant/a/b/file"), 0o640);
        assert_eq!(fs::metadata(world.path("grant/a/b/file")).unwrap().mtime(), 2);
        assert_eq!(fs::read(world.path("grant/a/b/moved")).unwrap(), b"xxx!");
        assert!(!world.path("grant/a/b/new").exists());
        assert!(world.path("grant/a/b/c/relative").exists());
        assert!(person.done.lock().unwrap().contains(&world.at("grant/a/b/c/relative")));
    }
}

#[test]
fn once_is_one_call_and_no_is_the_ordinary_error() {
    let program = with_prelude(
        r#"
with open("../grant/first", "w") as file: file.write("yes")
fails(lambda: open("../out/new", "w"), errno.EROFS)
with open("../grant/first", "a") as file: file.write(", again")
fails(lambda: os.mkdir("../out/new"), errno.EROFS)
"#,
    );
    for engine in engines() {
        let world = World::new();
        let person = world.person(true);
        let running = world.run(&*engine, &person, &program);
        assert_eq!(fs::read_to_string(world.path("grant/first")).unwrap(), "yes, again");
        assert_eq!(person.asked.lock().unwrap().len(), 4);
        let kept = running.observations().unwrap().kept();
        let denied: Vec<_> = kept.into_iter().map(|observation| observation.act).collect();
        let new = world.at("out/new");
        assert_eq!(denied, [DeniedAct::Create(new.clone()), DeniedAct::MakeDirectory(new)]);
    }
}

/// A file that is moved between what every run may write and what is granted could still be written by another name of it,
/// made before or by way of a descriptor. The kernel makes no such move either, between two mounts.
#[test]
fn a_move_leaves_no_second_name_of_a_granted_file() {
    const PROGRAM: &str = r#"
import ctypes, errno, os
def fails(act):
    try: act()
    except OSError as error: assert error.errno in (errno.EXDEV, errno.EROFS), error
    else: raise AssertionError("it was moved")
open("../grant/trigger", "w").close()
fails(lambda: os.rename("../grant/one", "../grant/open/one"))
os.mkdir("../grant/open/own") if not os.path.exists("../grant/open/own") else None
open("../grant/open/own/a", "w").close(); os.link("../grant/open/own/a", "../grant/open/own/b")
fails(lambda: os.rename("../grant/open/own/a", "../grant/a"))
fails(lambda: os.rename("../grant/open/own", "../grant/own"))
os.remove("../grant/open/own/b")
fails(lambda: os.rename("../grant/open/own/a", "../grant/a"))
open("a", "w").close(); os.link("a", "b")
fails(lambda: os.rename("b", "../grant/b"))
fails(lambda: os.rename("../grant/one", "c"))
os.mkdir("d"); os.link("a", "d/a")
fails(lambda: os.rename("d", "../grant/d"))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.renameat2(-100, b"../grant/one", -100, b"a", 2) < 0
assert libc.renameat2(-100, b"../grant/single", -100, b"../grant/open/own/a", 2) < 0
os.rename("../grant/single", "../grant/open/single")
"#;
    let engines = engines();
    for (engine, once) in engines.iter().flat_map(|engine| [true, false].map(|once| (engine, once))) {
        let world = World::new();
        fs::create_dir(world.path("grant/open")).unwrap();
        for name in ["grant/one", "grant/single"] {
            fs::write(world.path(name), "before").unwrap();
        }
        fs::hard_link(world.path("grant/one"), world.path("grant/two")).unwrap();
        world.run(engine.as_ref(), &world.person(once), PROGRAM);
        for (name, exists) in [
            ("grant/one", true),
            ("grant/open/one", false),
            ("grant/a", false),
            ("grant/b", false),
            ("grant/own", false),
            ("grant/d", false),
            ("ws/c", false),
            ("grant/open/single", true),
        ] {
            assert_eq!(world.path(name).exists(), exists, "once: {once}: {name}");
        }
    }
}

/// Neither by `..` behind a granted directory, nor by a link there, nor by moving or linking what is not granted.
#[test]
fn a_granted_directory_is_no_way_to_another() {
    let program = with_prelude(
        r#"
os.mkdir("../grant/a")
directory = os.open("../grant/a", os.O_RDONLY)
denied = (errno.EROFS, errno.EXDEV, errno.EACCES, errno.EPERM, errno.ELOOP)
WRITE = os.O_WRONLY | os.O_CREAT
fails(lambda: os.open("../../out/new", WRITE, dir_fd=directory), *denied)
fails(lambda: os.open("../../out/file", os.O_RDWR, dir_fd=directory), *denied)
fails(lambda: os.open("../kept/new", WRITE, dir_fd=directory), *denied)
os.symlink("../../out", "../grant/a/link"); os.symlink("../../out/file", "../grant/a/file-link")
fails(lambda: os.open("../grant/a/link/new", WRITE), *denied)
fails(lambda: os.open("../grant/a/file-link", os.O_RDWR), *denied)
fails(lambda: os.truncate("../grant/a/file-link", 0), *denied)
fails(lambda: os.chmod("../grant/a/file-link", 0o600), *denied)
fails(lambda: os.link("../out/file", "../grant/a/hard"), *denied)
fails(lambda: os.link("../grant/kept/secret", "../grant/a/hard"), *denied)
fails(lambda: os.rename("../out/file", "../grant/a/file"), *denied)
open("../grant/a/payload", "w").close()
for target in ["../out/file", "../out/new", "../grant/kept/secret", "../grant/kept/new", "../grant/kept"]:
    fails(lambda: os.rename("../grant/a/payload", target), *denied)
    if not os.path.exists(target): fails(lambda: os.link("../grant/a/payload", target), *denied)
# Above what is protected: taken away, put in its place, or exchanged.
fails(lambda: os.rename("../grant/kept", "../grant/a/kept"), *denied)
fails(lambda: os.rename("../grant", "../elsewhere"), *denied)
os.makedirs("../grant/a/later/kept")
fails(lambda: os.rename("../grant/a/later", "../grant/later"), *denied)
fails(lambda: os.symlink("a/later", "../grant/later"), *denied)
fails(lambda: open("../grant/later", "w"), *denied)
os.mkdir("../grant/later")
fails(lambda: os.mkdir("../grant/later/kept"), *denied)
fails(lambda: os.rmdir("../grant/later"), *denied)
AT_FDCWD, RENAME_EXCHANGE, RENAME_WHITEOUT = -100, 2, 4
rename = lambda a, b, flags: libc.renameat2(AT_FDCWD, a, AT_FDCWD, b, flags)
assert rename(b"../grant/a/payload", b"../out/file", RENAME_EXCHANGE) < 0
assert rename(b"../grant/a/later", b"../grant/kept", RENAME_EXCHANGE) < 0
assert rename(b"../grant/a/payload", b"../grant/a/white", RENAME_WHITEOUT) < 0
"#,
    );
    for engine in engines() {
        let world = World::new();
        let person = world.person(false);
        world.run(&*engine, &person, &program);
        assert!(world.path("grant/later").is_dir() && world.path("grant/a/payload").exists());
    }
}

/// No hard link is made under a grant, by any call: its name could lie in a directory that later runs may write. Errors that
/// the kernel has without a sandbox stay what they are.
#[test]
fn a_granted_directory_gets_no_hard_links() {
    let program = with_prelude(
        r#"
os.mkdir("../grant/a")
with open("../grant/a/file", "w") as file: file.write("before")
AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x1000
def linkat(directory, old, new, flags):
    if libc.linkat(directory, old, AT_FDCWD, new, flags) < 0: raise OSError(ctypes.get_errno(), "linkat")
# Within the directory, and into one below it that the policy lets every run write.
for target in ["../grant/a/hard", "../grant/open/hard"]:
    fails(lambda: os.link("../grant/a/file", target), errno.EXDEV)
    fails(lambda: os.link("../grant/a/file", target, follow_symlinks=False), errno.EXDEV)
    for flags in (os.O_RDONLY, os.O_RDWR):
        fd = os.open("../grant/a/file", flags)
        fails(lambda: linkat(AT_FDCWD, b"/proc/self/fd/%d" % fd, target.encode(), AT_SYMLINK_FOLLOW), errno.EXDEV)
        fails(lambda: linkat(fd, b"", target.encode(), AT_EMPTY_PATH), errno.EXDEV, errno.ENOENT, errno.EROFS)
open("../grant/open/own", "w").close()
fails(lambda: os.link("../grant/open/own", "../grant/a/hard"), errno.EXDEV)
fails(lambda: os.link("../grant/a/file", "hard"), errno.EXDEV)
fails(lambda: os.link("../grant/a/missing", "../grant/a/hard"), errno.ENOENT)
fails(lambda: os.link("../grant/a/file", "../grant/open/own"), errno.EEXIST)
# What the policy itself lets a command write is the kernel's to link.
os.link("../grant/open/own", "../grant/open/second")
"#,
    );
    for engine in engines() {
        let world = World::new();
        fs::create_dir(world.path("grant/open")).unwrap();
        let person = world.person(false);
        let running = world.run(&*engine, &person, &program);
        assert_eq!(fs::metadata(world.path("grant/a/file")).unwrap().nlink(), 1);
        assert_eq!(fs::metadata(world.path("grant/open/own")).unwrap().nlink(), 2);
        assert_eq!(*person.asked.lock().unwrap(), [DeniedAct::MakeDirectory(world.at("grant/a"))]);
        let kept = running.observations().unwrap().kept();
        let link = DeniedAct::Link { from: world.at("grant/a/file"), path: world.at("grant/a/hard") };
        assert!(kept.iter().any(|observation| observation.act == link), "{kept:?}");
    }
}

/// What is handed over is a regular file, and stays what it was opened as.
#[test]
fn only_regular_files_are_handed_over() {
    let program = with_prelude(
        r#"
import time
os.mkdir("../grant/a")
denied = (errno.EROFS, errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.EISDIR, errno.ENXIO)
fails(lambda: os.open("../grant/fifo", os.O_WRONLY), *denied)
fails(lambda: os.open("../grant/fifo", os.O_RDWR), *denied)
fails(lambda: os.open("../grant/socket", os.O_RDWR), *denied)
fails(lambda: os.open("../grant/a", os.O_RDWR), *denied)
fails(lambda: os.open("../grant/a", os.O_RDWR | os.O_TMPFILE), *denied)
fails(lambda: os.mkfifo("../grant/a/fifo"), *denied)
fails(lambda: os.setxattr("../grant/a", "system.posix_acl_access", b"\x02\x00\x00\x00"), *denied, errno.EINVAL)
fails(lambda: os.setxattr("../grant/kept/secret", "user.x", b"1"), *denied)
fails(lambda: os.setxattr("../out/file", "user.x", b"1"), *denied)
fails(lambda: os.mknod("../grant/a/device", stat.S_IFCHR | 0o600, os.makedev(1, 3)), *denied)
# Opened for reading by a call that may create: it can be written only as its name can.
open("../grant/a/file", "w").close()
fd = os.open("../grant/a/made", os.O_RDONLY | os.O_CREAT, 0o600)
fails(lambda: os.write(fd, b"x"), errno.EBADF)
# Its name is gone: only the descriptor leads to it.
os.unlink("../grant/a/made")
for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC):
    fails(lambda: os.open("/proc/self/fd/%d" % fd, flags), *denied, errno.ENOENT)
fails(lambda: os.open("..", os.O_RDONLY, dir_fd=fd), errno.ENOTDIR)
fails(lambda: os.link("/proc/self/fd/%d" % fd, "laundered", follow_symlinks=True))
# The sandbox's own: no host's file is behind them.
open("/tmp/private", "w").close()
fails(lambda: open("/dev/stderr", "w"), errno.EACCES)
fails(lambda: os.chmod("../grant/a/file", 0o4755), *denied)
"#,
    );
    for engine in engines() {
        let world = World::new();
        let person = world.person(false);
        rustix::fs::mkfifoat(rustix::fs::CWD, world.path("grant/fifo"), rustix::fs::Mode::RWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(world.path("grant/socket")).unwrap();
        world.run(&*engine, &person, &program);
        assert!(!PathBuf::from("/tmp/private").exists());
        assert!(!world.path("ws/laundered").exists());
        let asked = person.asked.lock().unwrap();
        assert!(!asked.iter().any(|act| act.path().is_some_and(|path| path.to_string().starts_with("/tmp"))));
    }
}

/// Names are swapped while they are asked about, copied, found and written.
#[test]
fn what_is_swapped_meanwhile_leads_nowhere() {
    let program = with_prelude(
        r#"
os.mkdir("../grant/a"); os.mkdir("../grant/a/real")
os.symlink("../../out", "../grant/a/bad")
open("../grant/a/plain", "w").close(); os.symlink("../../out/file", "../grant/a/bad-file")
inside, outside = b"../grant/a/x\0", b"../out/new\0\0\0"
path = ctypes.create_string_buffer(inside, 16)
ends = False
def swap_memory():
    while not ends:
        ctypes.memmove(path, outside, len(outside)); ctypes.memmove(path, inside, len(inside))
def swap_names(one, other):
    while not ends: libc.renameat2(-100, one, -100, other, 2)
threads = [threading.Thread(target=swap_memory),
    threading.Thread(target=swap_names, args=(b"../grant/a/real", b"../grant/a/bad")),
    threading.Thread(target=swap_names, args=(b"../grant/a/plain", b"../grant/a/bad-file"))]
for thread in threads: thread.start()
def attempt(act):
    try: act()
    except OSError: pass
for _ in range(300):
    fd = libc.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    if fd >= 0: os.close(fd)
    attempt(lambda: os.close(os.open("../grant/a/real/new", os.O_WRONLY | os.O_CREAT)))
    attempt(lambda: os.close(os.open("../grant/a/plain", os.O_WRONLY | os.O_TRUNC)))
    attempt(lambda: os.truncate("../grant/a/plain", 0))
    attempt(lambda: os.mkdir("../grant/a/real/directory"))
    attempt(lambda: os.link("../grant/a/plain", "../grant/a/real/hard"))
ends = True
for thread in threads: thread.join()
"#,
    );
    for engine in engines() {
        let world = World::new();
        let person = world.person(false);
        world.run(&*engine, &person, &program);
    }
}

/// A child of vfork shares its parent's memory, threads share descriptors, and one that runs out of numbers is told so.
#[test]
fn threads_and_children_get_their_own() {
    let program = with_prelude(
        r#"
import resource
os.mkdir("../grant/a")
def write(number):
    for turn in range(20):
        name = "../grant/a/%d-%d" % (number, turn)
        with open(name, "w") as file: file.write(name)
        assert open(name).read() == name
threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for number in range(20):
    subprocess.run(["sh", "-c", "echo $0 > ../grant/a/child-$0", str(number)], check=True, close_fds=False)
    assert open("../grant/a/child-%d" % number).read() == "%d\n" % number
fd = os.open("../grant/a/inherited", os.O_WRONLY | os.O_CREAT)
os.set_inheritable(fd, True)
subprocess.run(["sh", "-c", "echo here >&%d" % fd], check=True, close_fds=False)
assert open("../grant/a/inherited").read() == "here\n"
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
fails(lambda: os.open("../grant/a/none", os.O_WRONLY | os.O_CREAT), errno.EMFILE)
"#,
    );
    for engine in engines() {
        let world = World::new();
        world.run(&*engine, &world.person(false), &program);
    }
}

/// Never answers, and keeps what it was asked.
#[derive(Default)]
struct Silent(Mutex<Vec<(WriteAttempt, WriteAnswer)>>);

impl WriteKeeper for Silent {
    fn is_asked(&self, _: &DeniedAct, _: &[AbsPath]) -> bool {
        true
    }

    fn decide(&self, attempt: WriteAttempt, answer: WriteAnswer) {
        self.0.lock().unwrap().push((attempt, answer));
    }

    fn done(&self, _: &AbsPath) {}
}

impl World {
    fn start_silent(&self, silent: &Arc<Silent>, program: &str) -> Box<dyn Running> {
        fs::write(self.path("ws/program.py"), with_prelude(program)).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let argv = Argv::parse(["python3", "program.py"]).unwrap();
        let command = CommandSpec { argv, cwd: self.at("ws"), environment, process: Default::default() };
        let plan = Native::new().compile(&command, &self.permissions()).unwrap();
        let writes = Arc::clone(silent) as Arc<dyn WriteKeeper>;
        plan.spawn_guarded(Stdio::default(), Deciders { writes: Some(writes), ..Deciders::default() }).unwrap()
    }
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// More calls than can wait are denied at once; those that wait hold up nothing else; what dies is noticed.
#[test]
fn a_crowd_waits_within_bounds_and_ends_with_its_callers() {
    let program = r#"
import time
children = []
for number in range(24):
    child = os.fork()
    if child == 0:
        threads = [threading.Thread(target=lambda n=n: libc.mkdir(b"../out/%d-%d" % (number, n), 0o700)) for n in range(25)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        os._exit(0)
    children.append(child)
open("ready", "w").close()
open("../ws/other", "w").close()
while not os.path.exists("go"): time.sleep(0.01)
for child in children: os.kill(child, 9); os.waitpid(child, 0)
open("killed", "w").close()
while not os.path.exists("end"): time.sleep(0.01)
"#;
    let (world, silent) = (World::new(), Arc::new(Silent::default()));
    let mut running = world.start_silent(&silent, program);
    eventually("the calls wait", || silent.0.lock().unwrap().len() == 512);
    eventually("others are not held up", || world.path("ws/other").exists());
    eventually("those beyond are denied", || running.observations().unwrap().kept().len() >= 88);
    assert!(silent.0.lock().unwrap().iter().all(|(_, answer)| answer.is_wanted()()));
    fs::write(world.path("ws/go"), "").unwrap();
    eventually("they are killed", || world.path("ws/killed").exists());
    let waiting = std::mem::take(&mut *silent.0.lock().unwrap());
    assert!(waiting.iter().all(|(_, answer)| !answer.is_wanted()()));
    // A yes to what is gone does nothing.
    let rule = FileRule::path(world.at("out"), Access::Write).from_source(RuleSource::Approval);
    let more = Permissions { files: FileRules::new([rule]).unwrap(), ..Permissions::default() };
    let granted = WriteVerdict::Granted(Box::new(world.permissions().merge(&more)));
    waiting.into_iter().for_each(|(_, answer)| answer.give(granted.clone()));
    fs::write(world.path("ws/end"), "").unwrap();
    assert_eq!(running.wait(Some(Duration::from_secs(60))).unwrap(), Some(WaitStatus::Exited(0)));
    world.nothing_else_changed();
}

/// A command whose call waits can be killed, and an answer that is dropped is a no.
#[test]
fn a_command_that_waits_ends_when_it_is_told_to() {
    let (world, silent) = (World::new(), Arc::new(Silent::default()));
    let mut running = world.start_silent(&silent, r#"os.mkdir("../out/new")"#);
    eventually("the call waits", || silent.0.lock().unwrap().len() == 1);
    running.kill().unwrap();
    assert!(matches!(running.wait(Some(Duration::from_secs(60))).unwrap(), Some(WaitStatus::Signaled(_))));
    let mut running = world.start_silent(&silent, r#"fails(lambda: os.mkdir("../out/new"), errno.EROFS)"#);
    eventually("the call waits", || silent.0.lock().unwrap().len() == 2);
    silent.0.lock().unwrap().clear();
    assert_eq!(running.wait(Some(Duration::from_secs(60))).unwrap(), Some(WaitStatus::Exited(0)));
    world.nothing_else_changed();
}
