//! Detects whether this program runs in a sandbox of Stockade.
//!
//! No second sandbox can be built inside, and the settings, the trail and the sessions of the outer one are
//! inaccessible. The result only affects messages: it allows nothing.

/// This program can't work in its environment.
#[derive(Debug, thiserror::Error)]
#[error(
    "this runs inside a sandbox of Stockade already, which holds for this command and all that it starts: run the command \
     without `stockade`. A second sandbox can't be built in here, and rules are not read"
)]
pub(crate) struct Nested;

/// Refuses to run inside a sandbox.
pub(crate) fn refuse() -> Result<(), Nested> {
    if is_inside() { Err(Nested) } else { Ok(()) }
}

/// The sandbox has its own host name, and its processes have no capabilities, no way to gain any, and a seccomp
/// filter. The engine `landlock` sets no host name, and is not detected.
#[cfg(target_os = "linux")]
pub(crate) fn is_inside() -> bool {
    use std::io::Read as _;

    // Every run looks at this: one read, as long as a name may be.
    let mut name = [0; 65];
    let read = std::fs::File::open("/proc/sys/kernel/hostname").and_then(|mut file| file.read(&mut name));
    if name.get(..read.unwrap_or_default()).unwrap_or_default().trim_ascii_end() != b"stockade" {
        return false;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
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
