//! Each engine on the real kernel, as the user who runs the tests and, if that is root, as an ordinary user as well.
//! Tests that need a world of their own (no user namespaces, a `/proc` that can't be mounted, an outer sandbox, a
//! caller that is killed) start this program again inside it: those parts are the ignored tests.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can't go on fails, and starts the programs that it looks at"
)]

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions as Mode};
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use stockade_protocol::{
    AbsPath, Access, Argv, Enforcement, FileRule, FileRules, HostPaths, LayerStatus, NetworkPolicy, Permissions,
    SandboxPolicy,
};
use stockade_sandbox_linux::{Auto, Bwrap, LandlockOnly, Loss, Native};
use stockade_sandboxing::{Backend, CommandSpec, Running, SpawnError, Stdio, Streams, WaitStatus};

/// A workspace with a repository and a secret in it, and a directory beside it.
struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("engines ").tempdir_in(home()).unwrap();
        for name in ["ws/.git/hooks", "ws/sub", "out"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        for name in ["ws/.git/config", "ws/.env", "out/t"] {
            fs::write(directory.path().join(name), "before").unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn abs(&self, name: &str) -> AbsPath {
        AbsPath::from_path(&self.path(name)).unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The default policy, with one denied file.
    fn workspace(&self) -> Permissions {
        let policy = SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([self.abs("ws")])).unwrap();
        let denied = FileRule::path(self.abs("ws/.env"), Access::None);
        let rules = policy.files.iter().cloned().chain([denied]);
        Permissions { files: FileRules::new(rules).unwrap(), ..policy }
    }

    /// What `landlock` can express: everything is read, the workspace is written.
    fn plain(&self) -> Permissions {
        let rules = [FileRule::path("/".parse().unwrap(), Access::Read), FileRule::path(self.abs("ws"), Access::Write)];
        // A repository would be protected, which is more than Landlock can do.
        drop(fs::remove_dir_all(self.path("ws/.git")));
        Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() }
    }

    fn command(&self, script: &str) -> CommandSpec {
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into());
        let out = ("OUT".into(), self.path("out").to_str().unwrap().into());
        CommandSpec {
            argv: Argv::parse(["bash", "-c", script]).unwrap(),
            cwd: self.abs("ws"),
            environment: BTreeMap::from([path, out]),
            process: Default::default(),
        }
    }

    fn spawn(&self, engine: &dyn Backend, permissions: &Permissions, script: &str) -> Box<dyn Running> {
        let plan = engine.compile(&self.command(script), permissions).unwrap();
        let output = File::create(self.path("output")).unwrap();
        let (stdout, stderr) = (output.try_clone().unwrap().into(), output.into());
        let stdio = Stdio { stdout: Streams::To(stdout), stderr: Streams::To(stderr), ..Stdio::default() };
        plan.spawn(stdio).unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
    }

    fn run(&self, engine: &dyn Backend, permissions: &Permissions, script: &str) -> (WaitStatus, Enforcement) {
        let mut running = self.spawn(engine, permissions, script);
        let status = running.wait(Some(Duration::from_secs(20))).unwrap();
        (status.unwrap_or_else(|| panic!("`{script}` does not end")), running.enforcement().clone())
    }
}

/// Outside `/tmp`, of which commands have their own, and where this user may write.
fn home() -> PathBuf {
    std::env::var_os("STOCKADE_TEST_HOME").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

fn everywhere() -> [Box<dyn Backend>; 2] {
    [Box::new(Native::new()), Box::new(Bwrap::new())]
}

/// Every engine, with a policy that it can hold.
fn all(world: &World) -> [(Box<dyn Backend>, Permissions); 3] {
    let [native, bwrap] = everywhere();
    [
        (native, world.workspace()),
        (bwrap, world.workspace()),
        (Box::new(LandlockOnly::new().accepting(Loss::FileAttributes)), world.plain()),
    ]
}

fn processes_with(word: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let has = |path: &PathBuf| {
        fs::read(path.join("cmdline"))
            .is_ok_and(|line| line.split(|byte| *byte == 0).any(|part| part == word.as_bytes()))
    };
    processes.filter(has).collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within ten seconds");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A number of seconds that no other test sleeps for.
fn nap(salt: u32) -> String {
    format!("{}{salt}", 10_000 + process::id())
}

#[test]
fn files_are_held() {
    for engine in everywhere() {
        let world = World::new();
        let script = "echo in > inside; echo sub > sub/x; echo tmp > /tmp/stockade-engines; (
            echo x > $OUT/t; echo x > .git/config; echo x > .git/hooks/pre-commit; mkdir .codex; echo x > .codex/config
            mv .git .g; mv .env .e; rm -f .env; echo x > /etc/stockade-test; ln -s $OUT l; echo x > l/t; cat .env > copy
            chmod 777 $OUT/t ) 2> /dev/null; ls -A";
        let (status, enforcement) = world.run(&*engine, &world.workspace(), script);
        assert_eq!(status, WaitStatus::Exited(0), "{}", world.read("output"));
        assert_eq!(world.read("ws/inside") + &world.read("ws/sub/x"), "in\nsub\n");
        for name in ["out/t", "ws/.git/config", "ws/.env"] {
            assert_eq!(world.read(name), "before", "{name} under {}", enforcement.engine);
        }
        assert_eq!(world.read("ws/copy"), "");
        assert_eq!(fs::metadata(world.path("out/t")).unwrap().permissions().mode() & 0o777, 0o644);
        for name in
            ["ws/.codex", "ws/.agents", "ws/.git/hooks/pre-commit", "/etc/stockade-test", "/tmp/stockade-engines"]
        {
            assert!(!world.path(name).exists(), "{name} under {}", enforcement.engine);
        }
        let missing = enforcement.layers.iter().find(|layer| layer.status != LayerStatus::FullyEnforced);
        assert_eq!(missing, None, "under {}", enforcement.engine);
    }
}

#[test]
fn only_what_is_granted_is_seen_under_restricted_reads() {
    for engine in everywhere() {
        let world = World::new();
        let reads = ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"];
        let rules = reads.map(|path| FileRule::path(path.parse().unwrap(), Access::Read));
        let own = FileRule::path(world.abs("ws"), Access::Write);
        let files = FileRules::new(rules.into_iter().chain([own])).unwrap();
        let permissions = Permissions { files, ..Permissions::default() };
        let script = "cat $OUT/t /etc/passwd; ls /root /home; echo x > /y; echo in > inside; ls /";
        world.run(&*engine, &permissions, script);
        let seen = world.read("output");
        assert!(!seen.contains("before") && !seen.contains("root:") && world.path("ws/inside").exists(), "{seen}");
    }
}

#[test]
fn the_network_is_off_unless_granted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = format!("echo hello > /dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let also = format!("echo hello > /dev/udp/127.0.0.1/{}", datagrams.local_addr().unwrap().port());
    let world = World::new();
    for (engine, permissions) in all(&world) {
        let (_, enforcement) = world.run(&*engine, &permissions, &also);
        let heard = datagrams.recv(&mut [0; 8]).map_err(|error| error.kind());
        assert_eq!(heard, Err(io::ErrorKind::WouldBlock), "{}", enforcement.engine);
        let (status, enforcement) = world.run(&*engine, &permissions, &script);
        assert_eq!(status, WaitStatus::Exited(1), "{}", enforcement.engine);
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock, "{}", enforcement.engine);
        let open = Permissions { network: NetworkPolicy::Full, ..permissions };
        assert_eq!(world.run(&*engine, &open, &script).0, WaitStatus::Exited(0), "{}", world.read("output"));
        listener.accept().unwrap();
    }
}

#[test]
fn endings_are_told() {
    let world = World::new();
    for (engine, permissions) in all(&world) {
        for (script, expected) in [
            ("exit 7", WaitStatus::Exited(7)),
            ("kill -TERM $$; sleep 9", WaitStatus::Signaled(15)),
            ("true", WaitStatus::Exited(0)),
        ] {
            assert_eq!(world.run(&*engine, &permissions, script).0, expected, "{script}");
        }
        let mut running =
            world.spawn(&*engine, &permissions, "trap 'exit 5' TERM; touch ready; while :; do sleep 0.1; done");
        eventually("the trap is set", || world.path("ws/ready").exists());
        fs::remove_file(world.path("ws/ready")).unwrap();
        running.signal(15).unwrap();
        assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Exited(5)));
        let missing = CommandSpec { argv: Argv::parse(["/no/such/program"]).unwrap(), ..world.command("") };
        let ended = engine.compile(&missing, &permissions).unwrap().spawn(Stdio::default()).unwrap().wait(None);
        assert!(matches!(ended, Err(SpawnError::NotFound { .. })), "{ended:?}");
    }
}

/// However it ends, nothing that was started goes on: not a daemon either.
#[test]
fn nothing_outlives_the_command() {
    let world = World::new();
    for (salt, (engine, permissions)) in (1..).zip(all(&world)) {
        let time = nap(salt);
        let script = format!("(setsid bash -c '(setsid sleep {time} &) ; sleep {time}' &); sleep 0.2; ");
        let left = || processes_with(&time).len();
        world.run(&*engine, &permissions, &script);
        assert_eq!(left(), 0, "after its end");

        let mut running = world.spawn(&*engine, &permissions, &format!("{script} touch ready; sleep {time}"));
        eventually("it is on its way", || world.path("ws/ready").exists() && left() > 2);
        fs::remove_file(world.path("ws/ready")).unwrap();
        running.kill().unwrap();
        assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Signaled(9)));
        eventually("nothing is left after a kill", || left() == 0);

        let running = world.spawn(&*engine, &permissions, &format!("{script} touch ready; sleep {time}"));
        eventually("it is on its way", || world.path("ws/ready").exists() && left() > 2);
        drop(running);
        eventually("nothing is left after a drop", || left() == 0);
        fs::remove_file(world.path("ws/ready")).unwrap();
    }
}

/// A process that forks faster than `/proc` can be read is ended with the rest.
#[test]
fn nothing_forks_its_way_out() {
    let world = World::new();
    let engine = LandlockOnly::new();
    let time = nap(9);
    // Each generation starts the next one and ends at once, in a session of its own.
    fs::write(world.path("ws/comet"), "[ $1 -gt 3000 ] || setsid bash comet $(($1 + 1)) $2 & exit").unwrap();
    world.run(&engine, &world.plain(), &format!("bash comet 0 {time}; sleep 0.3"));
    assert_eq!(processes_with(&time), Vec::<PathBuf>::new());
}

#[test]
fn landlock_refuses_what_it_cannot_hold_and_names_what_was_accepted() {
    let world = World::new();
    let error =
        |engine: LandlockOnly| engine.compile(&world.command("true"), &world.workspace()).unwrap_err().to_string();
    let engine = LandlockOnly::new();
    assert!(error(engine).contains("accept the loss of `protected_metadata`"));
    let engine = LandlockOnly::new().accepting(Loss::ProtectedMetadata);
    assert!(error(engine).contains("accept the loss of `denied_reads`"));
    let engine = LandlockOnly::new().accepting(Loss::ProtectedMetadata).accepting(Loss::DeniedReads);
    assert!(error(engine).contains("accept the loss of `private_directories`"));
    let engine = LandlockOnly::new()
        .accepting(Loss::ProtectedMetadata)
        .accepting(Loss::DeniedReads)
        .accepting(Loss::PrivateDirectories);
    let (_, enforcement) = world.run(&engine, &world.workspace(), "echo x > .git/config; echo x > $OUT/t");
    assert_eq!((world.read("ws/.git/config").as_str(), world.read("out/t").as_str()), ("x\n", "before"));
    for lost in ["protected_metadata", "denied_reads", "private_directories", "mount_namespace"] {
        let layer = enforcement.layers.iter().find(|layer| layer.layer == lost).unwrap();
        assert_eq!(layer.status, LayerStatus::NotEnforced, "{lost}");
    }
}

/// The system call filter refuses what Landlock can't express.
#[test]
fn landlock_keeps_other_processes_and_attributes_out_of_reach() {
    let world = World::new();
    let mut other = Command::new("sleep")
        .arg("600")
        .stdin(process::Stdio::null())
        .stdout(process::Stdio::null())
        .stderr(process::Stdio::null())
        .spawn()
        .unwrap();
    let script = format!(
        "kill -9 {0}; kill -9 -1; prlimit --pid {0} --cpu=1; renice 19 {0}; cat /proc/{0}/environ && touch read-it
        chmod 777 $OUT/t; touch $OUT/t; setfattr -n user.x -v 1 $OUT/t; ipcmk -M 100 && touch got-memory
        ln $OUT/t h; mv $OUT/t .; echo in > inside; exit 0",
        other.id()
    );
    world.run(&LandlockOnly::new(), &world.plain(), &script);
    let is_alive = other.try_wait().unwrap().is_none();
    let stat = fs::read_to_string(format!("/proc/{}/limits", other.id())).unwrap_or_default();
    drop(other.kill());
    drop(other.wait());
    assert!(is_alive, "the other process is gone");
    assert!(stat.lines().any(|line| line.starts_with("Max cpu time") && line.contains("unlimited")), "{stat}");
    assert_eq!(fs::metadata(world.path("out/t")).unwrap().permissions().mode() & 0o777, 0o644);
    let names: Vec<_> =
        ["read-it", "got-memory", "h", "t"].into_iter().filter(|name| world.path("ws").join(name).exists()).collect();
    assert_eq!(names, Vec::<&str>::new(), "{}", world.read("output"));
    assert!(world.path("ws/inside").exists());
}

/// A directory that was swapped for a link after the plan was made is not followed.
#[test]
fn a_link_that_was_put_in_place_since_is_an_error() {
    for engine in everywhere() {
        let world = World::new();
        let rules = [
            FileRule::path("/".parse().unwrap(), Access::Read),
            FileRule::path(world.abs("ws"), Access::Write),
            FileRule::path(world.abs("ws/sub"), Access::Read),
        ];
        let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
        let plan = engine.compile(&world.command("true"), &permissions).unwrap();
        fs::remove_dir(world.path("ws/sub")).unwrap();
        symlink(world.path("out"), world.path("ws/sub")).unwrap();
        let error = plan.spawn(Stdio::default()).unwrap_err();
        assert!(matches!(&error, SpawnError::Setup { source, .. } if source.raw_os_error() == Some(40)), "{error:?}");
    }
}

/// Starts one of the ignored tests below as a program of its own.
fn again(test: &str, before: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let words = before.iter().map(|word| (*word).to_owned());
    let all: Vec<String> = words.chain([own.to_str().unwrap().to_owned()]).collect();
    let (program, rest) = all.split_first().unwrap();
    let mut command = Command::new(program);
    command.args(rest).args(["--ignored", "--exact", "--nocapture", test]);
    command
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{command:?}\n{text}");
}

#[test]
fn a_killed_caller_leaves_nothing_behind() {
    for (salt, engine) in (11..).zip(["native", "bwrap", "landlock"]) {
        let world = World::new();
        let time = nap(salt);
        let mut caller = again("inner_caller", &[])
            .env("STOCKADE_TEST_ENGINE", engine)
            .env("STOCKADE_TEST_WORLD", world.path(""))
            .env("STOCKADE_TEST_NAP", &time)
            .spawn()
            .unwrap();
        eventually("the command runs", || processes_with(&time).len() > 1);
        caller.kill().unwrap();
        caller.wait().unwrap();
        eventually("nothing is left", || processes_with(&time).is_empty() && !world.path("ws/.codex").exists());
    }
}

#[test]
#[ignore = "a part of a_killed_caller_leaves_nothing_behind"]
fn inner_caller() {
    let path = PathBuf::from(std::env::var_os("STOCKADE_TEST_WORLD").unwrap());
    let inner = path.join("inner");
    fs::create_dir(&inner).unwrap();
    let world = World { directory: tempfile::Builder::new().tempdir_in(&inner).unwrap() };
    for name in ["ws", "out"] {
        fs::create_dir(world.path(name)).unwrap();
    }
    let engine = std::env::var("STOCKADE_TEST_ENGINE").unwrap();
    // The outer test looks at its own workspace.
    let outer = HostPaths::without_masks([AbsPath::from_path(&path.join("ws").canonicalize().unwrap()).unwrap()]);
    let (engine, permissions): (Box<dyn Backend>, _) = match engine.as_str() {
        "native" => (Box::new(Native::new()), SandboxPolicy::workspace_write().resolve(&outer).unwrap()),
        "bwrap" => (Box::new(Bwrap::new()), SandboxPolicy::workspace_write().resolve(&outer).unwrap()),
        _ => (Box::new(LandlockOnly::new()), world.plain()),
    };
    let time = std::env::var("STOCKADE_TEST_NAP").unwrap();
    let script = format!("(setsid sleep {time} &); sleep {time}");
    world.spawn(&*engine, &permissions, &script).wait(None).unwrap();
}

/// Either of the two supervising processes can be killed, and the other one ends the command.
#[test]
fn landlock_ends_the_command_when_a_watcher_is_killed() {
    let world = World::new();
    for (salt, depth) in [(21, 0), (22, 1)] {
        let time = nap(salt);
        let mut running =
            world.spawn(&LandlockOnly::new(), &world.plain(), &format!("(setsid sleep {time} &); sleep {time}"));
        eventually("the command runs", || processes_with(&time).len() > 1);
        let command = processes_with(&time).into_iter().map(|path| number(&path)).min().unwrap();
        // The first process is the command's parent, and the launcher is the parent of that.
        let watcher = (0..=depth).fold(command, |process, _| parent(process));
        assert!(Command::new("kill").args(["-9", &watcher.to_string()]).status().unwrap().success());
        eventually("nothing is left", || processes_with(&time).is_empty());
        assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Signaled(9)));
    }
}

fn number(path: &Path) -> u32 {
    path.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn parent(process: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
}

/// Commands that end sooner than their namespaces do don't use the session up.
#[test]
fn a_session_keeps_up_with_many_threads() {
    let world = World::new();
    let session = Native::new().session(&world.workspace()).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..40 {
                    let command = CommandSpec { argv: Argv::parse(["/bin/true"]).unwrap(), ..world.command("") };
                    let mut running = session.spawn(&command, Stdio::default()).unwrap();
                    assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
                }
            });
        }
    });
}

/// Where user namespaces are switched off, nothing runs with less than was asked for.
#[test]
fn auto_fails_closed_without_user_namespaces() {
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    succeed(&mut again("inner_without_namespaces", &["unshare", "-Ur", "sh", "-c", script, "sh"]));
}

#[test]
fn auto_goes_on_inside_another_sandbox_with_what_can_be_added() {
    let world = World::new();
    let own = std::env::current_exe().unwrap();
    let own = own.to_str().unwrap();
    let script = format!(
        "STOCKADE_TEST_HOME=$PWD '{own}' --ignored --exact --nocapture inner_without_namespaces inner_nested_says_so"
    );
    let (status, _) = world.run(&Native::new(), &world.plain(), &script);
    let output = world.read("output");
    assert!(status == WaitStatus::Exited(0) && output.contains("2 passed"), "{status:?}\n{output}");
}

#[test]
#[ignore = "needs a host without user namespaces"]
fn inner_without_namespaces() {
    let world = World::new();
    let auto = Auto::new();
    assert_eq!(auto.support().engine, "landlock");
    let plan = auto.compile(&world.command("touch ran; exit 3"), &world.workspace()).unwrap();
    let error = plan.spawn(Stdio::default()).unwrap_err();
    assert!(matches!(error, SpawnError::Unenforceable(_)), "{error}");
    assert!(error.to_string().contains("`native`: ") && error.to_string().contains("`bwrap`: "), "{error}");
    assert!(!world.path("ws/ran").exists() && !world.path("ws/.codex").exists());
    let (status, enforcement) = world.run(&auto, &world.plain(), "touch ran; touch $OUT/x; exit 3");
    assert_eq!((status, enforcement.engine.as_str()), (WaitStatus::Exited(3), "landlock"), "{}", world.read("output"));
    assert!(world.path("ws/ran").exists() && !world.path("out/x").exists());
    // The choice is made: what can't be held is refused before anything is started.
    assert!(auto.compile(&world.command("true"), &World::new().workspace()).is_err());
}

#[test]
#[ignore = "needs an outer sandbox"]
fn inner_nested_says_so() {
    let world = World::new();
    let error = Auto::new().compile(&world.command("true"), &world.workspace()).unwrap().spawn(Stdio::default());
    let error = error.unwrap_err().to_string();
    assert!(error.contains("inside a sandbox that forbids user namespaces"), "{error}");
}

/// In a container whose `/proc` is partly covered, no other one can be mounted.
#[test]
fn bwrap_does_without_proc_where_none_can_be_mounted() {
    let script = "mount -t tmpfs none /proc/bus && exec \"$@\"";
    succeed(&mut again("inner_without_proc", &["unshare", "-Urm", "sh", "-c", script, "sh"]));
}

#[test]
#[ignore = "needs a host that forbids to mount /proc"]
fn inner_without_proc() {
    let world = World::new();
    let auto = Auto::new();
    for _ in 0..2 {
        let (status, enforcement) = world.run(&auto, &world.workspace(), "[ -z \"$(ls -A /proc)\" ]");
        assert_eq!((status, enforcement.engine.as_str()), (WaitStatus::Exited(0), "bwrap"), "{}", world.read("output"));
        let proc = enforcement.layers.iter().find(|layer| layer.layer == "proc").unwrap();
        assert_eq!(proc.status, LayerStatus::PartlyEnforced);
    }
}

#[test]
fn auto_takes_native_where_it_works() {
    let world = World::new();
    let auto = Auto::new();
    for _ in 0..2 {
        assert_eq!(world.run(&auto, &world.workspace(), "true").1.engine, "native");
    }
}

/// All of the above once more.
#[test]
fn all_holds_for_an_ordinary_user() {
    if !is_root() {
        return;
    }
    let directory = tempfile::Builder::new().prefix("engines").tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), Mode::from_mode(0o777)).unwrap();
    let copy = directory.path().join("engines");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    fs::set_permissions(&copy, Mode::from_mode(0o755)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&copy)
        .args(["--test-threads", "2"])
        .env("STOCKADE_TEST_HOME", directory.path())
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

#[test]
fn a_start_that_fails_names_the_act() {
    let world = World::new();
    let gone = world.abs("gone");
    let command = CommandSpec { cwd: gone.clone(), ..world.command("true") };
    let expected = format!("the sandbox could not be built: enter the working directory `{gone}`");
    let engines: [(&str, Box<dyn Backend>); 3] = [
        ("native", Box::new(Native::new())),
        ("bwrap", Box::new(Bwrap::new())),
        ("landlock", Box::new(LandlockOnly::new())),
    ];
    for (name, engine) in engines {
        let error = engine.compile(&command, &world.plain()).unwrap().spawn(Stdio::default()).unwrap_err();
        assert_eq!(error.to_string(), expected, "{name}");
    }
    let session = Native::new().session(&world.plain()).unwrap();
    assert_eq!(session.spawn(&command, Stdio::default()).unwrap_err().to_string(), expected);
}
