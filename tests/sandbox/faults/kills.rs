//! Somebody kills the caller, the launcher or the first process at any moment.
//!
//! Afterwards nothing is left: no process, no mount, no file. What is looked for is what the kernel
//! says of every process: the process group of the caller, which the launcher and the first process
//! keep, and a text that only the command has in its arguments.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::engines::ENGINES;
use crate::random::Random;
use crate::world::{User, World, processes_with, snapshot, wait_for};

/// For each user: 204 in a run for each engine.
const ROUNDS: usize = 102;
const SOON: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Victim {
    Caller,
    Launcher,
    First,
}

#[test]
fn own_user() {
    ENGINES.iter().filter(|engine| engine.plain_tree).for_each(|engine| nothing_is_left(User::Own, engine.name));
}

#[test]
fn ordinary_user() {
    ENGINES.iter().filter(|engine| engine.plain_tree).for_each(|engine| nothing_is_left(User::Ordinary, engine.name));
}

/// What `/proc` says of one process.
struct Process {
    pid: i32,
    parent: i32,
    group: i32,
    is_dead: bool,
}

fn processes() -> Vec<Process> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything.
        let mut words = stat.rsplit(") ").next()?.split(' ');
        let is_dead = words.next()? == "Z";
        Some(Process { pid, parent: words.next()?.parse().ok()?, group: words.next()?.parse().ok()?, is_dead })
    })
    .collect()
}

fn child_of(pid: i32) -> Option<i32> {
    processes().into_iter().find(|process| process.parent == pid && !process.is_dead).map(|process| process.pid)
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
}

struct Scene {
    world: World,
    engine: String,
    nap: String,
    mounts: String,
    before: std::collections::BTreeMap<std::path::PathBuf, String>,
}

impl Scene {
    fn new(user: User, engine: &str) -> Self {
        let mut world = World::new(user);
        let nap = format!(
            "77777.{}",
            world.marker.bytes().fold(3_u64, |sum, byte| sum * 31 % 1_000_000_007 + u64::from(byte))
        );
        world.variables.push((String::from("NAPTIME"), nap.clone()));
        // The names that are held must be missing, or nothing could be left behind.
        fs::remove_dir_all(world.workspace.join(".git")).unwrap();
        let before = snapshot(&world.workspace);
        Self { world, engine: engine.to_owned(), nap, mounts: mounts(), before }
    }

    fn start(&self) -> Child {
        let script = "(setsid sleep $NAPTIME &) ; sleep $NAPTIME & sleep $NAPTIME";
        let mut request = self.world.request(&self.engine, self.world.permissions(), script);
        request.limit_ms = None;
        let mut caller = self.world.caller(&request);
        caller.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        caller.spawn().unwrap()
    }

    /// Processes of a round that are still there.
    fn survivors(&self, group: i32) -> Vec<u32> {
        let group = processes().into_iter().filter(|process| process.group == group && !process.is_dead);
        group.map(|process| process.pid.cast_unsigned()).chain(processes_with(&self.nap)).collect()
    }

    fn check(&self, what: &str, group: i32) {
        wait_for(SOON, || self.survivors(group).is_empty());
        let left = self.survivors(group);
        // They are this test's own, and it leaves nothing behind either.
        left.iter().for_each(|pid| kill(pid.cast_signed()));
        assert!(left.is_empty(), "{what}: {left:?} are left");
        let clean = wait_for(SOON, || snapshot(&self.world.workspace) == self.before);
        assert!(clean, "{what}: the workspace is {:#?}", snapshot(&self.world.workspace));
        assert_eq!(mounts(), self.mounts, "{what}");
    }
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

fn nothing_is_left(user: User, engine: &str) {
    let mut random = Random::from_environment();
    let scene = Scene::new(user, engine);
    let (mut early, mut late) = (0, 0);
    for round in 0..ROUNDS {
        let victim = [Victim::Caller, Victim::Launcher, Victim::First][round % 3];
        let mut caller = scene.start();
        let group = caller.id().cast_signed();
        // Half of the rounds while the sandbox is being built, half while the command runs.
        if random.chance(50) {
            std::thread::sleep(Duration::from_micros(random.below(12_000) as u64));
        } else {
            let running = wait_for(Duration::from_secs(10), || !processes_with(&scene.nap).is_empty());
            assert!(running, "round {round}: the command never ran");
            std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
        }
        if processes_with(&scene.nap).is_empty() {
            early += 1
        } else {
            late += 1
        }
        let what = format!("round {round}, {victim:?} killed as {user:?}");
        // Whoever else was killed, the caller hears of it and ends. The launcher's first child makes the
        // network and ends by itself, maybe before it is struck: then it is the next one's turn.
        let ended = (0..2).any(|_| {
            strike(victim, &mut caller);
            wait_for(SOON, || caller.try_wait().unwrap().is_some())
        });
        assert!(ended, "{what}: the caller hangs");
        scene.check(&what, group);
    }
    println!("{engine} as {user:?}: {early} kills before the command ran, {late} after");
    assert!(early > 10 && late > 10, "{early} kills before the command ran, {late} after");
}

/// Kills the victim as soon as there is one.
fn strike(victim: Victim, caller: &mut Child) {
    let pid = caller.id().cast_signed();
    let found = |pid: i32| wait_for_some(caller_lives(pid), || child_of(pid));
    let target = match victim {
        Victim::Caller => Some(pid),
        Victim::Launcher => found(pid),
        Victim::First => found(pid).and_then(|launcher| wait_for_some(caller_lives(pid), || child_of(launcher))),
    };
    kill(target.expect("the caller started a launcher, and that a first process"));
}

fn caller_lives(pid: i32) -> impl Fn() -> bool {
    move || processes().iter().any(|process| process.pid == pid && !process.is_dead)
}

fn wait_for_some(lives: impl Fn() -> bool, mut look: impl FnMut() -> Option<i32>) -> Option<i32> {
    let mut found = None;
    wait_for(Duration::from_secs(10), || {
        found = look();
        found.is_some() || !lives()
    });
    found
}

/// If all are killed at once nobody is left to clean up. The next run does.
fn the_next_run_cleans_up(user: User, engine: &str) {
    let scene = Scene::new(user, engine);
    for _ in 0..5 {
        let mut caller = scene.start();
        assert!(wait_for(Duration::from_secs(10), || !processes_with(&scene.nap).is_empty()), "the command never ran");
        let group = caller.id().cast_signed();
        kill_process_group(Pid::from_raw(group).unwrap(), Signal::KILL).unwrap();
        caller.wait().unwrap();
        assert!(wait_for(SOON, || scene.survivors(group).is_empty()), "{:?} are left", scene.survivors(group));
    }
    let seen = scene.world.run(&scene.world.request(engine, scene.world.permissions(), "ls -A"));
    assert!(matches!(seen.ended, crate::request::Ended::Exited { code: 0, .. }), "{seen:?}");
    assert_eq!(snapshot(&scene.world.workspace), scene.before);
}

crate::escapes::for_each_user! {
    /// Caller, launcher and first process, all at once.
    all_at_once => the_next_run_cleans_up;
}
