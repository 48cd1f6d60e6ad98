//! Determines the workspace, and rejects accidental ones.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use stockade_config::{ConfigLoader, SandboxMode, Settings};
use stockade_protocol::{AbsPath, FileTarget};
use stockade_sandboxing::{HostFiles as _, Listings, RealFiles, absolute, leads_to, written_path};

use crate::Error;

/// The workspace of a run.
pub(crate) struct Workspace {
    pub(crate) roots: Vec<AbsPath>,
    /// The working directory, if that is the workspace.
    here: Option<AbsPath>,
    homes: Vec<AbsPath>,
}

impl Workspace {
    /// The named directories, else the current one. A home directory is not a workspace unless it is named: files
    /// planted there run at the next login. A link to it, which an earlier command may have planted, does not count as
    /// naming it.
    pub(crate) fn find(
        named: &[PathBuf],
        here: &AbsPath,
        loader: &ConfigLoader,
        notices: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let spelled: Vec<AbsPath> =
            loader.homes().into_iter().filter_map(|home| AbsPath::from_path(home).ok()).collect();
        let homes: Vec<AbsPath> = spelled.iter().map(|home| RealFiles.canonical(home)).collect();
        let is_home = |path: &AbsPath| path.parent().is_none() || homes.contains(path);
        if !named.is_empty() {
            let root = |path: &PathBuf| {
                let (target, absolute) = (existing_directory(here, path)?, absolute(here, path)?);
                if is_home(&target) && absolute != target && !spelled.contains(&absolute) {
                    return Err(Error::LeadsHome { path: path.clone(), target });
                }
                Ok(target)
            };
            let roots = named.iter().map(root).collect::<Result<_, Error>>()?;
            return Ok(Self { roots, here: None, homes });
        }
        if homes.contains(here) {
            notices.push(format!(
                "`{here}` is not made writable: start in a project's directory, or name it as the workspace"
            ));
            return Ok(Self { roots: Vec::new(), here: None, homes });
        }
        Ok(Self { roots: vec![here.clone()], here: Some(here.clone()), homes })
    }

    /// Refuses the current directory if making it writable would undo masks and protections.
    pub(crate) fn check(&self, settings: &Settings, listings: &Listings) -> Result<(), Error> {
        let Some(here) = self.here.as_ref().filter(|_| settings.mode == SandboxMode::WorkspaceWrite) else {
            return Ok(());
        };
        match self.objection(here, settings, listings) {
            Some(reason) => Err(Error::NotByAccident { here: here.clone(), reason }),
            None => Ok(()),
        }
    }

    fn objection(&self, here: &AbsPath, settings: &Settings, listings: &Listings) -> Option<String> {
        // The places of the one kind need not be looked at again for the other.
        let around = |places: &[AbsPath], looked_at: &[AbsPath]| {
            let there = listings.existing(places).filter(|place| !looked_at.contains(place) && may_exist(place));
            there.map(leads_to).find(|place| here.starts_with(place))
        };
        if let Some(place) = around(&settings.own_files, &[]) {
            return Some(format!("`{place}` holds Stockade's own files"));
        }
        if let Some(place) = around(&settings.credentials, &settings.own_files) {
            return Some(format!("`{place}` holds credentials"));
        }
        let protected = |name: &[u8]| settings.protected_names.iter().find(|own| own.as_bytes() == name);
        if let Some(name) = here.components().find_map(protected) {
            return Some(format!("`{name}` is protected, since what is planted there runs later"));
        }
        if let Some(repository) = here.ancestors().find(is_git_directory) {
            return Some(format!("`{repository}` is the inside of a git repository, whose hooks run later"));
        }
        if let Some(home) = self.homes.iter().find(|home| home.starts_with(here)) {
            return Some(format!("it contains the home directory `{home}`"));
        }
        here.parent().is_none().then(|| String::from("it is the whole file system"))
    }
}

/// Whether a file may exist at a path, also behind links. A dangling link contains no existing directory.
fn may_exist(path: &AbsPath) -> bool {
    let found = path.to_host_path().map(std::fs::metadata);
    !matches!(found, Some(Err(error)) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory))
}

/// The canonical path of an existing directory that this user may enter.
pub fn existing_directory(here: &AbsPath, path: &Path) -> Result<AbsPath, Error> {
    let absolute = absolute(here, path)?;
    // Its `.` requires search permission.
    let found = absolute.to_host_path().map(|path| path.join(".").metadata());
    match found {
        Some(Ok(_)) => Ok(RealFiles.canonical(&absolute)),
        Some(Err(source)) if source.kind() == io::ErrorKind::PermissionDenied => {
            Err(Error::OutOfReach { path: path.to_owned(), source })
        }
        Some(Err(_)) | None => Err(Error::NotADirectory { path: path.to_owned() }),
    }
}

/// Checks what git itself checks.
fn is_git_directory(path: &AbsPath) -> bool {
    path.to_host_path().is_some_and(|path| {
        path.join("HEAD").symlink_metadata().is_ok() && path.join("objects").is_dir() && path.join("refs").is_dir()
    })
}

/// A path or a glob that a person wrote, relative to a directory or to a home directory (`~/`).
pub fn file_target(text: &str, directory: &AbsPath, home: Option<&OsStr>) -> Result<FileTarget, Error> {
    let path = match (text.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => Path::new(home).join(below),
        (Some(_) | None, _) => PathBuf::from(text),
    };
    let path = written_path(directory, &path)?;
    if text.contains(['*', '?', '[', '{']) {
        return Ok(FileTarget::Glob(path.to_string().parse()?));
    }
    Ok(FileTarget::Path(path))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_taken_in_any_spelling() {
        let here = &"/usr".parse().unwrap();
        let home = Some(OsStr::new("/home/me"));
        for (text, path) in [("a/./b/", "/usr/a/b"), ("/x//y", "/x/y"), ("../z", "/z"), ("~/k", "/home/me/k")] {
            let found = file_target(text, here, home).unwrap();
            assert_eq!(found, FileTarget::Path(path.parse().unwrap()), "{text}");
        }
        assert!(matches!(file_target("**/*.pem", here, None), Ok(FileTarget::Glob(_))));
    }
}
