//! How often a limit of a control group was reached: the kernel counts that, so it needs no guess.
//! <https://docs.kernel.org/admin-guide/cgroup-v2.html>
//!
//! The counters name no process. Commands of one session share a group, and so its limits: each is told of what was counted while it
//! ran.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_sandboxing::{CountedLimit, DeniedAct, Observation, Observations};

/// Limits, by the file that sets them: the file that counts, and the entries of it that count a use that was refused.
const COUNTED: &[(&str, CountedLimit, &str, &[&str])] = &[
    ("memory.max", CountedLimit::Memory, "memory.events", &["oom", "oom_kill"]),
    ("pids.max", CountedLimit::Processes, "pids.events", &["max"]),
];

/// The counters of a group, as they were when a command started.
#[derive(Debug)]
pub(crate) struct LimitCounters(Vec<Counter>);

#[derive(Debug)]
struct Counter {
    limit: CountedLimit,
    file: PathBuf,
    entries: &'static [&'static str],
    before: u64,
}

impl LimitCounters {
    /// Of the group in a directory, for the limits that these files set, as far as the kernel counts them.
    pub(crate) fn of<'a>(group: &Path, limits: impl Iterator<Item = &'a str>) -> Self {
        let counter = |limit: &str| {
            let (_, limit, file, entries) = COUNTED.iter().find(|(set_by, ..)| *set_by == limit)?;
            let file = group.join(file);
            let before = total(&file, entries)?;
            Some(Counter { limit: *limit, file, entries, before })
        };
        Self(limits.filter_map(counter).collect())
    }

    /// Whether a limit is counted.
    pub(crate) fn count(&self, limit: CountedLimit) -> bool {
        self.0.iter().any(|counter| counter.limit == limit)
    }

    /// Notes the limits that were reached since.
    pub(crate) fn tell(&self, notes: &Observations) {
        for counter in &self.0 {
            if total(&counter.file, counter.entries).is_some_and(|now| now > counter.before) {
                let note = |act| Some(Observation { pid: None, program: None, act, is_handled: false });
                notes.note(DeniedAct::Exceed(counter.limit), note);
            }
        }
    }
}

/// The sum of these entries; `None` where the kernel has no such file, or none of them.
fn total(file: &Path, entries: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let found = text.lines().filter_map(|line| {
        let (name, count) = line.split_once(' ')?;
        entries.contains(&name).then(|| count.trim().parse::<u64>().ok())?
    });
    found.fold(None, |sum, count| Some(sum.unwrap_or(0_u64).saturating_add(count)))
}

#[cfg(test)]
mod tests {
    use stockade_sandboxing::Coverage;

    use super::*;

    /// Files as the kernel writes them: here a directory takes the place of a group.
    struct Group(tempfile::TempDir);

    impl Group {
        fn new(memory: &str, processes: &str) -> Self {
            let group = Self(tempfile::tempdir().unwrap());
            group.set(memory, processes);
            group
        }

        fn set(&self, memory: &str, processes: &str) {
            fs::write(self.0.path().join("memory.events"), memory).unwrap();
            fs::write(self.0.path().join("pids.events"), processes).unwrap();
        }

        fn counters(&self) -> LimitCounters {
            LimitCounters::of(self.0.path(), ["memory.max", "pids.max"].into_iter())
        }
    }

    fn told(counters: &LimitCounters) -> Vec<DeniedAct> {
        let notes = Observations::new(Coverage::default());
        counters.tell(&notes);
        notes.kept().into_iter().map(|seen| seen.act).collect()
    }

    const QUIET: &str = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n";

    #[test]
    fn only_what_was_counted_since_the_start_is_told() {
        let group = Group::new(QUIET, "max 3\n");
        let counters = group.counters();
        assert_eq!(told(&counters), []);
        // Pages were given back in time.
        group.set(&QUIET.replace("max 12", "max 40"), "max 3\n");
        assert_eq!(told(&counters), []);
        group.set(&QUIET.replace("oom_kill 1", "oom_kill 2"), "max 3\n");
        assert_eq!(told(&counters), [DeniedAct::Exceed(CountedLimit::Memory)]);
        group.set(QUIET, "max 4\n");
        assert_eq!(told(&counters), [DeniedAct::Exceed(CountedLimit::Processes)]);
        assert!(told(&group.counters()).is_empty(), "the next command of a session");
    }

    #[test]
    fn a_limit_without_a_counter_is_not_covered() {
        let group = Group::new("", "nothing\n");
        fs::remove_file(group.0.path().join("memory.events")).unwrap();
        let counters = group.counters();
        assert!(!counters.count(CountedLimit::Memory) && !counters.count(CountedLimit::Processes));
        let one = Group::new(QUIET, "max 0\n");
        let only = LimitCounters::of(one.0.path(), ["pids.max"].into_iter());
        assert!(only.count(CountedLimit::Processes) && !only.count(CountedLimit::Memory));
    }
}
