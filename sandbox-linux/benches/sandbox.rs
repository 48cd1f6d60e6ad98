//! How long it takes to start `/bin/true`: bare, under bubblewrap with the same policy, and here.
//!
//! All are started from this program, in turn, so that whatever else the machine does hits all of
//! them alike. What counts are the ratios of the medians; the times themselves are noise.
//! `cargo bench -p stockade-sandbox-linux`, with `bwrap` installed.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Argv, HostPaths, NetworkPolicy, PROTECTED_NAMES, Permissions, SandboxPolicy};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend, CommandSpec, Running, Stdio, WaitStatus};

const ROUNDS: usize = 200;

fn main() {
    let workspace = tempfile::tempdir().unwrap();
    std::fs::create_dir(workspace.path().join(".git")).unwrap();
    let cwd = AbsPath::from_path(&workspace.path().canonicalize().unwrap()).unwrap();
    // One of its own, since what bubblewrap leaves behind would spare the others some work.
    let other = tempfile::tempdir().unwrap();
    std::fs::create_dir(other.path().join(".git")).unwrap();
    let native = Native::new();
    let mut bare = Vec::new();
    let mut bubblewrap = Vec::new();
    let mut cold = Vec::new();
    let mut warm = Vec::new();
    // The same start without one of its parts each, to see what that part costs.
    let (mut same_network, mut names_present) = (Vec::new(), Vec::new());
    let full = tempfile::tempdir().unwrap();
    PROTECTED_NAMES.iter().for_each(|name| std::fs::create_dir(full.path().join(name)).unwrap());
    let full_path = AbsPath::from_path(&full.path().canonicalize().unwrap()).unwrap();
    // A session holds the missing names of its workspace, which would spare the others that work.
    let warm_workspace = tempfile::tempdir().unwrap();
    std::fs::create_dir(warm_workspace.path().join(".git")).unwrap();
    let warm_path = AbsPath::from_path(&warm_workspace.path().canonicalize().unwrap()).unwrap();
    let session = native.session(&permissions(&warm_path)).unwrap();
    for _ in 0..ROUNDS {
        bare.push(time(|| run(Command::new("/bin/true").env_clear())));
        bubblewrap.push(time(|| run(&mut bwrap(other.path()))));
        cold.push(time(|| {
            finish(native.compile(&command(&cwd), &permissions(&cwd)).unwrap().spawn(Stdio::default()).unwrap())
        }));
        let on_host = Permissions { network: NetworkPolicy::Full, ..permissions(&cwd) };
        same_network
            .push(time(|| finish(native.compile(&command(&cwd), &on_host).unwrap().spawn(Stdio::default()).unwrap())));
        names_present.push(time(|| {
            finish(
                native
                    .compile(&command(&full_path), &permissions(&full_path))
                    .unwrap()
                    .spawn(Stdio::default())
                    .unwrap(),
            )
        }));
        warm.push(time(|| finish(session.spawn(&command(&warm_path), Stdio::default()).unwrap())));
    }
    let [bare, bubblewrap, cold, warm, same_network, names_present] =
        [bare, bubblewrap, cold, warm, same_network, names_present].map(median);
    println!("bare spawn {bare:?}, bubblewrap {bubblewrap:?}, native cold {cold:?}, warm {warm:?}");
    println!("native cold / bubblewrap: {:.2}", cold.as_secs_f64() / bubblewrap.as_secs_f64());
    println!("native cold / itself on the host's network: {:.2}", cold.as_secs_f64() / same_network.as_secs_f64());
    println!("native cold / itself with no name missing: {:.2}", cold.as_secs_f64() / names_present.as_secs_f64());
    println!("native warm / bare spawn: {:.2}", warm.as_secs_f64() / bare.as_secs_f64());
}

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap()
}

fn run(command: &mut Command) {
    assert!(command.status().unwrap().success());
}

/// The same policy: the root is read, the workspace written, its metadata kept, no network. Names that
/// are missing are covered by a file, which bubblewrap leaves behind.
fn bwrap(workspace: &std::path::Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind"]);
    command.arg(workspace).arg(workspace);
    command.arg("--ro-bind").arg(workspace.join(".git")).arg(workspace.join(".git"));
    for name in PROTECTED_NAMES.iter().filter(|name| **name != ".git") {
        command.args(["--ro-bind", "/dev/null"]).arg(workspace.join(name));
    }
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "/bin/true"]).env_clear();
    command
}

fn permissions(cwd: &AbsPath) -> Permissions {
    SandboxPolicy::workspace_write().resolve(&HostPaths::new([cwd.clone()])).unwrap()
}

fn command(cwd: &AbsPath) -> CommandSpec {
    CommandSpec { argv: Argv::parse(["/bin/true"]).unwrap(), cwd: cwd.clone(), environment: BTreeMap::new() }
}

fn finish(mut running: Box<dyn Running>) {
    assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
}
