//! The programs that are part of this library: the launcher, and the stub.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags};
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
    sealed(&FILE, "stockade-launcher", LAUNCHER)
}

/// The stub as a sealed memory file, created once.
pub(crate) fn stub_file() -> io::Result<&'static OwnedFd> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    sealed(&FILE, "stockade-stub", STUB)
}

fn sealed(file: &'static OnceLock<OwnedFd>, name: &str, program: &[u8]) -> io::Result<&'static OwnedFd> {
    if let Some(file) = file.get() {
        return Ok(file);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 don't have the second flag and don't need it.
    let made = match rustix::fs::memfd_create(name, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
        other => other?,
    };
    memory_file::write(&made, program)?;
    rustix::fs::fcntl_add_seals(&made, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file.get_or_init(|| made))
}
