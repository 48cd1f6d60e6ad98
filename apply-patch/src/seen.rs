//! A file as `prepare` saw it: its contents, and the attributes that a new file has to keep.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;

use rustix::fs::{FileType, Gid, Mode, Stat, Uid};
use rustix::io::Errno;

use crate::directory::{Directory, file_type, same_inode};

/// Permission bits that survive a change. Set-user-id, set-group-id and file capabilities don't: they were granted to
/// the old contents.
const KEPT_MODE: Mode = Mode::RWXU.union(Mode::RWXG).union(Mode::RWXO);

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    status: Stat,
    pub(crate) content: Vec<u8>,
    pub(crate) attributes: Attributes,
}

/// Owner, mode and extended attributes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    mode: Mode,
    owner: Uid,
    group: Gid,
    extended: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum LookError {
    NotAFile(FileType),
    TooLarge,
    System(Errno),
}

impl From<Errno> for LookError {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl Seen {
    /// Reads a file of at most `limit` bytes; `None` if there is none.
    pub(crate) fn look(directory: &Directory, name: &OsStr, limit: u64) -> Result<Option<Self>, LookError> {
        // The type is checked first, since opening a device or a pipe can have side effects.
        match directory.entry(name)?.map(|status| file_type(&status)) {
            None => return Ok(None),
            Some(FileType::RegularFile) => {}
            Some(other) => return Err(LookError::NotAFile(other)),
        }
        let mut file = directory.open_file(name)?;
        let status = rustix::fs::fstat(&file)?;
        if file_type(&status) != FileType::RegularFile {
            return Err(LookError::NotAFile(file_type(&status)));
        }
        let content = read(&mut file, limit)?;
        let attributes = Attributes::of(&file, &status)?;
        Ok(Some(Self { status, content, attributes }))
    }

    /// Whether the name still has this file, with these contents. Times are ignored.
    pub(crate) fn is_still(&self, directory: &Directory, name: &OsStr) -> Result<bool, Errno> {
        let now = Self::look_again(directory, name, &self.content)?;
        Ok(now.is_some_and(|now| {
            same_inode(&now.status, &self.status)
                && now.status.st_mode == self.status.st_mode
                && (now.status.st_uid, now.status.st_gid) == (self.status.st_uid, self.status.st_gid)
        }))
    }

    /// Whether a name has the file of this status and with these contents. The inode number alone does not suffice: it
    /// is reused after the file is removed.
    pub(crate) fn has(directory: &Directory, name: &OsStr, status: &Stat, content: &[u8]) -> Result<bool, Errno> {
        let now = Self::look_again(directory, name, content)?;
        Ok(now.is_some_and(|now| same_inode(&now.status, status)))
    }

    /// The file of this name, if it has these contents.
    fn look_again(directory: &Directory, name: &OsStr, content: &[u8]) -> Result<Option<Self>, Errno> {
        let limit = u64::try_from(content.len()).unwrap_or(u64::MAX);
        match Self::look(directory, name, limit) {
            Ok(now) => Ok(now.filter(|now| now.content == content)),
            // `ELOOP`: a link has replaced the file.
            Err(LookError::NotAFile(_) | LookError::TooLarge | LookError::System(Errno::LOOP)) => Ok(None),
            Err(LookError::System(errno)) => Err(errno),
        }
    }
}

fn read(file: &mut File, limit: u64) -> Result<Vec<u8>, LookError> {
    let mut content = Vec::new();
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut content);
    let read = read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    if u64::try_from(read).is_ok_and(|read| read <= limit) { Ok(content) } else { Err(LookError::TooLarge) }
}

impl Attributes {
    fn of(file: &File, status: &Stat) -> Result<Self, Errno> {
        Ok(Self {
            mode: Mode::from_raw_mode(status.st_mode) & KEPT_MODE,
            owner: Uid::from_raw(status.st_uid),
            group: Gid::from_raw(status.st_gid),
            extended: extended::of(file)?,
        })
    }

    /// Gives a new file the owner, the permissions and the access control list of the old one.
    pub(crate) fn give_to(&self, file: &File) -> Result<(), Errno> {
        let now = rustix::fs::fstat(file)?;
        if (now.st_uid, now.st_gid) != (self.owner.as_raw(), self.group.as_raw()) {
            rustix::fs::fchown(file.as_fd(), Some(self.owner), Some(self.group))?;
        }
        rustix::fs::fchmod(file.as_fd(), self.mode)?;
        extended::give_to(&self.extended, file)
    }
}

#[cfg(target_os = "linux")]
mod extended {
    //! Extended attributes: `user.*` and the access control list. `security.*` is set by the system, and
    //! `security.capability` must not survive new contents.

    use std::fs::File;

    use rustix::fs::XattrFlags;
    use rustix::io::Errno;

    type Extended = Vec<(Vec<u8>, Vec<u8>)>;

    pub(super) fn of(file: &File) -> Result<Extended, Errno> {
        let mut names = vec![0; 65_536];
        let length = match rustix::fs::flistxattr(file, names.as_mut_slice()) {
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
            length => length?,
        };
        names.truncate(length);
        let kept = |name: &&[u8]| name.starts_with(b"user.") || *name == b"system.posix_acl_access";
        names.split(|byte| *byte == 0).filter(kept).map(|name| Ok((name.to_vec(), value(file, name)?))).collect()
    }

    fn value(file: &File, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let mut value = vec![0; 65_536];
        let length = rustix::fs::fgetxattr(file, name, value.as_mut_slice())?;
        value.truncate(length);
        Ok(value)
    }

    pub(super) fn give_to(extended: &Extended, file: &File) -> Result<(), Errno> {
        extended
            .iter()
            .try_for_each(|(name, value)| rustix::fs::fsetxattr(file, name.as_slice(), value, XattrFlags::empty()))
    }
}

#[cfg(not(target_os = "linux"))]
mod extended {
    //! Extended attributes are not kept here.

    use std::fs::File;

    use rustix::io::Errno;

    type Extended = Vec<(Vec<u8>, Vec<u8>)>;

    pub(super) fn of(_: &File) -> Result<Extended, Errno> {
        Ok(Vec::new())
    }

    pub(super) fn give_to(_: &Extended, _: &File) -> Result<(), Errno> {
        Ok(())
    }
}
