//! Other processes, environments, limits.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stockade_protocol::{Permissions, ResourceLimits};

use super::{Attack, Bare, attacks, for_every_engine, prints, probe_succeeds};
use crate::request::Ended;
use crate::world::{User, World, has_control_groups, processes_with, wait_for};

fn limited(limits: ResourceLimits) -> impl Fn(&World) -> Permissions {
    move |world| Permissions { limits, ..world.permissions() }
}

fn some(number: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(number)
}

/// Whether a process that holds the marker in its arguments is still there; ends it if so.
fn survives(world: &mut World) -> bool {
    let marker = format!("77777.{}", digits(world));
    let gone = wait_for(Duration::from_secs(1), || processes_with(&marker).is_empty());
    for pid in processes_with(&marker) {
        kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).ok();
    }
    !gone
}

/// A number that no other test has.
fn digits(world: &World) -> u64 {
    world.marker.bytes().fold(7, |sum, byte| sum * 31 % 1_000_000_007 + u64::from(byte))
}

fn name_survivor(world: &mut World) {
    let digits = digits(world);
    world.variables.push((String::from("NAPTIME"), format!("77777.{digits}")));
}

attacks! {
    /// Seeing processes of the host.
    pr01 => Attack::with("grep -a -o sleep-$MARKER /proc/[0-9]*/cmdline").after(|world| { world.host_process(); })
        .hits(|world, seen| seen.stdout.contains(&format!("sleep-{}", world.marker)));
    /// Ending one.
    pr02 => Attack::with("kill -TERM $HOSTPID; sleep 0.1").after(|world| { world.host_process(); }).hits(|world, _| !world.host_process_lives());
    /// Taking one over.
    pr04 => Attack::with("$PROBE ptrace $HOSTPID").after(|world| { world.host_process(); }).hits(probe_succeeds).bare(Bare::WorksForRoot);
    /// Reading one's memory.
    pr05 => Attack::with("$PROBE vm-read $HOSTPID $ADDRESS").after(|world| {
            let pid = world.host_process();
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            let address = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
            world.variables.push((String::from("ADDRESS"), address.to_string()));
        })
        .hits(probe_succeeds)
        .bare(Bare::WorksForRoot);
    /// Reaching into the first process of the sandbox, which is the launcher's.
    pr06 => Attack::with("$PROBE process-files 1").hits(probe_succeeds).bare(Bare::NotTried);
    /// A process that outlives the command.
    pr07 => Attack::with("(setsid sleep $NAPTIME >/dev/null 2>&1 &); (setsid setsid sh -c 'sleep $NAPTIME & sleep $NAPTIME' >/dev/null 2>&1 &); sleep 0.1")
        .after(name_survivor)
        .hits(|world, _| survives(world));
    /// A secret that the command was not given, found in the environment of the process that started it:
    /// in a sandbox the first one, else the caller.
    pr08 => Attack::with("grep -a -o hunter2 /proc/$PPID/environ /proc/self/environ").after(secret_variable).hits(prints("hunter2"));
    /// A secret that is simply inherited.
    pr09 => Attack::with("echo $SECRET_TOKEN; env").after(secret_variable).hits(prints("hunter2"));
    /// Larger files than allowed.
    pr11 => Attack::with("head -c 64M /dev/zero > big")
        .allowed(limited(ResourceLimits { file_size_bytes: some(1 << 20), ..ResourceLimits::default() }))
        .hits(|world, _| std::fs::metadata(world.workspace.join("big")).is_ok_and(|file| file.len() > 1 << 20));
    /// More memory than allowed.
    pr12 => Attack::with("$PROBE memory 536870912")
        .allowed(limited(ResourceLimits { memory_bytes: some(256 << 20), ..ResourceLimits::default() }))
        .hits(|_, seen| seen.stdout.contains("memory ok"));
    /// More open files than allowed.
    pr12_files => Attack::with("ulimit -n 500 2>/dev/null; i=3; while [ $i -lt 200 ]; do eval \"exec $i</dev/null\" || break; i=$((i+1)); done; echo opened $i")
        .asked(|_, request| request.argv[0] = "/bin/bash".into())
        .allowed(limited(ResourceLimits { open_files: some(64), ..ResourceLimits::default() }))
        .hits(prints("opened 200"));
    /// More processor time than allowed.
    pr12_time => Attack::with("while :; do :; done")
        .allowed(limited(ResourceLimits { cpu_seconds: some(1), ..ResourceLimits::default() }))
        .asked(|_, request| request.limit_ms = Some(30_000))
        .hits(|_, seen| !matches!(seen.ended, Ended::Signaled { signal: 9 | 24, .. }))
        .bare(Bare::NotTried);
    /// A program that is in no file: as good as any other program.
    pr13 => Attack::with("$PROBE memfd-exec").hits(probe_succeeds).not_promised();
}

for_every_engine! {
    /// More processes than allowed.
    pr10 => a_limit_on_processes_holds_or_is_refused;
}

fn secret_variable(world: &mut World) {
    world.variables.push((String::from("SECRET_TOKEN"), String::from("hunter2")));
}

fn a_limit_on_processes_holds_or_is_refused(user: User, engine: &str) {
    let mut world = World::new(user);
    name_survivor(&mut world);
    let limits = ResourceLimits { processes: some(64), ..ResourceLimits::default() };
    let permissions = Permissions { limits, ..world.permissions() };
    let script =
        "echo started; i=0; while [ $i -lt 600 ]; do sleep $NAPTIME & i=$((i+1)); done 2>errors; echo survived";
    let seen = world.run(&world.request(engine, permissions, script));
    if user.is_root() && !has_control_groups(user) {
        // The kernel does not count root's processes.
        assert!(matches!(&seen.ended, Ended::Refused { what, .. } if what.contains("processes")), "{seen:?}");
        return;
    }
    // A shell that can't fork stops there.
    assert_eq!(seen.stdout, "started\n", "{seen:?}");
    assert!(super::text_of(&world.workspace.join("errors")).contains("fork"), "{seen:?}");
    assert!(!survives(&mut world));
}
