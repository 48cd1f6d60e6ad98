//! Waiting for something to happen to a descriptor.

use super::number as nr;
use super::{CLOEXEC, Result, call, fd};

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Poll {
    pub(crate) file: i32,
    pub(crate) events: i16,
    pub(crate) happened: i16,
}

pub(crate) const READABLE: i16 = 1;
/// Nothing more is going to be said on a socket.
pub(crate) const FINISHED: i16 = 0x2000;

/// Waits until something has happened to one of the files, or for so many milliseconds.
pub(crate) fn poll(files: &mut [Poll], limit: Option<u64>) -> Result<usize> {
    let limit = limit.map(|milliseconds| [milliseconds / 1_000, milliseconds % 1_000 * 1_000_000]);
    let limit = limit.as_ref().map_or(0, |limit| limit.as_ptr() as usize);
    call(nr::PPOLL, [files.as_mut_ptr() as usize, files.len(), limit, 0, 0, 0])
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: i32) -> bool {
    poll(&mut [Poll { file: process, events: READABLE, happened: 0 }], Some(0)) != Ok(0)
}

/// A counter that can be waited for.
pub(crate) fn new_counter() -> Result<i32> {
    call(nr::EVENTFD2, [0, CLOEXEC as usize, 0, 0, 0, 0]).map(fd)
}
