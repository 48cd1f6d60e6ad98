//! An open directory, and what is done in it: always by one name, never through a link.
//!
//! A path is a question that is answered anew at every call; an open directory stays the one that was
//! looked at. So the way down from a root is walked once, by the kernel
//! ([openat2](https://man7.org/linux/man-pages/man2/openat2.2.html)) or name by name where it can't,
//! and everything after that names a single entry of the directory that was found.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

#[derive(Debug)]
pub(crate) struct Directory(OwnedFd);

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// `/`, from where every path begins.
    pub(crate) fn top() -> Result<Self, Errno> {
        rustix::fs::openat(CWD, "/", DIRECTORY, Mode::empty()).map(Self)
    }

    /// The directory at the end of `names`. A link on the way is an error.
    pub(crate) fn walk(&self, names: &[OsString]) -> Result<Self, Errno> {
        match self.walk_in_kernel(names) {
            // Older kernels and filters around a container don't know the call.
            Err(Errno::NOSYS | Errno::PERM) => self.walk_by_name(names),
            answer => answer,
        }
    }

    #[cfg(target_os = "linux")]
    fn walk_in_kernel(&self, names: &[OsString]) -> Result<Self, Errno> {
        use rustix::fs::ResolveFlags;
        // A rename anywhere on the system can make the kernel ask for another try.
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

    /// What has this name, if anything has; a link is not followed.
    pub(crate) fn entry(&self, name: &OsStr) -> Result<Option<Stat>, Errno> {
        match rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => Ok(Some(status)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens a file to read it. What turns out to be no file does not make the caller wait.
    pub(crate) fn open_file(&self, name: &OsStr) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, Mode::empty()).map(File::from)
    }

    /// Creates a file that was not there; the process's umask takes from `mode`.
    pub(crate) fn create_file(&self, name: &OsStr, mode: Mode) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.0, name, flags, mode).map(File::from)
    }

    pub(crate) fn create_directory(&self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o777))
    }

    /// Gives a file a new name in the same directory, which nothing may have.
    pub(crate) fn rename_to_free(&self, from: &OsStr, to: &OsStr) -> Result<(), Errno> {
        match rename_new(self.0.as_fd(), from, to) {
            Err(errno) if lacks_rename_flags(errno) => {
                self.link(from, to)?;
                self.remove_file(from)
            }
            answer => answer,
        }
    }

    /// Puts `new` in the place of `name`, where there is always either the old or the new file. The
    /// old one is then at the returned name: `new`'s, or `spare`.
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

    /// Gives a file the name of another, which goes away.
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

    /// Makes sure that new names outlive a power failure.
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        match rustix::fs::fsync(&self.0) {
            // Some file systems have nothing to write for a directory.
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

/// Whether the file system (NFS, some of FUSE) or the kernel has no renames but the plain one.
fn lacks_rename_flags(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOSYS | Errno::NOTSUP)
}

/// Whether two answers are about the same file or directory.
pub(crate) fn same_inode(one: &Stat, other: &Stat) -> bool {
    one.st_dev == other.st_dev && one.st_ino == other.st_ino
}

pub(crate) fn file_type(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways down agree, and neither follows a link.
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
