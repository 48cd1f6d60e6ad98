//! A home with credentials in it, engines that hide them, and users who run the tests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, Permissions};
use stockade_sandbox_linux::{Bwrap, Native, Observe, Session};
use stockade_sandboxing::{Backend as _, CommandSpec, DeniedAct, Observation, Running, Stdio, Streams, WaitStatus};

/// How a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Native,
    Session,
    Bwrap,
}

pub(crate) const ENGINES: [Engine; 3] = [Engine::Native, Engine::Session, Engine::Bwrap];

/// A home with masked things in it, and a workspace.
pub(crate) struct World {
    pub(crate) engine: Engine,
    directory: tempfile::TempDir,
    session: Option<Session>,
}

/// What a command printed, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: WaitStatus,
    pub(crate) output: String,
    pub(crate) kept: Vec<Observation>,
    pub(crate) sees_all_reads: bool,
    home: PathBuf,
}

impl Seen {
    /// The paths below the home that were tried to read, in their order.
    pub(crate) fn paths(&self) -> Vec<String> {
        let read =
            |seen: &Observation| if let DeniedAct::Read(path) = &seen.act { Some(self.below(path)) } else { None };
        self.kept.iter().filter_map(read).collect()
    }

    /// Those that were only looked at.
    pub(crate) fn looks(&self) -> Vec<String> {
        let look =
            |seen: &Observation| if let DeniedAct::LookAt(path) = &seen.act { Some(self.below(path)) } else { None };
        self.kept.iter().filter_map(look).collect()
    }

    fn below(&self, path: &AbsPath) -> String {
        path.to_host_path().unwrap().strip_prefix(&self.home).unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) fn programs(&self) -> Vec<String> {
        let name = |seen: &Observation| {
            let program = seen.program.as_ref().unwrap().to_string();
            Path::new(&program).file_name().unwrap().to_str().unwrap().to_owned()
        };
        self.kept.iter().map(name).collect()
    }
}

impl World {
    pub(crate) fn new(engine: Engine) -> Self {
        Self::denying(engine, &[".netrc", ".ssh", ".aws", "ws/secret"])
    }

    pub(crate) fn denying(engine: Engine, denied: &[&str]) -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let home = directory.path();
        for path in [".ssh", ".aws", "ws/secret", "ws/sub"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        for path in [".netrc", ".ssh/id", ".ssh/config", ".aws/credentials", "ws/secret/key", "ws/open"] {
            fs::write(home.join(path), "SECRET").unwrap();
        }
        let mut world = Self { engine, directory, session: None };
        if engine == Engine::Session {
            world.session = Some(Native::new().session(&world.permissions(denied)).unwrap());
        }
        world.deny(denied)
    }

    fn deny(self, denied: &[&str]) -> Self {
        fs::write(self.home().join("denied"), denied.join("\n")).unwrap();
        self
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap()
    }

    fn permissions(&self, denied: &[&str]) -> Permissions {
        let path = |path: &str| AbsPath::from_path(&self.home().join(path)).unwrap();
        let root = FileRule::path("/".parse().unwrap(), Access::Read);
        let rules = [root, FileRule::path(path("ws"), Access::Write)];
        let denied = denied.iter().map(|denied| FileRule::path(path(denied), Access::None));
        Permissions { files: FileRules::new(rules.into_iter().chain(denied)).unwrap(), ..Permissions::default() }
    }

    /// The output of a command whose masks nothing answers for.
    pub(crate) fn unobserved(&self, script: &str) -> String {
        let output = tempfile::NamedTempFile::new().unwrap();
        let (command, stdio, permissions) = self.command(script, output.reopen().unwrap());
        let native = Native::new().observing(Observe::Nothing);
        let mut running = native.compile(&command, &permissions).unwrap().spawn(stdio).unwrap();
        running.wait(None).unwrap();
        assert!(running.observations().is_none());
        fs::read_to_string(output.path()).unwrap()
    }

    pub(crate) fn spawn(&self, script: &str, output: fs::File) -> Box<dyn Running> {
        let (command, stdio, permissions) = self.command(script, output);
        match self.engine {
            Engine::Native => Native::new().compile(&command, &permissions).unwrap().spawn(stdio).unwrap(),
            Engine::Bwrap => Bwrap::new().compile(&command, &permissions).unwrap().spawn(stdio).unwrap(),
            Engine::Session => self.session.as_ref().unwrap().spawn(&command, stdio).unwrap(),
        }
    }

    fn command(&self, script: &str, output: fs::File) -> (CommandSpec, Stdio, Permissions) {
        let cwd = AbsPath::from_path(&self.home().join("ws")).unwrap();
        let home = self.home().to_str().unwrap().to_owned();
        let environment =
            [("PATH", "/usr/bin:/bin"), ("H", &home), ("LC_ALL", "C")].map(|(name, value)| (name.into(), value.into()));
        let argv = Argv::parse(["bash", "-c", script]).unwrap();
        let environment = BTreeMap::from(environment);
        let command = CommandSpec { argv, cwd, environment, process: Default::default() };
        let stdio = Stdio { stdout: Streams::To(output.into()), ..Stdio::default() };
        let denied = fs::read_to_string(self.home().join("denied")).unwrap();
        (command, stdio, self.permissions(&denied.lines().collect::<Vec<_>>()))
    }

    pub(crate) fn run(&self, script: &str) -> Seen {
        let output = tempfile::NamedTempFile::new().unwrap();
        let running = self.spawn(script, output.reopen().unwrap());
        let (status, kept, sees_all_reads) = finish(running, script);
        let output = fs::read_to_string(output.path()).unwrap();
        Seen { status, output, kept, sees_all_reads, home: self.home() }
    }
}

pub(crate) fn finish(mut running: Box<dyn Running>, script: &str) -> (WaitStatus, Vec<Observation>, bool) {
    let status = running.wait(Some(Duration::from_secs(60))).unwrap();
    let status = status.unwrap_or_else(|| panic!("`{script}` does not end"));
    let seen = running.observations().unwrap_or_else(|| panic!("nothing is watched"));
    (status, seen.kept(), seen.coverage().denied_reads)
}

pub(crate) fn in_each_engine(test: impl Fn(World)) {
    for engine in ENGINES {
        eprintln!("in {engine:?}");
        test(World::new(engine));
    }
}

/// Has a test of this program run as its user, and if that is root as `nobody`, too.
pub(crate) fn as_each_user(name: &str, test: impl Fn()) {
    // Some look at what this program has open.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    test();
    if std::env::var_os(CHILD).is_none() && rustix::process::geteuid().is_root() {
        run_as_nobody(name, "mknod -m 666 /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse");
    }
}

/// Has a test run as `nobody` where `/dev/fuse` is another device, and where there is none. Takes root to be started.
pub(crate) fn without_the_device(name: &str, test: impl Fn()) {
    const NONE: &str = "mkdir /mnt/all && mount --rbind /dev /mnt/all && mount -t tmpfs -o mode=755 none /dev \
        && (cd /dev && touch null zero full random urandom tty && mkdir shm pts && ln -s /proc/self/fd fd \
        && for name in null zero full random urandom tty shm pts; do mount --bind /mnt/all/$name $name || exit 1; done) \
        && umount -l /mnt/all";
    if std::env::var_os(CHILD).is_some() {
        return test();
    }
    if rustix::process::geteuid().is_root() {
        run_as_nobody(name, "mount --bind /dev/null /dev/fuse");
        run_as_nobody(name, NONE);
    } else if fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        test();
    }
}

const CHILD: &str = "STOCKADE_MASKS_AS_NOBODY";

/// Runs one test of this program again, as `nobody` with another `/dev/fuse`.
fn run_as_nobody(name: &str, device: &str) {
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let script = format!(
        "mount --make-rprivate / && mount -t tmpfs none /mnt && {device} && umount -l /mnt \
        && exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs \"$@\""
    );
    let unshare = ["-m", "sh", "-c", &script, "sh"];
    let mut command = Command::new("unshare");
    command.args(unshare).arg(&program).args(["--exact", name, "--nocapture", "--test-threads", "1"]).env(CHILD, "1");
    let output = command.env("TMPDIR", "/var/tmp").output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && words.contains("1 passed"), "as nobody:\n{words}");
}
