//! The host's files, as far as a plan depends on them.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Glob, Invalid};

use crate::search::{Found, search};

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A file, device, socket or pipe.
    File,
}

/// Access to the host's files for a plan. Tests have their own.
pub trait HostFiles {
    /// The type of the file at this path, without following a link; `None` if it is missing.
    fn kind(&self, path: &AbsPath) -> Option<Kind>;
    /// The path with all symbolic links resolved, as far as it exists.
    fn canonical(&self, path: &AbsPath) -> AbsPath;
    /// The current matches of globs. An error if the search exceeds its bounds.
    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid>;
    /// Whether a file has other hard links, by which it can be reached as well.
    fn has_other_names(&self, path: &AbsPath) -> bool;
    /// Whether the file opens under another spelling of its last name, since its directory ignores case, or may do so. A
    /// mount on one spelling need not cover the other.
    fn has_other_spellings(&self, path: &AbsPath) -> bool {
        let _ = path;
        false
    }
    /// The target of a symbolic link.
    fn link_target(&self, path: &AbsPath) -> Option<PathBuf>;
    /// Whether this is the node of a character or block device, without following a link.
    fn is_device(&self, path: &AbsPath) -> bool {
        let _ = path;
        false
    }
}

/// The mode of a placeholder: an empty directory that a run creates at a name which must stay absent. It is sticky and
/// accessible only to its owner, which no other program creates.
pub const PLACEHOLDER_MODE: u32 = 0o1500;

/// The real file system. Placeholder directories of other runs count as absent: the next run needs its own, since the
/// first one removes its placeholder when it ends.
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
        if is_linkless(path) {
            return path.clone();
        }
        // A missing path keeps its name below the deepest existing directory.
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

    fn has_other_spellings(&self, path: &AbsPath) -> bool {
        let (Some(parent), Some(name)) = (path.parent(), path.components().last()) else { return false };
        spellings(name).into_iter().any(|other| {
            let found = parent.join(other.clone()).ok().and_then(|other| other.to_host_path());
            found.is_some_and(|found| !is_missing(&found)) && !lists_both(&parent, name, &other)
        })
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        fs::read_link(path.to_host_path()?).ok()
    }

    #[cfg(unix)]
    fn is_device(&self, path: &AbsPath) -> bool {
        use std::os::unix::fs::FileTypeExt as _;
        let found = path.to_host_path().and_then(|path| fs::symlink_metadata(path).ok());
        found.is_some_and(|found| found.file_type().is_char_device() || found.file_type().is_block_device())
    }
}

/// Paths that a directory which ignores case may take for this one.
pub(crate) fn other_spellings(path: &AbsPath) -> Vec<AbsPath> {
    let (Some(parent), Some(name)) = (path.parent(), path.components().last()) else { return Vec::new() };
    spellings(name).into_iter().filter_map(|other| parent.join(other).ok()).collect()
}

/// Names that a directory which ignores case may take for this one. Every such directory ignores the case of ASCII letters.
/// Which other letters it knows is its own affair, so that each of them is exchanged alone.
fn spellings(name: &[u8]) -> Vec<Vec<u8>> {
    let other: Vec<u8> = name.iter().map(|byte| swap_case(*byte)).collect();
    if other != name {
        return vec![other];
    }
    let text = String::from_utf8_lossy(name);
    let exchanged = text.char_indices().filter_map(|(start, letter)| {
        let (before, after) = text.split_at_checked(start)?;
        let other = other_case(letter)?;
        Some([before, other.as_str(), after.strip_prefix(letter)?].concat().into_bytes())
    });
    exchanged.collect()
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() }
}

/// The letter in the other case; `None` for a character that has no case.
fn other_case(letter: char) -> Option<String> {
    let (upper, lower) = (letter.to_uppercase().to_string(), letter.to_lowercase().to_string());
    [upper, lower].into_iter().find(|other| !other.starts_with(letter))
}

/// Whether there is certainly nothing at this path. A path that can't be looked at may exist.
fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Whether a directory has an entry for each of two names, so that they are two files. One that can't be listed may ignore
/// case.
fn lists_both(directory: &AbsPath, name: &[u8], other: &[u8]) -> bool {
    let entries = directory.to_host_path().and_then(|directory| fs::read_dir(directory).ok());
    let listed: Option<Vec<_>> =
        entries.and_then(|entries| entries.map(|entry| Some(entry.ok()?.file_name())).collect());
    let has = |name: &[u8]| listed.iter().flatten().any(|listed| listed.as_encoded_bytes() == name);
    has(name) && has(other)
}

/// Whether a path exists and has no link in it, so that it is canonical: one call in place of one for each component. `false`
/// says nothing.
#[cfg(target_os = "linux")]
pub(crate) fn is_linkless(path: &AbsPath) -> bool {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let Some(path) = path.to_host_path() else { return false };
    // Not `NOFOLLOW`, which would open a link at the end.
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_linkless(_: &AbsPath) -> bool {
    false
}

/// The placeholder at a path or above it, if there is one.
pub fn placeholder_at_or_above(path: &AbsPath) -> Option<AbsPath> {
    path.ancestors().find(|above| {
        let found = above.to_host_path().and_then(|path| Some((fs::symlink_metadata(&path).ok()?, path)));
        found.is_some_and(|(found, path)| is_placeholder(&path, &found))
    })
}

#[cfg(unix)]
pub(crate) fn is_placeholder(path: &Path, found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    const STICKY: u32 = 0o1000;
    let mode = found.permissions().mode() & 0o7777;
    // The creating run's umask may reduce the mode, which that run then restores. The owner may have write access
    // while the directory is moved into and out of place.
    let is_marked = found.is_dir() && mode & STICKY != 0 && mode & !(PLACEHOLDER_MODE | 0o200) == 0;
    // One that has vanished was a placeholder: only the run that created it removes it.
    is_marked
        && fs::read_dir(path)
            .map_or_else(|error| error.kind() == std::io::ErrorKind::NotFound, |mut entries| entries.next().is_none())
}

#[cfg(not(unix))]
pub(crate) fn is_placeholder(_: &Path, _: &fs::Metadata) -> bool {
    false
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_canonical_only_without_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real", root.join("link")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        for (path, real) in [
            ("real/deep", "real/deep"),
            ("link", "real"),
            ("link/deep", "real/deep"),
            ("link/missing/x", "real/missing/x"),
            ("real/missing", "real/missing"),
            ("dangling", "dangling"),
        ] {
            assert_eq!(RealFiles.canonical(&base.join(path).unwrap()), base.join(real).unwrap(), "{path}");
        }
    }

    #[test]
    fn names_have_other_spellings() {
        for (name, others) in [
            (".env", &[".ENV"][..]),
            ("Clé-1", &["cLé-1"]),
            ("éА", &["ÉА", "éа"]),
            ("ß", &["SS"]),
            ("2024", &[]),
            ("日本", &[]),
        ] {
            let others: Vec<Vec<u8>> = others.iter().map(|other| other.as_bytes().to_vec()).collect();
            assert_eq!(spellings(name.as_bytes()), others, "{name}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_that_differ_in_case_are_two() {
        let directory = tempfile::tempdir().unwrap();
        let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        for name in ["alone", "two", "TWO", "é", "É"] {
            fs::write(directory.path().join(name), "").unwrap();
            assert!(!RealFiles.has_other_spellings(&base.join(name).unwrap()), "{name}");
        }
        assert!(lists_both(&base, b"two", b"TWO"));
        assert!(!lists_both(&base, b"alone", b"ALONE"), "both are needed");
        assert!(!lists_both(&base, b"ALONE", b"alone"), "both are needed");
        assert!(!lists_both(&base.join("missing").unwrap(), b"two", b"TWO"), "what can't be listed may ignore case");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_missing_file_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(is_missing(&directory.path().join("FILE")));
        assert!(!is_missing(&file));
        assert!(!is_missing(&file.join("below")), "an error");
    }
}
