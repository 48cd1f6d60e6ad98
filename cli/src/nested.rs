//! Whether this program was started in a sandbox of Stockade.
//!
//! No second sandbox can be built in there, and the settings, the trail and the sessions of the outer one are out of reach. What is
//! found here decides about messages alone: nothing is allowed by it.

/// This program runs where it can't do its work.
#[derive(Debug, thiserror::Error)]
#[error(
    "this runs inside a sandbox of Stockade already, which holds for this command and all that it starts: run the command \
     without `stockade`. A second sandbox can't be built in here, and rules are not read"
)]
pub(crate) struct Nested;

/// Refuses to go on inside a sandbox.
pub(crate) fn refuse() -> Result<(), Nested> {
    if is_inside() { Err(Nested) } else { Ok(()) }
}

/// The sandbox has a host name of its own, and its processes have no capabilities and no way to any, with a filter on their
/// system calls. The engine `landlock` alone has no host name, and is not known by this.
#[cfg(target_os = "linux")]
pub(crate) fn is_inside() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    if read("/proc/sys/kernel/hostname").trim_end() != "stockade" {
        return false;
    }
    let status = read("/proc/self/status");
    let says = |name: &str, value: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.is_some_and(|found| found.trim() == value)
    };
    says("NoNewPrivs", "1") && says("Seccomp", "2") && says("CapBnd", "0000000000000000")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_inside() -> bool {
    false
}
