//! The directories that a patch may write below, held open.
//!
//! A root is opened when it is granted and stays that directory: if its path later leads elsewhere, that is detected,
//! and nothing is written there.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::Stat;
use stockade_protocol::AbsPath;

use crate::directory::{Directory, same_inode};
use crate::{PatchError, resolve};

/// Writable directories, opened at the time they were granted. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Roots(Arc<[Arc<Root>]>);

pub(crate) struct Root {
    /// Its canonical path.
    pub(crate) real: AbsPath,
    pub(crate) directory: Directory,
    status: Stat,
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Root({})", self.real)
    }
}

impl Roots {
    /// Opens the roots. A root may be named by a link, as `/tmp` is on some systems: it is resolved now and never
    /// again.
    pub fn open<'a>(roots: impl IntoIterator<Item = &'a AbsPath>) -> Result<Self, PatchError> {
        roots.into_iter().map(|root| Root::open(root).map(Arc::new)).collect::<Result<_, _>>().map(Self)
    }

    /// The root above a path, and the components below it.
    ///
    /// The deepest ancestor that is the same directory as a root counts, under any name; below it no link is followed.
    pub(crate) fn find(&self, path: &AbsPath) -> Result<(Arc<Root>, Vec<OsString>), PatchError> {
        for above in path.ancestors().skip(1) {
            let Some(status) = above.to_host_path().and_then(|above| rustix::fs::stat(&above).ok()) else { continue };
            if let Some(root) = self.0.iter().find(|root| same_inode(&root.status, &status)) {
                return Ok((Arc::clone(root), names(path, above.depth())));
            }
        }
        Err(PatchError::OutsideRoots { path: path.clone(), resolved: resolve::resolve(path) })
    }
}

impl Root {
    fn open(given: &AbsPath) -> Result<Self, PatchError> {
        let problem =
            |problem: &dyn fmt::Display| PatchError::Root { path: given.clone(), problem: problem.to_string() };
        let path = given.to_host_path().ok_or_else(|| problem(&"it is a path of another system"))?;
        let path = std::fs::canonicalize(path).map_err(|error| problem(&error))?;
        let real = AbsPath::from_path(&path).map_err(|error| problem(&error))?;
        let directory = Directory::top().and_then(|top| top.walk(&names(&real, 0))).map_err(|errno| problem(&errno))?;
        let status = directory.status().map_err(|errno| problem(&errno))?;
        Ok(Self { real, directory, status })
    }

    /// Fails if the root's path no longer leads to the directory that was granted.
    pub(crate) fn check(&self) -> Result<(), PatchError> {
        let changed = || PatchError::Changed { path: self.real.clone() };
        let path = self.real.to_host_path().ok_or_else(changed)?;
        let now = rustix::fs::lstat(Path::new(&path)).map_err(|_| changed())?;
        if same_inode(&now, &self.status) { Ok(()) } else { Err(changed()) }
    }
}

/// The components of a path from a depth on.
fn names(path: &AbsPath, depth: usize) -> Vec<OsString> {
    path.components().skip(depth).map(|name| OsString::from_vec(name.to_vec())).collect()
}
