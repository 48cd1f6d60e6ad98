//! Everything that a test has on the host: a workspace, a directory outside it, a process, and the
//! user that it all belongs to.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use stockade_protocol::{AbsPath, Access, FileRule, FileRules, HostPaths, Permissions, SandboxPolicy};

use crate::ears::Ears;
use crate::request::{Ended, Request};
use crate::support::{program, run};

/// Who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user who runs the tests.
    Own,
    /// `nobody`, without any group, if the tests run as root; else the user who runs them, who is
    /// ordinary already.
    Ordinary,
}

const NOBODY: u32 = 65534;

impl User {
    pub(crate) fn is_root(self) -> bool {
        self == Self::Own && started_as_root()
    }

    /// Has a program run as this user.
    pub(crate) fn apply(self, command: &mut Command) {
        if self == Self::Ordinary && started_as_root() {
            // With a user given and no groups, the standard library clears the groups.
            command.uid(NOBODY).gid(NOBODY);
        }
    }

    fn own(self, path: &Path) {
        if self == Self::Ordinary && started_as_root() {
            std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }
}

/// Whether this user can make a control group that counts memory and processes, found out by making one.
pub(crate) fn has_control_groups(user: User) -> bool {
    if user == User::Ordinary && started_as_root() {
        return false;
    }
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let Some(own) = own.lines().find_map(|line| line.strip_prefix("0::/")) else { return false };
    let top = Path::new("/sys/fs/cgroup");
    top.join(own).ancestors().take_while(|group| group.starts_with(top)).any(|group| {
        fs::write(group.join("cgroup.subtree_control"), "+memory +pids").ok();
        let tried = tempfile::Builder::new().prefix("tried-").tempdir_in(group);
        let works = tried.is_ok_and(|tried| {
            let works = ["memory.max", "pids.max"].iter().all(|file| tried.path().join(file).exists());
            // Its files can't be removed, and go with it.
            fs::remove_dir(tried.keep()).unwrap();
            works
        });
        works && fs::File::options().write(true).open(group.join("cgroup.procs")).is_ok()
    })
}

pub(crate) fn started_as_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// What a run printed, and what became of it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) ended: Ended,
    pub(crate) stdout: String,
    #[expect(dead_code, reason = "shown when a test fails")]
    pub(crate) stderr: String,
}

pub(crate) struct World {
    pub(crate) user: User,
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
    /// Programs that the command may use: `probe`, and `caller`.
    pub(crate) programs: PathBuf,
    /// Text that is found nowhere else on the machine.
    pub(crate) marker: String,
    pub(crate) ears: Ears,
    /// Variables that scripts find beside the usual ones.
    pub(crate) variables: Vec<(String, String)>,
    /// What is run at the end, whatever became of the test.
    pub(crate) endings: Vec<Command>,
    processes: Vec<Child>,
    base: tempfile::TempDir,
}

impl World {
    /// A workspace with a repository, and a directory outside it with one file.
    pub(crate) fn new(user: User) -> Self {
        Self::named(user, OsStr::new("ws"))
    }

    /// The same with another name for the workspace.
    pub(crate) fn named(user: User, workspace: &OsStr) -> Self {
        let base = tempfile::Builder::new().prefix("stockade-test-").tempdir().unwrap();
        // Links in the temporary directory's own path are not what is tested.
        let root = base.path().canonicalize().unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let unique = root.file_name().unwrap().to_str().unwrap().replace(['.', '-'], "");
        let world = Self {
            user,
            workspace: root.join(workspace),
            outside: root.join("out"),
            programs: root.join("programs"),
            marker: format!("marker{unique}"),
            ears: Ears::default(),
            variables: Vec::new(),
            endings: Vec::new(),
            processes: Vec::new(),
            base,
        };
        world.own(&root);
        for directory in [&world.workspace, &world.outside, &world.programs] {
            world.make_directory(directory);
        }
        for name in [env!("CARGO_BIN_EXE_caller"), env!("CARGO_BIN_EXE_probe")] {
            let copy = world.programs.join(Path::new(name).file_name().unwrap());
            // A link is as good as a copy and takes no time, where the file system is the same. A copy is
            // made by another process: what another test starts meanwhile would keep ours open for
            // writing, and such a file can't be run.
            if fs::hard_link(name, &copy).is_err() {
                run(program("cp").arg(name).arg(&copy), 0);
            }
        }
        world.write(&world.outside.join("t"), "original\n");
        for directory in [".git", ".git/hooks", "src"] {
            world.make_directory(&world.workspace.join(directory));
        }
        world.write(&world.workspace.join(".git/config"), "[core]\n");
        world.write(&world.workspace.join("src/main"), "main\n");
        world
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.path().canonicalize().unwrap()
    }

    pub(crate) fn make_directory(&self, path: &Path) {
        fs::create_dir_all(path).unwrap();
        path.ancestors().take_while(|above| **above != *self.base.path()).for_each(|above| self.user.own(above));
    }

    pub(crate) fn write(&self, path: &Path, text: &str) {
        fs::write(path, text).unwrap();
        self.user.own(path);
    }

    pub(crate) fn link(&self, target: &str, path: &Path) {
        std::os::unix::fs::symlink(target, path).unwrap();
        self.user.own(path);
    }

    pub(crate) fn own(&self, path: &Path) {
        self.user.own(path);
    }

    /// A process of the same user outside the sandbox, which ends with the test.
    pub(crate) fn host_process(&mut self) -> u32 {
        let mut sleep = program("sleep");
        sleep.args(["600"]).arg0(format!("sleep-{}", self.marker)).stdin(Stdio::null());
        self.user.apply(&mut sleep);
        let child = sleep.spawn().unwrap();
        let pid = child.id();
        self.processes.push(child);
        self.variables.push((String::from("HOSTPID"), pid.to_string()));
        pid
    }

    pub(crate) fn host_process_lives(&mut self) -> bool {
        self.processes.iter_mut().all(|child| child.try_wait().unwrap().is_none())
    }

    /// The default policy of a session in this workspace: everything is read, the workspace is
    /// written, the network is off. `/tmp` is the host's own, since the world lies there and what
    /// is outside has to be in sight to be attacked.
    pub(crate) fn permissions(&self) -> Permissions {
        let policy = SandboxPolicy::WorkspaceWrite {
            writable_roots: Vec::new(),
            read_only_access: stockade_protocol::ReadOnlyAccess::default(),
            network_access: false,
            exclude_tmpdir_env_var: true,
            exclude_slash_tmp: true,
        };
        policy.resolve(&HostPaths::without_masks([abs(&self.workspace)])).unwrap()
    }

    /// The same with more rules.
    pub(crate) fn permissions_with(&self, rules: impl IntoIterator<Item = FileRule>) -> Permissions {
        let permissions = self.permissions();
        let files = FileRules::new(permissions.files.iter().cloned().chain(rules)).unwrap();
        Permissions { files, ..permissions }
    }

    /// A request to run a shell script in the workspace.
    pub(crate) fn request(&self, engine: &str, permissions: Permissions, script: &str) -> Request {
        Request {
            engine: engine.to_owned(),
            permissions,
            argv: ["/bin/sh", "-c", script].map(Into::into).into(),
            cwd: abs(&self.workspace).as_raw().clone(),
            between: None,
            controlling_terminal: false,
            limit_ms: Some(20_000),
            report: self.root().join("report"),
        }
    }

    /// The `caller` program for a request, as this world's user, with the names that scripts use.
    pub(crate) fn caller(&self, request: &Request) -> Command {
        let mut command = program(self.programs.join("caller"));
        command.arg(self.ask(request));
        self.prepare(&mut command);
        command
    }

    /// The same behind another program, which starts what its arguments say.
    pub(crate) fn caller_behind(&self, wrapper: &[&str], request: &Request) -> Command {
        let mut command = program(wrapper[0]);
        command.args(&wrapper[1..]).arg(self.programs.join("caller")).arg(self.ask(request));
        self.prepare(&mut command);
        command
    }

    fn ask(&self, request: &Request) -> PathBuf {
        fs::write(&request.report, "").unwrap();
        self.own(&request.report);
        let file = request.report.with_extension("request");
        fs::write(&file, serde_json::to_vec(request).unwrap()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        file
    }

    fn prepare(&self, command: &mut Command) {
        self.user.apply(command);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C");
        command.env("WS", &self.workspace).env("OUT", &self.outside).env("PROBE", self.programs.join("probe"));
        command.env("MARKER", &self.marker).envs(self.variables.iter().cloned()).stdin(Stdio::null()).current_dir("/");
    }

    /// Ends everything that was started with this world's names in its environment. Launchers end with
    /// their callers.
    fn end_callers(&self) {
        let name = format!("MARKER={}", self.marker);
        let own = |pid: &u32| {
            let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            variables.split(|byte| *byte == 0).any(|variable| variable == name.as_bytes())
        };
        for pid in pids().filter(own) {
            rustix::process::kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).ok();
        }
    }

    /// Runs a request to its end.
    pub(crate) fn run(&self, request: &Request) -> Seen {
        self.finish(request, &mut self.caller(request))
    }

    /// Runs a prepared command to its end.
    pub(crate) fn finish(&self, request: &Request, command: &mut Command) -> Seen {
        let output = command.output().unwrap();
        self.seen(request, &output)
    }

    pub(crate) fn seen(&self, request: &Request, output: &Output) -> Seen {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let report = fs::read(&request.report).unwrap();
        let ended = serde_json::from_slice(&report)
            .unwrap_or_else(|error| panic!("the caller gave no answer ({error}): {output:?}"));
        Seen { ended, stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A test that failed midway leaves its caller waiting, or a wrapper around it.
        if std::thread::panicking() {
            self.end_callers();
        }
        for ending in &mut self.endings {
            ending.output().ok();
        }
        for child in &mut self.processes {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

pub(crate) fn abs(path: &Path) -> AbsPath {
    AbsPath::from_path(path).unwrap()
}

pub(crate) fn rule(path: &Path, access: Access) -> FileRule {
    FileRule::path(abs(path), access)
}

/// Everything below a directory: kind, mode, links, and content or target.
pub(crate) fn snapshot(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if metadata.is_dir() => {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            () if metadata.is_symlink() => fs::read_link(&path).unwrap().display().to_string(),
            () if metadata.is_file() => format!("{} {:?}", metadata.nlink(), fs::read(&path).unwrap()),
            () => String::from("special"),
        };
        found.insert(path, format!("{:o} {content}", metadata.mode()));
    }
    found
}

/// Waits until something holds, at most this long.
pub(crate) fn wait_for(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
}

/// The processes whose arguments hold a text.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    pids()
        .filter(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments.windows(text.len()).any(|window| window == text.as_bytes())
        })
        .collect()
}
