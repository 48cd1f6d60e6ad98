//! The layers in force around a command, read back from the kernel.

use std::os::fd::OwnedFd;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::process::Pid;
use stockade_protocol::{Enforcement, LayerReport, LayerStatus};

use crate::wire;

/// The facts that the command's process reads back, and the names of their layers.
const FACTS: &[(u64, &str)] = &[
    (wire::FACT_OWN_PIDS, "pid_namespace"),
    (wire::FACT_LANDLOCK, "landlock"),
    (wire::FACT_SECCOMP, "seccomp"),
    (wire::FACT_NO_NEW_PRIVILEGES, "no_new_privileges"),
    (wire::FACT_NO_CAPABILITIES, "no_capabilities"),
    (wire::FACT_NO_BOUNDING_SET, "no_bounding_set"),
    (wire::FACT_CONTAINED, "process_tree"),
];

/// The layers of these facts.
pub(crate) fn fact_names(facts: u64) -> Vec<&'static str> {
    FACTS.iter().filter(|(fact, _)| facts & fact != 0).map(|(_, name)| *name).collect()
}

fn report(layer: &str, holds: bool) -> LayerReport {
    let status = if holds { LayerStatus::FullyEnforced } else { LayerStatus::NotEnforced };
    LayerReport { layer: layer.to_owned(), status, detail: None }
}

/// The namespaces of a process that differ from this program's.
pub(crate) fn namespaces(names: &[&str], process: Pid) -> Vec<LayerReport> {
    let (inside, outside) = (links(&process.as_raw_pid().to_string()), links("self"));
    let of = |links: &rustix::io::Result<OwnedFd>, name: &str| {
        links.as_ref().ok().and_then(|links| rustix::fs::readlinkat(links, name, Vec::new()).ok())
    };
    let own = |name: &str| matches!((of(&inside, name), of(&outside, name)), (Some(one), Some(other)) if one != other);
    let layer = |name: &str| format!("{}_namespace", if name == "mnt" { "mount" } else { name });
    names.iter().map(|name| report(&layer(name), own(name))).collect()
}

/// The directory with a process's namespace links.
fn links(process: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, format!("/proc/{process}/ns"), flags, Mode::empty())
}

/// The layers that the command's process read back.
pub(crate) fn read_back(facts: u64) -> impl Iterator<Item = LayerReport> {
    FACTS.iter().map(move |(fact, name)| report(name, facts & fact != 0))
}

/// The namespaces of a launcher that has entered them itself.
pub(crate) fn own_namespaces(launcher: Pid) -> Vec<LayerReport> {
    namespaces(&["user", "mnt", "net", "ipc", "uts", "cgroup"], launcher)
}

/// The layers around a command: the launcher's namespaces, and the facts read back by the command's process.
pub(crate) fn enforcement(engine: &str, facts: u64, namespaces: &[LayerReport]) -> Enforcement {
    let layers = namespaces.iter().cloned().chain(read_back(facts)).collect();
    Enforcement { engine: engine.to_owned(), layers }
}
