//! A settings file of an agent: read, copied and replaced, never through a link.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::environment::EnvironmentError;
use super::json_text::TextError;
use super::{Copy, InstallError, Scope};

/// A file, as it was read.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    /// None if there is none.
    pub(super) text: Option<String>,
}

impl SettingsFile {
    pub(super) fn read(path: &Path, scope: Scope) -> Result<Self, InstallError> {
        // A project's directory may come from anybody; the user's own may well be a link to where it is kept.
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

    /// The file as it was before the hook was put in; none if there was none.
    pub(super) fn copy(&self) -> Result<Option<String>, InstallError> {
        let path = self.copy_path();
        refuse_link(&path)?;
        text(&path)
    }

    /// Replaces the file as a whole, or removes it.
    pub(super) fn replace(&self, after: Option<&str>, copy: Copy) -> Result<(), InstallError> {
        let failed = |act: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| InstallError::System { act, path, source }
        };
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory).map_err(failed("made", directory))?;
        }
        let copied = self.copy_path();
        if let (Copy::Made, Some(before)) = (copy, &self.text)
            && self.copy()?.is_none()
        {
            write(&copied, before, &self.path).map_err(failed("written", &copied))?;
        }
        match after {
            Some(after) => write(&self.path, after, &self.path).map_err(failed("written", &self.path))?,
            None => fs::remove_file(&self.path).map_err(failed("removed", &self.path))?,
        }
        if copy == Copy::Removed && self.copy()?.is_some() {
            fs::remove_file(&copied).map_err(failed("removed", &copied))?;
        }
        Ok(())
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

/// Writes a file whole or not at all, with the mode of another one, if that is there.
fn write(path: &Path, text: &str, like: &Path) -> io::Result<()> {
    let mode = fs::metadata(like).map_or(0o600, |found| found.permissions().mode() & 0o777);
    let mut new = path.to_owned().into_os_string();
    new.push(format!(".new-{}", std::process::id()));
    let new = PathBuf::from(new);
    let written = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()
    });
    let written = written.and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // It may not be there.
        fs::remove_file(&new).ok();
    }
    written
}
