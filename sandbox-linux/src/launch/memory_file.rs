//! Writes memory files, to which the caller's limit on file sizes applies as well.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Writes everything to an empty file. Beyond the limit the kernel would kill the caller with a signal (`SIGXFSZ`), so
/// a text that is too long is not begun.
pub(crate) fn write(file: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| limit < bytes.len() as u64) {
        let limit = limit.unwrap_or_default();
        let needed = bytes.len();
        let why = format!("the limit on file sizes is {limit} bytes, and {needed} are needed: raise it (`ulimit -f`)");
        return Err(io::Error::other(why));
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
