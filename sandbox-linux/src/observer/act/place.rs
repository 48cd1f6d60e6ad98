//! A name in a directory of the host, held open, and the same for the command.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, statat};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access, FileRules};

use super::super::resolve::{Tree, own_path};
use super::{NotActed, guards_below};

/// A name that the policy with its grants lets the command write.
#[derive(Debug)]
pub(crate) struct Place {
    /// Of the host, and opened for nothing but to find names below it.
    pub(crate) directory: OwnedFd,
    /// The same directory as the command sees it, where it can't be written.
    theirs: OwnedFd,
    pub(crate) name: Vec<u8>,
    path: AbsPath,
    /// What is there, on the host as in the command's view.
    found: Option<Stat>,
}

impl Place {
    /// Finds a path on the host, without links. It has to be writable there, and the command has to see the same.
    pub(crate) fn hold(path: &AbsPath, view: &Tree, host: &Tree, files: &FileRules) -> Result<Self, NotActed> {
        let name = path.components().last().ok_or(NotActed)?.to_vec();
        let parent = path.parent().ok_or(NotActed)?;
        let (directory, theirs) = (directory(host, &parent)?, directory(view, &parent)?);
        let stat = |file: &OwnedFd| fstat(file).map_err(|_| NotActed);
        if !is_same(&stat(&directory)?, &stat(&theirs)?) {
            return Err(NotActed);
        }
        // What the kernel calls it now, whatever it was called when the call was made.
        let parent = AbsPath::parse(own_path(&directory).map_err(|_| NotActed)?).map_err(|_| NotActed)?;
        let path = parent.join(name.clone()).map_err(|_| NotActed)?;
        if files.access(&path) != Access::Write {
            return Err(NotActed);
        }
        let found = match (there(&directory, &name)?, there(&theirs, &name)?) {
            (None, None) => None,
            (Some(found), Some(seen)) if is_same(&found, &seen) => Some(found),
            _ => return Err(NotActed),
        };
        Ok(Self { directory, theirs, name, path, found })
    }

    /// The same, if nothing below it may stay out of the command's reach.
    pub(super) fn unguarded(self, files: &FileRules) -> Result<Self, NotActed> {
        if guards_below(files, &self.path) { Err(NotActed) } else { Ok(self) }
    }

    /// What the kernel calls it.
    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    pub(super) fn exists(&self) -> bool {
        self.found.is_some()
    }

    pub(crate) fn kind(&self) -> Option<FileType> {
        self.found.map(|found| FileType::from_raw_mode(found.st_mode))
    }

    /// Opens what is there without using it: a descriptor by which nothing can be read or written.
    pub(super) fn look(&self, side: Side) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match side {
            Side::Host => &self.directory,
            Side::View => &self.theirs,
        };
        rustix::fs::openat2(directory, self.name.as_slice(), flags, Mode::empty(), BENEATH)
    }
}

/// By which of its two names a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Where it can be written.
    Host,
    /// Where the command could have opened it for reading. What comes from there can't be written by any way back to it.
    View,
}

/// Below the directory, through no link of either kind.
pub(super) const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

fn directory(tree: &Tree, path: &AbsPath) -> Result<OwnedFd, NotActed> {
    let bytes = path.as_raw().as_bytes();
    let below = bytes.strip_prefix(b"/").filter(|below| !below.is_empty()).unwrap_or(b".");
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat2(tree.root(), below, flags, Mode::empty(), BENEATH).map_err(|_| NotActed)
}

fn there(directory: &OwnedFd, name: &[u8]) -> Result<Option<Stat>, NotActed> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT) => Ok(None),
        Err(_) => Err(NotActed),
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}
