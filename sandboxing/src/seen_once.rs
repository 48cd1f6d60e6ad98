//! A cached view of the host's files for one plan.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Glob, Invalid};

use crate::by_directory::{ByDirectory, directory_of};
use crate::host_files::{HostFiles, Kind, RealFiles, other_spellings};
use crate::listing::Listings;
use crate::search::Found;

/// The real file system, with each path read once. Rules mostly name missing files in the same few directories, and a
/// plan should be based on one state.
#[derive(Debug, Default)]
pub struct SeenOnce {
    kinds: RefCell<Kinds>,
    /// Which names directories lack.
    listings: Listings,
    /// Canonical paths.
    canonical: RefCell<HashMap<AbsPath, AbsPath>>,
    other_names: RefCell<HashMap<AbsPath, bool>>,
    link_targets: RefCell<HashMap<AbsPath, Option<PathBuf>>>,
    /// The types grouped by directory, and their number at that time.
    places: RefCell<Option<(usize, Places)>>,
    /// The last search and its result.
    searched: RefCell<Option<(Vec<Glob>, Found)>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenKind {
    /// The type found at the path.
    Looked(Option<Kind>),
    /// Missing, since its parent was.
    Orphan,
}

impl SeenKind {
    fn kind(self) -> Option<Kind> {
        match self {
            Self::Looked(kind) => kind,
            Self::Orphan => None,
        }
    }
}

/// The types of paths.
#[derive(Debug, Default)]
struct Kinds {
    directories: ByDirectory<SeenDirectory>,
    count: usize,
}

#[derive(Debug, Default)]
struct SeenDirectory {
    /// Whether it is missing; `None` if it had not been looked at before the first path in it.
    is_missing: Option<bool>,
    kinds: BTreeMap<AbsPath, SeenKind>,
}

impl Kinds {
    /// What was seen at a path in this directory.
    fn get(&mut self, directory: &[u8], path: &AbsPath) -> Option<SeenKind> {
        self.directories.get(directory)?.kinds.get(path).copied()
    }

    /// Whether the directory of a path was seen to be missing.
    fn is_orphan(&mut self, directory: &[u8], path: &AbsPath) -> bool {
        if let Some(known) = self.directories.get(directory).and_then(|seen| seen.is_missing) {
            return known;
        }
        let seen = path.parent().and_then(|parent| self.get(&directory_of(&parent).unwrap_or_default(), &parent));
        let is_missing = seen.map(|seen| seen.kind().is_none());
        if self.directories.get(directory).is_none() {
            self.directories.insert(directory, SeenDirectory { is_missing, ..SeenDirectory::default() });
        }
        is_missing.unwrap_or(false)
    }

    fn insert(&mut self, directory: &[u8], path: &AbsPath, seen: SeenKind) {
        if let Some(known) = self.directories.get(directory) {
            self.count += usize::from(known.kinds.insert(path.clone(), seen).is_none());
        }
    }

    fn iter(&self) -> impl Iterator<Item = (&AbsPath, &SeenKind)> {
        self.directories.values().flat_map(|directory| &directory.kinds)
    }
}

impl SeenOnce {
    /// Whether every path that was read is unchanged, so that a new plan would be the same. Glob searches are not
    /// repeated: after one, the answer is no.
    pub fn is_unchanged(&self) -> bool {
        self.searched.borrow().is_none()
            && self.kinds_are_unchanged()
            && self.canonical.borrow().iter().all(|(path, real)| RealFiles.canonical(path) == *real)
            && self.other_names.borrow().iter().all(|(path, others)| RealFiles.has_other_names(path) == *others)
            && self.link_targets.borrow().iter().all(|(path, target)| RealFiles.link_target(path) == *target)
    }
}

/// Missing names by directory, and the types of other paths.
#[derive(Debug, Default)]
struct Places {
    missing: BTreeMap<AbsPath, Vec<PathBuf>>,
    there: Vec<(AbsPath, Option<Kind>)>,
}

impl SeenOnce {
    fn kinds_are_unchanged(&self) -> bool {
        let kinds = self.kinds.borrow();
        let mut places = self.places.borrow_mut();
        let (_, Places { missing, there }) = match &mut *places {
            Some(known) if known.0 == kinds.count => known,
            other => other.insert((kinds.count, Places::of(&kinds))),
        };
        there.iter().all(|(path, kind)| RealFiles.kind(path) == *kind)
            && missing.iter().all(|(directory, names)| are_missing(directory, names))
    }
}

impl Places {
    /// Groups by directory. Paths below a missing directory are dropped: they are missing as long as it is.
    fn of(kinds: &Kinds) -> Self {
        let mut places = Self::default();
        for (path, seen) in kinds.iter().filter(|(_, seen)| **seen != SeenKind::Orphan) {
            match (seen.kind(), path.parent(), path.to_host_path().as_deref().and_then(Path::file_name)) {
                (None, Some(parent), Some(name)) => places.missing.entry(parent).or_default().push(name.into()),
                (kind, ..) => places.there.push((path.clone(), kind)),
            }
        }
        places
    }
}

/// Whether none of these names is in a directory, which is opened once for all of them.
#[cfg(target_os = "linux")]
fn are_missing(directory: &AbsPath, names: &[PathBuf]) -> bool {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    use rustix::io::Errno;
    let is_missing = |name: &PathBuf| {
        directory.join(name.as_os_str().as_encoded_bytes().to_vec()).is_ok_and(|path| RealFiles.kind(&path).is_none())
    };
    // An existing file may still count as missing, such as a placeholder.
    if names.len() > crate::listing::FEW
        && let Some(present) = crate::listing::present(directory, names)
    {
        return present.into_iter().all(is_missing);
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match directory.to_host_path().map(|path| rustix::fs::openat(CWD, path, flags, Mode::empty())) {
        Some(Ok(opened)) => opened,
        // A directory that is missing contains nothing.
        Some(Err(Errno::NOENT)) => return true,
        Some(Err(_)) | None => return names.iter().all(is_missing),
    };
    let is_still_missing =
        |name: &PathBuf| rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).is_err() || is_missing(name);
    names.iter().all(is_still_missing)
}

#[cfg(not(target_os = "linux"))]
fn are_missing(directory: &AbsPath, names: &[PathBuf]) -> bool {
    names.iter().all(|name| {
        directory.join(name.as_os_str().as_encoded_bytes().to_vec()).is_ok_and(|path| RealFiles.kind(&path).is_none())
    })
}

/// The cached value of a path, or a new one.
fn once<T: Clone>(known: &RefCell<HashMap<AbsPath, T>>, path: &AbsPath, look: impl FnOnce() -> T) -> T {
    if let Some(known) = known.borrow().get(path) {
        return known.clone();
    }
    let found = look();
    known.borrow_mut().insert(path.clone(), found.clone());
    found
}

impl HostFiles for SeenOnce {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        let mut kinds = self.kinds.borrow_mut();
        let directory = directory_of(path).unwrap_or_default();
        if let Some(known) = kinds.get(&directory, path) {
            return known.kind();
        }
        let seen = match () {
            // A missing directory contains nothing.
            () if kinds.is_orphan(&directory, path) => SeenKind::Orphan,
            () if self.listings.lacks(path) => SeenKind::Looked(None),
            () => SeenKind::Looked(RealFiles.kind(path)),
        };
        kinds.insert(&directory, path, seen);
        seen.kind()
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        once(&self.canonical, path, || RealFiles.canonical(path))
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        if let Some((known, found)) = &*self.searched.borrow()
            && known.iter().eq(globs.iter().copied())
        {
            return Ok(found.clone());
        }
        let found = RealFiles.matches(globs)?;
        if globs.is_empty() {
            return Ok(found);
        }
        let searched = globs.iter().copied().cloned().collect();
        self.searched.replace(Some((searched, found.clone())));
        Ok(found)
    }

    fn has_other_names(&self, path: &AbsPath) -> bool {
        // Only an existing file can have hard links.
        self.kind(path) == Some(Kind::File) && once(&self.other_names, path, || RealFiles.has_other_names(path))
    }

    fn has_other_spellings(&self, path: &AbsPath) -> bool {
        // Nothing has a name that its directory lacks.
        let is_lacked = |other: &AbsPath| self.listings.lacks(other);
        !other_spellings(path).iter().all(is_lacked) && RealFiles.has_other_spellings(path)
    }

    fn is_device(&self, path: &AbsPath) -> bool {
        // Its number counts, and nothing that a plan could keep: the node is looked at again when the plan is used.
        RealFiles.is_device(path)
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        once(&self.link_targets, path, || RealFiles.link_target(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_looked_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let (there, missing) = (base.join("there").unwrap(), base.join("missing").unwrap());
        std::fs::create_dir(directory.path().join("there")).unwrap();
        let files = SeenOnce::default();
        assert_eq!((files.kind(&there), files.kind(&missing)), (Some(Kind::Directory), None));
        std::fs::remove_dir(directory.path().join("there")).unwrap();
        std::fs::create_dir(directory.path().join("missing")).unwrap();
        std::fs::write(directory.path().join("missing/file"), "").unwrap();
        assert_eq!((files.kind(&there), files.kind(&missing)), (Some(Kind::Directory), None), "as it was then");
        assert_eq!(files.kind(&missing.join("file").unwrap()), None, "in what was missing there is nothing");
        assert_eq!(RealFiles.kind(&missing.join("file").unwrap()), Some(Kind::File));
    }

    #[test]
    fn what_has_changed_since_is_noticed() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("file"), "").unwrap();
        symlink("real", root.join("link")).unwrap();
        let seen = || {
            let files = SeenOnce::default();
            for name in ["real", "file", "missing", "missing/below", "link"] {
                files.kind(&base.join(name).unwrap());
            }
            files.has_other_names(&base.join("file").unwrap());
            files.canonical(&base.join("link/deep").unwrap());
            files.link_target(&base.join("link").unwrap());
            assert!(files.is_unchanged());
            files
        };
        type Change = fn(&std::path::Path);
        let changes: [(&str, Change); 5] = [
            ("a name that was missing", |root| std::fs::create_dir(root.join("missing")).unwrap()),
            ("a file that is gone", |root| std::fs::remove_file(root.join("file")).unwrap()),
            ("another kind", |root| std::fs::create_dir(root.join("file")).unwrap()),
            ("where a link leads, deep inside", |root| {
                std::fs::remove_dir(root.join("real/deep")).unwrap();
                symlink("/etc", root.join("real/deep")).unwrap();
            }),
            ("the text of a link", |root| {
                std::fs::remove_file(root.join("link")).unwrap();
                symlink("./real", root.join("link")).unwrap();
            }),
        ];
        for (what, change) in changes {
            let files = seen();
            change(&root);
            assert!(!files.is_unchanged(), "{what}");
        }
        std::fs::write(root.join("other"), "").unwrap();
        let files = SeenOnce::default();
        assert!(!files.has_other_names(&base.join("other").unwrap()));
        std::fs::hard_link(root.join("other"), root.join("second")).unwrap();
        assert!(!files.is_unchanged(), "another name of a file");
        let files = SeenOnce::default();
        let glob: Glob = format!("{base}/**/*.env").parse().unwrap();
        files.matches(&[&glob]).unwrap();
        assert!(!files.is_unchanged(), "a search has to be made again");
    }
}
