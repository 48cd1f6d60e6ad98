//! A pre-started launcher: used once, by a plan that fits, and ended otherwise.
//!
//! One test, since the pre-started launcher belongs to the whole process.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use stockade_protocol::{AbsPath, Argv, HostPaths, LayerStatus, NetworkPolicy, Permissions, SandboxPolicy};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend as _, CommandSpec, Stdio, WaitStatus};

/// Children of this program that have not ended.
fn children() -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let mut words = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        words.next() != Some("Z") && words.next() == Some(std::process::id().to_string().as_str())
    };
    pids.filter(is_child).collect()
}

fn soon(what: impl Fn() -> bool) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if what() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// Gets ready and gives the number of the launcher.
fn get_ready(native: &Native, expected: &NetworkPolicy) -> i32 {
    native.get_ready(expected);
    let [launcher] = children().try_into().unwrap();
    launcher
}

/// Runs a script in a workspace, checks that it was held, and gives the launcher that it ran in.
fn run(native: &Native, workspace: &Path, permissions: &Permissions) -> i32 {
    let script =
        "sleep 0.3; echo hi > inside; echo x > .git/config; echo x > .codex; echo x > /etc/x; test ! -e /dev/sda";
    let command = CommandSpec {
        argv: Argv::parse(["sh", "-c", script]).unwrap(),
        cwd: AbsPath::from_path(workspace).unwrap(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        process: Default::default(),
    };
    let mut running = native.compile(&command, permissions).unwrap().spawn(Stdio::default()).unwrap();
    // One that does not fit is on its way out.
    soon(|| children().len() == 1);
    let [launcher] = children().try_into().unwrap();
    assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Exited(0)));
    let layers = &running.enforcement().layers;
    let expected = if permissions.network == NetworkPolicy::Full { 1 } else { 0 };
    let missing = layers.iter().filter(|layer| layer.status != LayerStatus::FullyEnforced).count();
    assert_eq!(missing, expected, "{layers:?}");
    assert_eq!(fs::read_to_string(workspace.join("inside")).unwrap(), "hi\n");
    fs::remove_file(workspace.join("inside")).unwrap();
    let left: Vec<_> = fs::read_dir(workspace).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".git"]);
    assert_eq!(fs::read_dir(workspace.join(".git")).unwrap().count(), 0);
    drop(running);
    assert!(soon(|| children().is_empty()), "{:?} are left", children());
    launcher
}

#[test]
fn what_is_started_ahead_is_used_or_gone() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let workspace = directory.path().canonicalize().unwrap();
    fs::create_dir(workspace.join(".git")).unwrap();
    let host = HostPaths::without_masks([AbsPath::from_path(&workspace).unwrap()]);
    let usual = SandboxPolicy::workspace_write().resolve(&host).unwrap();
    let native = Native::new();

    let ahead = get_ready(&native, &NetworkPolicy::Off);
    assert_eq!(run(&native, &workspace, &usual), ahead, "it was used");
    assert_ne!(run(&native, &workspace, &usual), ahead, "and once only");

    let ahead = get_ready(&native, &NetworkPolicy::Off);
    let on_hosts_network = Permissions { network: NetworkPolicy::Full, ..usual.clone() };
    assert_ne!(run(&native, &workspace, &on_hosts_network), ahead, "it has a network of its own, and is let go");
    let ahead = get_ready(&native, &NetworkPolicy::Full);
    assert_eq!(run(&native, &workspace, &on_hosts_network), ahead, "it has the host's network, as expected");
    let ahead = get_ready(&native, &NetworkPolicy::Full);
    assert_ne!(run(&native, &workspace, &usual), ahead, "it has the host's network, and is let go");

    let killed = get_ready(&native, &NetworkPolicy::Off);
    // When it has done all it can, and nobody else holds its socket.
    std::thread::sleep(Duration::from_millis(100));
    kill_process(Pid::from_raw(killed).unwrap(), Signal::KILL).unwrap();
    assert!(soon(|| children().is_empty()));
    assert_ne!(run(&native, &workspace, &usual), killed, "another takes its place");

    let (first, second) = (get_ready(&native, &NetworkPolicy::Off), {
        native.get_ready(&NetworkPolicy::Off);
        assert!(soon(|| children().len() == 1), "the earlier one is let go: {:?}", children());
        children()
    });
    assert!(!second.contains(&first));
    assert!(soon(|| children().is_empty()), "nobody has wanted it, and it is still there");
    run(&native, &workspace, &usual);
}
