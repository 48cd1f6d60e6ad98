//! Processes that can't be started because of a limit that the kernel holds without counting how often it was reached
//! (`RLIMIT_NPROC`): whether the limit is reached when a process is to be started.
//!
//! The kernel counts the processes and threads of a user in a namespace of users, also those that have ended and were not waited for.
//! A sandbox has a namespace of its own, so those in it are what counts. Where there is such a limit, and no control group,
//! the calls that start a process are notified, and the kernel goes on with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use libc::SYS_clone;

use crate::plan::bpf::{Action, Instruction};
use crate::plan::seccomp::number;
use crate::plan::system_calls::{SYS_fork, SYS_vfork};

const STARTS: &[i64] = &[SYS_clone, SYS_fork, SYS_vfork];

/// Whether a call starts a process or a thread.
pub(super) fn starts(call: i64) -> bool {
    STARTS.contains(&call)
}

/// The filter's answers.
pub(super) fn answers() -> BTreeMap<u32, Vec<Instruction>> {
    STARTS.iter().map(|call| (number(*call), vec![Instruction::answer(Action::Notify)])).collect()
}

/// Whether there are as many processes and threads beside a thread as the limit allows.
pub(super) fn is_reached(limit: NonZeroU64, thread: i32) -> bool {
    let Some(own) = users(thread) else { return false };
    let process = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(process);
    let beside: BTreeSet<i32> = processes.filter(|process| users(*process).as_ref() == Some(&own)).collect();
    // Of one that may not be looked at, such as the first process of a sandbox, it is known which process has started it.
    let hidden = beside.iter().flat_map(|process| children(*process)).filter(|child| users(*child).is_none());
    let all: BTreeSet<i32> = beside.iter().copied().chain(hidden).collect();
    all.into_iter().map(threads).fold(0_u64, u64::saturating_add) >= limit.get()
}

/// The namespace of users that a process is in.
fn users(process: i32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/user")).ok()
}

/// The processes that the first thread of another has started.
fn children(process: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

/// The threads of a process: each is a directory in that of its tasks.
fn threads(process: i32) -> u64 {
    fs::metadata(format!("/proc/{process}/task")).map_or(0, |tasks| tasks.nlink().saturating_sub(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_as_the_kernel_counts_them() {
        let own = i32::try_from(std::process::id()).unwrap();
        let before = threads(own);
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || wait.recv().ok());
        let one = NonZeroU64::MIN;
        assert!(before >= 1 && is_reached(one, own));
        assert!(!is_reached(NonZeroU64::MAX, own));
        drop(release);
        thread.join().unwrap();
    }

    #[test]
    fn a_process_that_is_gone_has_reached_nothing() {
        assert!(!is_reached(NonZeroU64::MIN, i32::MAX));
    }
}
