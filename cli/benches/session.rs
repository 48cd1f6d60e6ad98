//! The cost of one command from the outside: bare, in bubblewrap, by `stockade run`, by `stockade run --session`, and
//! by the Python client compared with `asyncio`'s own subprocesses.
//!
//! Each runs `bash -c true`; they alternate, so that other load affects all of them alike. Bubblewrap has a plain
//! command line: the root read-only, the workspace writable, nothing shared. Measured on the idle machine, with one
//! processor busy, with all of them busy, and on one processor alone. Only the ratios of the medians within one run
//! are meaningful, printed with the interquartile range. `scripts/build && cargo bench -p stockade-cli --bench
//! session`, with `bwrap` installed. The client for Python is left out where there is no `python3`.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ROUNDS: usize = 200;
const WARM_UP: usize = 20;

fn main() {
    // Not below `/tmp`, which is private inside.
    let directory = tempfile::Builder::new().prefix("stockade-bench").tempdir_in("/var/tmp").unwrap();
    for name in ["home", "ws/.git", "run"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    std::fs::set_permissions(directory.path().join("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_stockade"));
    let installed = built.parent().unwrap().with_file_name("stockade");
    let program = if installed.is_file() { installed.as_path() } else { built };
    println!("{}", program.display());
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    for (load, busy, alone) in
        [("quiet", 0, false), ("one busy", 1, false), ("all busy", processors, false), ("one processor", 0, true)]
    {
        let mut starts = [
            ("bare", words(&["bash", "-c", "true"])),
            ("bubblewrap", bubblewrap(&directory.path().join("ws"))),
            ("stockade run", own(program, &["run", "--ask", "never", "--", "bash", "-c", "true"])),
            ("stockade run --session", own(program, &["run", "--session", "bench", "--", "bash", "-c", "true"])),
        ]
        .map(|(name, words)| (name, command(&words, directory.path(), alone)));
        let spinning: Vec<Child> = (0..busy).map(|_| spin()).collect();
        let mut times = [const { Vec::new() }; 4];
        let rounds = if busy == 0 { ROUNDS } else { ROUNDS / 2 };
        for round in 0..rounds + WARM_UP {
            for ((_, start), times) in starts.iter_mut().zip(&mut times) {
                let took = time(start);
                if round >= WARM_UP {
                    times.push(took);
                }
            }
        }
        let python = python(program, directory.path(), alone, rounds);
        for mut child in spinning {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        report(load, &starts.map(|(name, _)| name), times);
        match python {
            Ok(line) => println!("{load:14} {line}"),
            Err(why) => println!("{load:14} the client for Python is left out: {why}"),
        }
    }
    let end = own(program, &["session", "end", "--all"]);
    command(&end, directory.path(), false).status().unwrap();
}

/// The client for Python and a server of its own, beside `asyncio`, in turn by its own benchmark.
fn python(program: &Path, directory: &Path, alone: bool, rounds: usize) -> Result<String, String> {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/python");
    let line = words(&["python3", &client.join("bench.py").display().to_string(), &rounds.to_string()]);
    let mut python = command(&line, directory, alone);
    python.env("PYTHONPATH", client.join("src")).env("STOCKADE_PROGRAM", program).stdout(Stdio::piped());
    let output = python.output().map_err(|error| error.to_string())?;
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    let number = |name: &str| found.get(name).and_then(serde_json::Value::as_f64).ok_or("no figures");
    let (asyncio, own, ratio) = (number("asyncio_us")?, number("client_us")?, number("ratio")?);
    Ok(format!("asyncio {:.2} ms, the client for Python {:.2} ms  {ratio:.2} x asyncio", asyncio / 1e3, own / 1e3))
}

fn report(load: &str, names: &[&str; 4], mut times: [Vec<Duration>; 4]) {
    times.iter_mut().for_each(|times| times.sort());
    let at = |times: &[Duration], part: usize| times.get(times.len() * part / 4).copied().unwrap().as_secs_f64() * 1e3;
    let bubblewrap = times.get(1).map(|times| at(times, 2)).unwrap();
    for (name, times) in names.iter().zip(&times) {
        let (low, median, high) = (at(times, 1), at(times, 2), at(times, 3));
        println!(
            "{load:14} {name:24} {median:7.2} ms ({low:.2} to {high:.2})  {:.2} x bubblewrap",
            median / bubblewrap
        );
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| String::from(*word)).collect()
}

fn own(program: &Path, arguments: &[&str]) -> Vec<String> {
    [vec![program.display().to_string()], words(arguments)].concat()
}

fn bubblewrap(workspace: &Path) -> Vec<String> {
    let workspace = workspace.display().to_string();
    let mut line = words(&["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind"]);
    line.extend([workspace.clone(), workspace]);
    line.extend(words(&["--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--new-session"]));
    line.extend(words(&["--cap-drop", "ALL", "bash", "-c", "true"]));
    line
}

/// In a home without settings; on one processor, if that is wanted.
fn command(words: &[String], directory: &Path, alone: bool) -> Command {
    let (first, rest) = words.split_first().unwrap();
    let mut command = Command::new(if alone { "taskset" } else { first.as_str() });
    if alone {
        command.args(["-c", "0", first]);
    }
    command.args(rest).current_dir(directory.join("ws")).env_clear();
    command.env("HOME", directory.join("home")).env("PATH", "/usr/bin:/bin");
    command.env("XDG_RUNTIME_DIR", directory.join("run"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    assert!(command.status().unwrap().success(), "{command:?}");
    start.elapsed()
}

/// Keeps a processor busy.
fn spin() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
}
