//! The cost of a whole `stockade run`: the program's start, settings, rules, approval, sandbox, audit.
//!
//! `stockade run --ask never -- /bin/true` with the trail on and a home of its own, beside a bare spawn and bubblewrap with a plain line
//! (the root read-only, the workspace writable, nothing shared). All are started from this program, in turn, so that whatever else the
//! machine does hits all of them alike; on the machine as it is, with one processor busy, with all of them busy, and on one
//! processor alone. What counts are the ratios of the medians within one run, printed with the middle half of the times.
//! `scripts/build && cargo bench -p stockade-cli --bench run`, with `bwrap` installed. Measured is the program as it is installed, which
//! `scripts/build` makes; on a quiet machine also as `cargo build` makes it.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

mod load;

use std::path::Path;

use load::{Load, against, bubblewrap, own, quartile, words};

const RUN: &str = "stockade run";
const FULL: &str = "stockade run --network full";
const BY_BUBBLEWRAP: &str = "stockade run --engine bwrap";
const EXPLAIN: &str = "stockade explain";

fn main() {
    let directory = load::directory();
    let built = Path::new(env!("CARGO_BIN_EXE_stockade"));
    let installed = built.parent().unwrap().with_file_name("stockade");
    assert!(installed.is_file(), "{} is missing: run `scripts/build` first", installed.display());
    let run =
        |program, flags: &[&str]| own(program, &[&["run", "--ask", "never"], flags, &["--", "/bin/true"]].concat());
    for load in Load::chosen() {
        let mut starts = vec![
            ("bare", words(&["/bin/true"])),
            ("bubblewrap", bubblewrap(directory.path(), &["/bin/true"])),
            (RUN, run(&installed, &[])),
            (FULL, run(&installed, &["--network", "full"])),
            (BY_BUBBLEWRAP, run(&installed, &["--engine", "bwrap"])),
            (EXPLAIN, own(&installed, &["explain", "--", "/bin/true"])),
            ("stockade --version", own(&installed, &["--version"])),
        ];
        if load.busy == 0 && !load.alone {
            starts.push(("stockade run, linked dynamically", run(built, &[])));
        }
        let mut commands: Vec<_> = starts.iter().map(|(_, words)| load.command(words, directory.path())).collect();
        let times = load.during(|| load.times(&mut commands));
        let medians: Vec<f64> = times.iter().map(|times| quartile(times, 2)).collect();
        let [bare, plain, off, full, ..] = medians.as_slice() else { continue };
        for (((name, _), times), median) in starts.iter().zip(&times).zip(&medians) {
            let (low, high) = (quartile(times, 1), quartile(times, 3));
            println!(
                "{:14} {name:34} {median:7.2} ms ({low:.2} to {high:.2})  {} x bubblewrap  {} x bare",
                load.name,
                against(median / plain, by_bubblewrap(name, load)),
                against(median / bare, (*name == EXPLAIN).then_some(1.6))
            );
        }
        println!("{:14} {FULL} / off: {}", load.name, against(full / off, Some(1.0)));
    }
}

/// What a start may take in units of bubblewrap's time.
fn by_bubblewrap(name: &str, load: Load) -> Option<f64> {
    let is_quiet = load.busy == 0 && !load.alone;
    match name {
        RUN => Some(if is_quiet { 0.7 } else { 0.8 }),
        BY_BUBBLEWRAP => Some(1.3),
        _ => None,
    }
}
