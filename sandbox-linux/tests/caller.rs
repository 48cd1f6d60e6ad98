//! The umask and the limits of a caller that is another process, with every engine, warm and cold.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;

use stockade_protocol::{Access, Argv, FileRule, FileRules, Permissions, ResourceLimits, Rlimit, RlimitResource};
use stockade_sandbox_linux::{Bwrap, LandlockOnly, Native};
use stockade_sandboxing::{Backend, CommandSpec, ProcessSettings, Running, SpawnError, Stdio, Streams, WaitStatus};

const SHOW: &str = "umask; ulimit -Sn; ulimit -Hn; ulimit -Ss; ulimit -Hc; ulimit -St; ulimit -Ht";

fn settings(umask: u16, limits: &[(RlimitResource, u64, u64)]) -> ProcessSettings {
    let limit = |(resource, soft, hard): &(_, u64, u64)| (*resource, Rlimit { soft: Some(*soft), hard: Some(*hard) });
    ProcessSettings {
        umask: Some(umask.try_into().unwrap()),
        rlimits: limits.iter().map(limit).collect(),
        ..ProcessSettings::default()
    }
}

fn command(process: ProcessSettings) -> CommandSpec {
    CommandSpec {
        argv: Argv::parse(["bash", "-c", SHOW]).unwrap(),
        cwd: "/".parse().unwrap(),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        process,
    }
}

fn reading(limits: ResourceLimits) -> Permissions {
    let files = FileRules::new([FileRule::path("/".parse().unwrap(), Access::Read)]).unwrap();
    Permissions { files, limits, ..Permissions::default() }
}

fn printed(spawn: impl FnOnce(Stdio) -> Result<Box<dyn Running>, SpawnError>) -> Vec<String> {
    use std::io::{Read as _, Seek as _};
    let mut output = tempfile::tempfile().unwrap();
    let stdio = Stdio { stdout: Streams::To(output.try_clone().unwrap().into()), ..Stdio::default() };
    let mut running = spawn(stdio).unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
    assert_eq!(running.wait(Some(Duration::from_secs(30))).unwrap(), Some(WaitStatus::Exited(0)));
    let mut text = String::new();
    output.rewind().unwrap();
    output.read_to_string(&mut text).unwrap();
    text.lines().map(String::from).collect()
}

fn engines() -> [(&'static str, Box<dyn Backend>); 3] {
    [
        ("native", Box::new(Native::new())),
        ("bwrap", Box::new(Bwrap::new())),
        ("landlock", Box::new(LandlockOnly::new())),
    ]
}

#[test]
fn the_callers_umask_and_limits_hold_with_every_engine() {
    use RlimitResource::{Core, Cpu, Nofile, Stack};
    let caller =
        settings(0o27, &[(Nofile, 33, 44), (Stack, 1 << 20, 2 << 20), (Core, 7 << 10, 7 << 10), (Cpu, 50, 60)]);
    let policy = ResourceLimits {
        open_files: NonZeroU64::new(40),
        cpu_seconds: NonZeroU64::new(55),
        ..ResourceLimits::default()
    };
    for (name, engine) in engines() {
        let shown = |permissions: &Permissions| {
            let plan = engine.compile(&command(caller.clone()), permissions).unwrap();
            printed(|stdio| plan.spawn(stdio))
        };
        // No core file is ever written from inside.
        let alone = shown(&reading(ResourceLimits::default()));
        assert_eq!(alone, ["0027", "33", "44", "1024", "0", "50", "60"], "{name}");
        // The lower one holds, of each.
        assert_eq!(shown(&reading(policy)), ["0027", "33", "40", "1024", "0", "50", "56"], "{name}, with a policy");
    }
}

/// One that was started before has the umask of this process, and its commands have their callers'.
#[test]
fn a_launcher_that_waits_keeps_no_umask_for_its_commands() {
    let native = Native::new();
    let permissions = reading(ResourceLimits::default());
    native.get_ready(&permissions.network);
    let plan = native.compile(&command(settings(0o77, &[])), &permissions).unwrap();
    assert_eq!(printed(|stdio| plan.spawn(stdio))[0], "0077");

    let session = native.session(&permissions).unwrap();
    for mask in [0o22, 0o2, 0o77] {
        let command = command(settings(mask, &[(RlimitResource::Nofile, 64, 64 + u64::from(mask))]));
        let shown = printed(|stdio| session.spawn(&command, stdio));
        assert_eq!(shown[..3], [format!("{mask:04o}"), String::from("64"), (64 + mask).to_string()]);
    }
}

#[test]
fn more_than_this_process_has_is_refused() {
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap();
    let caller = settings(0o22, &[(RlimitResource::Nofile, 64, own + 1)]);
    for (name, engine) in engines() {
        let error = engine.compile(&command(caller.clone()), &reading(ResourceLimits::default())).unwrap_err();
        let told = error.to_string();
        assert!(told.contains("`nofile`") && told.contains(&own.to_string()), "{name}: {told}");
    }
}
