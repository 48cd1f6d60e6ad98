//! The directory of a trail, with safe opening of its files: no links, no files of other users, nothing that others
//! may write.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::AuditError;

#[cfg(not(unix))]
#[path = "place_elsewhere.rs"]
mod system;
#[cfg(unix)]
#[path = "place_unix.rs"]
mod system;

pub(crate) use system::{read_at, write_at};

/// The file that records are added to.
pub(crate) const CURRENT: &str = "audit.jsonl";
/// The file with the end of the trail, which writers lock.
pub(crate) const HEAD: &str = "audit.head";

/// How long a writer waits for the lock. Writers hold it for microseconds, so one that takes this long is stopped, or
/// not a writer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The state directory: below `$XDG_STATE_HOME`, or `~/.local/state` if that is unset or not absolute, according to
/// the [XDG specification](https://specifications.freedesktop.org/basedir-spec/latest/).
pub fn state_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("stockade"))
}

/// The directory that a trail is in.
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    handle: system::Directory,
}

impl Place {
    /// The directory, created for the user alone if it is missing.
    pub(crate) fn make(directory: &Path) -> Result<Self, AuditError> {
        // Every run but the first finds it.
        if let Ok(handle) = system::Directory::open(directory) {
            return Self::checked_directory(directory, handle);
        }
        system::create(directory).map_err(AuditError::io("make the directory of", directory))?;
        Self::find(directory)
    }

    /// The existing directory.
    pub(crate) fn find(directory: &Path) -> Result<Self, AuditError> {
        let handle = system::Directory::open(directory)
            .map_err(|error| refuse_link(error, directory, "open the directory of"))?;
        Self::checked_directory(directory, handle)
    }

    fn checked_directory(directory: &Path, handle: system::Directory) -> Result<Self, AuditError> {
        match handle.complaint().map_err(AuditError::io("look at", directory))? {
            Some(why) => Err(AuditError::Unsafe { path: directory.to_owned(), why }),
            None => Ok(Self { directory: directory.to_owned(), handle }),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Opens the current file for reading and appending; created if it is missing.
    pub(crate) fn open_current(&self) -> Result<File, AuditError> {
        self.checked(CURRENT, self.handle.open_file(CURRENT, system::Use::Append))
    }

    /// Opens the head for reading, writing and locking; created if it is missing.
    pub(crate) fn open_head(&self) -> Result<File, AuditError> {
        self.checked(HEAD, self.handle.open_file(HEAD, system::Use::Write))
    }

    /// Opens a file for reading; `None` if it is missing.
    pub(crate) fn open_to_read(&self, name: &str) -> Result<Option<File>, AuditError> {
        match self.handle.open_file(name, system::Use::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => self.checked(name, other).map(Some),
        }
    }

    fn checked(&self, name: &str, opened: io::Result<File>) -> Result<File, AuditError> {
        let path = self.path(name);
        let file = opened.map_err(|error| refuse_link(error, &path, "open"))?;
        match system::complaint(&file).map_err(AuditError::io("look at", &path))? {
            Some(why) => Err(AuditError::Unsafe { path, why }),
            None => Ok(file),
        }
    }

    /// The size of an open file; `None` if its name no longer refers to it.
    pub(crate) fn size_if_still(&self, name: &str, file: &File) -> Result<Option<u64>, AuditError> {
        self.handle.size_if_still(name, file).map_err(AuditError::io("look at", &self.path(name)))
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        fs::symlink_metadata(self.path(name)).is_ok()
    }

    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), AuditError> {
        fs::rename(self.path(from), self.path(to)).map_err(AuditError::io("rotate", &self.path(from)))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), AuditError> {
        fs::remove_file(self.path(name)).map_err(AuditError::io("remove the oldest file of", &self.path(name)))
    }

    /// The files of earlier generations, the oldest first.
    pub(crate) fn archives(&self) -> Result<Vec<(u64, String)>, AuditError> {
        let failed = || AuditError::io("list", &self.directory);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed())? {
            let name = entry.map_err(failed())?.file_name();
            let Some(name) = name.to_str() else { continue };
            let number = name.strip_prefix("audit.").and_then(|rest| rest.strip_suffix(".jsonl"));
            if let Some(generation) = number.and_then(|digits| digits.parse().ok())
                && archive_name(generation) == name
            {
                found.push((generation, name.to_owned()));
            }
        }
        found.sort();
        Ok(found)
    }
}

/// The name of an earlier generation's file.
pub(crate) fn archive_name(generation: u64) -> String {
    format!("audit.{generation:06}.jsonl")
}

fn refuse_link(error: io::Error, path: &Path, act: &'static str) -> AuditError {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink()) {
        return AuditError::Unsafe { path: path.to_owned(), why: "is a symbolic link: remove it" };
    }
    AuditError::io(act, path)(error)
}

/// The writers' lock, released on drop.
pub(crate) struct Turn<'a>(&'a File);

impl<'a> Turn<'a> {
    /// Waits for the lock, up to a timeout.
    pub(crate) fn wait(file: &'a File, path: &Path) -> Result<Self, AuditError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self(file)),
                Err(fs::TryLockError::Error(error)) => return Err(AuditError::io("lock", path)(error)),
                Err(fs::TryLockError::WouldBlock) if start.elapsed() > PATIENCE => {
                    return Err(AuditError::Busy { path: path.to_owned(), seconds: PATIENCE.as_secs() });
                }
                Err(fs::TryLockError::WouldBlock) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Closing the file would release it, too.
        self.0.unlock().ok();
    }
}
