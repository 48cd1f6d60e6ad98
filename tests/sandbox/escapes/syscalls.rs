//! System calls that the filter refuses.

use super::{Attack, Bare, attacks, for_every_engine, probe_succeeds};
use crate::request::Ended;
use crate::world::{Seen, User, World};

const NOT_PERMITTED: &str = "error 1";
const NO_SUCH_CALL: &str = "error 38";

attacks! {
    /// A ring of calls that no filter sees.
    sy01 => Attack::with("$PROBE io-uring").hits(probe_succeeds);
    /// A call by its number in another ABI, where the filter's numbers mean other calls.
    sy03 => Attack::with("$PROBE x32-socket").hits(|_, seen| seen.stdout.contains(" ok ")).bare(Bare::NotTried);
    /// The 32-bit way into the kernel.
    sy03_32_bit => Attack::with("$PROBE 32-bit-getpid $WS").hits(|_, seen| is_answered(seen)).bare(Bare::NotTried);
}

for_every_engine! {
    /// Another ABI ends the process: it is no mistake that a program makes.
    sy03_dies => foreign_calls_end_the_process;
    /// Calls that are newer than the list are not there.
    sy04 => unreviewed_calls_are_not_there;
    /// Every listed call fails with the documented error.
    sy05 => listed_calls_fail;
}

fn is_answered(seen: &Seen) -> bool {
    // On AArch64 another program makes the call.
    seen.stdout.contains(" ok ") || matches!(seen.ended, Ended::Exited { code: 42, .. })
}

fn foreign_calls_end_the_process(user: User, engine: &str) {
    let x32: &[&str] = if cfg!(target_arch = "x86_64") { &["x32-socket"] } else { &[] };
    for call in x32.iter().chain(&["32-bit-getpid $WS"]) {
        let world = World::new(user);
        let seen = world.run(&world.request(engine, world.permissions(), &format!("echo started; exec $PROBE {call}")));
        assert!(matches!(seen.ended, Ended::Signaled { signal: 31, .. }), "{call}: {seen:?}");
        assert_eq!(seen.stdout, "started\n");
    }
}

fn unreviewed_calls_are_not_there(user: User, engine: &str) {
    let world = World::new(user);
    let seen = world.run(&world.request(engine, world.permissions(), "$PROBE unreviewed-calls 471 600"));
    assert_eq!(seen.stdout.lines().count(), 130, "{seen:?}");
    assert!(seen.stdout.lines().all(|line| line.ends_with(NO_SUCH_CALL)), "{seen:?}");
}

fn listed_calls_fail(user: User, engine: &str) {
    let world = World::new(user);
    let seen = world.run(&world.request(engine, world.permissions(), "$PROBE refused-calls"));
    assert!(seen.stdout.lines().count() > 15, "{seen:?}");
    for line in seen.stdout.lines() {
        assert!(line.ends_with(NOT_PERMITTED), "{line}");
    }
}
