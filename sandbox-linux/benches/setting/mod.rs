//! Common parts of the benchmarks: a workspace, its policy, the same for bubblewrap, and medians.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Argv, HostPaths, PROTECTED_NAMES, Permissions, SandboxPolicy};
use stockade_sandboxing::{Backend, CommandSpec, Running, Stdio, WaitStatus};

/// Workspaces with a repository in each.
pub(crate) struct Setting {
    _workspace: tempfile::TempDir,
    path: AbsPath,
    /// A separate one for bubblewrap, whose leftovers would save the others some work.
    other: tempfile::TempDir,
    missing: Vec<&'static str>,
}

impl Setting {
    /// Every protected name but the repository's own is missing.
    pub(crate) fn new() -> Self {
        Self::with(&[".git"])
    }

    /// Every protected name is there.
    pub(crate) fn with_all_names() -> Self {
        Self::with(PROTECTED_NAMES)
    }

    fn with(names: &[&str]) -> Self {
        let (workspace, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in [&workspace, &other] {
            names.iter().for_each(|name| std::fs::create_dir(directory.path().join(name)).unwrap());
        }
        let missing = PROTECTED_NAMES.iter().copied().filter(|name| !names.contains(name)).collect();
        let path = AbsPath::from_path(&workspace.path().canonicalize().unwrap()).unwrap();
        Self { _workspace: workspace, path, other, missing }
    }

    pub(crate) fn path(&self) -> AbsPath {
        self.path.clone()
    }

    /// Read-only root, writable workspace, protected metadata; no network.
    pub(crate) fn permissions(&self) -> Permissions {
        SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([self.path()])).unwrap()
    }

    pub(crate) fn command(&self, argv: &[&str]) -> CommandSpec {
        let path = ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into());
        CommandSpec {
            argv: Argv::parse(argv.iter().copied()).unwrap(),
            cwd: self.path(),
            environment: BTreeMap::from([path]),
            process: Default::default(),
        }
    }

    /// Compiles a plan, starts `/bin/true` with it, and waits for its end.
    pub(crate) fn start(&self, engine: &dyn Backend) {
        let plan = engine.compile(&self.command(&["/bin/true"]), &self.permissions()).unwrap();
        finish(plan.spawn(Stdio::default()).unwrap());
    }

    /// The same policy. Names that are missing are covered by a file, which bubblewrap leaves behind.
    pub(crate) fn bwrap(&self) -> Command {
        let workspace = self.other.path();
        // By its path: for a name in a changed environment the standard library forks, and copies the page tables of
        // all memory.
        let mut command = Command::new(program("bwrap"));
        command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind"]);
        command.arg(workspace).arg(workspace);
        for name in PROTECTED_NAMES.iter().copied() {
            let path = workspace.join(name);
            let source = if self.missing.contains(&name) { Path::new("/dev/null") } else { &path };
            command.arg("--ro-bind").arg(source).arg(&path);
        }
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "/bin/true"]).env_clear();
        command
    }

    /// The time of bubblewrap. Its leftovers are removed afterwards, so that the same names are missing every time.
    pub(crate) fn time_bwrap(&self) -> Duration {
        let took = time(|| run(&mut self.bwrap()));
        self.missing.iter().for_each(|name| std::fs::remove_file(self.other.path().join(name)).unwrap());
        took
    }
}

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name)).find(|path| path.is_file());
    found.expect("it is installed")
}

pub(crate) fn finish(mut running: Box<dyn Running>) {
    assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
}

pub(crate) fn run(command: &mut Command) {
    assert!(command.status().unwrap().success());
}

pub(crate) fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap()
}
