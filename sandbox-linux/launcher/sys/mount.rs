//! Mounts, and the file system that a sandbox sees.

use super::file::{EMPTY_PATH, close};
use super::number as nr;
use super::{CLOEXEC, CText, DOT, EMPTY, Result, call, fd};

/// Whether something is mounted on what a descriptor stands for.
pub(crate) fn is_mount_point(file: i32) -> Result<bool> {
    const MOUNT_ROOT: u64 = 0x2000;
    // `struct statx`: its second word holds the attributes.
    let mut found = [0_u64; 32];
    call(nr::STATX, [file as usize, EMPTY.pointer(), EMPTY_PATH, 0, found.as_mut_ptr() as usize, 0])?;
    Ok(found[1] & MOUNT_ROOT != 0)
}

pub(crate) fn open_tree(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    call(nr::OPEN_TREE, [directory as usize, path.pointer(), (flags | CLOEXEC) as usize, 0, 0, 0]).map(fd)
}

/// Attaches the tree that `from` stands for at a path, whose last component is not followed; with an empty
/// path on what the directory stands for.
pub(crate) fn move_mount(from: i32, directory: i32, path: CText<'_>) -> Result<usize> {
    const BOTH_MAY_BE_EMPTY: usize = 0x4 | 0x40;
    call(nr::MOVE_MOUNT, [from as usize, EMPTY.pointer(), directory as usize, path.pointer(), BOTH_MAY_BE_EMPTY, 0])
}

pub(crate) fn mount_setattr(file: i32, set: u64, propagation: u64) -> Result<usize> {
    const RECURSIVE: usize = 0x8000;
    // What to set, to take away, how changes propagate, and whose users: `struct mount_attr`.
    let attributes = [set, 0, propagation, 0];
    let (pointer, size) = (attributes.as_ptr() as usize, size_of_val(&attributes));
    call(nr::MOUNT_SETATTR, [file as usize, EMPTY.pointer(), EMPTY_PATH | RECURSIVE, pointer, size, 0])
}

/// Makes a file system of its own, attached nowhere yet.
pub(crate) fn new_file_system(kind: CText<'_>, options: &[(CText<'_>, CText<'_>)], attributes: u64) -> Result<i32> {
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    let context = call(nr::FSOPEN, [kind.pointer(), 1, 0, 0, 0, 0]).map(fd)?;
    let set = |(key, value): &(CText<'_>, CText<'_>)| {
        call(nr::FSCONFIG, [context as usize, SET_STRING, key.pointer(), value.pointer(), 0, 0]).map(drop)
    };
    let mount = options
        .iter()
        .try_for_each(set)
        .and_then(|()| call(nr::FSCONFIG, [context as usize, CREATE, 0, 0, 0, 0]))
        .and_then(|_| call(nr::FSMOUNT, [context as usize, 1, attributes as usize, 0, 0, 0]));
    close(context);
    mount.map(fd)
}

pub(crate) fn detach_mount(path: CText<'_>) -> Result<usize> {
    const DETACH: usize = 2;
    call(nr::UMOUNT2, [path.pointer(), DETACH, 0, 0, 0, 0])
}

/// Makes the working directory the root and lets the old root go.
pub(crate) fn enter_root() -> Result<usize> {
    call(nr::PIVOT_ROOT, [DOT.pointer(), DOT.pointer(), 0, 0, 0, 0])?;
    detach_mount(DOT)
}
