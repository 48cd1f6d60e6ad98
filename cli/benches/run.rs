//! The cost of a whole `stockade run`: the program's start, settings, rules, approval, sandbox, audit.
//!
//! `stockade run --ask never -- /bin/true` with the trail on and a home of its own, beside bubblewrap with
//! the same policy and a bare spawn. All are started from this program, in turn, so that whatever else the
//! machine does hits all of them alike. What counts are the ratios of the medians; the times are noise.
//! `scripts/build && cargo bench -p stockade-cli`, with `bwrap` installed. Measured are the program as it is
//! installed, which `scripts/build` makes, and as `cargo build` makes it.

#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a benchmark starts the programs that it measures")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stockade_protocol::PROTECTED_NAMES;

const ROUNDS: usize = 300;
const WARM_UP: usize = 20;

fn main() {
    // Not below `/tmp`, which is private inside.
    let directory = tempfile::Builder::new().prefix("stockade-bench").tempdir_in("/var/tmp").unwrap();
    // A workspace each, since what bubblewrap leaves behind would spare the other some work.
    for name in ["home", "ws/.git", "other/.git"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    let installed = Path::new(env!("CARGO_BIN_EXE_stockade")).parent().unwrap().with_file_name("stockade");
    assert!(installed.is_file(), "{} is missing: run `scripts/build` first", installed.display());
    let built = Path::new(env!("CARGO_BIN_EXE_stockade"));
    let mut starts = [
        ("bare spawn", bare(directory.path())),
        ("bubblewrap", bwrap(&directory.path().join("other"))),
        ("stockade run", stockade(directory.path(), &installed, &["run"])),
        ("stockade --version", stockade(directory.path(), &installed, &["--version"])),
        ("stockade run, linked dynamically", stockade(directory.path(), built, &["run"])),
        ("stockade --version, linked dynamically", stockade(directory.path(), built, &["--version"])),
    ];
    let mut times = [const { Vec::new() }; 6];
    for round in 0..ROUNDS + WARM_UP {
        for ((_, start), times) in starts.iter_mut().zip(&mut times) {
            let took = time(start);
            if round >= WARM_UP {
                times.push(took);
            }
        }
    }
    let medians = times.map(median);
    let [bare, bubblewrap, ..] = medians.map(|time| time.as_secs_f64());
    for ((name, _), median) in starts.iter().zip(medians) {
        let seconds = median.as_secs_f64();
        println!("{name:40} {median:>10.3?}  {:.2} x bubblewrap  {:.2} x bare", seconds / bubblewrap, seconds / bare);
    }
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    assert!(command.status().unwrap().success());
    start.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap()
}

fn bare(directory: &Path) -> Command {
    surrounded(Command::new("/bin/true"), directory)
}

/// In a home without settings.
fn stockade(directory: &Path, program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    if arguments == ["run"] {
        command.args(["--ask", "never", "--", "/bin/true"]);
    }
    surrounded(command, directory)
}

fn surrounded(mut command: Command, directory: &Path) -> Command {
    command.current_dir(directory.join("ws")).env_clear();
    command.env("HOME", directory.join("home")).env("PATH", "/usr/bin:/bin");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The same policy: the root is read, the workspace written, its metadata kept, no network. Names that
/// are missing are covered by a file, which bubblewrap leaves behind.
fn bwrap(workspace: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--bind"]);
    command.arg(workspace).arg(workspace);
    command.arg("--ro-bind").arg(workspace.join(".git")).arg(workspace.join(".git"));
    for name in PROTECTED_NAMES.iter().filter(|name| **name != ".git") {
        command.args(["--ro-bind", "/dev/null"]).arg(workspace.join(name));
    }
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "/bin/true"]).env_clear();
    command.current_dir(workspace).stdin(Stdio::null()).stdout(Stdio::null());
    command
}
