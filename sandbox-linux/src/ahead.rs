//! A launcher that is started before it is known what it has to build.
//!
//! Whoever is about to run a command but has to read settings, rules and policies first can have the
//! launcher and the namespaces, which are the same for every policy without a network of the host's,
//! made meanwhile. The next start in this process takes it, if its plan begins with the same steps;
//! otherwise it is let go. It ends by itself if nobody wants it within seconds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stockade_sandboxing::SpawnError;

use crate::launch::Launcher;
use crate::step::Step;
use crate::wire;

/// Well below what a launcher waits, so that one which is taken is still there when it is told more.
const LONGEST: Duration = Duration::from_millis(wire::LONGEST_UNUSED_MS / 4);

static AHEAD: Mutex<Option<Ahead>> = Mutex::new(None);

struct Ahead {
    launcher: Launcher,
    steps: Vec<Step>,
    since: Instant,
}

/// Has a launcher begin with these steps. One that was begun before is let go.
pub(crate) fn begin(steps: Vec<Step>) -> Result<(), SpawnError> {
    let launcher = Launcher::begin(&steps)?;
    let earlier = slot().replace(Ahead { launcher, steps, since: Instant::now() });
    drop(earlier);
    Ok(())
}

/// The launcher that has begun with the first of these steps, and how many those are.
pub(crate) fn take(steps: &[Step]) -> Option<(Launcher, usize)> {
    let ahead = slot().take()?;
    let is_fresh = ahead.since.elapsed() < LONGEST;
    (is_fresh && steps.starts_with(&ahead.steps)).then_some((ahead.launcher, ahead.steps.len()))
}

fn slot() -> std::sync::MutexGuard<'static, Option<Ahead>> {
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner)
}
