//! The caller, the launcher, the first process or bubblewrap is killed at any moment.
//!
//! Afterwards nothing is left: no process, no mount, no file. The caller is started by a process that
//! adopts all orphans below it, so whatever is left of a round is among the descendants of that one,
//! whichever sessions, process groups and namespaces it has entered.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::engines::{Engine, View, usable};
use crate::random::Random;
use crate::world::{User, World, processes_with, snapshot, wait_for};

/// For each user: 210 in a run for each engine that makes namespaces and mounts.
const ROUNDS: usize = 105;
/// The engine without them has less to leave behind.
const ROUNDS_ON_HOST: usize = 36;
const SOON: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Caller,
    /// The launcher that starts the command.
    Launcher,
    First,
    /// Bubblewrap's own process, outside.
    Bubblewrap,
    /// The launcher outside that removes the names which are held in the workspace.
    Keeper,
}

impl Victim {
    fn all(engine: &Engine) -> &'static [Self] {
        match engine.name {
            "bwrap" => &[Self::Caller, Self::Launcher, Self::First, Self::Bubblewrap, Self::Keeper],
            _ => &[Self::Caller, Self::Launcher, Self::First],
        }
    }

    /// Whether the command goes on without it, since it is not what watches over the command.
    fn may_be_missed(self) -> bool {
        matches!(self, Self::Bubblewrap | Self::Keeper)
    }

    fn find(self, engine: &Engine, kept: &Kept) -> Option<i32> {
        let caller = kept.caller;
        let bubblewrap = || child_of(caller, Some("bwrap"));
        match (self, engine.name) {
            (Self::Caller, _) => Some(caller),
            (Self::Keeper, _) => child_of(caller, Some("stockade")),
            (Self::Bubblewrap, _) => bubblewrap(),
            (Self::Launcher, "bwrap") => child_of(bubblewrap()?, None),
            (Self::First, "bwrap") => child_of(child_of(bubblewrap()?, None)?, None),
            (Self::Launcher, _) => child_of(caller, None),
            (Self::First, _) => child_of(child_of(caller, None)?, None),
        }
    }
}

/// What `/proc` says of one process.
struct Process {
    pid: i32,
    parent: i32,
    is_dead: bool,
}

fn processes() -> Vec<Process> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything.
        let mut words = stat.rsplit(") ").next()?.split(' ');
        let is_dead = words.next()? == "Z";
        Some(Process { pid, parent: words.next()?.parse().ok()?, is_dead })
    })
    .collect()
}

/// A living child, of this name if one is given.
fn child_of(pid: i32, name: Option<&str>) -> Option<i32> {
    let has_name = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        name.is_none_or(|name| line.split(|byte| *byte == 0).next() == Some(name.as_bytes()))
    };
    let mut children = processes().into_iter().filter(|process| process.parent == pid && !process.is_dead);
    children.find(|process| has_name(process.pid)).map(|process| process.pid)
}

fn lives(pid: i32) -> bool {
    processes().iter().any(|process| process.pid == pid && !process.is_dead)
}

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
}

/// A caller, and the process that adopts whatever it leaves behind. Ends all of them with itself.
pub(super) struct Kept {
    pub(super) adopter: Child,
    pub(super) caller: i32,
}

impl Kept {
    /// Everything that is left.
    fn descendants(&self) -> BTreeSet<i32> {
        let all = processes();
        let mut found = BTreeSet::from([self.adopter.id().cast_signed()]);
        loop {
            let more: Vec<i32> = all
                .iter()
                .filter(|process| !process.is_dead && found.contains(&process.parent) && !found.contains(&process.pid))
                .map(|process| process.pid)
                .collect();
            if more.is_empty() {
                found.remove(&self.adopter.id().cast_signed());
                return found;
            }
            found.extend(more);
        }
    }

    /// What is left, by command lines.
    pub(super) fn command_lines(&self) -> Vec<String> {
        self.descendants().into_iter().map(command_line).collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        wait_for(SOON, || {
            self.descendants().into_iter().for_each(kill);
            self.descendants().is_empty()
        });
        self.adopter.kill().ok();
        self.adopter.wait().ok();
    }
}

struct Scene {
    world: World,
    engine: &'static Engine,
    nap: String,
    mounts: String,
    before: std::collections::BTreeMap<std::path::PathBuf, String>,
}

impl Scene {
    fn new(user: User, engine: &'static Engine) -> Self {
        let mut world = World::new(user);
        let nap = format!(
            "77777.{}",
            world.marker.bytes().fold(3_u64, |sum, byte| sum * 31 % 1_000_000_007 + u64::from(byte))
        );
        world.variables.push((String::from("NAPTIME"), nap.clone()));
        // The names that are held must be missing, or nothing could be left behind.
        fs::remove_dir_all(world.workspace.join(".git")).unwrap();
        let before = snapshot(&world.workspace);
        Self { world, engine, nap, mounts: mounts(), before }
    }

    fn start(&self) -> Kept {
        let script = "(setsid sleep $NAPTIME &) ; sleep $NAPTIME & sleep $NAPTIME";
        let mut request = self.world.request(self.engine.accepting, self.world.permissions(), script);
        request.limit_ms = None;
        let probe = self.world.programs.join("probe");
        let mut command = self.world.caller_behind(&[probe.to_str().unwrap(), "adopting"], &request);
        let adopter = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut kept = Kept { adopter, caller: 0 };
        let adopter = kept.adopter.id().cast_signed();
        kept.caller = wait_for_some(|| lives(adopter), || child_of(adopter, None)).expect("the caller was started");
        kept
    }

    fn runs(&self) -> bool {
        !processes_with(&self.nap).is_empty()
    }

    fn check(&self, what: &str, kept: &Kept) {
        wait_for(SOON, || kept.descendants().is_empty());
        let left: Vec<_> = kept.descendants().into_iter().map(|pid| (pid, command_line(pid))).collect();
        assert!(left.is_empty(), "{what}: {left:?} are left");
        let clean = wait_for(SOON, || snapshot(&self.world.workspace) == self.before);
        assert!(clean, "{what}: the workspace is {:#?}", snapshot(&self.world.workspace));
        assert_eq!(mounts(), self.mounts, "{what}");
    }
}

fn command_line(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

fn mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap()
}

fn nothing_is_left(user: User, engine: &'static Engine) {
    let mut random = Random::from_environment();
    let scene = Scene::new(user, engine);
    let victims = Victim::all(engine);
    let (mut early, mut late) = (0, 0);
    // How many, and within how many microseconds the sandbox is being built.
    let (rounds, building) = if engine.view == View::Own { (ROUNDS, 6_000) } else { (ROUNDS_ON_HOST, 1_000) };
    for round in 0..rounds {
        let victim = victims[round % victims.len()];
        let kept = scene.start();
        // Half of the rounds while the sandbox is being built, half while the command runs.
        if random.chance(50) {
            std::thread::sleep(Duration::from_micros(random.below(building) as u64));
        } else {
            assert!(wait_for(Duration::from_secs(10), || scene.runs()), "round {round}: the command never ran");
            std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
        }
        match scene.runs() {
            true => late += 1,
            false => early += 1,
        }
        let what = format!("{}, round {round}, {victim:?} killed as {user:?}", engine.name);
        // Whichever other process was killed, the caller learns of it and ends, or the command goes on as it should. The
        // launcher's first child makes the network and ends by itself, maybe before it is struck: then it is
        // the next one's turn.
        let settled = || !lives(kept.caller) || victim.may_be_missed() && scene.runs();
        let ended = (0..2).any(|strike| {
            match wait_for_some(|| lives(kept.caller), || victim.find(engine, &kept)) {
                Some(target) => kill(target),
                None => assert!(strike > 0, "{what}: there was none"),
            }
            wait_for(SOON, settled)
        });
        assert!(ended, "{what}: the caller hangs with {:?}", kept.command_lines());
        // Then the command ends by itself, and the caller does what was left to the one that is gone.
        wait_for(SOON, || {
            processes_with(&scene.nap).into_iter().for_each(|pid| kill(pid.cast_signed()));
            !lives(kept.caller)
        });
        scene.check(&what, &kept);
    }
    println!("{} as {user:?}: {early} kills before the command ran, {late} after", engine.name);
    // Without a view to build, a command may run before anybody could have been struck.
    let hit_early = early > 0 || engine.view != View::Own;
    assert!(hit_early && late > 0, "{early} kills before the command ran, {late} after");
}

fn wait_for_some(lives: impl Fn() -> bool, mut look: impl FnMut() -> Option<i32>) -> Option<i32> {
    let mut found = None;
    wait_for(Duration::from_secs(10), || {
        found = look();
        found.is_some() || !lives()
    });
    found
}

/// If all are killed at once no process is left to clean up. The next run does.
fn the_next_run_cleans_up(user: User, engine: &'static Engine) {
    let scene = Scene::new(user, engine);
    for _ in 0..5 {
        let kept = scene.start();
        assert!(wait_for(Duration::from_secs(10), || scene.runs()), "the command never ran");
        kept.descendants().into_iter().for_each(kill);
        assert!(wait_for(SOON, || kept.descendants().is_empty()), "{:?} are left", kept.descendants());
    }
    let seen = scene.world.run(&scene.world.request(engine.name, scene.world.permissions(), "ls -A"));
    assert!(matches!(seen.ended, crate::request::Ended::Exited { code: 0, .. }), "{seen:?}");
    assert_eq!(snapshot(&scene.world.workspace), scene.before);
}

/// pr14: whichever process is killed.
#[test]
fn own_user() {
    usable().for_each(|engine| nothing_is_left(User::Own, engine));
}

#[test]
fn ordinary_user() {
    usable().for_each(|engine| nothing_is_left(User::Ordinary, engine));
}

#[test]
fn all_at_once_own_user() {
    crate::engines::with_own_view().for_each(|engine| the_next_run_cleans_up(User::Own, engine));
}

#[test]
fn all_at_once_ordinary_user() {
    crate::engines::with_own_view().for_each(|engine| the_next_run_cleans_up(User::Ordinary, engine));
}
