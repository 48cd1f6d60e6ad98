//! Opening a regular file for a command.
//!
//! What is there is looked at first, by a descriptor that can do nothing, and opened by way of that descriptor: so no
//! device, pipe or socket is ever opened, not even to be closed again, and no name is looked up a second time. What is
//! only read is opened by way of the command's own view, where nothing leads from it to the file that can be written.

use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;

use super::place::{BENEATH, Place, Side};
use super::{NotActed, Reply};
use crate::sys::notify::CloseOnExec;

/// How often a file is looked for that comes and goes.
const TRIES: usize = 8;

/// Flags of the caller that are kept when a file is opened.
const KEPT: i32 = libc::O_ACCMODE
    | libc::O_APPEND
    | libc::O_TRUNC
    | libc::O_SYNC
    | libc::O_DSYNC
    | libc::O_NOATIME
    | libc::O_DIRECT
    | libc::O_LARGEFILE;

const SAFE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Opens a file as the caller wanted it, making it if that is wanted.
pub(super) fn open(place: &Place, flags: i32, mode: u32) -> Result<Reply, NotActed> {
    let has = |flag: i32| flags & flag == flag;
    if has(libc::O_TMPFILE) {
        // It could be given a name only by way of `/proc`. Programs know file systems without such files.
        return Ok(Reply::Returned(libc::EOPNOTSUPP));
    }
    if has(libc::O_PATH) || has(libc::O_DIRECTORY) {
        return Err(NotActed);
    }
    let kept = OFlags::from_bits_retain((flags & KEPT).cast_unsigned());
    let reads_only = flags & libc::O_ACCMODE == libc::O_RDONLY && !has(libc::O_TRUNC);
    let side = if reads_only { Side::View } else { Side::Host };
    for _ in 0..TRIES {
        let opened = match place.look(side) {
            Ok(_) if has(libc::O_CREAT | libc::O_EXCL) => return Ok(Reply::Returned(libc::EEXIST)),
            Ok(found) => reopen(&found, kept)?,
            Err(Errno::NOENT) if has(libc::O_CREAT) => match create(place, kept, mode) {
                Err(Errno::EXIST) => continue,
                Ok(_) if reads_only => match place.look(side) {
                    Ok(found) => reopen(&found, kept)?,
                    Err(errno) => Err(errno),
                },
                made => made,
            },
            Err(Errno::NOENT) => Err(Errno::NOENT),
            // A link has taken its place since.
            Err(_) => return Err(NotActed),
        };
        return match opened.and_then(|file| finish(file, flags)) {
            Ok(file) => {
                let close_on_exec = if has(libc::O_CLOEXEC) { CloseOnExec::Yes } else { CloseOnExec::No };
                Ok(Reply::File { file, close_on_exec })
            }
            Err(errno) => Ok(Reply::Returned(errno.raw_os_error())),
        };
    }
    Err(NotActed)
}

/// Opens a regular file that is there.
pub(crate) fn regular(place: &Place, access: OFlags) -> Result<Result<OwnedFd, Errno>, NotActed> {
    match place.look(Side::Host) {
        Ok(found) => reopen(&found, access),
        Err(Errno::NOENT) => Ok(Err(Errno::NOENT)),
        Err(_) => Err(NotActed),
    }
}

/// Changes the mode of a regular file or a directory.
pub(super) fn change_mode(place: &Place, mode: u32) -> Result<Result<(), Errno>, NotActed> {
    change_attributes(place, |file| rustix::fs::chmod(file, Mode::from_raw_mode(mode)))
}

/// Changes what the file system keeps beside the content of a regular file or a directory. The change is given a name by which
/// the very file is found that was looked at.
pub(super) fn change_attributes(
    place: &Place,
    change: impl FnOnce(String) -> Result<(), Errno>,
) -> Result<Result<(), Errno>, NotActed> {
    let found = match place.look(Side::Host) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(Err(Errno::NOENT)),
        Err(_) => return Err(NotActed),
    };
    if !matches!(kind(&found), Some(FileType::RegularFile | FileType::Directory)) {
        return Err(NotActed);
    }
    Ok(change(by_descriptor(&found)))
}

fn reopen(found: &OwnedFd, access: OFlags) -> Result<Result<OwnedFd, Errno>, NotActed> {
    match kind(found) {
        Some(FileType::RegularFile) => Ok(rustix::fs::open(by_descriptor(found), access | SAFE, Mode::empty())),
        Some(FileType::Directory) => Ok(Err(Errno::ISDIR)),
        Some(_) | None => Err(NotActed),
    }
}

fn create(place: &Place, kept: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = kept | SAFE | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    // `openat2` refuses bits that say nothing of a mode.
    let mode = Mode::from_raw_mode(mode & 0o7777);
    let flags = flags.difference(OFlags::TRUNC);
    rustix::fs::openat2(&place.directory, place.name.as_slice(), flags, mode, BENEATH)
}

/// Checks what was opened, and leaves it in the state that the caller wanted.
fn finish(file: OwnedFd, flags: i32) -> Result<OwnedFd, Errno> {
    if kind(&file) != Some(FileType::RegularFile) {
        return Err(Errno::ACCESS);
    }
    if flags & libc::O_NONBLOCK == 0 {
        fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    }
    Ok(file)
}

fn kind(file: &OwnedFd) -> Option<FileType> {
    fstat(file).ok().map(|found| FileType::from_raw_mode(found.st_mode))
}

/// The very file of a descriptor, whatever its name leads to now.
fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}
