//! Processes, memory, output, files without end: held, with a clear result.

use std::io::Read as _;
use std::num::NonZeroU64;
use std::process::Stdio;
use std::time::{Duration, Instant};

use stockade_protocol::{Access, FileRule, Permissions, ResourceLimits};

use crate::escapes::{for_each_user, for_every_engine};
use crate::request::Ended;
use crate::world::{User, World, has_control_groups, processes_with, rule, wait_for};

for_each_user! {
    /// Ten gigabytes of output flow through, and nothing piles up.
    output => ten_gigabytes_of_output_pass;
    /// A hundred thousand files, made inside, and then searched for a policy.
    many_files => a_hundred_thousand_files_are_no_trouble;
    /// Directories so deep that their paths are longer than the kernel takes.
    deep_directories => deep_directories_are_no_trouble;
    /// More denied files than there can be mounts.
    too_many_mounts => a_policy_that_needs_too_many_mounts_is_refused;
}

for_every_engine! {
    /// A bomb of processes runs into its limit, and ends with the run.
    fork_bomb => a_fork_bomb_is_held;
    /// One process that wants all memory gets an error.
    memory_hog => a_memory_hog_is_told_no;
    /// A reader that stops reading ends the command.
    closed_output => a_reader_that_goes_away_ends_the_command;
}

fn limits(limits: ResourceLimits, world: &World) -> Permissions {
    Permissions { limits, ..world.permissions() }
}

fn a_fork_bomb_is_held(user: User, engine: &str) {
    let world = World::new(user);
    let processes = NonZeroU64::new(100);
    let permissions = limits(ResourceLimits { processes, ..ResourceLimits::default() }, &world);
    let script = format!("echo started; bomb() {{ bomb | bomb & }}; bomb; sleep 60 # {}", world.marker);
    let mut request = world.request(engine, permissions, &script);
    request.argv[0] = "/bin/bash".into();
    request.limit_ms = Some(1500);
    if user.is_root() && !has_control_groups(user) {
        // The kernel does not count root's processes, so the limit can't be held and nothing runs.
        let seen = world.run(&request);
        assert!(matches!(&seen.ended, Ended::Refused { what, .. } if what.contains("processes")), "{seen:?}");
        return;
    }
    let running = world.caller(&request).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut most = 0;
    let end = Instant::now() + Duration::from_millis(1000);
    while Instant::now() < end {
        most = most.max(processes_with(&world.marker).len());
        std::thread::sleep(Duration::from_millis(20));
    }
    let seen = world.seen(&request, &running.wait_with_output().unwrap());
    assert!(seen.stdout.starts_with("started\n"), "{seen:?}");
    assert!(matches!(seen.ended, Ended::Signaled { signal: 9, .. }), "{seen:?}");
    assert!((20..=100).contains(&most), "{most} processes at once");
    assert!(wait_for(Duration::from_secs(2), || processes_with(&world.marker).is_empty()));
}

fn a_memory_hog_is_told_no(user: User, engine: &str) {
    let world = World::new(user);
    let memory_bytes = NonZeroU64::new(256 << 20);
    let permissions = limits(ResourceLimits { memory_bytes, ..ResourceLimits::default() }, &world);
    let seen = world.run(&world.request(engine, permissions, "$PROBE memory 8589934592; $PROBE memory 67108864"));
    // A process that asks for too much is told so; where all are counted together, one that uses too much is
    // ended.
    let first = if has_control_groups(user) { "memory ok " } else { "memory error 12\nmemory ok " };
    assert!(seen.stdout.starts_with(first) && seen.stdout.lines().count() <= 2, "{seen:?}");
    assert_eq!(seen.stdout.matches("ok").count(), 1, "{seen:?}");
}

fn ten_gigabytes_of_output_pass(user: User, engine: &str) {
    const BYTES: u64 = 10 << 30;
    let world = World::new(user);
    let mut request = world.request(engine, world.permissions(), &format!("head -c {BYTES} /dev/zero"));
    request.limit_ms = Some(300_000);
    let mut running = world.caller(&request).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = running.stdout.take().unwrap();
    let mut buffer = vec![0; 1 << 20];
    let mut total = 0;
    loop {
        match output.read(&mut buffer).unwrap() {
            0 => break,
            count => total += count as u64,
        }
    }
    let seen = world.seen(&request, &running.wait_with_output().unwrap());
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{seen:?}");
    assert_eq!(total, BYTES);
}

fn a_reader_that_goes_away_ends_the_command(user: User, engine: &str) {
    let world = World::new(user);
    let request = world.request(engine, world.permissions(), "exec head -c 10G /dev/zero");
    let mut running = world.caller(&request).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = running.stdout.take().unwrap();
    output.read_exact(&mut vec![0; 1 << 20]).unwrap();
    drop(output);
    let seen = world.seen(&request, &running.wait_with_output().unwrap());
    assert!(matches!(seen.ended, Ended::Signaled { signal: libc::SIGPIPE, .. }), "{seen:?}");
}

fn a_hundred_thousand_files_are_no_trouble(user: User, engine: &str) {
    let world = World::new(user);
    let mut request =
        world.request(engine, world.permissions(), "$PROBE many-files $WS/many 100000; ls -f $WS/many | wc -l");
    request.limit_ms = Some(120_000);
    let seen = world.run(&request);
    assert_eq!(seen.stdout, "many-files ok 100000\n100002\n", "{seen:?}");
    // A glob is searched for among them all.
    world.write(&world.workspace.join("many/x.env"), "secret\n");
    let glob = format!("{}/**/*.env", world.workspace.display()).parse().unwrap();
    let permissions = world.permissions_with([FileRule::deny_glob(glob)]);
    let begun = Instant::now();
    let seen = world.run(&world.request(engine, permissions, "echo started; cat many/x.env"));
    assert_eq!(seen.stdout, "started\n", "{seen:?}");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

fn deep_directories_are_no_trouble(user: User, engine: &str) {
    let world = World::new(user);
    let seen = world.run(&world.request(engine, world.permissions(), "$PROBE deep-directories $WS 60"));
    assert_eq!(seen.stdout, "deep-directories ok 60\n", "{seen:?}");
    let glob = format!("{}/**/*.env", world.workspace.display()).parse().unwrap();
    let rules = [FileRule::deny_glob(glob), rule(&world.workspace.join("src"), Access::Read)];
    let seen = world.run(&world.request(engine, world.permissions_with(rules), "echo started"));
    assert_eq!(seen.stdout, "started\n", "{seen:?}");
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{seen:?}");
}

fn a_policy_that_needs_too_many_mounts_is_refused(user: User, engine: &str) {
    let world = World::new(user);
    for number in 0..5000 {
        std::fs::write(world.workspace.join(format!("{number}.env")), "").unwrap();
    }
    let glob = format!("{}/*.env", world.workspace.display()).parse().unwrap();
    let permissions = world.permissions_with([FileRule::deny_glob(glob)]);
    let seen = world.run(&world.request(engine, permissions, "echo started"));
    assert!(matches!(&seen.ended, Ended::Refused { why, .. } if why.contains("mounts")), "{seen:?}");
    assert_eq!(seen.stdout, "");
}
