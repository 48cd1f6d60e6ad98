//! The host's files, as far as a plan has to know them.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Glob, Invalid};

use crate::search::{Found, search};

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A file, device, socket or pipe.
    File,
}

/// What a plan has to know of the host's files. Tests bring their own.
pub trait HostFiles {
    /// What stands at this very path; `None` if nothing does.
    fn kind(&self, path: &AbsPath) -> Option<Kind>;
    /// The path with all symbolic links followed, as far as it exists.
    fn canonical(&self, path: &AbsPath) -> AbsPath;
    /// What globs match now. An error if that can't be found out within bounds.
    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid>;
    /// Whether a file has other names, under which it can be reached as well.
    fn has_other_names(&self, path: &AbsPath) -> bool;
    /// The text behind a symbolic link.
    fn link_target(&self, path: &AbsPath) -> Option<PathBuf>;
}

/// The mode of an empty directory that a run has put under a name which must not be made: sticky, and
/// readable for its owner alone. No program makes such a directory by itself.
pub const PLACEHOLDER_MODE: u32 = 0o1500;

/// The real file system. Placeholder directories of other runs count as absent: the next run has to hold the name as
/// well, since the first one removes its directory when it ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl HostFiles for RealFiles {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        let path = path.to_host_path()?;
        let found = fs::symlink_metadata(&path).ok()?;
        if is_placeholder(&path, &found) {
            return None;
        }
        let kind = found.file_type();
        Some(match () {
            () if kind.is_symlink() => Kind::Symlink,
            () if kind.is_dir() => Kind::Directory,
            () => Kind::File,
        })
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        // What does not exist yet keeps its name below the deepest directory that does.
        let found = path.ancestors().find_map(|above| {
            let real = fs::canonicalize(above.to_host_path()?).ok()?;
            Some((AbsPath::from_path(&real).ok()?, above.depth()))
        });
        let Some((real, depth)) = found else { return path.clone() };
        path.components()
            .skip(depth)
            .try_fold(real, |real, name| real.join(name.to_vec()))
            .unwrap_or_else(|_| path.clone())
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        search(globs)
    }

    #[cfg(unix)]
    fn has_other_names(&self, path: &AbsPath) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let found = path.to_host_path().and_then(|path| fs::symlink_metadata(path).ok());
        found.is_some_and(|found| found.is_file() && found.nlink() > 1)
    }

    #[cfg(not(unix))]
    fn has_other_names(&self, _: &AbsPath) -> bool {
        false
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        fs::read_link(path.to_host_path()?).ok()
    }
}

#[cfg(unix)]
pub(crate) fn is_placeholder(path: &Path, found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const STICKY: u32 = 0o1000;
    let mode = found.permissions().mode() & 0o7777;
    // The mask of the run that makes it may take something from its mode, which that run then gives back.
    // Its owner may write to it on its way from and to where it waits.
    let is_marked = found.is_dir() && mode & STICKY != 0 && mode & !(PLACEHOLDER_MODE | 0o200) == 0;
    // One that is gone by now was one: only the run that put it there removes it.
    is_marked
        && fs::read_dir(path)
            .map_or_else(|error| error.kind() == std::io::ErrorKind::NotFound, |mut entries| entries.next().is_none())
}

#[cfg(not(unix))]
pub(crate) fn is_placeholder(_: &Path, _: &fs::Metadata) -> bool {
    false
}
