//! Keeps placeholder directories for the next run in the same workspace.
//!
//! A run creates empty directories at protected names that are missing, and removes them at its end. Creating them is
//! slow: ext4 skips every inode that was freed within the last minute or five, one by one, so the time grows with
//! recent disk activity. Moving them to Stockade's own directory and back costs next to nothing.
//!
//! A directory returns only to the directory and name it had: a command of another run, whose workspace contains this
//! one, may still have it open and could create files in it anywhere, but it could do that there before. The number of
//! a directory is given again after its removal, so the time of its creation counts as well. What such a command creates
//! while the directory is kept stays in it, and a directory with something in it is not used again.

use std::fs::DirBuilder;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;

use crate::launch::placeholder::{MARK, MOVED, is_ours};

/// Limit on kept directories. Each workspace has a few.
const MOST: u64 = 512;

/// The directory that contains them.
#[derive(Debug)]
pub(crate) struct KeptNames(OwnedFd);

impl KeptNames {
    /// `None` if it can't be created, if others may write it, or if its file system does not maintain link counts.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(CWD, path, flags, Mode::empty());
        let place = match open() {
            Err(Errno::NOENT) => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).ok()?;
                open().ok()?
            }
            other => other.ok()?,
        };
        let found = rustix::fs::fstat(&place).ok()?;
        let is_private = found.st_uid == rustix::process::geteuid().as_raw() && found.st_mode & 0o022 == 0;
        #[allow(clippy::useless_conversion, reason = "half as long on AArch64")]
        let counted = u64::from(found.st_nlink).checked_sub(2)?;
        if counted > MOST {
            clear(&place);
        }
        is_private.then_some(Self(place))
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// The entry for a name in a directory; `None` if its file system does not tell when the directory was created.
    pub(crate) fn entry(parent: BorrowedFd<'_>, name: &[u8]) -> Option<Vec<u8>> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let found = rustix::fs::statx(parent, c"", AtFlags::EMPTY_PATH, wanted).ok()?;
        if !StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) {
            return None;
        }
        let (device, created) = ((found.stx_dev_major, found.stx_dev_minor), found.stx_btime);
        let key =
            format!("{:x}.{:x}-{:x}-{:x}.{:x}-", device.0, device.1, found.stx_ino, created.tv_sec, created.tv_nsec);
        Some([key.as_bytes(), name].concat())
    }

    /// Moves a kept directory to its place, restores its mode, and returns it; `None` if it is not moved.
    pub(crate) fn give(&self, entry: &[u8], parent: BorrowedFd<'_>, name: &[u8]) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let kept = rustix::fs::openat(&self.0, entry, flags, Mode::empty()).ok()?;
        if !is_ours(&kept) || !is_empty(&kept) {
            return None;
        }
        rustix::fs::renameat_with(&self.0, entry, parent, name, RenameFlags::NOREPLACE).ok()?;
        // With the mode of the move it counts as a placeholder as well.
        rustix::fs::fchmod(&kept, MARK).ok();
        Some(kept)
    }

    /// Moves a placeholder here. Returns whether it did: a directory that is not empty stays.
    pub(crate) fn take_back(&self, entry: &[u8], parent: BorrowedFd<'_>, name: &[u8], held: &OwnedFd) -> bool {
        if !is_empty(held)
            || rustix::fs::fchmod(held, MOVED).is_err()
            || rustix::fs::renameat_with(parent, name, &self.0, entry, RenameFlags::NOREPLACE).is_err()
        {
            return false;
        }
        // Something was created in it meanwhile. It is moved back, so no file is lost.
        if !is_empty(held) {
            rustix::fs::renameat_with(&self.0, entry, parent, name, RenameFlags::NOREPLACE).ok();
        }
        true
    }
}

/// Whether a directory has nothing in it.
fn is_empty(directory: &OwnedFd) -> bool {
    if rustix::fs::seek(directory, SeekFrom::Start(0)).is_err() {
        return false;
    }
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}

/// Removes everything that is empty.
fn clear(place: &OwnedFd) {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(place, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        rustix::fs::unlinkat(place, entry.file_name(), AtFlags::REMOVEDIR).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::path::PathBuf;

    use stockade_protocol::AbsPath;

    use super::*;
    use crate::launch::placeholder::{Name, Placeholder};

    struct World {
        directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::Builder::new().tempdir_in("/var/tmp").unwrap();
            fs::create_dir_all(directory.path().join("ws")).unwrap();
            Self { directory }
        }

        fn path(&self, path: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(path)
        }

        fn hold(&self) -> Placeholder {
            let kept = KeptNames::open(&self.path("state/held")).map(std::sync::Arc::new);
            let path = AbsPath::from_path(&self.path("ws/.codex")).unwrap();
            Name::new(&path, kept).and_then(Name::hold).unwrap()
        }

        /// The directories that are kept.
        fn kept(&self) -> Vec<PathBuf> {
            fs::read_dir(self.path("state/held")).unwrap().map(|entry| entry.unwrap().path()).collect()
        }

        fn inode(&self) -> u64 {
            fs::metadata(self.path("ws/.codex")).unwrap().ino()
        }
    }

    /// The number of a removed directory is given to another one.
    #[test]
    fn a_directory_returns_to_the_one_that_it_was_made_in() {
        let world = World::new();
        drop(world.hold());
        let [kept] = world.kept().try_into().unwrap();
        let name = kept.file_name().unwrap().to_str().unwrap().to_owned();
        let mut parts: Vec<&str> = name.splitn(4, '-').collect();
        parts[2] = "1.1";
        fs::rename(&kept, kept.with_file_name(parts.join("-"))).unwrap();
        let held = world.hold();
        assert_ne!(fs::metadata(kept.with_file_name(parts.join("-"))).unwrap().ino(), world.inode());
        drop(held);
    }

    #[test]
    fn a_workspace_with_the_set_group_id_bit_keeps_no_names() {
        let world = World::new();
        fs::set_permissions(world.path("ws"), fs::Permissions::from_mode(0o2755)).unwrap();
        // Left behind by a version that did not know of it.
        fs::create_dir(world.path("ws/.codex")).unwrap();
        fs::set_permissions(world.path("ws/.codex"), fs::Permissions::from_mode(0o3500)).unwrap();
        for _ in 0..2 {
            drop(world.hold());
            assert!(!world.path("ws/.codex").exists());
        }
    }

    #[test]
    fn the_same_directory_stands_there_in_the_next_run() {
        let world = World::new();
        let first = world.hold();
        let inode = world.inode();
        drop(first);
        assert!(!world.path("ws/.codex").exists());
        assert_eq!(world.kept().len(), 1);
        let second = world.hold();
        assert_eq!(world.inode(), inode);
        assert!(world.kept().is_empty());
        drop(second);
    }

    #[test]
    fn what_has_something_in_it_stays_where_it_is() {
        let world = World::new();
        let held = world.hold();
        fs::set_permissions(world.path("ws/.codex"), fs::Permissions::from_mode(0o1700)).unwrap();
        fs::write(world.path("ws/.codex/mine"), "").unwrap();
        fs::set_permissions(world.path("ws/.codex"), fs::Permissions::from_mode(0o1500)).unwrap();
        drop(held);
        assert!(world.path("ws/.codex/mine").exists());
        assert!(world.kept().is_empty());
    }

    #[test]
    fn what_was_filled_or_changed_meanwhile_is_not_put_back() {
        for mode in [0o1500, 0o1777] {
            let world = World::new();
            drop(world.hold());
            let [kept] = world.kept().try_into().unwrap();
            fs::set_permissions(&kept, fs::Permissions::from_mode(0o1700)).unwrap();
            if mode == 0o1500 {
                fs::write(kept.join("planted"), "").unwrap();
            }
            fs::set_permissions(&kept, fs::Permissions::from_mode(mode)).unwrap();
            let inode = fs::metadata(&kept).unwrap().ino();
            let held = world.hold();
            assert_ne!(world.inode(), inode);
            drop(held);
            assert!(!world.path("ws/.codex").exists());
        }
    }

    #[test]
    fn another_workspace_gets_another_directory() {
        let world = World::new();
        drop(world.hold());
        fs::rename(world.path("ws"), world.path("other")).unwrap();
        fs::create_dir(world.path("ws")).unwrap();
        drop(world.hold());
        assert_eq!(world.kept().len(), 2);
    }

    #[test]
    fn a_place_that_others_may_write_to_is_not_used() {
        let world = World::new();
        fs::create_dir_all(world.path("state/held")).unwrap();
        fs::set_permissions(world.path("state/held"), fs::Permissions::from_mode(0o777)).unwrap();
        drop(world.hold());
        assert!(world.kept().is_empty());
        assert!(!world.path("ws/.codex").exists());
    }

    #[test]
    fn no_more_are_kept_than_have_room() {
        let world = World::new();
        fs::create_dir_all(world.path("state/held")).unwrap();
        for number in 0..=MOST {
            fs::create_dir(world.path(&format!("state/held/1-{number:x}-.git"))).unwrap();
        }
        drop(world.hold());
        assert_eq!(world.kept().len(), 1);
    }
}
