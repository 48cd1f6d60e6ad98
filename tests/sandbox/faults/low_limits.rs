//! A caller whose own limits are low: it gets a result or a clear error within a bounded time, and no
//! process, no mount and no name is left.
//!
//! Every process of the sandbox inherits these limits: the caller's library, the launcher, bubblewrap, the
//! first process, the command.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use super::kills::Kept;
use crate::engines::usable;
use crate::request::Ended;
use crate::world::{User, World, snapshot, wait_for};

/// How long a run may take on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// `prlimit`'s options, and the values that are tried. The kernel does not count root's processes.
const LIMITS: &[(&str, &[u64])] = &[
    ("nofile", &[4, 6, 8, 10, 12, 16, 24, 32, 64, 128, 193, 194, 195]),
    ("nproc", &[1, 2, 3, 5, 9]),
    ("fsize", &[0, 1, 4096, 30_000]),
    ("as", &[12_000_000, 16_000_000, 24_000_000, 50_000_000, 100_000_000]),
];

/// What an error may say: each names the limit or is what the kernel says of it.
const CLEAR: &[&str] = &[
    "Too many open files",
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "limit",
    // The program itself can't be loaded.
    "error while loading shared libraries",
    "memory allocation of",
];

fn each_limit_ends_well(user: User) {
    let engines = usable().map(|engine| engine.accepting).chain(["session"]);
    for engine in engines {
        let world = World::new(user);
        // The names that are held must be missing, or none could be left behind.
        fs::remove_dir_all(world.workspace.join(".git")).unwrap();
        let before = snapshot(&world.workspace);
        for (limit, value) in LIMITS.iter().flat_map(|(limit, values)| values.iter().map(move |value| (limit, value))) {
            let what = format!("{engine} as {user:?} with {limit}={value}");
            ends_well(&world, engine, &format!("--{limit}={value}:"), &what);
            let left = !wait_for(Duration::from_secs(2), || snapshot(&world.workspace) == before);
            assert!(!left, "{what}: the workspace is {:#?}", snapshot(&world.workspace));
        }
    }
}

fn ends_well(world: &World, engine: &str, limit: &str, what: &str) {
    let mut request = world.request(engine, world.permissions(), "exit 7");
    request.limit_ms = Some(10_000);
    let probe = world.programs.join("probe");
    let wrapper = [probe.to_str().unwrap(), "adopting", "prlimit", limit, "--"];
    let output = world.root().join("output");
    let file = fs::File::create(&output).unwrap();
    let mut command = world.caller_behind(&wrapper, &request);
    let adopter = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
    // Ends when it has no descendants left.
    let mut kept = Kept { adopter, caller: 0 };
    let ended = wait_for(BOUND, || kept.adopter.try_wait().unwrap().is_some());
    assert!(ended, "{what}: {:?} are left", kept.command_lines());
    let said = fs::read_to_string(&output).unwrap();
    let report = fs::read(&request.report).unwrap();
    match serde_json::from_slice(&report) {
        Ok(Ended::Exited { .. } | Ended::Signaled { .. }) => {}
        Ok(Ended::NotStarted { why }) => assert!(is_clear(&why), "{what}: {why}"),
        Ok(Ended::Refused { what: refused, why }) => assert!(is_clear(&why), "{what}: {refused}: {why}"),
        // The caller itself could not go on, and says so.
        Err(error) => assert!(is_clear(&said), "{what}: {error}: {said}"),
    }
}

fn is_clear(text: &str) -> bool {
    CLEAR.iter().any(|words| text.contains(words))
}

#[test]
fn own_user() {
    each_limit_ends_well(User::Own);
}

#[test]
fn ordinary_user() {
    each_limit_ends_well(User::Ordinary);
}
