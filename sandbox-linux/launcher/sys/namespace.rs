//! Namespaces.

use super::number as nr;
use super::{Result, call, fd};

pub(crate) fn unshare(flags: u64) -> Result<usize> {
    call(nr::UNSHARE, [flags as usize, 0, 0, 0, 0, 0])
}

pub(crate) fn set_host_name(name: &[u8]) -> Result<usize> {
    call(nr::SETHOSTNAME, [name.as_ptr() as usize, name.len(), 0, 0, 0, 0])
}

/// The users' namespace that another namespace belongs to.
pub(crate) fn owner_of_namespace(namespace: i32) -> Result<i32> {
    const OWNER: usize = 0xb701;
    call(nr::IOCTL, [namespace as usize, OWNER, 0, 0, 0, 0]).map(fd)
}

pub(crate) fn join_namespace(namespace: i32, kind: u64) -> Result<usize> {
    call(nr::SETNS, [namespace as usize, kind as usize, 0, 0, 0, 0])
}
