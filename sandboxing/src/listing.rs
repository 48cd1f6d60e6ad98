//! Names that a directory certainly lacks, from one listing of it.
//!
//! Credentials are looked for under a hundred names in a home directory, few of which exist. One listing answers for all
//! of them, but not in every directory: one that compares names without regard to case opens `.ssh` and lists `.SSH`, and
//! automounted, network and FUSE directories open names that they do not list. So a listing counts only in file systems
//! that list what they open, in a directory that compares names by their bytes. Anywhere else each name is asked for.

use std::cell::RefCell;
use std::path::PathBuf;

use stockade_protocol::AbsPath;

use crate::by_directory::{ByDirectory, directory_of, split};

/// How many names of a directory are asked for one by one before it is listed: a listing takes five calls.
pub(crate) const FEW: usize = 3;

/// What is known of some directories, by their paths.
#[derive(Debug, Default)]
pub struct Listings(RefCell<ByDirectory<Known>>);

#[derive(Debug)]
enum Known {
    /// It was asked about that often.
    Asked(usize),
    /// A listing would not answer.
    Unlisted,
    /// It does not exist.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "directories are listed on Linux only"))]
    Missing,
    /// Its names, sorted.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "directories are listed on Linux only"))]
    Names(Vec<Box<[u8]>>),
}

impl Known {
    fn lacks(&self, name: &[u8]) -> bool {
        match self {
            Self::Missing => true,
            Self::Names(names) => is_absent(names, name),
            Self::Asked(_) | Self::Unlisted => false,
        }
    }
}

impl Listings {
    /// Whether there is certainly nothing at this path. `false` says nothing.
    pub fn lacks(&self, path: &AbsPath) -> bool {
        // Its directory was asked for by itself, if at all.
        lacks(&mut self.0.borrow_mut(), path.as_raw().as_bytes(), Asked { names: 1, directories: 0 })
    }

    /// Those of the paths at which something may be. A directory of many in a row is listed at once.
    pub fn existing<'a>(&'a self, paths: &'a [AbsPath]) -> impl Iterator<Item = &'a AbsPath> {
        paths.chunk_by(|one, next| directory_of(one) == directory_of(next)).flat_map(move |row| {
            let asked = Asked { names: row.len(), directories: 1 };
            let is_lacked = move |path: &AbsPath| lacks(&mut self.0.borrow_mut(), path.as_raw().as_bytes(), asked);
            row.iter().filter(move |path| !is_lacked(path))
        })
    }
}

/// How much a question counts before a directory is listed.
#[derive(Clone, Copy)]
struct Asked {
    /// The names that are asked for in a row, in the same directory.
    names: usize,
    /// What a new directory counts in the one above: a listing of that one answers for all below it.
    directories: usize,
}

/// Whether there is certainly nothing at this path.
fn lacks(known: &mut ByDirectory<Known>, path: &[u8], asked: Asked) -> bool {
    let Some((directory, name)) = split(path) else { return false };
    if known.get(directory).is_none() {
        // Nothing is in a missing directory, as the one above it says each time.
        if lacks(known, directory, Asked { names: asked.directories, ..asked }) {
            return true;
        }
        known.insert(directory, Known::Asked(0));
    }
    match known.get(directory) {
        Some(Known::Asked(count)) if *count + asked.names <= FEW => {
            *count += asked.names.min(1);
            false
        }
        Some(unlisted @ Known::Asked(_)) => {
            *unlisted = list(directory);
            unlisted.lacks(name)
        }
        Some(known) => known.lacks(name),
        None => false,
    }
}

/// Those of the names that are in a directory; `None` if a listing would not answer.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "directories are listed on Linux only"))]
pub(crate) fn present<'a>(directory: &AbsPath, names: &'a [PathBuf]) -> Option<Vec<&'a PathBuf>> {
    match list(directory.as_raw().as_bytes()) {
        Known::Names(listed) => {
            let is_present = |name: &&PathBuf| !is_absent(&listed, name.as_os_str().as_encoded_bytes());
            Some(names.iter().filter(is_present).collect())
        }
        Known::Missing => Some(Vec::new()),
        Known::Asked(_) | Known::Unlisted => None,
    }
}

fn is_absent(names: &[Box<[u8]>], name: &[u8]) -> bool {
    names.binary_search_by(|own| (**own).cmp(name)).is_err()
}

#[cfg(target_os = "linux")]
fn list(directory: &[u8]) -> Known {
    use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
    use rustix::io::Errno;

    /// Limit on entries: a directory with more is cheaper to ask.
    const MOST_NAMES: usize = 2000;
    const BUFFER: usize = 16 * 1024;
    /// Kernel file systems, which open more than they list.
    const KERNEL_TREES: &[&[u8]] = &[b"/dev", b"/proc", b"/sys"];

    if KERNEL_TREES.contains(&directory) {
        return Known::Unlisted;
    }

    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = match openat(CWD, directory, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Known::Missing,
        Err(_) => return Known::Unlisted,
    };
    if !lists_what_it_opens(&opened) {
        return Known::Unlisted;
    }
    let mut names = Vec::new();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        match entry {
            Ok(entry) if names.len() < MOST_NAMES => names.push(entry.file_name().to_bytes().into()),
            Ok(_) | Err(_) => return Known::Unlisted,
        }
    }
    names.sort_unstable();
    Known::Names(names)
}

#[cfg(not(target_os = "linux"))]
fn list(_: &[u8]) -> Known {
    Known::Unlisted
}

/// Whether a directory opens exactly the names that it lists: it is on one of a few local file systems, and its names are
/// compared by their bytes.
#[cfg(target_os = "linux")]
fn lists_what_it_opens(directory: &rustix::fd::OwnedFd) -> bool {
    use rustix::fs::{IFlags, fstatfs, ioctl_getflags};

    const EXT4: u64 = 0xef53;
    const BTRFS: u64 = 0x9123_683e;
    /// `FS_CASEFOLD_FL`.
    const CASEFOLD: u32 = 0x4000_0000;

    // XFS can compare without regard to case as a whole, and an overlay as its layers do, and neither says so.
    let is_known = fstatfs(directory).is_ok_and(|found| matches!(found.f_type as u64, EXT4 | BTRFS));
    is_known && ioctl_getflags(directory).is_ok_and(|flags| !flags.contains(IFlags::from_bits_retain(CASEFOLD)))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// What is there is never said to be missing, whatever the file system is.
    #[test]
    fn what_exists_is_not_lacked() {
        for place in ["/var/tmp", "/dev/shm", "/tmp"] {
            let Ok(directory) = tempfile::tempdir_in(place) else { continue };
            let root = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
            std::fs::create_dir_all(directory.path().join("there/deep")).unwrap();
            std::os::unix::fs::symlink("nowhere", directory.path().join("dangling")).unwrap();
            let listings = Listings::default();
            for _ in 0..3 {
                for name in ["there", "dangling", "there/deep"] {
                    assert!(!listings.lacks(&root.join(name).unwrap()), "{place} {name}");
                }
                for number in 0..9 {
                    listings.lacks(&root.join(format!("missing-{number}")).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_listed_directory_lacks_what_is_missing_and_all_below() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let opened = rustix::fs::open(directory.path(), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
        let (listings, is_listed) = (Listings::default(), lists_what_it_opens(&opened));
        let missing: Vec<AbsPath> = (0..9).map(|number| root.join(format!("missing-{number}")).unwrap()).collect();
        let lacked = missing.iter().filter(|path| listings.lacks(path)).count();
        assert_eq!(lacked, if is_listed { missing.len() - FEW } else { 0 });
        assert_eq!(listings.lacks(&root.join("missing/below").unwrap()), is_listed);
        assert_eq!(listings.lacks(&root.join("missing/below/deep").unwrap()), is_listed);
    }

    /// A pseudo file system opens names that it does not list.
    #[test]
    fn other_file_systems_are_asked_for_each_name() {
        let listings = Listings::default();
        let thread = format!("/proc/{}", rustix::thread::gettid().as_raw_nonzero());
        for _ in 0..9 {
            assert!(!listings.lacks(&thread.parse().unwrap()));
            assert!(!listings.lacks(&"/proc/no-such-name".parse().unwrap()));
        }
    }
}
