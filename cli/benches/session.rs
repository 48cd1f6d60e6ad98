//! The cost of one command from the outside: bare, in bubblewrap, by `stockade run`, by `stockade run --session`, and
//! by the Python client compared with `asyncio`'s own subprocesses.
//!
//! Each runs `bash -c true`; they alternate, so that other load affects all of them alike. Bubblewrap has a plain
//! command line: the root read-only, the workspace writable, nothing shared. Measured on the idle machine, with one
//! processor busy, with all of them busy, and on one processor alone. Only the ratios of the medians within one run
//! are meaningful, printed with the interquartile range. `scripts/build && cargo bench -p stockade-cli --bench
//! session`, with `bwrap` installed. The client for Python is left out where there is no `python3`.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

mod load;

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use load::{Load, against, bubblewrap, own, quartile, words};

const SESSION: &str = "stockade run --session";

fn main() {
    let directory = load::directory();
    let built = Path::new(env!("CARGO_BIN_EXE_stockade"));
    let installed = built.parent().unwrap().with_file_name("stockade");
    let program = if installed.is_file() { installed.as_path() } else { built };
    println!("{}", program.display());
    for load in Load::chosen() {
        let starts = [
            ("bare", words(&["bash", "-c", "true"])),
            ("bubblewrap", bubblewrap(directory.path(), &["bash", "-c", "true"])),
            ("stockade run", own(program, &["run", "--ask", "never", "--", "bash", "-c", "true"])),
            (SESSION, own(program, &["run", "--session", "bench", "--", "bash", "-c", "true"])),
        ];
        let mut commands = starts.each_ref().map(|(_, words)| load.command(words, directory.path()));
        let (times, python) = load.during(|| (load.times(&mut commands), python(program, directory.path(), load)));
        report(load.name, &starts.map(|(name, _)| name), &times);
        match python {
            Ok(line) => println!("{:14} {line}", load.name),
            Err(why) => println!("{:14} the client for Python is left out: {why}", load.name),
        }
    }
    let end = own(program, &["session", "end", "--all"]);
    Load::all()[0].command(&end, directory.path()).status().unwrap();
}

/// The client for Python and a server of its own, beside `asyncio`, in turn by its own benchmark.
fn python(program: &Path, directory: &Path, load: Load) -> Result<String, String> {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/python");
    let line = words(&["python3", &client.join("bench.py").display().to_string(), &load.rounds().to_string()]);
    let mut python = load.command(&line, directory);
    python.env("PYTHONPATH", client.join("src")).env("STOCKADE_PROGRAM", program).stdout(Stdio::piped());
    let output = python.output().map_err(|error| error.to_string())?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let number = |name: &str| found.get(name).and_then(serde_json::Value::as_f64).ok_or("no figures");
    let (asyncio, own, ratio) = (number("asyncio_us")?, number("client_us")?, number("ratio")?);
    let ratio = against(ratio, Some(1.3));
    Ok(format!("asyncio {:.2} ms, the client for Python {:.2} ms  {ratio} x asyncio", asyncio / 1e3, own / 1e3))
}

fn report(load: &str, names: &[&str], times: &[Vec<Duration>]) {
    let bubblewrap = times.get(1).map(|times| quartile(times, 2)).unwrap();
    for (name, times) in names.iter().zip(times) {
        let (low, median, high) = (quartile(times, 1), quartile(times, 2), quartile(times, 3));
        let ratio = against(median / bubblewrap, (*name == SESSION).then_some(0.45));
        println!("{load:14} {name:24} {median:7.2} ms ({low:.2} to {high:.2})  {ratio} x bubblewrap");
    }
}
