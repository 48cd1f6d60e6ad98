//! How processes ended that were denied something: whether what they were denied was of consequence.
//!
//! A shell learns of a program that it started its status, and nothing else. So if a program was denied something, ended
//! well all the same, and a shell had started it, then what failed later did not fail for that: `git status; false`. Of
//! other parents this can't be said: a test runner may have its workers tell it of failures, and end well.
//!
//! The kernel keeps how a process ended for as long as somebody holds it
//! ([`PIDFD_GET_INFO`](https://man7.org/linux/man-pages/man2/PIDFD_GET_INFO.2const.html), from Linux 6.15 on).
//! Where it does not, every denial counts.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::sys::notify::exit_status;

/// Processes that are held for one command, each with a descriptor.
const MOST_HELD: usize = 48;
/// As far as it is looked up from a process.
const MOST_ABOVE: usize = 12;

/// Programs that learn nothing but the status of those that they start.
const SHELLS: &[&str] = &[
    "sh", "ash", "bash", "busybox", "dash", "fish", "ksh", "ksh93", "mksh", "yash", "zsh", "make", "xargs", "timeout",
];

/// The processes that were denied something, with those that had started them.
#[derive(Debug, Default)]
pub(super) struct Lineages(Mutex<BTreeMap<i32, Held>>);

#[derive(Debug)]
struct Held {
    process: OwnedFd,
    parent: i32,
    is_started_by_shell: bool,
}

impl Lineages {
    /// Holds a process, and those above it, while it waits.
    pub(super) fn hold(&self, process: u32) {
        let Ok(mut process) = i32::try_from(process) else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MOST_ABOVE {
            if all.contains_key(&process) || all.len() >= MOST_HELD {
                return;
            }
            let Some(held) = Held::open(process) else { return };
            let parent = held.parent;
            all.insert(process, held);
            process = parent;
        }
    }

    /// Whether a process ended well, or one above it did, and a shell had started that one. The command is over.
    pub(super) fn ended_well(&self, process: u32) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let above = std::iter::successors(i32::try_from(process).ok(), |process| Some(all.get(process)?.parent));
        let mut held = above.take(MOST_ABOVE).filter_map(|process| all.get(&process));
        held.any(|held| held.is_started_by_shell && exit_status(held.process.as_fd()) == Some(0))
    }
}

impl Held {
    fn open(process: i32) -> Option<Self> {
        let held = pidfd_open(Pid::from_raw(process)?, PidfdFlags::empty()).ok()?;
        let parent = parent_of(process).filter(|parent| *parent > 1)?;
        let is_started_by_shell = is_shell(parent);
        // Had it ended meanwhile, the number might be another's.
        (parent_of(process) == Some(parent)).then_some(Self { process: held, parent, is_started_by_shell })
    }
}

fn parent_of(process: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")).and_then(|parent| parent.trim().parse().ok())
}

fn is_shell(process: i32) -> bool {
    let program = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    let name = program.file_name().and_then(|name| Path::new(name).to_str());
    name.is_some_and(|name| SHELLS.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a process that says its number and waits for the end of its input.
    #[expect(clippy::disallowed_methods, reason = "it is about processes that something else has started")]
    fn is_handled(program: &str, script: &str) -> bool {
        let mut shell = std::process::Command::new(program);
        shell.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut told = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut told).unwrap();
        let process: u32 = told.trim().parse().unwrap();
        let lineages = Lineages::default();
        lineages.hold(process);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        lineages.ended_well(process)
    }

    #[test]
    fn a_process_that_ended_well_was_denied_nothing_of_consequence() {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
        let is_known = (numbers.next().unwrap(), numbers.next().unwrap()) >= (6, 15);
        let waits = "sh -c 'echo $$; read x; exit 0'; exit 1";
        assert_eq!(is_handled("sh", waits), is_known);
        assert!(!is_handled("sh", "sh -c 'echo $$; read x; exit 3'; exit 1"));
        assert!(!is_handled("sh", "sh -c 'echo $$; read x; kill -9 $$'; exit 1"));
        assert_eq!(is_handled("sh", "sh -c \"sh -c 'echo \\$\\$; read x; exit 3'; exit 0\"; exit 1"), is_known);
        let python = "import subprocess, sys; subprocess.run(['sh', '-c', 'echo $$; read x; exit 0']); sys.exit(1)";
        assert!(!is_handled("python3", python), "it may have been told");
    }

    #[test]
    fn what_is_held_is_bounded() {
        let lineages = Lineages::default();
        for process in 1..100_000 {
            lineages.hold(process);
        }
        assert!(lineages.0.lock().unwrap().len() <= MOST_HELD);
    }
}
