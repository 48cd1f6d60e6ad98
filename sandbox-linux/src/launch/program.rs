//! The launcher's own program.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use crate::memory_file;

/// The launcher's own file, compiled by the build script.
const LAUNCHER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/launcher"));

// Both sides have to agree on the mode of placeholders.
const _: () = assert!(crate::wire::PLACEHOLDER_MODE == stockade_sandboxing::PLACEHOLDER_MODE);

/// The launcher as a sealed memory file, created once.
pub(crate) fn launcher_file() -> io::Result<&'static OwnedFd> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 don't have the second flag and don't need it.
    let file = match rustix::fs::memfd_create("stockade-launcher", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => rustix::fs::memfd_create("stockade-launcher", flags)?,
        other => other?,
    };
    memory_file::write(&file, LAUNCHER)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(FILE.get_or_init(|| file))
}
