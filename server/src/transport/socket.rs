//! The unix socket: bound under a temporary name, closed to others, and renamed into its place.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Mode};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendFlags, recvmsg, sendmsg,
};
use tokio::io::Interest;
use tokio::net::{UnixListener, UnixStream};

use super::socket_directory::SocketDirectory;
use super::{Arrived, Reader, Writer};

/// Descriptors that are taken with one line. Further ones are closed unseen.
const MOST_DESCRIPTORS: usize = 8;
/// Bytes that are read from a socket at once.
const SOCKET_READ_BYTES: usize = 32 << 10;

/// Why a socket could not be bound.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// Another server has it.
    #[error("another server uses the directory `{}`: end that one, or name another directory with --socket", .path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The path is not safe for a socket.
    #[error("`{}` {why}", .path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
    /// The system failed.
    #[error("could not {step} `{}`", .path.display())]
    Io {
        /// The step that failed.
        step: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A socket that clients can connect to. It is removed when this is dropped.
#[derive(Debug)]
pub struct BoundSocket {
    listener: UnixListener,
    directory: SocketDirectory,
    name: PathBuf,
    inode: u64,
    path: PathBuf,
    /// A spare descriptor, released when no other is left, so that a client can be told.
    spare: Mutex<Option<OwnedFd>>,
}

/// An accepted connection.
pub(crate) enum Accepted {
    /// From a client of the same user.
    Client(Reader, Writer),
    /// From another user. It is closed.
    Stranger,
    /// Accepted with the spare descriptor: the client can only be told.
    Unserved(Writer, io::Error),
}

impl BoundSocket {
    /// Binds a socket. A socket that a killed server left behind is replaced; nothing else is.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        let wrong = |why| SocketError::Unsafe { path: path.to_owned(), why };
        let name = PathBuf::from(path.file_name().ok_or_else(|| wrong("names no socket"))?);
        let parent = path.parent().filter(|_| path.is_absolute()).ok_or_else(|| wrong("is no absolute path"))?;
        let directory = SocketDirectory::claim(parent)?;
        let failed = |step| move |source: io::Error| SocketError::Io { step, path: path.to_owned(), source };
        let at = |error: rustix::io::Errno| io::Error::from(error);
        if let Ok(found) = rustix::fs::statat(&directory.handle, &name, AtFlags::SYMLINK_NOFOLLOW)
            && rustix::fs::FileType::from_raw_mode(found.st_mode) != rustix::fs::FileType::Socket
        {
            return Err(wrong("exists and is no socket: remove it, or name another one"));
        }
        let mut temporary = name.clone().into_os_string();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        match rustix::fs::unlinkat(&directory.handle, &temporary, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(failed("remove the file in the place of")(at(error))),
        }
        let listener = UnixListener::bind(by_handle(&directory, parent, &temporary)).map_err(failed("bind"))?;
        rustix::fs::chmodat(&directory.handle, &temporary, Mode::RUSR | Mode::WUSR, AtFlags::empty())
            .map_err(|error| failed("close to others")(at(error)))?;
        let found = rustix::fs::statat(&directory.handle, &temporary, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| failed("look at")(at(error)))?;
        rustix::fs::renameat(&directory.handle, &temporary, &directory.handle, &name)
            .map_err(|error| failed("put in its place")(at(error)))?;
        let spare = Mutex::new(directory.handle.try_clone().ok());
        Ok(Self { listener, directory, name, inode: found.st_ino, path: path.to_owned(), spare })
    }

    /// The path for clients.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for a connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        self.keep_spare();
        let (stream, shortage) = match self.listener.accept().await {
            Ok((stream, _)) => (stream, None),
            Err(error) if is_shortage(&error) && self.give_up_spare() => (self.listener.accept().await?.0, Some(error)),
            Err(error) => return Err(error),
        };
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Ok(Accepted::Stranger);
        }
        let stream = Arc::new(stream);
        let writer = Writer::Socket(Arc::clone(&stream));
        Ok(match shortage {
            None => Accepted::Client(Reader::Socket(stream), writer),
            Some(error) => Accepted::Unserved(writer, error),
        })
    }

    fn keep_spare(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() {
            *spare = self.directory.handle.try_clone().ok();
        }
    }

    fn give_up_spare(&self) -> bool {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

/// Whether the process or the system has no descriptor left.
fn is_shortage(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

impl Drop for BoundSocket {
    fn drop(&mut self) {
        let found = rustix::fs::statat(&self.directory.handle, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| found.st_ino == self.inode) {
            rustix::fs::unlinkat(&self.directory.handle, &self.name, AtFlags::empty()).ok();
        }
    }
}

/// The name below the open directory, independent of the directory's current path. Also shorter than most paths.
fn by_handle(directory: &SocketDirectory, parent: &Path, name: &Path) -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from(format!("/proc/self/fd/{}", directory.handle.as_raw_fd())).join(name)
    } else {
        parent.join(name)
    }
}

/// Waits for bytes, and receives the descriptors that come with the last of them.
pub(super) async fn receive(stream: &UnixStream) -> io::Result<Arrived> {
    let arrived = stream
        .async_io(Interest::READABLE, || {
            // On the stack: most clients send little, and an idle connection holds no buffer.
            let mut bytes = [0; SOCKET_READ_BYTES];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(&mut bytes)];
            let received = recvmsg(stream, parts, &mut ancillary, close_on_exec())?;
            let mut descriptors = Vec::new();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(sent) = message {
                    descriptors.extend(sent);
                }
            }
            Ok(Arrived { bytes: bytes.get(..received.bytes).unwrap_or_default().to_vec(), descriptors })
        })
        .await?;
    #[cfg(not(target_os = "linux"))]
    for descriptor in &arrived.descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(arrived)
}

#[cfg(target_os = "linux")]
fn close_on_exec() -> RecvFlags {
    RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn close_on_exec() -> RecvFlags {
    RecvFlags::empty()
}

/// Writes all bytes.
pub(super) async fn send(stream: &UnixStream, bytes: &[u8]) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = stream.async_io(Interest::WRITABLE, || Ok(send_now(stream.as_fd(), rest, &[])?)).await?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// Writes some bytes, with descriptors attached to the first of them. A closed socket is an error, not a signal.
pub(crate) fn send_now(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize, rustix::io::Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(rustix::net::SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(rustix::io::Errno::INVAL);
    }
    #[cfg(target_vendor = "apple")]
    let flags = SendFlags::empty();
    #[cfg(not(target_vendor = "apple"))]
    let flags = SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        use std::os::unix::fs::PermissionsExt as _;
        tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    #[tokio::test]
    async fn a_socket_is_closed_to_others_and_goes_away() {
        use std::os::unix::fs::MetadataExt as _;
        let base = directory();
        let path = base.path().join("run/serve.sock");
        let bound = BoundSocket::bind(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
        let refused = BoundSocket::bind(&path).unwrap_err().to_string();
        assert!(refused.contains("another server uses"), "{refused}");
        drop(bound);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "the mark stays");
    }

    #[tokio::test]
    async fn what_a_killed_server_left_is_replaced_and_nothing_else() {
        let base = directory();
        let path = base.path().join("serve.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(std::os::unix::net::UnixListener::bind(base.path().join("serve.sock.new")).unwrap());
        drop(BoundSocket::bind(&path).unwrap());
        std::fs::write(&path, "mine").unwrap();
        assert!(BoundSocket::bind(&path).unwrap_err().to_string().contains("is no socket"));
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/elsewhere", &path).unwrap();
        assert!(BoundSocket::bind(&path).unwrap_err().to_string().contains("is no socket"));
    }

    #[tokio::test]
    async fn a_directory_that_others_reach_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let base = directory();
        let open = base.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o750)).unwrap();
        let refused = BoundSocket::bind(&open.join("s")).unwrap_err().to_string();
        assert!(refused.contains("chmod 700"), "{refused}");
        std::os::unix::fs::symlink(base.path(), base.path().join("link")).unwrap();
        let refused = BoundSocket::bind(&base.path().join("link/s")).unwrap_err().to_string();
        assert!(refused.contains("is a link"), "{refused}");
        let relative = BoundSocket::bind(Path::new("s")).unwrap_err().to_string();
        assert!(relative.contains("absolute"), "{relative}");
    }

    #[tokio::test]
    async fn descriptors_come_with_their_line() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        send_now(theirs.as_fd(), b"one\n", &[]).unwrap();
        send_now(theirs.as_fd(), b"two\n", &[null.as_fd()]).unwrap();
        send_now(theirs.as_fd(), b"three\n", &[]).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"two\n") {
            let arrived = receive(&ours).await.unwrap();
            seen.extend(arrived.bytes);
            assert_eq!(arrived.descriptors.len(), usize::from(seen.ends_with(b"two\n")));
        }
    }
}
