//! Placeholders in a workspace are gone when the end of a run is reported, for any owner of the workspace, and its
//! file system can then be unmounted.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on fails, and starts itself again in a mount namespace of its own"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use stockade_protocol::{AbsPath, Argv, HostPaths, PROTECTED_NAMES, Permissions, SandboxPolicy};
use stockade_sandbox_linux::{Bwrap, Native};
use stockade_sandboxing::{Backend, CommandSpec, Running, Stdio, Streams, WaitStatus};

const NOBODY: u32 = 65534;
const INSIDE: &str = "STOCKADE_TEST_IN_MOUNT_NAMESPACE";
const CYCLES: usize = 10;

fn permissions(workspace: &Path) -> Permissions {
    SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([path(workspace)])).unwrap()
}

fn path(path: &Path) -> AbsPath {
    AbsPath::from_path(&path.canonicalize().unwrap()).unwrap()
}

fn command(workspace: &Path, words: &[&str]) -> CommandSpec {
    let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
    CommandSpec {
        argv: Argv::parse(words.iter().copied()).unwrap(),
        cwd: path(workspace),
        environment,
        process: Default::default(),
    }
}

fn await_success(running: &mut dyn Running) {
    assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Exited(0)));
}

fn run_once(engine: &dyn Backend, workspace: &Path) {
    let plan = engine.compile(&command(workspace, &["true"]), &permissions(workspace)).unwrap();
    await_success(&mut *plan.spawn(Stdio::default()).unwrap());
}

fn run_session(workspace: &Path) {
    let session = Native::new().session(&permissions(workspace)).unwrap();
    for _ in 0..2 {
        await_success(&mut *session.spawn(&command(workspace, &["true"]), Stdio::default()).unwrap());
    }
}

/// The session is let go while a command still runs in it.
fn run_in_abandoned_session(workspace: &Path) {
    let session = Native::new().session(&permissions(workspace)).unwrap();
    let (input, typed) = rustix::pipe::pipe().unwrap();
    let stdio = Stdio { stdin: Streams::To(input), ..Stdio::default() };
    let mut running = session.spawn(&command(workspace, &["cat"]), stdio).unwrap();
    drop(session);
    assert!(held(workspace).contains(&String::from(".git")), "a command still runs");
    drop(typed);
    await_success(&mut *running);
}

fn held(workspace: &Path) -> Vec<String> {
    let names = fs::read_dir(workspace).unwrap();
    names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect()
}

const NOTHING: [String; 0] = [];

/// Runs something in a workspace, and gives what is left there.
fn left_by(run: impl Fn(&Path)) -> Vec<String> {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    // Only root can write another user's directory, by a right that does not reach into a user namespace.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    run(directory.path());
    held(directory.path())
}

#[test]
fn nothing_is_left_in_another_users_directory() {
    assert_eq!(left_by(|workspace| run_once(&Native::new(), workspace)), NOTHING);
    assert_eq!(left_by(|workspace| run_once(&Bwrap::new(), workspace)), NOTHING);
    assert_eq!(left_by(run_session), NOTHING);
    assert_eq!(left_by(run_in_abandoned_session), NOTHING);
}

#[test]
fn another_run_keeps_the_names_in_another_users_directory() {
    let left = left_by(|workspace| {
        let (input, typed) = rustix::pipe::pipe().unwrap();
        let plan = Native::new().compile(&command(workspace, &["cat"]), &permissions(workspace)).unwrap();
        let mut longer = plan.spawn(Stdio { stdin: Streams::To(input), ..Stdio::default() }).unwrap();
        run_once(&Native::new(), workspace);
        assert_eq!(held(workspace).len(), PROTECTED_NAMES.len(), "the other run still needs them");
        drop(typed);
        await_success(&mut *longer);
    });
    assert_eq!(left, NOTHING);
}

/// Starts this test again in a mount namespace of its own, where nothing propagates to the host.
fn in_mount_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let status = Command::new("unshare")
        .arg(if is_root { "-m" } else { "-Urm" })
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    false
}

/// Mounts a file system, runs something in it, and unmounts it at once, again and again.
fn cycle(name: &str, run: impl Fn(&Path)) {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let workspace = directory.path();
    for cycle in 0..CYCLES {
        rustix::mount::mount("none", workspace, "tmpfs", MountFlags::empty(), None).unwrap();
        run(workspace);
        let unmounted = rustix::mount::unmount(workspace, UnmountFlags::empty());
        if unmounted.is_err() {
            rustix::mount::unmount(workspace, UnmountFlags::DETACH).unwrap();
        }
        assert_eq!(unmounted, Ok(()), "{name}, cycle {cycle}");
    }
}

#[test]
fn a_workspace_is_unmounted_right_after_a_run() {
    if !in_mount_namespace("a_workspace_is_unmounted_right_after_a_run") {
        return;
    }
    for propagation in [MountPropagationFlags::PRIVATE, MountPropagationFlags::SHARED] {
        rustix::mount::mount_change("/", propagation | MountPropagationFlags::REC).unwrap();
        cycle("native", |workspace| run_once(&Native::new(), workspace));
        cycle("bwrap", |workspace| run_once(&Bwrap::new(), workspace));
        cycle("session", run_session);
    }
}
