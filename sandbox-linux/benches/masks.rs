//! The cost of masks that identify the reading process: a start with and without masks, each with and without an
//! observer, alternating. Only the difference of the differences is meaningful.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "a benchmark ends when it can't go on, and does not need all of the setting"
)]

use std::fs;
use std::time::Duration;

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, Permissions};
use stockade_sandbox_linux::{Bwrap, Native, Observe};
use stockade_sandboxing::{Backend, Stdio};

use self::setting::{Setting, finish, median, time};

mod setting;

const ROUNDS: usize = 300;

fn main() {
    for masks in [1, 4, 12, 40] {
        measure("native", &|observe| Box::new(Native::new().observing(observe)), masks);
    }
    for masks in [1, 12] {
        measure("bwrap", &|observe| Box::new(Bwrap::new().observing(observe)), masks);
    }
}

fn measure(name: &str, engine: &dyn Fn(Observe) -> Box<dyn Backend>, masks: usize) {
    let setting = Setting::with_all_names();
    let home = tempfile::tempdir().unwrap();
    let plain = setting.permissions();
    let masked = masked(&plain, home.path(), masks);
    let engines = [Observe::Nothing, Observe::Denials].map(|observe| (observe, engine(observe)));
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..ROUNDS {
        let ways = engines.iter().flat_map(|engine| [&plain, &masked].map(|permissions| (engine, permissions)));
        for (((observe, engine), permissions), times) in ways.zip(&mut times) {
            times.push(time(|| {
                let plan = engine.compile(&setting.command(&["/bin/true"]), permissions).unwrap();
                let running = plan.spawn(Stdio::default()).unwrap();
                let seen = running.observations().is_some_and(|seen| seen.coverage().denied_reads);
                assert!(seen || *observe == Observe::Nothing || *permissions == plain);
                finish(running);
            }));
        }
    }
    let [plain, masked, watched, watched_masked] = times.map(median);
    let more = |one: Duration, other: Duration| one.as_secs_f64() * 1e3 - other.as_secs_f64() * 1e3;
    let (without, with) = (more(masked, plain), more(watched_masked, watched));
    println!(
        "{name}, {masks} masks: {plain:?} and {without:.3} ms more for masks; observed {watched:?} and {with:.3} ms more: \
         {:.3} ms for answering",
        with - without
    );
}

fn masked(permissions: &Permissions, home: &std::path::Path, masks: usize) -> Permissions {
    let mask = |number: usize| {
        let path = home.join(format!("secret-{number}"));
        if number.is_multiple_of(2) { fs::create_dir(&path) } else { fs::write(&path, "") }.unwrap();
        FileRule::path(AbsPath::from_path(&path.canonicalize().unwrap()).unwrap(), Access::None)
    };
    let rules = permissions.files.iter().cloned().chain((0..masks).map(mask));
    Permissions { files: FileRules::new(rules).unwrap(), ..permissions.clone() }
}
