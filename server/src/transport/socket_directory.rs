//! The directory of a server's socket: owned by the user, private, and locked by one server at a time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags};

use super::SocketError;

/// The default path of the socket: `$XDG_RUNTIME_DIR/stockade/serve.sock`, else below the state directory.
pub fn standard_socket(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    stockade_config::socket_directory(variable).map(|directory| directory.join("serve.sock"))
}

/// An open and locked directory. The lock ends with the process.
#[derive(Debug)]
pub(super) struct SocketDirectory {
    pub(super) handle: OwnedFd,
}

impl SocketDirectory {
    /// Creates the directory if it is missing, checks that no other user can access it, and locks it.
    pub(super) fn claim(path: &Path) -> Result<Self, SocketError> {
        let failed = |step| move |source: io::Error| SocketError::Io { step, path: path.to_owned(), source };
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed("make")(error)),
            Ok(()) | Err(_) => {}
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let handle = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
                SocketError::Unsafe { path: path.to_owned(), why: "is a link or no directory: name a directory" }
            }
            other => failed("open")(other.into()),
        })?;
        let found = rustix::fs::fstat(&handle).map_err(|error| failed("look at")(error.into()))?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(SocketError::Unsafe {
                path: path.to_owned(),
                why: "belongs to another user: name another one",
            });
        }
        if found.st_mode & 0o077 != 0 {
            let why = "is open to other users: name a directory of its own, or close it with `chmod 700`";
            return Err(SocketError::Unsafe { path: path.to_owned(), why });
        }
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(SocketError::InUse { path: path.to_owned() }),
            Err(error) => return Err(failed("lock")(error.into())),
        }
        // The lock file stays, as the directory does: no socket in here is granted to a command.
        let flags = OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY | OFlags::NONBLOCK;
        rustix::fs::openat(&handle, stockade_core::SERVER_MARK, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| failed("mark")(error.into()))?;
        Ok(Self { handle })
    }
}
