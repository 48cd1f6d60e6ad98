//! Making a command's call on files outside of the sandbox, in the command's place.
//!
//! The supervisor stands outside, so it must not become the way out. What makes it hold:
//!
//! - Arguments are copied once ([`copy`]); what was copied is what is judged, shown and done.
//! - Each path is found again on the host, below a directory that is held open and through no link, and judged there by
//!   the policy with what was granted ([`place`]). It counts only if the command sees the same directory, and the same
//!   file in it, by device and inode: the sandbox's `/tmp` is not the host's.
//! - Both ends of a move have to be writable. Hard links are made for git in its own repository alone: elsewhere a second
//!   name for a file would outlast what was granted. A name above one that is protected is protected, too, but
//!   for making a directory there.
//! - Only regular files are handed over ([`open`]), and a descriptor for reading can't be reopened for writing by way of
//!   `/proc/self/fd`.
//! - This process is the command's user. What that user may not do fails, and modes are masked by the caller's mask.
//!
//! What can't be done under these rules is left to the kernel, which denies it as it would have.

mod copy;
mod open;
mod place;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access, FileRules, FileTarget};

pub(super) use self::open::regular;
pub(super) use self::place::Place;
use super::resolve::Tree;
use crate::sys::notify::{self, CloseOnExec};

/// A call on files, copied from its caller. Paths have been followed as the kernel would follow them for the caller.
#[derive(Clone, Debug)]
pub(crate) enum FileCall {
    Open { at: AbsPath, flags: i32, mode: u32 },
    MakeDirectory { at: AbsPath, mode: u32 },
    MakeFile { at: AbsPath, mode: u32 },
    MakeLink { at: AbsPath, target: Vec<u8> },
    Unlink { at: AbsPath },
    RemoveDirectory { at: AbsPath },
    Rename { from: AbsPath, to: AbsPath, flags: u32 },
    Link { from: AbsPath, to: AbsPath },
    Truncate { at: AbsPath, length: u64 },
    Mode { at: AbsPath, mode: u32 },
    Owner { at: AbsPath, user: Option<Uid>, group: Option<Gid> },
    Times { at: AbsPath, times: Timestamps },
    SetAttribute { at: AbsPath, name: Vec<u8>, value: Vec<u8>, flags: u32 },
    RemoveAttribute { at: AbsPath, name: Vec<u8> },
}

impl FileCall {
    /// Every path that has to be writable for it.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &AbsPath> {
        let (first, second) = match self {
            Self::Rename { from, to, .. } | Self::Link { from, to } => (from, Some(to)),
            Self::Open { at, .. }
            | Self::MakeDirectory { at, .. }
            | Self::MakeFile { at, .. }
            | Self::MakeLink { at, .. }
            | Self::Unlink { at }
            | Self::RemoveDirectory { at }
            | Self::Truncate { at, .. }
            | Self::Mode { at, .. }
            | Self::Owner { at, .. }
            | Self::Times { at, .. }
            | Self::SetAttribute { at, .. }
            | Self::RemoveAttribute { at, .. } => (at, None),
        };
        std::iter::once(first).chain(second)
    }

    /// Whether no grant of its paths would have it made: a name above one that stays protected is neither taken away nor
    /// replaced, and a directory stays where patterns may deny something in it.
    pub(crate) fn is_out_of_reach(&self, files: &FileRules) -> bool {
        match self {
            Self::Rename { from, to, .. } => {
                let is_directory = |path: &AbsPath| {
                    path.to_host_path()
                        .and_then(|path| path.symlink_metadata().ok())
                        .is_some_and(|found| found.is_dir())
                };
                let stays = !files.globs().is_empty() && (is_directory(from) || is_directory(to));
                stays || guards_below(files, from) || guards_below(files, to)
            }
            Self::Unlink { at }
            | Self::RemoveDirectory { at }
            | Self::MakeLink { at, .. }
            | Self::MakeFile { at, .. } => guards_below(files, at),
            Self::Link { .. } => true,
            // Only regular files are handed over.
            Self::Open { at, .. } => at.components().next() == Some(b"dev".as_slice()),
            Self::MakeDirectory { .. }
            | Self::Truncate { .. }
            | Self::Mode { .. }
            | Self::Owner { .. }
            | Self::Times { .. }
            | Self::SetAttribute { .. }
            | Self::RemoveAttribute { .. } => false,
        }
    }
}

/// What the call returns to its caller.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Success, or an error number.
    Returned(i32),
    /// A descriptor of a regular file.
    File { file: OwnedFd, close_on_exec: CloseOnExec },
}

impl Reply {
    /// Answers the call. Fails if it waits no more.
    pub(crate) fn send(self, listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        match self {
            Self::Returned(errno) => notify::answer(listener, id, errno),
            Self::File { file, close_on_exec } => {
                let sent = notify::answer_with_descriptor(listener, id, file.as_fd(), close_on_exec);
                // The caller may have no number left for it.
                sent.or_else(|error| notify::answer(listener, id, error.raw_os_error().unwrap_or(libc::EIO)))
            }
        }
    }
}

/// It is not done here: the kernel goes on with the call, and denies it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotActed;

/// Makes calls outside, for commands whose tree this is.
pub(crate) struct Actor<'a> {
    pub(crate) view: &'a Tree,
    pub(crate) host: &'a Tree,
}

impl Actor<'_> {
    /// Makes a call, if these rules, of the policy with what was granted, allow all of it.
    pub(crate) fn act(&self, call: &FileCall, files: &FileRules) -> Result<Reply, NotActed> {
        let place = |path: &AbsPath| Place::hold(path, self.view, self.host, files);
        let done = match call {
            FileCall::Open { at, flags, mode } => {
                let place = place(at)?;
                if !place.exists() && guards_below(files, at) {
                    return Err(NotActed);
                }
                return open::open(&place, *flags, *mode);
            }
            FileCall::MakeDirectory { at, mode } => {
                let place = place(at)?;
                rustix::fs::mkdirat(&place.directory, &place.name, Mode::from_raw_mode(*mode))
            }
            FileCall::MakeFile { at, mode } => {
                let place = place(at)?.unguarded(files)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&place.directory, &place.name, flags, Mode::from_raw_mode(*mode)).map(drop)
            }
            FileCall::MakeLink { at, target } => {
                let place = place(at)?.unguarded(files)?;
                rustix::fs::symlinkat(target.as_slice(), &place.directory, &place.name)
            }
            FileCall::Unlink { at } => {
                let place = place(at)?.unguarded(files)?;
                rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::empty())
            }
            FileCall::RemoveDirectory { at } => {
                let place = place(at)?.unguarded(files)?;
                rustix::fs::unlinkat(&place.directory, &place.name, AtFlags::REMOVEDIR)
            }
            FileCall::Rename { from, to, flags } => {
                let (from, to) = (place(from)?.unguarded(files)?, place(to)?.unguarded(files)?);
                rename(&from, &to, *flags, files)?
            }
            FileCall::Link { from, to } => {
                let (from, to) = (place(from)?, place(to)?.unguarded(files)?);
                if from.kind().is_some_and(|kind| kind != FileType::RegularFile) {
                    return Err(NotActed);
                }
                rustix::fs::linkat(&from.directory, &from.name, &to.directory, &to.name, AtFlags::empty())
            }
            FileCall::Truncate { at, length } => {
                open::regular(&place(at)?, OFlags::WRONLY)?.and_then(|file| rustix::fs::ftruncate(&file, *length))
            }
            FileCall::Mode { at, mode } => open::change_mode(&place(at)?, *mode)?,
            FileCall::Owner { at, user, group } => {
                let place = place(at)?;
                rustix::fs::chownat(&place.directory, &place.name, *user, *group, AtFlags::SYMLINK_NOFOLLOW)
            }
            FileCall::Times { at, times } => {
                let place = place(at)?;
                rustix::fs::utimensat(&place.directory, &place.name, times, AtFlags::SYMLINK_NOFOLLOW)
            }
            FileCall::SetAttribute { at, name, value, flags } => {
                let flags = XattrFlags::from_bits(*flags).ok_or(NotActed)?;
                open::change_attributes(&place(at)?, |file| rustix::fs::setxattr(file, name.as_slice(), value, flags))?
            }
            FileCall::RemoveAttribute { at, name } => {
                open::change_attributes(&place(at)?, |file| rustix::fs::removexattr(file, name.as_slice()))?
            }
        };
        Ok(Reply::Returned(done.err().map_or(0, Errno::raw_os_error)))
    }
}

/// Moves a name. What a pattern denies below a directory can't be known of by its path, so where there are patterns
/// directories stay.
fn rename(from: &Place, to: &Place, flags: u32, files: &FileRules) -> Result<Result<(), Errno>, NotActed> {
    let flags = RenameFlags::from_bits(flags).ok_or(NotActed)?;
    if !(RenameFlags::NOREPLACE | RenameFlags::EXCHANGE).contains(flags) {
        return Err(NotActed);
    }
    for place in [from, to] {
        match place.kind() {
            None | Some(FileType::RegularFile | FileType::Symlink) => {}
            Some(FileType::Directory) if files.globs().is_empty() => {}
            Some(_) => return Err(NotActed),
        }
    }
    Ok(rustix::fs::renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags))
}

/// Whether something below a path may not be written: then the path can't be taken away, or become something else.
fn guards_below(files: &FileRules, path: &AbsPath) -> bool {
    files.iter().filter(|rule| rule.access < Access::Write).any(|rule| match &rule.target {
        FileTarget::Path(held) => held != path && held.starts_with(path),
        FileTarget::Glob(_) => false,
    })
}
