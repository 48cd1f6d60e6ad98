//! What a command tries against its policy is seen, in every engine that has a view, and nothing else is.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use stockade_protocol::{AbsPath, Argv, HostPaths, Permissions, SandboxPolicy};
use stockade_sandbox_linux::{Auto, Bwrap, Native, Observe, Warm};
use stockade_sandboxing::{Backend, CommandSpec, DeniedAct, Observation, Stdio, WaitStatus};

/// A workspace with a repository in it, and a directory beside it.
struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        for name in ["ws/.git", "ws/sub/nested/.git", "out/full/inner"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["ws/f", "out/file", "out/other"] {
            fs::write(directory.path().join(name), "before").unwrap();
        }
        std::os::unix::fs::symlink("../out", directory.path().join("ws/link")).unwrap();
        std::os::unix::fs::symlink("../out/dangling", directory.path().join("ws/dangling")).unwrap();
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn permissions(&self) -> Permissions {
        let workspace = AbsPath::from_path(&self.path("ws")).unwrap();
        SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace])).unwrap()
    }

    fn observed(&self, engine: &dyn Backend, script: &str) -> (WaitStatus, Vec<Observation>) {
        let (status, observed) = self.ended(engine, script);
        (status, observed.unwrap())
    }

    fn ended(&self, engine: &dyn Backend, script: &str) -> (WaitStatus, Option<Vec<Observation>>) {
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let argv = Argv::parse(["bash", "-c", script]).unwrap();
        let cwd = AbsPath::from_path(&self.path("ws")).unwrap();
        let command = CommandSpec { argv, cwd, environment, process: Default::default() };
        let plan = engine.compile(&command, &self.permissions()).unwrap();
        let mut running = plan.spawn(Stdio::default()).unwrap();
        let status = running.wait(Some(Duration::from_secs(60))).unwrap();
        let status = status.unwrap_or_else(|| panic!("`{script}` does not end"));
        (status, running.observations().map(|notes| notes.kept()))
    }

    /// The acts of a script, with paths from the world's own directory on.
    fn acts(&self, engine: &dyn Backend, script: &str) -> Vec<String> {
        let root = self.path("").display().to_string();
        let (_, observed) = self.observed(engine, script);
        let told = |path: &AbsPath| path.to_string().replace(root.trim_end_matches('/'), "");
        let act = |observation: &Observation| match &observation.act {
            DeniedAct::Read(path) => format!("read {}", told(path)),
            DeniedAct::LookAt(path) => format!("look at {}", told(path)),
            DeniedAct::Write(path) => format!("write {}", told(path)),
            DeniedAct::Create(path) => format!("create {}", told(path)),
            DeniedAct::MakeDirectory(path) => format!("mkdir {}", told(path)),
            DeniedAct::Replace(path) => format!("replace {}", told(path)),
            DeniedAct::Link { path, .. } => format!("create {}", told(path)),
            DeniedAct::LookUp(host) => format!("look up {host}"),
            DeniedAct::Connect { host, port, .. } => format!("connect {}", host.with_port(*port)),
            DeniedAct::Call(name) => format!("call {name}"),
            DeniedAct::UnixSocket => String::from("unix socket"),
            DeniedAct::Exceed(limit) => format!("exceed {}", limit.field()),
        };
        observed.iter().map(act).collect()
    }
}

fn engines() -> [Box<dyn Backend>; 3] {
    [Box::new(Native::new()), Box::new(Bwrap::new()), Box::new(Warm::new(Box::new(Auto::new())))]
}

const PYTHON: &str = "import os,sys\ntry:\n exec(sys.argv[1])\nexcept OSError as e: pass";

fn python(code: &str) -> String {
    format!("python3 -c '{PYTHON}' '{code}'")
}

#[test]
fn what_is_tried_against_the_policy_is_seen() {
    let world = World::new();
    for engine in engines() {
        for (script, wanted) in [
            (String::from("echo x > ../out/new"), "create /out/new"),
            (String::from("echo x >> ../out/file"), "write /out/file"),
            (String::from("echo x > link/new"), "create /out/new"),
            (String::from("echo x > dangling"), "create /out/dangling"),
            (String::from("cd sub; echo x > ../link/../out/./new"), "create /out/new"),
            (String::from("mkdir ../out/d"), "mkdir /out/d"),
            (String::from("rm -f ../out/file"), "replace /out/file"),
            (String::from("rmdir ../out/full/inner"), "replace /out/full/inner"),
            (String::from("mv f ../out/f"), "create /out/f"),
            (String::from("mv -T ../out/file g"), "replace /out/file"),
            (String::from("ln -s x ../out/l"), "create /out/l"),
            (String::from("mkfifo ../out/p"), "create /out/p"),
            (String::from("truncate -s 0 ../out/file"), "write /out/file"),
            (String::from("chmod 600 ../out/file"), "write /out/file"),
            (python("os.truncate(\"../out/file\", 0)"), "write /out/file"),
            (python("os.utime(\"../out/file\", (1, 1))"), "write /out/file"),
            (python("os.setxattr(\"../out/file\", \"user.a\", b\"b\")"), "write /out/file"),
            (python("os.link(\"f\", \"../out/hard\")"), "create /out/hard"),
            (python("d=os.open(\"../out\", os.O_RDONLY); os.mkdir(\"at\", dir_fd=d)"), "mkdir /out/at"),
            (python("os.open(\"../out\", os.O_TMPFILE | os.O_RDWR)"), "create /out/unnamed"),
            (String::from("echo x > .git/config"), "create /ws/.git/config"),
            (String::from("mv .git elsewhere"), "replace /ws/.git"),
            (String::from("mv sub s"), "replace /ws/sub/nested/.git"),
        ] {
            let acts = world.acts(&*engine, &script);
            assert_eq!(acts.first().map(String::as_str), Some(wanted), "{script}: {acts:?}");
        }
    }
}

#[test]
fn what_is_allowed_or_fails_anyway_is_not() {
    let world = World::new();
    for engine in engines() {
        for script in [
            "echo x > new; mkdir d; mv new d; rm -r d; chmod 700 f; ln -s f l; rm l; touch f",
            "cat ../out/file ../out/missing; ls ../out; test -w ../out/file",
            "echo x > /tmp/y; mkdir /tmp/z; echo x > /dev/null; echo x > /dev/stderr; exec 3> /dev/fd/1",
            "set -C; echo x > ../out/file",
            "mkdir ../out; mkdir ../out/full; rmdir ../out/full; rmdir ../out/file; rm ../out/gone",
            "echo x > ../out/missing/new; echo x > ../out/full; mv gone ../out/g; echo x > ../out/file/below",
            "echo x > /proc/self/comm; kill -0 1",
        ] {
            assert_eq!(world.acts(&*engine, script), Vec::<String>::new(), "{script}");
        }
    }
}

/// A call by number, with the error that the program gets as its status.
fn call(number: i64, first: u64) -> String {
    let code = "import ctypes,sys\nc=ctypes.CDLL(None,use_errno=True)\n\
                n=c.syscall(int(sys.argv[1]),ctypes.c_ulong(int(sys.argv[2])),0,0,0,0,0)\n\
                sys.exit(ctypes.get_errno() if n<0 else 0)";
    format!("python3 -c '{code}' {number} {first}")
}

/// No policy allows these. What this user could do outside is noted, and the error is the one that the filter gives without an observer.
#[test]
fn refused_calls_are_seen_and_stay_refused() {
    let world = World::new();
    let unobserved: [Box<dyn Backend>; 2] =
        [Box::new(Native::new().observing(Observe::Nothing)), Box::new(Bwrap::new().observing(Observe::Nothing))];
    let new_users = libc::CLONE_NEWUSER.cast_unsigned().into();
    let scripts = [
        (call(libc::SYS_ptrace, 0), "call ptrace", libc::EPERM),
        (call(libc::SYS_unshare, new_users), "call unshare", libc::EPERM),
        (call(libc::SYS_clone, new_users | 17), "call clone", libc::EPERM),
        (call(libc::SYS_socket, 1), "unix socket", libc::EAFNOSUPPORT),
    ];
    for (script, wanted, errno) in scripts {
        for engine in engines() {
            let (status, observed) = world.observed(&*engine, &script);
            assert_eq!(status, WaitStatus::Exited(errno), "{script}");
            let [only] = observed.as_slice() else { panic!("{script}: {observed:?}") };
            assert!(only.pid.is_some() && only.program.is_some(), "{only:?}");
            assert_eq!(world.acts(&*engine, &script), [wanted], "{script}");
        }
        for engine in &unobserved {
            let (status, _) = world.ended(&**engine, &script);
            assert_eq!(status, WaitStatus::Exited(errno), "without an observer: {script}");
        }
    }
}

/// What programs do all the time, and what stays refused without a word.
#[test]
fn ordinary_processes_and_sockets_are_not_told() {
    let world = World::new();
    let script = [
        "(true); true | cat; python3 -c 'import threading as t; x = t.Thread(target=print); x.start(); x.join()'",
        &python("import socket; socket.socket(); socket.socketpair(); socket.socket(16, 3)"),
        &call(libc::SYS_unshare, libc::CLONE_FS.cast_unsigned().into()),
        &call(libc::SYS_keyctl, 0),
    ];
    for engine in engines() {
        assert_eq!(world.acts(&*engine, &script.join("; ")), Vec::<String>::new());
    }
}

#[test]
fn a_connection_is_named_where_the_network_is_off() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for engine in engines() {
        let acts = world.acts(&*engine, &format!("exec 3<>/dev/tcp/127.0.0.1/{port}"));
        assert_eq!(acts, [format!("connect 127.0.0.1:{port}")]);
        assert_eq!(world.acts(&*engine, "exec 3<>/dev/tcp/127.0.0.1/9"), Vec::<String>::new(), "nobody listens there");
        // No name is looked up outside.
        let acts = world.acts(&*engine, "curl -s http://packages.example.org/");
        assert_eq!(acts.first().map(String::as_str), Some("look up packages.example.org"), "{acts:?}");
    }
}

#[test]
fn who_did_it_is_told() {
    let world = World::new();
    for engine in engines() {
        let (_, observed) = world.observed(&*engine, "mkdir ../out/d");
        let program = observed.first().unwrap().program.clone().unwrap().to_string();
        assert!(program.ends_with("/mkdir"), "{program}");
        assert!(observed.first().unwrap().pid.is_some());
    }
}

#[test]
fn nothing_is_watched_where_that_is_switched_off() {
    let world = World::new();
    let argv = Argv::parse(["true"]).unwrap();
    let cwd = AbsPath::from_path(&world.path("ws")).unwrap();
    let command = CommandSpec { argv, cwd, environment: BTreeMap::new(), process: Default::default() };
    let off: [Box<dyn Backend>; 2] =
        [Box::new(Native::new().observing(Observe::Nothing)), Box::new(Bwrap::new().observing(Observe::Nothing))];
    for engine in off {
        let plan = engine.compile(&command, &world.permissions()).unwrap();
        assert!(!plan.to_string().contains("Observe"), "{plan}");
        assert!(plan.spawn(Stdio::default()).unwrap().observations().is_none());
    }
}
