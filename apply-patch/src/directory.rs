//! An open directory and its operations, each on a single entry and never through a link.
//!
//! A path is resolved anew by every call, while an open directory stays the one that was checked. So the path below a
//! root is walked once, by the kernel ([openat2](https://man7.org/linux/man-pages/man2/openat2.2.html)) or component
//! by component as a fallback, and every later operation names a single entry of the opened directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// Opens `/`.
    pub(crate) fn top() -> Result<Self, Errno> {
        rustix::fs::openat(CWD, "/", DIRECTORY, Mode::empty()).map(Self)
    }

    /// Opens the directory at the end of `names`. A link on the path is an error.
    pub(crate) fn walk(&self, names: &[OsString]) -> Result<Self, Errno> {
        match self.walk_in_kernel(names) {
            // Older kernels and container seccomp filters lack the call.
            Err(Errno::NOSYS | Errno::PERM) => self.walk_by_name(names),
            answer => answer,
        }
    }

    #[cfg(target_os = "linux")]
    fn walk_in_kernel(&self, names: &[OsString]) -> Result<Self, Errno> {
        use rustix::fs::ResolveFlags;
        // A concurrent rename anywhere on the system can make the kernel return `EAGAIN`.
        const TRIES: usize = 64;
        if names.is_empty() {
            return self.walk_by_name(names);
        }
        let path: std::path::PathBuf = names.iter().collect();
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let mut answer = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            answer = rustix::fs::openat2(&self.0, &path, DIRECTORY, Mode::empty(), resolve);
            if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        answer.map(Self)
    }

    #[cfg(not(target_os = "linux"))]
    fn walk_in_kernel(&self, names: &[OsString]) -> Result<Self, Errno> {
        self.walk_by_name(names)
    }

    fn walk_by_name(&self, names: &[OsString]) -> Result<Self, Errno> {
        let here = rustix::fs::openat(&self.0, ".", DIRECTORY, Mode::empty())?;
        names.iter().try_fold(Self(here), |directory, name| {
            rustix::fs::openat(&directory.0, name, DIRECTORY, Mode::empty()).map(Self)
        })
    }

    pub(crate) fn status(&self) -> Result<Stat, Errno> {
        rustix::fs::fstat(&self.0)
    }

    /// The status of the entry with this name, if it exists; a link is not followed.
    pub(crate) fn entry(&self, name: &OsStr) -> Result<Option<Stat>, Errno> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a file for reading, without blocking if it is a pipe or a device.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).map(File::from)
    }

    /// Creates a new file; the process's umask applies to `mode`.
    pub(crate) fn create_file(&self, name: &OsStr, mode: Mode) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, mode).map(File::from)
    }

    pub(crate) fn create_directory(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))
    }

    /// Renames a file within the directory, to a name that must be free.
    pub(crate) fn rename_to_free(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        match rename_new(self.0.as_fd(), from, to) {
            Err(errno) if lacks_rename_flags(errno) => {
                self.link(from, to)?;
                self.remove_file(from)
            }
            answer => answer,
        }
    }

    /// Replaces `name` by `new`, so that either the old or the new file always has the name. The old file is
    /// afterwards at the returned name: `new`'s, or `spare`.
    pub(crate) fn replace<'a>(&self, name: &OsStr, new: &'a OsStr, spare: &'a OsStr) -> Result<&'a OsStr, Errno> {
        match exchange(self.0.as_fd(), name, new) {
            Err(errno) if lacks_rename_flags(errno) => {
                self.link(name, spare)?;
                match self.rename_over(new, name) {
                    Ok(()) => Ok(spare),
                    Err(errno) => self.remove_file(spare).and(Err(errno)),
                }
            }
            answer => answer.map(|()| new),
        }
    }

    /// Renames a file over another.
    fn rename_over(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat(&self.0, from, &self.0, to)
    }

    fn link(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        rustix::fs::linkat(&self.0, from, &self.0, to, AtFlags::empty())
    }

    pub(crate) fn remove_file(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::empty())
    }

    pub(crate) fn remove_directory(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.0, name, AtFlags::REMOVEDIR)
    }

    /// Syncs the directory, so that new names survive a power failure.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match rustix::fs::fsync(&self.0) {
            // Some file systems can't sync a directory.
            Err(Errno::INVAL) => Ok(()),
            answer => answer,
        }
    }
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn rename_new(directory: rustix::fd::BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat_with(directory, from, directory, to, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn exchange(directory: rustix::fd::BorrowedFd<'_>, one: &OsStr, other: &OsStr) -> Result<(), Errno> {
    rustix::fs::renameat_with(directory, one, directory, other, rustix::fs::RenameFlags::EXCHANGE)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn rename_new(_: rustix::fd::BorrowedFd<'_>, _: &OsStr, _: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn exchange(_: rustix::fd::BorrowedFd<'_>, _: &OsStr, _: &OsStr) -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Whether the file system (NFS, some FUSE) or the kernel lacks `renameat2` flags.
fn lacks_rename_flags(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Whether both are the status of the same inode.
pub(crate) fn same_inode(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

pub(crate) fn file_type(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both walks agree, and neither follows a link.
    #[test]
    fn no_way_down_follows_a_link() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("a/b")).unwrap();
        std::fs::write(place.path().join("a/file"), "").unwrap();
        std::os::unix::fs::symlink("a", place.path().join("to-a")).unwrap();
        std::os::unix::fs::symlink("../a", place.path().join("a/up")).unwrap();
        let root = Directory::top().unwrap();
        let real = std::fs::canonicalize(place.path()).unwrap();
        let names = |path: std::path::PathBuf| -> Vec<OsString> { path.iter().skip(1).map(OsString::from).collect() };
        for walk in [Directory::walk_in_kernel, Directory::walk_by_name] {
            let way = |tail: &str| walk(&root, &names(real.join(tail)));
            let found = way("a/b").unwrap().status().unwrap();
            let expected = rustix::fs::stat(real.join("a/b")).unwrap();
            assert!(same_inode(&found, &expected));
            for tail in ["to-a", "to-a/b", "a/up", "a/up/b", "a/file"] {
                let errno = way(tail).unwrap_err();
                assert!(matches!(errno, Errno::LOOP | Errno::NOTDIR), "{tail}: {errno}");
            }
            assert_eq!(way("a/missing/b").unwrap_err(), Errno::NOENT);
        }
    }

    #[test]
    fn a_name_that_is_taken_is_not_given_away() {
        let place = tempfile::tempdir().unwrap();
        let top = Directory::top().unwrap();
        let real = std::fs::canonicalize(place.path()).unwrap();
        let directory = top.walk(&real.iter().skip(1).map(OsString::from).collect::<Vec<_>>()).unwrap();
        std::fs::write(real.join("one"), "1").unwrap();
        std::fs::write(real.join("two"), "2").unwrap();
        let (one, two) = (OsStr::new("one"), OsStr::new("two"));
        assert_eq!(directory.rename_to_free(one, two), Err(Errno::EXIST));
        assert_eq!(directory.link(one, two), Err(Errno::EXIST));
        assert_eq!(directory.create_file(two, Mode::empty()).unwrap_err(), Errno::EXIST);
        assert_eq!(directory.replace(one, two, OsStr::new("spare")), Ok(two));
        assert_eq!(std::fs::read(real.join("one")).unwrap(), b"2");
        assert_eq!(std::fs::read(real.join("two")).unwrap(), b"1");
    }
}
