//! The location of a file: a root, the existing directories below it, the missing ones, and a name.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, ResolvedPath};

use crate::directory::{Directory, same_inode};
use crate::roots::{Root, Roots};
use crate::seen::{LookError, Seen};
use crate::{PatchError, resolve};

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: ResolvedPath,
    root: Arc<Root>,
    /// The names of the directories between the root and `directory`.
    existing: Vec<OsString>,
    /// The deepest existing directory of the path.
    pub(crate) directory: Arc<Directory>,
    status: Stat,
    /// Directories to be created, outermost first.
    pub(crate) missing: Vec<OsString>,
    pub(crate) name: OsString,
}

impl Place {
    /// Finds a path below the roots, without following links, and checks that it may be written.
    pub(crate) fn find(
        given: &AbsPath,
        roots: &Roots,
        may_write: &dyn Fn(&AbsPath) -> bool,
    ) -> Result<Self, PatchError> {
        let (root, mut existing) = roots.find(given)?;
        let outside = || PatchError::OutsideRoots { path: given.clone(), resolved: resolve::resolve(given) };
        let name = existing.pop().ok_or_else(outside)?;
        let mut missing = Vec::new();
        let directory = loop {
            match root.directory.walk(&existing) {
                Ok(directory) => break Arc::new(directory),
                Err(Errno::NOENT) => missing.push(existing.pop().ok_or_else(outside)?),
                Err(Errno::LOOP | Errno::NOTDIR) => return Err(obstacle(given)),
                Err(errno) => return Err(system("open the directory of", given)(errno)),
            }
        };
        missing.reverse();
        let status = directory.status().map_err(system("look at the directory of", given))?;
        let resolved = path_below(&root.real, existing.iter().chain(&missing).chain([&name])).ok_or_else(outside)?;
        let path = ResolvedPath { given: given.clone(), resolved };
        let place = Self { path, root, existing, directory, status, missing, name };
        place.check_policy(may_write)?;
        Ok(place)
    }

    /// The policy has to allow writing the file and each directory created for it.
    fn check_policy(&self, may_write: &dyn Fn(&AbsPath) -> bool) -> Result<(), PatchError> {
        let created = self.path.resolved.ancestors().take(1 + self.missing.len());
        for resolved in created {
            if !may_write(&resolved) {
                return Err(PatchError::Protected { path: self.path.given.clone(), resolved });
            }
        }
        Ok(())
    }

    /// The existing file, if any.
    pub(crate) fn look(&self, limit: u64) -> Result<Option<Seen>, PatchError> {
        if !self.missing.is_empty() {
            return Ok(None);
        }
        let path = &self.path.given;
        match Seen::look(&self.directory, &self.name, limit) {
            Ok(seen) => Ok(seen),
            Err(LookError::NotAFile(FileType::Symlink) | LookError::System(Errno::LOOP)) => Err(obstacle(path)),
            Err(LookError::NotAFile(other)) => Err(PatchError::NotAFile { path: path.clone(), kind: name_of(other) }),
            Err(LookError::TooLarge) => Err(PatchError::TooLarge { path: path.clone(), limit }),
            Err(LookError::System(errno)) => Err(system("read", path)(errno)),
        }
    }

    /// Fails if the path from the root no longer leads to the same directory.
    pub(crate) fn check(&self) -> Result<(), PatchError> {
        self.root.check()?;
        let again = self.root.directory.walk(&self.existing).and_then(|directory| directory.status());
        match again {
            Ok(status) if same_inode(&status, &self.status) => {}
            Ok(_) | Err(_) => return Err(self.changed()),
        }
        let first = self.missing.first().unwrap_or(&self.name);
        let entry = self.directory.entry(first).map_err(system("look at", &self.path.resolved))?;
        if entry.is_some() && !self.missing.is_empty() { Err(self.changed()) } else { Ok(()) }
    }

    /// Shares the descriptor of another place in the same directory, if there is one.
    pub(crate) fn share_directory(&mut self, known: &mut BTreeMap<AbsPath, Arc<Directory>>) {
        let Some(path) = self.path.resolved.ancestors().nth(1 + self.missing.len()) else { return };
        let held = known.entry(path).or_insert_with(|| Arc::clone(&self.directory));
        if held.status().is_ok_and(|status| same_inode(&status, &self.status)) {
            self.directory = Arc::clone(held);
        }
    }

    /// The path of another name beside the file.
    pub(crate) fn beside(&self, name: &OsStr) -> AbsPath {
        let parent = self.path.resolved.parent();
        parent.and_then(|parent| path_below(&parent, [name])).unwrap_or_else(|| self.path.resolved.clone())
    }

    pub(crate) fn changed(&self) -> PatchError {
        PatchError::Changed { path: self.path.resolved.clone() }
    }
}

fn path_below<N: AsRef<OsStr>>(root: &AbsPath, names: impl IntoIterator<Item = N>) -> Option<AbsPath> {
    let mut path = root.to_host_path()?;
    path.extend(names.into_iter().map(|name| name.as_ref().to_owned()));
    AbsPath::from_path(&path).ok()
}

/// Why a path can't be walked: a link, or a file in place of a directory.
fn obstacle(path: &AbsPath) -> PatchError {
    let is_link = |path: &AbsPath| {
        let metadata = path.to_host_path().and_then(|path| std::fs::symlink_metadata(path).ok());
        metadata.is_some_and(|metadata| metadata.is_symlink())
    };
    if path.ancestors().any(|above| is_link(&above)) {
        return PatchError::Link { path: path.clone(), resolved: resolve::resolve(path) };
    }
    PatchError::NotADirectory { path: path.clone() }
}

/// The error of a system call at a path.
pub(crate) fn system(act: &'static str, path: &AbsPath) -> impl Fn(Errno) -> PatchError {
    move |errno| PatchError::System { act, path: path.clone(), source: errno.into() }
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        FileType::RegularFile | FileType::Unknown => "something else",
    }
}
