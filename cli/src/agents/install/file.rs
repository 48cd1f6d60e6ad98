//! An agent's settings file: read, copied and replaced, never through a link.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, RenameFlags};
use rustix::io::Errno;

use super::environment::EnvironmentError;
use super::json_text::TextError;
use super::{Copy, InstallError, Scope};

/// The time limit for another run that changes the same file.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A file, as it was read.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// `None` if the file is missing.
    pub(super) text: Option<String>,
}

impl SettingsFile {
    pub(super) fn read(path: &Path, scope: Scope) -> Result<Self, InstallError> {
        // A project's directory is untrusted; the user's own may well be a link to where it is kept.
        if scope == Scope::Project
            && let Some(directory) = path.parent()
        {
            refuse_link(directory)?;
        }
        refuse_link(path)?;
        Ok(Self { path: path.to_owned(), text: text(path)? })
    }

    pub(super) fn text_error(&self, source: TextError) -> InstallError {
        InstallError::Text { path: self.path.clone(), source }
    }

    pub(super) fn environment_error(&self, source: EnvironmentError) -> InstallError {
        InstallError::Environment { path: self.path.clone(), source }
    }

    fn copy_path(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".before-stockade");
        PathBuf::from(name)
    }

    /// The copy from before the installation; `None` if there is none.
    pub(super) fn copy(&self) -> Result<Option<String>, InstallError> {
        let path = self.copy_path();
        refuse_link(&path)?;
        text(&path)
    }

    /// Locks the file against other runs of this program, until dropped. `None` if the directory is missing.
    pub(super) fn lock(path: &Path) -> Result<Option<fs::File>, InstallError> {
        let Some(directory) = path.parent().filter(|directory| directory.is_dir()) else { return Ok(None) };
        let failed = |source| InstallError::System { act: "locked", path: directory.to_owned(), source };
        let file = fs::File::open(directory).map_err(failed)?;
        let end = Instant::now() + LONGEST_WAIT;
        loop {
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(file)),
                Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                // The file system has no locks, or another program holds it: changes are detected all the same.
                Err(_) => return Ok(None),
            }
        }
    }

    /// Replaces the file as a whole, or removes it, unless it has changed since it was read.
    pub(super) fn replace(&self, after: Option<&str>, copy: Copy) -> Result<(), InstallError> {
        let failed = |act: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::System { act, path, source }
        };
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).map_err(failed("made", directory))?;
        }
        let copied = self.copy_path();
        let is_new_copy = copy == Copy::Made && self.text.is_some() && self.copy()?.is_none();
        if let (true, Some(before)) = (is_new_copy, &self.text) {
            let new = written(&copied, before, &self.path).map_err(failed("written", &copied))?;
            fs::rename(&new, &copied).map_err(failed("written", &copied))?;
        }
        let swapped = self.swap(after).map_err(failed("written", &self.path));
        if matches!(swapped, Ok(Swap::Changed) | Err(_)) {
            if is_new_copy {
                fs::remove_file(&copied).map_err(failed("removed", &copied))?;
            }
            return swapped.and_then(|_| Err(InstallError::Changed(self.path.clone())));
        }
        if copy == Copy::Removed && self.copy()?.is_some() {
            fs::remove_file(&copied).map_err(failed("removed", &copied))?;
        }
        Ok(())
    }

    /// Replaces the file by the new text. Other programs replace settings without a lock: so the old file is moved
    /// aside, compared, and restored if it is not the one that was read.
    fn swap(&self, after: Option<&str>) -> io::Result<Swap> {
        let Some(after) = after else { return self.take_out() };
        let new = written(&self.path, after, &self.path)?;
        let swapped = match &self.text {
            // The file must not exist yet.
            None => match fs::hard_link(&new, &self.path) {
                Ok(()) => Ok(Swap::Done),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Swap::Changed),
                Err(error) => Err(error),
            },
            Some(before) => exchange(&new, &self.path, before),
        };
        // The leftover is the old file or the unneeded new one.
        fs::remove_file(&new).ok();
        swapped
    }

    fn take_out(&self) -> io::Result<Swap> {
        let aside = beside(&self.path);
        fs::rename(&self.path, &aside)?;
        if fs::read_to_string(&aside).ok() == self.text {
            fs::remove_file(&aside)?;
            return Ok(Swap::Done);
        }
        // A file that another program has written since is newer, and stays.
        match fs::hard_link(&aside, &self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => fs::remove_file(&aside).map(|()| Swap::Changed),
        }
    }
}

/// The result of replacing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Swap {
    Done,
    /// It has changed since it was read, and stays.
    Changed,
}

/// Replaces a file with the text `before` by `new`.
fn exchange(new: &Path, path: &Path, before: &str) -> io::Result<Swap> {
    let is_before = |file: &Path| fs::read(file).is_ok_and(|bytes| bytes == before.as_bytes());
    let swap = || rustix::fs::renameat_with(rustix::fs::CWD, new, rustix::fs::CWD, path, RenameFlags::EXCHANGE);
    match swap() {
        Ok(()) if is_before(new) => Ok(Swap::Done),
        Ok(()) => swap().map(|()| Swap::Changed).map_err(io::Error::from),
        Err(Errno::NOENT) => Ok(Swap::Changed),
        // The file system can't exchange files.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if is_before(path) => {
            fs::rename(new, path).map(|()| Swap::Done)
        }
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(Swap::Changed),
        Err(errno) => Err(errno.into()),
    }
}

fn refuse_link(path: &Path) -> Result<(), InstallError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
            Err(InstallError::Link { path: path.to_owned(), target })
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(InstallError::System { act: "looked at", path: path.to_owned(), source }),
    }
}

fn text(path: &Path) -> Result<Option<String>, InstallError> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => return Err(InstallError::NoFile(path.to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(InstallError::System { act: "read", path: path.to_owned(), source }),
    }
    let read = fs::read_to_string(path);
    read.map(Some).map_err(|source| InstallError::System { act: "read", path: path.to_owned(), source })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(format!(".new-{}", std::process::id()));
    PathBuf::from(name)
}

/// Writes a file beside the one to replace, with the mode of `like`, if that exists.
fn written(path: &Path, text: &str, like: &Path) -> io::Result<PathBuf> {
    let mode = fs::metadata(like).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let new = beside(path);
    let file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    });
    if written.is_err() {
        // It may not exist.
        fs::remove_file(&new).ok();
    }
    written.map(|()| new)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change that another program makes between the reading and the replacing is not lost.
    #[test]
    fn what_changed_since_it_was_read_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("settings.json");
        for (read, since, after) in [
            (Some("{}"), Some("{\"a\":1}"), Some("{\"hooks\":1}")),
            (Some("{}"), None, Some("{\"hooks\":1}")),
            (None, Some("{\"a\":1}"), Some("{\"hooks\":1}")),
            (Some("{}"), Some("{\"a\":1}"), None),
        ] {
            let put = |text: Option<&str>| match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None => drop(fs::remove_file(&path)),
            };
            put(read);
            let file = SettingsFile::read(&path, Scope::User).unwrap();
            put(since);
            let replaced = file.replace(after, Copy::Made);
            assert!(matches!(replaced, Err(InstallError::Changed(_))), "{replaced:?}");
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), since);
            let left: Vec<_> =
                fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.len() <= 1, "{left:?}");
            // And it is replaced as it is now.
            let file = SettingsFile::read(&path, Scope::User).unwrap();
            if file.text.is_some() {
                file.replace(after, Copy::Left).unwrap();
                assert_eq!(fs::read_to_string(&path).ok().as_deref(), after);
            }
            put(None);
        }
    }
}
