//! Moves that no grant has made: those after which a command could go on writing a file that was granted for once, or for a
//! run.
//!
//! A move between a place that the policy lets be written and one that a person granted would be one between two mounts,
//! which the kernel does not make (`EXDEV`, and programs copy the file). Made outside, it would keep the file, and so
//! all that still leads to it: a second name in the workspace, made before, or afterwards by way of a descriptor.

use rustix::fs::FileType;
use stockade_protocol::{AbsPath, Access, FileRules};

use super::act::FileCall;
use super::resolve::{LastLink, Tree};

const EXCHANGE: u32 = libc::RENAME_EXCHANGE;

/// What is granted to a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    /// A directory with both ends in it.
    Directory,
    /// The two ends, for once.
    Ends,
}

/// Whether commands could still write a file, by another name of it, after a call has moved it.
pub(super) fn outlasts(call: &FileCall, granted: Granted, policy: &FileRules, view: &Tree) -> bool {
    let FileCall::Rename { from, to, flags } = call else { return false };
    let is_kept = |from: &AbsPath, to: &AbsPath| {
        let is_writable = |path: &AbsPath| policy.access(path) == Access::Write;
        let (leaves, comes) = (is_writable(from) && !is_writable(to), !is_writable(from) && is_writable(to));
        let Ok(found) = view.locate(from.as_raw().as_bytes(), LastLink::Kept) else { return false };
        // The kernel has an error of its own for what is missing.
        let Ok(file) = found.stat() else { return false };
        match FileType::from_raw_mode(file.st_mode) {
            // A command that has the file open can make another name for it in its own directory, also later.
            FileType::RegularFile if leaves => true,
            FileType::RegularFile => file.st_nlink > 1 && (comes || granted == Granted::Ends),
            // The same goes for each file in it.
            FileType::Directory => leaves || comes,
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => false,
        }
    };
    is_kept(from, to) || (flags & EXCHANGE != 0 && is_kept(to, from))
}
