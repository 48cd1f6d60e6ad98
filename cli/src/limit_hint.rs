//! Finds the caller's limit (`ulimit`) that explains a failed start.

use std::io;

use rustix::process::{Resource, getrlimit};
use stockade_sandboxing::SpawnError;

/// The launcher needs no more stack than this.
const ENOUGH_STACK: u64 = 128 << 10;

/// The limit that a failed start has reached, its value and how to raise it.
pub(crate) fn of(error: &SpawnError) -> Option<String> {
    let is_lost = matches!(error, SpawnError::Launcher { .. });
    let source = std::error::Error::source(error)?.downcast_ref::<io::Error>()?;
    let limit = |resource| getrlimit(resource).current;
    let (what, letter, value) = match source.raw_os_error() {
        Some(libc::EAGAIN) => ("this user's processes", 'u', limit(Resource::Nproc)?),
        Some(libc::EMFILE) => ("open files", 'n', limit(Resource::Nofile)?),
        Some(libc::ENOMEM) => ("address space, in bytes", 'v', limit(Resource::As)?),
        // A launcher without enough stack is killed, and can't say so.
        Some(libc::EPIPE | libc::ECONNRESET) | None
            if is_lost
                && matches!(
                    source.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                ) =>
        {
            let stack = limit(Resource::Stack).filter(|stack| *stack < ENOUGH_STACK)?;
            ("the stack, in bytes", 's', stack)
        }
        _ => return None,
    };
    Some(format!("the limit on {what} is {value}: raise it (`ulimit -{letter}`)"))
}
