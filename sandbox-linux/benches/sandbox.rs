//! The time to start `/bin/true`: bare, under bubblewrap with the same policy, and here.
//!
//! All are started alternately from this program, so that other load affects all of them alike. Only the ratios of the
//! medians are meaningful. `cargo bench -p stockade-sandbox-linux`, with `bwrap` installed; workspaces are created in
//! `TMPDIR`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark starts the programs that it measures, and ends when it can't"
)]

use std::process::Command;
use std::time::Duration;

use stockade_protocol::{NetworkPolicy, Permissions};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend as _, Stdio};

use self::setting::{Setting, finish, median, run, time};

/// Common parts of the benchmarks.
mod setting;

const ROUNDS: usize = 200;

fn main() {
    let (setting, full, warm_setting) = (Setting::new(), Setting::with_all_names(), Setting::new());
    let native = Native::new();
    // A session has placeholders in its workspace, which would save the others that work.
    let session = native.session(&warm_setting.permissions()).unwrap();
    let command = warm_setting.command(&["/bin/true"]);
    let mut times = [const { Vec::new() }; 7];
    for _ in 0..ROUNDS {
        let [bare, bubblewrap, cold, full_bubblewrap, full_cold, on_host, warm] = &mut times;
        bare.push(time(|| run(Command::new("/bin/true").env_clear())));
        bubblewrap.push(setting.time_bwrap());
        cold.push(time(|| setting.start(&native)));
        full_bubblewrap.push(full.time_bwrap());
        full_cold.push(time(|| full.start(&native)));
        on_host.push(time(|| {
            let permissions = Permissions { network: NetworkPolicy::Full, ..full.permissions() };
            let plan = native.compile(&full.command(&["/bin/true"]), &permissions).unwrap();
            finish(plan.spawn(Stdio::default()).unwrap());
        }));
        warm.push(time(|| finish(session.spawn(&command, Stdio::default()).unwrap())));
    }
    let [bare, bubblewrap, cold, full_bubblewrap, full_cold, on_host, warm] = times.map(median);
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!("bare spawn {bare:?}");
    println!("native warm {warm:?} / bare spawn: {:.2}", ratio(warm, bare));
    println!("no protected name missing:");
    println!("  native cold {full_cold:?} / bubblewrap {full_bubblewrap:?}: {:.2}", ratio(full_cold, full_bubblewrap));
    println!("  native cold / itself on the host's network: {:.2}", ratio(full_cold, on_host));
    println!("all but `.git` missing:");
    println!("  native cold {cold:?} / bubblewrap {bubblewrap:?}: {:.2}", ratio(cold, bubblewrap));
    println!("  native cold / itself with none missing: {:.2}", ratio(cold, full_cold));
}
