//! Random permissions and random paths: inside a real sandbox each answer of the kernel is the one
//! that the permissions give.
//!
//! What is compared: the permissions as the engine enforces them, after links were followed and
//! repositories protected (`resolve_links`, `protect_repositories`), against each operation's answer
//! on a canonical path, or on a path through links that are in sight. [`oracle`] says what access a
//! given operation needs. Nothing is compared loosely: an operation that must work has to work, and
//! one that must not has to fail, and the tree of the host is as it was.

/// What access an operation needs.
mod oracle;
/// Random trees and random rules for them.
mod policies;

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Stdio;

use stockade_protocol::{Access, FileRule};
use stockade_sandboxing::{RealFiles, protect_repositories, resolve_links};

use self::oracle::{Expected, Operation, Oracle};
use self::policies::{Policy, Taste};
use crate::engines::{Engine, View};
use crate::random::Random;
use crate::request::Ended;
use crate::world::{User, World, abs, rule, snapshot};

const PATHS_PER_POLICY: usize = 24;

/// Half of them for each user: 640 in a run for each engine, of which 500 have to be enforced. `STOCKADE_POLICIES` has fewer, for a
/// machine that is emulated.
fn policies() -> usize {
    let told = std::env::var("STOCKADE_POLICIES");
    told.map_or(320, |text| text.parse().expect("STOCKADE_POLICIES is a number"))
}

/// Each engine as two tests.
macro_rules! engines {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn own_user() {
                super::conforms(crate::world::User::Own, crate::engines::named(stringify!($name)), 1);
            }

            #[test]
            fn ordinary_user() {
                super::conforms(crate::world::User::Ordinary, crate::engines::named(stringify!($name)), 2);
            }
        })*

        #[test]
        fn no_engine_is_left_out() {
            assert_eq!(crate::engines::ENGINES.iter().map(|engine| engine.name).collect::<Vec<_>>(), [$(stringify!($name)),*]);
        }
    };
}

engines! { native bwrap landlock }

/// Found by chance: a private directory in a missing one whose name a glob denies. The glob denies nothing
/// that is not there, so there is no directory in which the name could be held.
#[test]
fn a_name_in_a_missing_directory_that_a_glob_denies_is_refused() {
    for engine in crate::engines::with_own_view() {
        let world = World::new(User::Own);
        let below = world.workspace.join("src/m/below");
        let glob = format!("{}/src/*", world.workspace.display()).parse().unwrap();
        let permissions = world.permissions_with([rule(&below, Access::Scratch), FileRule::deny_glob(glob)]);
        let seen = world.run(&world.request(engine.name, permissions, "echo started"));
        let Ended::Refused { what, why } = &seen.ended else { panic!("{seen:?}") };
        assert_eq!(*what, format!("the rule for `{}`", below.display()));
        assert_eq!(why, "it does not exist, and neither does its directory");
    }
}

#[derive(Default)]
struct Tally {
    enforced: usize,
    refused: usize,
    allowed: usize,
    denied: usize,
}

fn conforms(user: User, engine: &Engine, salt: u64) {
    if crate::engines::is_refused_here(engine) {
        return crate::engines::refuses_everything(user, engine);
    }
    let name = engine.name;
    let mut seeds = Random::from_environment();
    let mut tally = Tally::default();
    let policies = policies();
    for number in 0..policies {
        let seed = seeds.below(usize::MAX >> 34) as u64 * 4 + salt;
        let one = std::panic::catch_unwind(|| one_policy(user, engine, &mut Random::new(seed)));
        let Ok(one) = one else { panic!("policy {number} of {name} as {user:?}") };
        tally = Tally {
            enforced: tally.enforced + one.enforced,
            refused: tally.refused + one.refused,
            allowed: tally.allowed + one.allowed,
            denied: tally.denied + one.denied,
        };
    }
    let Tally { enforced, refused, allowed, denied } = tally;
    println!(
        "{name} as {user:?}: {enforced} policies enforced, {refused} refused; {allowed} operations allowed, {denied} denied"
    );
    // Few of them say little of how many there are.
    let least = if policies >= 320 { policies * engine.enforces } else { 0 };
    assert!(enforced * 100 >= least, "only {enforced} of {policies} policies were enforced");
    // A generator that went astray would compare nothing.
    assert!(allowed > enforced && denied > enforced, "too few operations were allowed or denied");
}

fn one_policy(user: User, engine: &Engine, random: &mut Random) -> Tally {
    let world = World::new(user);
    let tree = world.root().join("tree");
    let policy = Policy::random(&world, &tree, Taste::of(engine, random), random);
    let before = snapshot(&tree);
    let resolved = resolve_links(&policy.permissions, &RealFiles);
    let effective = match resolved.and_then(|resolved| protect_repositories(&resolved)) {
        Ok(effective) => effective,
        Err(error) => {
            let seen = world.run(&world.request(engine.name, policy.permissions.clone(), "true"));
            assert!(matches!(&seen.ended, Ended::Refused { why, .. } if *why == error.to_string()), "{seen:?}");
            return Tally { refused: 1, ..Tally::default() };
        }
    };
    let oracle = Oracle::new(&effective, engine.view);
    let mut operations = Vec::new();
    for _ in 0..PATHS_PER_POLICY {
        operations.extend(oracle.operations(&policy, random));
    }
    operations.extend(oracle.left_behind(&policy, random));
    let input = world.root().join("operations");
    world.write(&input, &lines(&operations));
    let mut request = world.request(engine.name, policy.permissions.clone(), "");
    request.argv = vec![abs(&world.programs.join("probe")).as_raw().clone(), "batch".into()];
    request.cwd = "/".into();
    let mut caller = world.caller(&request);
    let seen = world.finish(&request, caller.stdin(Stdio::from(File::open(&input).unwrap())));
    if let Ended::Refused { what, why } = &seen.ended {
        assert!(
            oracle.may_be_refused(what, why) || is_own_reason(engine, &oracle, what, why),
            "{policy}\nrefused without a documented reason: {what}: {why}"
        );
        assert_eq!(snapshot(&tree), before, "{policy}");
        return Tally { refused: 1, ..Tally::default() };
    }
    assert!(!oracle.must_be_refused(), "{policy}\nwas not refused");
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{policy}\n{seen:?}");
    let answers: Vec<&str> = seen.stdout.lines().collect();
    assert_eq!(answers.len(), operations.len(), "{policy}\n{seen:?}");
    let mut tally = Tally { enforced: 1, ..Tally::default() };
    for (operation, answer) in operations.iter().zip(answers) {
        match judge(operation, answer) {
            Ok(true) => tally.allowed += 1,
            Ok(false) => tally.denied += 1,
            Err(why) => panic!("{policy}\n{operation:?}: {why}\nwith {:#?}", effective.files),
        }
    }
    oracle.check_host(&policy, &operations, &before, &snapshot(&tree));
    tally
}

/// Whether the engine refuses for a documented reason of its own, which is true of the policy.
fn is_own_reason(engine: &Engine, oracle: &Oracle, what: &str, why: &str) -> bool {
    let is_true = match engine.view {
        // It is about how the program that it uses works, and not about the policy alone.
        View::Own => true,
        View::Host => oracle.takes_away(what),
    };
    is_true && engine.refuses.iter().any(|words| why.contains(words))
}

/// Whether the operation was allowed, if the answer is the right one.
fn judge(operation: &Operation, answer: &str) -> Result<bool, String> {
    let across_mounts = answer == libc::EXDEV.to_string();
    match (operation.expected, answer) {
        (Expected::Works, "0") => Ok(true),
        (Expected::WorksInOneMount, "0") => Ok(true),
        (Expected::WorksInOneMount, _) if across_mounts => Ok(false),
        (Expected::Fails, number) if number.parse::<i32>().is_ok_and(|number| number > 0) => Ok(false),
        (expected, answer) => Err(format!("expected {expected:?}, and the kernel answered {answer}")),
    }
}

fn lines(operations: &[Operation]) -> String {
    let mut text = String::new();
    for operation in operations {
        text.push_str(operation.name);
        for path in std::iter::once(&operation.path).chain(&operation.second) {
            write!(text, " {}", hex(path)).unwrap();
        }
        text.push('\n');
    }
    text
}

fn hex(path: &Path) -> String {
    path.as_os_str().as_bytes().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}
