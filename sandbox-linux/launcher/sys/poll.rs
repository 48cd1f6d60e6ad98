//! Waiting for something to happen to a descriptor.

use super::number as nr;
use super::{CLOEXEC, EINVAL, Result, call, fd};
use crate::wire;

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Poll {
    pub(crate) file: i32,
    pub(crate) events: i16,
    pub(crate) happened: i16,
}

/// The most files that are ever waited for: the caller, the end of the only command, and three for each run.
pub(crate) const MOST_POLLED: usize = 2 + 3 * wire::MOST_RUNS;

impl Poll {
    /// A place without a file, to which nothing happens.
    pub(crate) const NONE: Self = Self { file: -1, events: 0, happened: 0 };
}

pub(crate) const READABLE: i16 = 1;
/// Nothing more is going to be said on a socket.
pub(crate) const FINISHED: i16 = 0x2000;

/// Waits until something has happened to one of the files, or for so many milliseconds.
///
/// The kernel refuses a list that is longer than the limit on open files (`EINVAL`), so that it gets only the
/// places that have a file.
pub(crate) fn poll(files: &mut [Poll], limit: Option<u64>) -> Result<usize> {
    let limit = limit.map(|milliseconds| [milliseconds / 1_000, milliseconds % 1_000 * 1_000_000]);
    let limit = limit.as_ref().map_or(0, |limit| limit.as_ptr() as usize);
    let mut open = [Poll::NONE; MOST_POLLED];
    let mut count = 0;
    for poll in files.iter().filter(|poll| poll.file >= 0) {
        *open.get_mut(count).ok_or(EINVAL)? = *poll;
        count += 1;
    }
    let happened = call(nr::PPOLL, [open.as_mut_ptr() as usize, count, limit, 0, 0, 0])?;
    for (poll, open) in files.iter_mut().filter(|poll| poll.file >= 0).zip(&open) {
        poll.happened = open.happened;
    }
    Ok(happened)
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: i32) -> bool {
    poll(&mut [Poll { file: process, events: READABLE, happened: 0 }], Some(0)) != Ok(0)
}

/// A counter that can be waited for.
pub(crate) fn new_counter() -> Result<i32> {
    call(nr::EVENTFD2, [0, CLOEXEC as usize, 0, 0, 0, 0]).map(fd)
}
