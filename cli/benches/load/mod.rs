//! States of the machine that a benchmark makes itself, and programs that are started in turn in each of them.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds that count on a quiet machine; half of them where processors are busy.
const ROUNDS: usize = 200;
const WARM_UP: usize = 20;

/// What else the machine does, and where the programs run.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) busy: usize,
    pub(crate) alone: bool,
}

impl Load {
    /// The machine as it is, with one processor busy, with all of them busy, and everything on one processor.
    pub(crate) fn all() -> [Self; 4] {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        [("quiet", 0, false), ("one busy", 1, false), ("all busy", processors, false), ("one processor", 0, true)]
            .map(|(name, busy, alone)| Self { name, busy, alone })
    }

    /// The states that the arguments name; all of them without arguments. With real-time priority only those without busy processors
    /// mean something: what keeps them busy has the same priority, and never waits.
    pub(crate) fn chosen() -> Vec<Self> {
        let named: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let is_chosen = |load: &Self| named.is_empty() || named.iter().any(|name| name == load.name);
        Self::all().into_iter().filter(is_chosen).collect()
    }

    /// How often each program is started.
    pub(crate) fn rounds(self) -> usize {
        if self.busy == 0 { ROUNDS } else { ROUNDS / 2 }
    }

    /// Does something while the processors are busy, or on one processor alone, which all programs inherit.
    pub(crate) fn during<T>(self, work: impl FnOnce() -> T) -> T {
        let last = std::thread::available_parallelism().map_or(0, |all| all.get() - 1);
        let spinning: Vec<Child> = (0..self.busy).map(|_| spin()).collect();
        if self.alone {
            bind("0");
        }
        let done = work();
        if self.alone {
            bind(&format!("0-{last}"));
        }
        for mut child in spinning {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        done
    }

    /// A program in a workspace of the directory, in a home without settings.
    pub(crate) fn command(self, words: &[String], directory: &Path) -> Command {
        let (first, rest) = words.split_first().unwrap();
        let mut command = Command::new(first);
        command.args(rest).current_dir(directory.join("ws")).env_clear();
        command.env("HOME", directory.join("home")).env("PATH", "/usr/bin:/bin");
        command.env("XDG_RUNTIME_DIR", directory.join("run"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Starts each program in turn, and gives the times of each, sorted.
    pub(crate) fn times(self, commands: &mut [Command]) -> Vec<Vec<Duration>> {
        let mut times = vec![Vec::new(); commands.len()];
        for round in 0..self.rounds() + WARM_UP {
            for (command, times) in commands.iter_mut().zip(&mut times) {
                let took = time(command);
                if round >= WARM_UP {
                    times.push(took);
                }
            }
        }
        times.iter_mut().for_each(|times| times.sort());
        times
    }
}

/// Milliseconds at a quarter of the sorted times: 1, 2 and 3 are the middle half and the median.
pub(crate) fn quartile(times: &[Duration], part: usize) -> f64 {
    times.get(times.len() * part / 4).copied().unwrap().as_secs_f64() * 1e3
}

/// A ratio, and whether it reaches its aim, if it has one.
pub(crate) fn against(ratio: f64, aim: Option<f64>) -> String {
    match aim {
        Some(aim) if ratio <= aim => format!("{ratio:.2} (aim {aim:.2}, reached)"),
        Some(aim) => format!("{ratio:.2} (aim {aim:.2}, not reached)"),
        None => format!("{ratio:.2}"),
    }
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    assert!(command.status().unwrap().success(), "{command:?}");
    start.elapsed()
}

/// Binds this program, and what it starts from now on, to processors. Started before each program, `taskset` would take
/// longer than a bare spawn.
fn bind(processors: &str) {
    let own = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    taskset.args(["-p", "-c", processors, &own]).stdout(Stdio::null());
    assert!(taskset.status().unwrap().success(), "{taskset:?}");
}

/// Keeps a processor busy.
fn spin() -> Child {
    Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
}

/// A home, a workspace with a repository, and a place for sockets. Not below `/tmp`, which is private inside.
pub(crate) fn directory() -> tempfile::TempDir {
    let directory = tempfile::Builder::new().prefix("stockade-bench").tempdir_in("/var/tmp").unwrap();
    for name in ["home", "ws/.git", "run"] {
        std::fs::create_dir_all(directory.path().join(name)).unwrap();
    }
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(directory.path().join("run"), private).unwrap();
    directory
}

pub(crate) fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| String::from(*word)).collect()
}

/// The plain line: the root read-only, the workspace writable, nothing shared.
pub(crate) fn bubblewrap(directory: &Path, command: &[&str]) -> Vec<String> {
    let workspace = directory.join("ws").display().to_string();
    let mut line = words(&["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--bind"]);
    line.extend([workspace.clone(), workspace]);
    line.extend(words(&["--tmpfs", "/tmp", "--unshare-all", "--die-with-parent", "--new-session"]));
    line.extend(words(&["--cap-drop", "ALL"]));
    line.extend(words(command));
    line
}

/// The program with arguments.
pub(crate) fn own(program: &Path, arguments: &[&str]) -> Vec<String> {
    [vec![program.display().to_string()], words(arguments)].concat()
}
