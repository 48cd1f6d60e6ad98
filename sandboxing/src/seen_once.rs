//! The host's files as one plan sees them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use stockade_protocol::{AbsPath, Glob, Invalid};

use crate::resolve::{HostFiles, Kind, RealFiles};
use crate::search::Found;

/// The real file system, each place of which is looked at once. Rules mostly speak of names in the same
/// few directories, most of which do not exist; and a plan is made from one state of things.
#[derive(Debug, Default)]
pub struct SeenOnce {
    kinds: RefCell<HashMap<AbsPath, Option<Kind>>>,
    /// What was searched for last, and what was found.
    searched: RefCell<Option<(Vec<Glob>, Found)>>,
}

impl HostFiles for SeenOnce {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        if let Some(known) = self.kinds.borrow().get(path) {
            return *known;
        }
        // What is known to be missing holds nothing.
        let is_orphan = path.parent().is_some_and(|parent| self.kinds.borrow().get(&parent) == Some(&None));
        let kind = if is_orphan { None } else { RealFiles.kind(path) };
        self.kinds.borrow_mut().insert(path.clone(), kind);
        kind
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        RealFiles.canonical(path)
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        if let Some((known, found)) = &*self.searched.borrow()
            && known.iter().eq(globs.iter().copied())
        {
            return Ok(found.clone());
        }
        let found = RealFiles.matches(globs)?;
        let searched = globs.iter().copied().cloned().collect();
        self.searched.replace(Some((searched, found.clone())));
        Ok(found)
    }

    fn has_other_names(&self, path: &AbsPath) -> bool {
        // Only a file that is there can have them.
        self.kind(path) == Some(Kind::File) && RealFiles.has_other_names(path)
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        RealFiles.link_target(path)
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
}
