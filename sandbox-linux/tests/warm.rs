//! Sandboxes that are kept for the next command: what lasts, and what makes a new one.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, Argv, FileRule, FileRules, HostPaths, Permissions, RuleSource, SandboxPolicy,
};
use stockade_sandbox_linux::{Auto, Warm};
use stockade_sandboxing::{Backend as _, CommandSpec, Running, Stdio, Streams, WaitStatus};

struct World {
    directory: tempfile::TempDir,
    warm: Warm,
    permissions: Permissions,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let workspace = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let permissions = SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace])).unwrap();
        Self { directory, warm: Warm::new(Box::new(Auto::new())), permissions }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn spawn(&self, script: &str, output: fs::File) -> Box<dyn Running> {
        let cwd = AbsPath::from_path(&self.path("")).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]);
        let argv = Argv::parse(["bash", "-c", script]).unwrap();
        let command = CommandSpec { argv, cwd, environment, process: Default::default() };
        let plan = self.warm.compile(&command, &self.permissions).unwrap();
        plan.spawn(Stdio { stdout: Streams::To(output.into()), ..Stdio::default() }).unwrap()
    }

    fn run(&self, script: &str) -> (WaitStatus, String) {
        let output = tempfile::NamedTempFile::new().unwrap();
        let mut running = self.spawn(script, output.reopen().unwrap());
        let status = running.wait(Some(Duration::from_secs(20))).unwrap();
        (status.unwrap_or_else(|| panic!("`{script}` does not end")), fs::read_to_string(output.path()).unwrap())
    }
}

#[test]
fn private_directories_and_loopback_last_from_one_command_to_the_next() {
    let world = World::new();
    assert_eq!(world.run("echo kept > /tmp/x").0, WaitStatus::Exited(0));
    assert!(!std::path::Path::new("/tmp/x").exists());
    assert_eq!(world.run("cat /tmp/x").1, "kept\n");
    let output = tempfile::NamedTempFile::new().unwrap();
    let server = "exec python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 7001)); \
        open(\"/tmp/listens\", \"w\"); c, _ = s.accept(); c.sendall(b\"heard\\n\")'";
    let mut running = world.spawn(server, output.reopen().unwrap());
    let client = "until test -e /tmp/listens; do sleep 0.05; done; cat < /dev/tcp/127.0.0.1/7001";
    assert_eq!(world.run(client), (WaitStatus::Exited(0), String::from("heard\n")));
    assert_eq!(running.wait(Some(Duration::from_secs(20))).unwrap(), Some(WaitStatus::Exited(0)));
    // A second one shares nothing with it.
    assert_eq!(World::new().run("test -e /tmp/x").0, WaitStatus::Exited(1));
}

/// A sandbox is used again only if it is what would be built now.
#[test]
fn what_is_denied_later_is_denied_to_the_next_command() {
    let mut world = World::new();
    let glob = format!("{}/**/*.pem", world.path("").display().to_string().trim_end_matches('/'));
    let denied = FileRule {
        target: stockade_protocol::FileTarget::Glob(glob.parse().unwrap()),
        access: Access::None,
        source: RuleSource::Policy,
    };
    let rules = world.permissions.files.iter().cloned().chain([denied]);
    world.permissions.files = FileRules::new(rules).unwrap();
    world.run("echo kept > /tmp/x");
    assert_eq!(world.run("cat /tmp/x").1, "kept\n");
    fs::write(world.path("key.pem"), "secret\n").unwrap();
    assert_eq!(world.run("cat key.pem").1, "");
    // A repository that is made meanwhile is protected.
    fs::create_dir_all(world.path("nested/.git")).unwrap();
    assert_eq!(world.run("echo x > nested/.git/config").0, WaitStatus::Exited(1));
    assert!(!world.path("nested/.git/config").exists());
    // Other permissions have a sandbox of their own, and the first one is still there.
    let writable = std::mem::take(&mut world.permissions);
    let only_read = writable.files.iter().filter(|rule| rule.access != Access::Write).cloned();
    world.permissions = Permissions { files: FileRules::new(only_read).unwrap(), ..writable.clone() };
    assert_eq!(world.run("echo x > f").0, WaitStatus::Exited(1));
    world.permissions = writable;
    assert_eq!(world.run("echo x > f; echo second > /tmp/x").0, WaitStatus::Exited(0));
    assert_eq!(world.run("cat /tmp/x").1, "second\n");
}

/// More commands at once than one launcher takes, and none waits for another.
#[test]
fn a_hundred_commands_run_at_once() {
    let world = World::new();
    fs::write(world.path("go"), "").unwrap();
    let mut all = Vec::new();
    for number in 0..100 {
        let output = tempfile::tempfile().unwrap();
        all.push(world.spawn(&format!("touch at-{number}; while test -e go; do sleep 0.1; done"), output));
    }
    let there = || fs::read_dir(world.path("")).unwrap().flatten().filter(|entry| entry.file_name() != "go");
    let start = std::time::Instant::now();
    while there().filter(|entry| entry.file_name().to_string_lossy().starts_with("at-")).count() < 100 {
        assert!(start.elapsed() < Duration::from_secs(60), "some never start");
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::remove_file(world.path("go")).unwrap();
    for mut running in all {
        assert_eq!(running.wait(Some(Duration::from_secs(30))).unwrap(), Some(WaitStatus::Exited(0)));
    }
    // Names that were held are let go with the last sandbox.
    let path = world.path("");
    drop(world.warm);
    let left = || {
        fs::read_dir(&path)
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with('.'))
            .count()
    };
    let start = std::time::Instant::now();
    while left() > 0 {
        assert!(start.elapsed() < Duration::from_secs(10), "names are still held");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A mask goes with the file that it lies on. A file that is put in its place, as editors do it, is denied as well.
#[test]
fn what_is_put_in_the_place_of_a_denied_file_is_denied_to_the_next_command() {
    let mut world = World::new();
    fs::create_dir(world.path("keys")).unwrap();
    fs::write(world.path("secret"), "one\n").unwrap();
    fs::write(world.path("keys/a"), "one\n").unwrap();
    let deny = |name: &str| FileRule::path(AbsPath::from_path(&world.path(name)).unwrap(), Access::None);
    let rules = world.permissions.files.iter().cloned().chain([deny("secret"), deny("keys")]);
    world.permissions.files = FileRules::new(rules).unwrap();
    assert_eq!(world.run("cat secret keys/a").1, "");
    fs::write(world.path("new"), "two\n").unwrap();
    fs::rename(world.path("new"), world.path("secret")).unwrap();
    assert_eq!(world.run("cat secret").1, "");
    fs::rename(world.path("keys"), world.path("keys-old")).unwrap();
    fs::create_dir(world.path("keys")).unwrap();
    fs::write(world.path("keys/a"), "two\n").unwrap();
    assert_eq!(world.run("cat keys/a").1, "");
    fs::remove_file(world.path("secret")).unwrap();
    fs::write(world.path("secret"), "three\n").unwrap();
    assert_eq!(world.run("cat secret").1, "");
}
