//! Pre-starts a launcher before the plan is known.
//!
//! A caller that still has to read settings, rules and policies can let the launcher start meanwhile and create the
//! namespaces, which are the same for every policy without the host's network. The next start in this process takes it
//! if its plan begins with the same steps; otherwise it is discarded. An unused launcher ends within seconds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stockade_sandboxing::SpawnError;

use crate::launch::Launcher;
use crate::plan::step::Step;
use crate::wire;

/// Well below the launcher's own timeout, so that a taken one is still alive when it gets more steps.
const LONGEST: Duration = Duration::from_millis(wire::LONGEST_UNUSED_MS / 4);

static AHEAD: Mutex<Option<Ahead>> = Mutex::new(None);

struct Ahead {
    launcher: Launcher,
    steps: Vec<Step>,
    since: Instant,
}

/// Starts a launcher with these steps, and discards an earlier one.
pub(crate) fn begin(steps: Vec<Step>) -> Result<(), SpawnError> {
    let launcher = Launcher::begin(&steps)?;
    let earlier = slot().replace(Ahead { launcher, steps, since: Instant::now() });
    drop(earlier);
    Ok(())
}

/// The launcher that has begun with the first of these steps, and their number.
pub(crate) fn take(steps: &[Step]) -> Option<(Launcher, usize)> {
    let ahead = slot().take()?;
    let is_fresh = ahead.since.elapsed() < LONGEST;
    (is_fresh && steps.starts_with(&ahead.steps)).then_some((ahead.launcher, ahead.steps.len()))
}

fn slot() -> std::sync::MutexGuard<'static, Option<Ahead>> {
    AHEAD.lock().unwrap_or_else(PoisonError::into_inner)
}
