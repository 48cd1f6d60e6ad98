//! The programs that are part of this library: the launcher, and the stub.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;

use crate::launch::memory_file;

/// The launcher's own file, compiled by the build script.
const LAUNCHER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));
/// The stub's own file.
const STUB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub"));

// Both sides have to agree on the mode of placeholders.
const _: () = assert!(crate::wire::PLACEHOLDER_MODE == stockade_sandboxing::PLACEHOLDER_MODE);

/// The launcher as a sealed memory file, created once.
pub(crate) fn launcher_file() -> io::Result<&'static OwnedFd> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    match FILE.get() {
        Some(file) => Ok(file),
        None => sealed("stockade-launcher", LAUNCHER).map(|made| FILE.get_or_init(|| made)),
    }
}

/// The stub as a sealed memory file, opened for reading. Each is a file of its own: a process that executes it is its
/// owner, and may change its mode.
pub(crate) fn stub_file() -> io::Result<OwnedFd> {
    let made = sealed("stockade-stub", STUB)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/self/fd/{}", made.as_raw_fd()), flags, Mode::empty())?)
}

fn sealed(name: &str, program: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 don't have the second flag and don't need it.
    let made = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        other => other?,
    };
    memory_file::write(&made, program)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    // Kernels before 6.3 can't keep it executable.
    match rustix::fs::fcntl_add_seals(&made, seals | SealFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::fcntl_add_seals(&made, seals)?,
        other => other?,
    }
    Ok(made)
}
