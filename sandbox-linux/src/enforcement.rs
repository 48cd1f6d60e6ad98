//! Which layers hold around a command, read back from the kernel.

use rustix::process::Pid;
use stockade_protocol::{Enforcement, LayerReport, LayerStatus};

use crate::wire;

/// What the command's process may find out about itself, and the names of those layers.
const FACTS: &[(u64, &str)] = &[
    (wire::FACT_OWN_PIDS, "pid_namespace"),
    (wire::FACT_LANDLOCK, "landlock"),
    (wire::FACT_SECCOMP, "seccomp"),
    (wire::FACT_NO_NEW_PRIVILEGES, "no_new_privileges"),
    (wire::FACT_NO_CAPABILITIES, "no_capabilities"),
    (wire::FACT_NO_BOUNDING_SET, "no_bounding_set"),
    (wire::FACT_CONTAINED, "process_tree"),
];

/// The layers that these facts stand for.
pub(crate) fn fact_names(facts: u64) -> Vec<&'static str> {
    FACTS.iter().filter(|(fact, _)| facts & fact != 0).map(|(_, name)| *name).collect()
}

fn report(layer: &str, holds: bool) -> LayerReport {
    let status = if holds { LayerStatus::FullyEnforced } else { LayerStatus::NotEnforced };
    LayerReport { layer: layer.to_owned(), status, detail: None }
}

/// The namespaces that a process is in and this program is not.
pub(crate) fn namespaces(names: &[&str], process: Pid) -> Vec<LayerReport> {
    let of = |process: &str, name: &str| std::fs::read_link(format!("/proc/{process}/ns/{name}"));
    let process = process.as_raw_pid().to_string();
    let own =
        |name: &str| matches!((of(&process, name), of("self", name)), (Ok(inside), Ok(outside)) if inside != outside);
    let layer = |name: &str| format!("{}_namespace", if name == "mnt" { "mount" } else { name });
    names.iter().map(|name| report(&layer(name), own(name))).collect()
}

/// What the command's process read back about itself.
pub(crate) fn read_back(facts: u64) -> impl Iterator<Item = LayerReport> {
    FACTS.iter().map(move |(fact, name)| report(name, facts & fact != 0))
}

/// The layers of a launcher that has entered its namespaces itself.
pub(crate) fn enforcement(engine: &str, facts: u64, launcher: Pid) -> Enforcement {
    let mut layers = namespaces(&["user", "mnt", "net", "ipc", "uts", "cgroup"], launcher);
    layers.extend(read_back(facts));
    Enforcement { engine: engine.to_owned(), layers }
}
