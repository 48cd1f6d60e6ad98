//! Files, directories and names.

use super::number as nr;
use super::processor::{self, DIRECTORY};
use super::{AT_FDCWD, CLOEXEC, CText, DOT, EINVAL, ELOOP, EMPTY, ENOSYS, ESTALE, ROOT, Result, call, fd};

pub(crate) fn read(file: i32, buffer: &mut [u8]) -> Result<usize> {
    call(nr::READ, [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
}

pub(crate) fn write(file: i32, bytes: &[u8]) -> Result<usize> {
    call(nr::WRITE, [file as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
}

pub(crate) fn close(file: i32) {
    // Closing fails only for a descriptor that is not open, which is what is wanted.
    let _ = call(nr::CLOSE, [file as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn close_range(first: u32, flags: u32) -> Result<usize> {
    call(nr::CLOSE_RANGE, [first as usize, u32::MAX as usize, flags as usize, 0, 0, 0])
}

pub(crate) fn dup(from: i32, to: i32) -> Result<usize> {
    call(nr::DUP3, [from as usize, to as usize, 0, 0, 0, 0])
}

pub(crate) fn open(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    call(nr::OPENAT, [directory as usize, path.pointer(), (flags | CLOEXEC) as usize, 0, 0, 0]).map(fd)
}

/// Makes an empty file.
pub(crate) fn make_file(directory: i32, path: CText<'_>, mode: u64) -> Result<usize> {
    const REGULAR: u64 = 0o100_000;
    call(nr::MKNODAT, [directory as usize, path.pointer(), (REGULAR | mode) as usize, 0, 0, 0])
}

/// Opens a link itself.
pub(crate) const NO_FOLLOW: u64 = processor::NO_FOLLOW;
pub(super) const EMPTY_PATH: usize = 0x1000;

/// Opens a path for reference only, where no component of it may be a symbolic link.
pub(crate) fn open_exact(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    const PATH: u64 = 0o10_000_000;
    const NO_SYMLINKS_OR_MAGIC: u64 = 0x04 | 0x02;
    let how = [PATH | CLOEXEC | flags, 0, NO_SYMLINKS_OR_MAGIC];
    match call(nr::OPENAT2, [directory as usize, path.pointer(), how.as_ptr() as usize, size_of_val(&how), 0, 0]) {
        // An outer sandbox may hide this call, since its filter can't see the flags.
        Err(ENOSYS) => open_by_steps(directory, path, PATH | flags),
        other => other.map(fd),
    }
}

/// The same without the newer call: one directory at a time, none of which may be a link. A link in
/// the last place is never followed: it is opened itself, for whoever says so, or else refused.
fn open_by_steps(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    let absolute = path.0.first() == Some(&b'/');
    let mut at = open(directory, if absolute { ROOT } else { DOT }, flags | DIRECTORY)?;
    let text = path.0.strip_suffix(b"\0").unwrap_or_default();
    let mut names = text.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let kind = if names.peek().is_some() { DIRECTORY } else { 0 };
        let mut copy = [0; 256];
        let copied = copy.get_mut(..=name.len()).ok_or(EINVAL)?;
        copied.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let next = open(at, CText::new(copied)?, flags | NO_FOLLOW | kind);
        close(at);
        at = next?;
    }
    if flags & NO_FOLLOW == 0 && is_link(at)? {
        close(at);
        return Err(ELOOP);
    }
    Ok(at)
}

pub(crate) const FILE: u32 = 0o100_000;
pub(crate) const SOCKET: u32 = 0o140_000;

/// Whether a descriptor was opened for writing.
pub(crate) fn can_be_written(file: i32) -> Result<bool> {
    const GET_FLAGS: usize = 3;
    const WRITE: usize = 0o1 | 0o2;
    call(nr::FCNTL, [file as usize, GET_FLAGS, 0, 0, 0, 0]).map(|flags| flags & WRITE != 0)
}

fn is_link(file: i32) -> Result<bool> {
    const LINK: u32 = 0o120_000;
    kind(file).map(|kind| kind == LINK)
}

/// The bits of a mode that say what kind of thing it is.
const KIND: u32 = 0o170_000;

/// What kind of thing a descriptor stands for.
pub(crate) fn kind(file: i32) -> Result<u32> {
    look(file, EMPTY, EMPTY_PATH).map(|found| found.mode & KIND)
}

/// Whether there is something at a path, links followed, that is no directory.
pub(crate) fn is_no_directory(path: CText<'_>) -> bool {
    const DIRECTORY: u32 = 0o040_000;
    look(AT_FDCWD, path, 0).is_ok_and(|found| found.mode & KIND != DIRECTORY)
}

/// Fails if the working directory is another one than this.
pub(crate) fn is_working_directory(device: u64, number: u64) -> Result<()> {
    let found = look(AT_FDCWD, DOT, 0)?;
    if (found.device, found.number) == (device, number) { Ok(()) } else { Err(ESTALE) }
}

/// What is known of a file.
#[derive(PartialEq, Eq)]
struct Found {
    device: u64,
    number: u64,
    mode: u32,
}

fn look(directory: i32, path: CText<'_>, flags: usize) -> Result<Found> {
    // `struct stat`: the device, the file's number, and in half a word behind them the mode.
    let mut found = [0_u64; processor::STAT_WORDS];
    call(nr::NEWFSTATAT, [directory as usize, path.pointer(), found.as_mut_ptr() as usize, flags, 0, 0])?;
    Ok(Found { device: found[0], number: found[1], mode: found[processor::STAT_MODE] as u32 })
}

/// The number of the namespace of processes that this one is in.
pub(crate) fn own_pid_namespace() -> Result<u32> {
    look(super::AT_FDCWD, CText(b"/proc/self/ns/pid\0"), 0).map(|found| found.number as u32)
}

/// Has the kernel read entries of a directory, and gives how many; none at its end.
pub(crate) fn count_entries(directory: i32) -> Result<usize> {
    let mut entries = [0_u8; 4096];
    let length = call(nr::GETDENTS64, [directory as usize, entries.as_mut_ptr() as usize, entries.len(), 0, 0, 0])?;
    let (mut at, mut count) = (0, 0);
    // `struct linux_dirent64`: its own length comes behind two words.
    while let Some([low, high]) = entries.get(at + 16..at + 18).filter(|_| at < length) {
        at += usize::from(u16::from_ne_bytes([*low, *high])).max(1);
        count += 1;
    }
    Ok(count)
}

/// Sets which permissions new files are denied, and gives what it was before.
pub(crate) fn umask(mask: usize) -> usize {
    // It can't fail.
    call(nr::UMASK, [mask, 0, 0, 0, 0, 0]).unwrap_or(0o077)
}

pub(crate) fn mkdir(directory: i32, path: CText<'_>, mode: u64) -> Result<usize> {
    call(nr::MKDIRAT, [directory as usize, path.pointer(), mode as usize, 0, 0, 0])
}

pub(crate) fn symlink(target: CText<'_>, directory: i32, path: CText<'_>) -> Result<usize> {
    call(nr::SYMLINKAT, [target.pointer(), directory as usize, path.pointer(), 0, 0, 0])
}

pub(crate) fn remove_directory(directory: i32, path: CText<'_>) -> Result<usize> {
    const REMOVE_DIRECTORY: usize = 0x200;
    call(nr::UNLINKAT, [directory as usize, path.pointer(), REMOVE_DIRECTORY, 0, 0, 0])
}

pub(crate) fn change_mode(file: i32, mode: u32) -> Result<usize> {
    call(nr::FCHMOD, [file as usize, mode as usize, 0, 0, 0, 0])
}

/// Moves a directory to a name that is free.
pub(crate) fn move_directory(from: i32, path: CText<'_>, to: i32, name: CText<'_>) -> Result<usize> {
    const NO_REPLACE: usize = 1;
    call(nr::RENAMEAT2, [from as usize, path.pointer(), to as usize, name.pointer(), NO_REPLACE, 0])
}

/// Whether a directory that is open for reading has nothing in it but itself and its parent.
pub(crate) fn has_no_entries(directory: i32) -> bool {
    let rewound = call(nr::LSEEK, [directory as usize, 0, 0, 0, 0, 0]);
    let counted = rewound.and_then(|_| Ok(count_entries(directory)? + count_entries(directory)?));
    counted.is_ok_and(|count| count <= 2)
}

/// Opens a directory for reading, if it is one and no link.
pub(crate) fn open_directory(directory: i32, path: CText<'_>) -> Result<i32> {
    open(directory, path, DIRECTORY | NO_FOLLOW)
}

/// Whether a directory is what stands under a name, and has this mode, or what a mask has left of it: the sticky
/// bit, which no mask takes, and none that the mode does not have.
pub(crate) fn is_at(file: i32, directory: i32, path: CText<'_>, mode: u32) -> bool {
    const NOT_FOLLOWED: usize = 0x100;
    const STICKY: u32 = 0o1000;
    match (look(file, EMPTY, EMPTY_PATH), look(directory, path, NOT_FOLLOWED)) {
        (Ok(own), Ok(there)) => own.mode & STICKY != 0 && own.mode & 0o7777 & !mode == 0 && own == there,
        _ => false,
    }
}

/// Takes the lock only if nobody else has one.
pub(crate) fn lock_exclusively(file: i32) -> Result<usize> {
    const EXCLUSIVE_NOW: usize = 2 | 4;
    call(nr::FLOCK, [file as usize, EXCLUSIVE_NOW, 0, 0, 0, 0])
}

pub(crate) fn change_directory(path: CText<'_>) -> Result<usize> {
    call(nr::CHDIR, [path.pointer(), 0, 0, 0, 0, 0])
}

pub(crate) fn change_directory_to(file: i32) -> Result<usize> {
    call(nr::FCHDIR, [file as usize, 0, 0, 0, 0, 0])
}
