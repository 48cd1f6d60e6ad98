//! The cost of observing: the same commands with and without, alternating, so that other load affects both alike.
//! `just bench observer`; workspaces are created in `TMPDIR`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    dead_code,
    reason = "a benchmark ends when it can't go on"
)]

use std::fs;
use std::time::Duration;

use stockade_sandbox_linux::{Native, Observe};
use stockade_sandboxing::{Backend as _, Stdio};

use self::setting::{Setting, finish, median, time};

/// Common parts of the benchmarks.
mod setting;

const ROUNDS: usize = 60;
/// Notified calls of one command.
const CALLS: u32 = 20_000;
const FILES: usize = 1_000;

/// Opens a file for writing again and again.
const OPENS: &str = "import os\nfor _ in range(20000): os.close(os.open('file', os.O_WRONLY))";

fn main() {
    let setting = Setting::with_all_names();
    let workspace = setting.path().to_host_path().unwrap();
    fs::create_dir(workspace.join("files")).unwrap();
    for number in 0..FILES {
        fs::write(workspace.join(format!("files/{number}")), "a small file\n".repeat(40)).unwrap();
    }
    fs::write(workspace.join("file"), "").unwrap();
    let engines = [Observe::Nothing, Observe::Denials].map(|observe| Native::new().observing(observe));
    let measure = |words: &[&str], rounds: usize| {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for (engine, times) in engines.iter().zip(&mut times) {
                let plan = engine.compile(&setting.command(words), &setting.permissions()).unwrap();
                times.push(time(|| finish(plan.spawn(Stdio::default()).unwrap())));
            }
        }
        times.map(median)
    };
    let more = |[without, with]: [Duration; 2]| with.saturating_sub(without);
    let ratio = |[without, with]: [Duration; 2]| with.as_secs_f64() / without.as_secs_f64();
    let start = measure(&["/bin/true"], 4 * ROUNDS);
    println!("start: {:?} without, {:?} with: +{:?}", start[0], start[1], more(start));
    let opens = measure(&["python3", "-c", OPENS], ROUNDS / 6);
    println!("notified call: +{:?}", more(opens) / CALLS);
    let create = measure(&["tar", "-cf", "files.tar", "files"], ROUNDS);
    println!("tar of {FILES} small files: {:?} without, {:?} with: {:.3}", create[0], create[1], ratio(create));
    let extract = measure(&["tar", "-xf", "files.tar", "-C", "files"], ROUNDS / 2);
    println!("unpacking them: {:?} without, {:?} with: {:.3}", extract[0], extract[1], ratio(extract));
}
