//! Checks the standard streams of a command.
//!
//! A stream is not part of the view: it was opened outside, on the host's own mounts and in its network. So no stream
//! may give access to more than itself.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};
use stockade_protocol::{AbsPath, Access, FileRules, FileTarget};
use stockade_sandboxing::{SpawnError, Unenforceable};

/// Refuses a stream that gives access to more. The rules are those of the command's files, if more than Landlock
/// enforces them.
pub(crate) fn check(streams: &[BorrowedFd<'_>], files: Option<&FileRules>) -> Result<(), SpawnError> {
    streams.iter().try_for_each(|stream| check_one(*stream, files))
}

fn check_one(file: BorrowedFd<'_>, files: Option<&FileRules>) -> Result<(), SpawnError> {
    let found = rustix::fs::fstat(file).map_err(lost)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => refuse(
            String::from("the view of the files"),
            "a standard stream is a directory, which leads to everything below it",
            "let the command open it by its name",
        ),
        FileType::Socket => check_socket(file),
        // An unlinked file is private.
        FileType::RegularFile if found.st_nlink > 0 => files.map_or(Ok(()), |files| check_file(file, files)),
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(()),
    }
}

fn lost(errno: Errno) -> SpawnError {
    SpawnError::Launcher { doing: "looking at the standard streams", source: errno.into() }
}

fn refuse(what: String, why: &str, remedy: &str) -> Result<(), SpawnError> {
    Err(Unenforceable { what, why: why.to_owned(), remedy: remedy.to_owned() }.into())
}

/// A socket of the host's network can be connected to another peer, or takes an address with each message. Only a
/// connected unix socket that is not for datagrams can't.
fn check_socket(socket: BorrowedFd<'_>) -> Result<(), SpawnError> {
    let is_unix = sockopt::socket_domain(socket).map_err(lost)? == AddressFamily::UNIX;
    let kind = sockopt::socket_type(socket).map_err(lost)?;
    let stays_connected = [SocketType::STREAM, SocketType::SEQPACKET].contains(&kind);
    if is_unix && stays_connected && rustix::net::getpeername(socket).is_ok() {
        return Ok(());
    }
    refuse(
        String::from("the network policy"),
        "a standard stream is a socket that can be connected to something else of the host",
        "put a pipe between",
    )
}

/// A file that the caller has opened for reading can be reopened for writing by its `/proc` name, if Landlock finds a
/// grant above it. Only mounts protect parts of that grant, and they don't apply to this path.
fn check_file(file: BorrowedFd<'_>, files: &FileRules) -> Result<(), SpawnError> {
    if rustix::fs::fcntl_getfl(file).map_err(lost)?.intersects(OFlags::WRONLY | OFlags::RDWR) {
        return Ok(());
    }
    let name = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new()).map_err(lost)?;
    let Ok(path) = AbsPath::parse(name.into_bytes()) else { return Ok(()) };
    let kept = places_below_grants(&path, files).find(|place| files.access(place) != Access::Write);
    kept.map_or(Ok(()), |kept| {
        refuse(
            format!("the rule for `{kept}`"),
            "the command could write the file through the standard stream that it is",
            "put a pipe between",
        )
    })
}

/// The paths of a file below writable directories, for any mount it was opened on: to Landlock a directory is the same
/// under each of its names.
fn places_below_grants<'a>(path: &'a AbsPath, files: &'a FileRules) -> impl Iterator<Item = AbsPath> + 'a {
    let identity = |path: &AbsPath| {
        let found = rustix::fs::stat(path.to_host_path()?).ok()?;
        Some((found.st_dev, found.st_ino))
    };
    let granted = files.iter().filter(|rule| rule.access == Access::Write).filter_map(|rule| match &rule.target {
        FileTarget::Path(path) => Some(path),
        FileTarget::Glob(_) => None,
    });
    granted.flat_map(move |granted| {
        let own = identity(granted);
        let same = path.ancestors().find(|above| own.is_some() && identity(above) == own);
        same.and_then(|above| {
            let below = path.components().skip(above.depth());
            let bytes = below.fold(granted.as_raw().as_bytes().to_vec(), |at, name| [&at, &b"/"[..], name].concat());
            AbsPath::parse(bytes).ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use rustix::net::SocketFlags;
    use stockade_protocol::FileRule;

    use super::*;

    /// Why a stream is refused; `None` if it is not.
    fn refusal(stream: impl Into<OwnedFd>, files: &FileRules) -> Option<String> {
        check(&[stream.into().as_fd()], Some(files)).err().map(|error| error.to_string())
    }

    #[test]
    fn only_a_socket_that_stays_connected_is_passed_on() {
        let directory = tempfile::tempdir().unwrap();
        let none = FileRules::default();
        let (stream, peer) = UnixStream::pair().unwrap();
        assert_eq!(refusal(stream, &none), None);
        let orphan = peer;
        assert_eq!(refusal(orphan, &none), None, "it can't be connected again");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fresh =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let others: [OwnedFd; 6] = [
            TcpStream::connect(listener.local_addr().unwrap()).unwrap().into(),
            listener.into(),
            UdpSocket::bind("127.0.0.1:0").unwrap().into(),
            UnixDatagram::pair().unwrap().0.into(),
            UnixListener::bind(directory.path().join("sock")).unwrap().into(),
            fresh,
        ];
        for socket in others {
            let name = format!("{:?}", rustix::net::getsockname(&socket));
            assert!(refusal(socket, &none).is_some_and(|why| why.contains("socket")), "{name}");
        }
    }

    #[test]
    fn a_file_to_read_that_is_kept_inside_a_grant_is_not_passed_on() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join(".git")).unwrap();
        let [kept, own] = [".git/config", "own"].map(|name| root.join(name));
        [&kept, &own].into_iter().for_each(|path| std::fs::write(path, "text").unwrap());
        let at = |path: &std::path::Path| AbsPath::from_path(path).unwrap();
        let rules = [
            FileRule::path("/".parse().unwrap(), Access::Read),
            FileRule::path(at(&root), Access::Write),
            FileRule::path(at(&root.join(".git")), Access::Read),
        ];
        let rules = FileRules::new(rules).unwrap();
        assert!(refusal(File::open(&kept).unwrap(), &rules).is_some_and(|why| why.contains(".git/config")));
        assert_eq!(refusal(File::open(&own).unwrap(), &rules), None);
        assert_eq!(refusal(File::open("/etc/passwd").unwrap(), &rules), None, "nothing above it is granted");
        let writing = File::options().append(true).open(&kept).unwrap();
        assert_eq!(refusal(writing, &rules), None, "the caller gives it to be written");
        let gone = File::open(&kept).unwrap();
        std::fs::remove_file(&kept).unwrap();
        assert_eq!(refusal(gone, &rules), None);
    }
}
