//! Limits on a whole process tree, by its own control group. <https://docs.kernel.org/admin-guide/cgroup-v2.html>
//!
//! A group can be created if the host delegates one to this user: below the nearest control group of this process that
//! is writable and enables the controllers `memory` and `pids`. The launcher is moved into it first, so that all of
//! its processes are in there, and the cgroup namespace it enters shows nothing above it.
//!
//! The creator of a group holds a lock on its directory. When that program is killed, the lock is released, and the
//! next one that creates a group in the same place removes empty, unlocked ones.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use serde::Serialize;
use stockade_protocol::{AbsPath, Access, LayerReport, LayerStatus, Permissions, ResourceLimits};
use stockade_sandboxing::SpawnError;

use crate::observer::limit_counters::LimitCounters;

/// The launcher and its first process, which count in addition to the command's.
const WATCHERS: u64 = 2;
/// The name of this layer in an `Enforcement`.
pub(crate) const LAYER: &str = "control_group";
const PREFIX: &str = "stockade-";
/// How long the kernel may take to remove killed processes.
const PATIENCE: Duration = Duration::from_secs(2);
/// The number of names tried until one is free.
const TRIES: usize = 1000;

/// A control group to be created, with its limits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Group {
    /// The directory of its parent group.
    parent: PathBuf,
    /// File and value.
    limits: Vec<(&'static str, u64)>,
}

impl Group {
    /// The group for these permissions; `None` if they have no such limits, or the host does not delegate one.
    pub(crate) fn for_limits(permissions: &Permissions) -> Option<Self> {
        let limits = files(&permissions.limits);
        if limits.is_empty() {
            return None;
        }
        let parent = delegated()?;
        // A command with write access there could lift its own limits.
        let is_out_of_reach = AbsPath::from_path(&parent).is_ok_and(|path| permissions.access(&path) < Access::Write);
        is_out_of_reach.then_some(Self { parent, limits })
    }

    /// Creates it, and moves a process into it.
    pub(crate) fn make(&self, process: Pid) -> Result<Made, SpawnError> {
        let failed = |step: String| move |source: io::Error| SpawnError::Setup { step, source };
        remove_abandoned(&self.parent);
        let made =
            self.directory(process).map_err(failed(format!("make a control group in `{}`", self.parent.display())))?;
        for (file, value) in &self.limits {
            made.write(file, &value.to_string()).map_err(failed(format!("set `{file}` of a control group")))?;
        }
        // Swapped memory counts as well. Kernels without swap lack the file.
        if self.limits.iter().any(|(file, _)| *file == "memory.max") && made.path.join("memory.swap.max").exists() {
            made.write("memory.swap.max", "0").map_err(failed(String::from("keep a control group from swapping")))?;
        }
        let pid = process.as_raw_pid().to_string();
        made.write("cgroup.procs", &pid).map_err(failed(String::from("move the launcher into a control group")))?;
        Ok(made)
    }

    fn directory(&self, process: Pid) -> io::Result<Made> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..TRIES {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{PREFIX}{}-{number}", std::process::id());
            let path = self.parent.join(name);
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
                Ok(()) => {}
                // Left by a program with the same pid, and not empty.
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(errno.into()),
            }
            let lock = open(&path)?;
            rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
            // A concurrent cleanup may have removed it.
            if rustix::fs::statat(CWD, &path, AtFlags::empty()).is_ok() {
                return Ok(Made { path, lock: Some(lock), limits: self.limits.clone(), process });
            }
        }
        Err(io::Error::other("each that was made is gone again"))
    }
}

/// The limits that a group can enforce, by their file names.
fn files(limits: &ResourceLimits) -> Vec<(&'static str, u64)> {
    let memory = limits.memory_bytes.map(|bytes| ("memory.max", bytes.get()));
    let processes = limits.processes.map(|count| ("pids.max", count.get().saturating_add(WATCHERS)));
    memory.into_iter().chain(processes).collect()
}

/// The nearest delegated ancestor group of this process, with both controllers.
pub(crate) fn delegated() -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let top = mounts.lines().find_map(mount_point)?;
    let own = top.join(own.trim_start_matches('/'));
    own.ancestors().take_while(|group| group.starts_with(&top)).find(|group| can_be_divided(group)).map(Path::to_owned)
}

/// The mount point of the hierarchy, if this is its line of `mountinfo`.
fn mount_point(line: &str) -> Option<PathBuf> {
    let (mount, file_system) = line.split_once(" - ")?;
    let mut words = mount.split(' ').skip(3);
    let (root, point) = (words.next()?, words.next()?);
    let is_whole = root == "/" && file_system.split(' ').next() == Some("cgroup2");
    is_whole.then(|| PathBuf::from(point))
}

/// Whether groups can be created below one, and its processes moved into them. The controllers are enabled already or
/// can be: the kernel refuses that for a group with processes of its own.
fn can_be_divided(group: &Path) -> bool {
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    let has_both = |file: &str| {
        let text = fs::read_to_string(group.join(file)).unwrap_or_default();
        ["memory", "pids"].iter().all(|name| text.split_whitespace().any(|word| word == *name))
    };
    if !writable(group) || !writable(&group.join("cgroup.procs")) || !has_both("cgroup.controllers") {
        return false;
    }
    has_both("cgroup.subtree_control")
        || fs::write(group.join("cgroup.subtree_control"), "+memory +pids").is_ok()
            && has_both("cgroup.subtree_control")
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Removes empty groups of killed programs.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_ours
            && let Ok(lock) = open(&entry.path())
            && rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            // A group that is not empty stays for the next time.
            fs::remove_dir(entry.path()).ok();
        }
    }
}

/// An existing control group. It and its processes are removed on drop.
#[derive(Debug)]
pub(crate) struct Made {
    path: PathBuf,
    /// Held until the directory is gone.
    lock: Option<OwnedFd>,
    limits: Vec<(&'static str, u64)>,
    /// The process that was moved into it.
    process: Pid,
}

impl Made {
    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
    }

    /// What the kernel counts of the limits from now on.
    pub(crate) fn counters(&self) -> LimitCounters {
        LimitCounters::of(&self.path, self.limits.iter().map(|(file, _)| *file))
    }

    /// What the kernel says of the limits and of who is in there.
    pub(crate) fn report(&self) -> LayerReport {
        let holds = |(file, value): &(&str, u64)| {
            fs::read_to_string(self.path.join(file)).is_ok_and(|text| is_limit(file, &text, *value))
        };
        let own = fs::read_to_string(format!("/proc/{}/cgroup", self.process.as_raw_pid())).unwrap_or_default();
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let is_inside = own.lines().any(|line| line.starts_with("0::") && line.ends_with(&format!("/{name}")));
        let status = if is_inside && self.limits.iter().all(holds) {
            LayerStatus::FullyEnforced
        } else {
            LayerStatus::NotEnforced
        };
        let detail: Vec<String> = self.limits.iter().map(|(file, value)| format!("{file} {value}")).collect();
        LayerReport { layer: String::from(LAYER), status, detail: Some(detail.join(", ")) }
    }
}

/// Memory is counted in pages, and rounded down to them.
fn is_limit(file: &str, text: &str, value: u64) -> bool {
    let page = if file == "memory.max" { rustix::param::page_size() as u64 } else { 1 };
    text.trim().parse::<u64>().is_ok_and(|found| found <= value && value - found < page)
}

impl Drop for Made {
    fn drop(&mut self) {
        // Kernels before 5.14 lack it; there the launcher alone ends its processes.
        self.write("cgroup.kill", "1").ok();
        let end = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.path).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.lock = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mount_of_the_whole_hierarchy_counts() {
        let line =
            |root: &str, kind: &str| format!("35 24 0:30 {root} /sys/fs/cgroup rw,nosuid shared:9 - {kind} cgroup2 rw");
        assert_eq!(mount_point(&line("/", "cgroup2")), Some(PathBuf::from("/sys/fs/cgroup")));
        assert_eq!(mount_point(&line("/system.slice", "cgroup2")), None);
        assert_eq!(mount_point(&line("/", "cgroup")), None);
        assert_eq!(mount_point("35 24"), None);
    }

    #[test]
    fn memory_is_rounded_down_to_pages_and_processes_are_exact() {
        let page = rustix::param::page_size() as u64;
        assert!(is_limit("memory.max", &format!("{}\n", 10 * page), 10 * page + 1));
        for wrong in ["max\n", "", &(11 * page).to_string(), &(8 * page).to_string()] {
            assert!(!is_limit("memory.max", wrong, 10 * page), "{wrong}");
        }
        assert!(is_limit("pids.max", "66\n", 66) && !is_limit("pids.max", "65\n", 66));
    }
}
