//! A program that keeps sandboxes reaps their launchers as they end. The only test of its process, so that every child
//! is its own.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Argv, HostPaths, SandboxPolicy};
use stockade_sandbox_linux::{Native, Warm};
use stockade_sandboxing::{Backend, CommandSpec, Stdio};

/// The children of this process that have ended and were not waited for.
fn zombies() -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            fields.next() == Some("Z") && fields.next() == Some(own.as_str())
        })
        .collect()
}

#[test]
fn a_kept_sandbox_leaves_no_zombie() {
    let workspace = tempfile::Builder::new().prefix("stockade-reaping").tempdir_in("/var/tmp").unwrap();
    let cwd = AbsPath::from_path(workspace.path()).unwrap();
    let permissions = SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([cwd.clone()])).unwrap();
    let warm = Warm::new(Box::new(Native::new()));
    let argv = Argv::parse(["/bin/true"]).unwrap();
    let command = CommandSpec { argv, cwd, environment: [].into(), process: Default::default() };
    for _ in 0..3 {
        let plan = warm.compile(&command, &permissions).unwrap();
        let mut running = plan.spawn(Stdio::inherit()).unwrap();
        running.wait(None).unwrap();
    }
    drop(warm);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !zombies().is_empty() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(zombies(), Vec::<String>::new());
}
