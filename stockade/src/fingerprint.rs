//! Detects changes of a session's files by their attributes alone.
//!
//! A file that was written just before it was examined may be written again without a visible difference, since file
//! timestamps have a limited resolution. Such a fingerprint counts as changed until it is old enough.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use stockade_config::Watched;

/// Longer than the resolution of file timestamps.
const STEP: Duration = Duration::from_millis(50);
/// The resolution of a file system that stores seconds.
const COARSE_STEP: Duration = Duration::from_secs(2);

/// Limit on files. Beyond it, everything is always read again.
const MOST: usize = 8192;

/// The attributes of every file at one time.
#[derive(Debug)]
pub(crate) struct Fingerprint {
    found: BTreeMap<PathBuf, Stamp>,
    is_settled: bool,
}

/// A name: itself, and its target if it is a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    own: Option<Attributes>,
    target: Option<Attributes>,
}

impl Fingerprint {
    /// A fingerprint that never changes.
    pub(crate) fn of_nothing() -> Self {
        Self { found: BTreeMap::new(), is_settled: true }
    }

    /// The current attributes.
    pub(crate) fn take(watched: impl IntoIterator<Item = Watched>) -> Self {
        let now = SystemTime::now();
        let mut taken = Self::of_nothing();
        for place in watched {
            match place {
                Watched::File(path) => drop(taken.add(&path)),
                Watched::Names(path) => taken.walk(path, Contents::Ignored),
                Watched::Tree(path) => taken.walk(path, Contents::Watched),
            }
        }
        let settled = taken.found.values().all(|stamp| stamp.is_settled(now));
        taken.is_settled = settled && taken.found.len() <= MOST;
        taken
    }

    /// Whether nothing has changed.
    pub(crate) fn holds(&self) -> bool {
        self.is_settled && self.found.iter().all(|(path, stamp)| Stamp::of(path) == *stamp)
    }

    fn add(&mut self, path: &Path) -> Stamp {
        let stamp = Stamp::of(path);
        self.found.insert(path.to_owned(), stamp);
        stamp
    }

    fn walk(&mut self, path: PathBuf, contents: Contents) {
        let mut waiting = vec![path];
        while let Some(path) = waiting.pop() {
            if self.found.len() > MOST {
                return;
            }
            self.add(&path);
            let Ok(entries) = fs::read_dir(&path) else { continue };
            for entry in entries.flatten() {
                let is_walked =
                    |kind: fs::FileType| contents == Contents::Watched || kind.is_dir() || kind.is_symlink();
                if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                    // A link's target is examined, not searched.
                    self.add(&entry.path());
                } else if entry.file_type().is_ok_and(is_walked) {
                    waiting.push(entry.path());
                }
            }
        }
    }
}

/// Whether the contents of files count, or only their names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contents {
    Watched,
    Ignored,
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let own = fs::symlink_metadata(path).ok();
        let is_link = own.as_ref().is_some_and(Metadata::is_symlink);
        let target = if is_link { fs::metadata(path).ok() } else { None };
        Self { own: own.as_ref().map(Attributes::of), target: target.as_ref().map(Attributes::of) }
    }

    fn is_settled(&self, now: SystemTime) -> bool {
        [self.own, self.target].into_iter().flatten().all(|found| {
            let step = if found.is_coarse() { COARSE_STEP } else { STEP };
            now.duration_since(found.changed()).is_ok_and(|age| age > step)
        })
    }
}

#[cfg(unix)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    file: (u64, u64),
    owner: (u32, u32, u32),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

#[cfg(unix)]
impl Attributes {
    fn of(found: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            file: (found.dev(), found.ino()),
            owner: (found.uid(), found.gid(), found.mode()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    fn is_coarse(&self) -> bool {
        self.changed.1 == 0
    }

    fn changed(&self) -> SystemTime {
        let seconds = Duration::from_secs(u64::try_from(self.changed.0).unwrap_or(0));
        let rest = Duration::from_nanos(u64::try_from(self.changed.1).unwrap_or(0));
        SystemTime::UNIX_EPOCH.checked_add(seconds + rest).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[cfg(not(unix))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attributes {
    is_directory: bool,
    size: u64,
    created: Option<SystemTime>,
    modified: Option<SystemTime>,
}

#[cfg(not(unix))]
impl Attributes {
    fn of(found: &Metadata) -> Self {
        let (created, modified) = (found.created().ok(), found.modified().ok());
        Self { is_directory: found.is_dir(), size: found.len(), created, modified }
    }

    fn is_coarse(&self) -> bool {
        true
    }

    fn changed(&self) -> SystemTime {
        self.modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_change_is_seen() {
        let base = tempfile::tempdir().unwrap();
        let (tree, names) = (base.path().join("tree"), base.path().join("names"));
        fs::create_dir_all(tree.join("rules")).unwrap();
        fs::create_dir_all(names.join("below")).unwrap();
        fs::write(tree.join("rules/a.rules"), "a").unwrap();
        fs::write(names.join("log"), "a").unwrap();
        let take = || {
            std::thread::sleep(Duration::from_millis(80));
            let watched =
                [Watched::Tree(tree.clone()), Watched::Names(names.clone()), Watched::File(base.path().join("f"))];
            let taken = Fingerprint::take(watched);
            assert!(taken.holds());
            taken
        };
        for change in [
            |base: &Path| fs::write(base.join("tree/rules/a.rules"), "b").unwrap(),
            |base: &Path| fs::write(base.join("tree/rules/b.rules"), "b").unwrap(),
            |base: &Path| fs::remove_file(base.join("tree/rules/a.rules")).unwrap(),
            |base: &Path| fs::write(base.join("names/below/new"), "").unwrap(),
            |base: &Path| fs::write(base.join("f"), "").unwrap(),
            |base: &Path| fs::rename(base.join("tree"), base.join("gone")).unwrap(),
        ] {
            let before = take();
            change(base.path());
            assert!(!before.holds());
        }
        let before = take();
        fs::write(names.join("log"), "more").unwrap();
        assert!(before.holds(), "its content is not watched");
    }

    #[test]
    fn a_file_that_was_just_written_is_looked_at_again() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("f");
        fs::write(&file, "a").unwrap();
        assert!(!Fingerprint::take([Watched::File(file)]).holds());
    }
}
