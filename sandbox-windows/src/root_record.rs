//! Which trees bear marks that stay, and how far each was walked.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;

use crate::Sid;
use crate::disk::Identity;
use crate::journal::{Journal, open_lock, remove_if_there};

/// A tree that can be written, and the identifier in its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    pub(crate) path: AbsPath,
    pub(crate) sid: Sid,
    /// By which the tree is found again after it was moved.
    pub(crate) identity: Identity,
}

/// What is known of a tree whose entries stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RootRecord {
    pub(crate) root: Root,
    /// Parts that were left out, since a policy took them away. `None` until the tree was walked to its end.
    pub(crate) left_out: Option<Vec<AbsPath>>,
}

/// A tree's own record, locked: trees are walked apart from each other, and apart from runs that begin and end.
#[derive(Debug)]
pub(crate) struct LockedRoot {
    path: PathBuf,
    _lock: File,
}

impl LockedRoot {
    /// `None` if the tree was never walked, or if the record can't be read: then it is walked again.
    pub(crate) fn read(&self) -> io::Result<Option<RootRecord>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(serde_json::from_str(&text).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn write(&self, record: &RootRecord) -> io::Result<()> {
        let new = self.path.with_extension("root-new");
        fs::write(&new, serde_json::to_string(record)?)?;
        fs::rename(new, &self.path)
    }

    /// Nothing is on the tree any more.
    pub(crate) fn forget(&self) -> io::Result<()> {
        remove_if_there(&self.path)
    }
}

impl Journal {
    /// Waits until no other process walks a tree.
    pub(crate) fn lock_root(&self, root: &Root) -> io::Result<LockedRoot> {
        let id = root.sid.to_string();
        let lock = open_lock(&self.file(&id, "root-lock"))?;
        lock.lock()?;
        Ok(LockedRoot { path: self.file(&id, "root"), _lock: lock })
    }

    /// Every tree on which marks stay.
    pub(crate) fn roots(&self) -> io::Result<Vec<Root>> {
        let mut roots = Vec::new();
        for entry in fs::read_dir(self.directory())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "root") {
                let record: Option<RootRecord> = serde_json::from_str(&fs::read_to_string(&path)?).ok();
                roots.extend(record.map(|record| record.root));
            }
        }
        roots.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(path: &str) -> Root {
        let path: AbsPath = path.parse().unwrap();
        let identity = Identity { volume: 1, index: 2 };
        Root { sid: Sid::root(&path, identity), path, identity }
    }

    /// While a walk is under way the tree is known, so that marks can be taken off, and counts as not walked.
    #[test]
    fn a_tree_is_known_from_the_start_of_its_walk() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        let (one, other) = (root(r"C:\w"), root(r"C:\v"));
        let locked = journal.lock_root(&one).unwrap();
        let apart = journal.lock_root(&other).unwrap();
        assert_eq!((locked.read().unwrap(), journal.roots().unwrap()), (None, vec![]));
        for left_out in [None, Some(vec![r"C:\w\.git".parse().unwrap()])] {
            let record = RootRecord { root: one.clone(), left_out };
            locked.write(&record).unwrap();
            assert_eq!((locked.read().unwrap(), apart.read().unwrap()), (Some(record), None));
        }
        assert_eq!(journal.roots().unwrap(), [one]);
        // They are not taken for runs.
        assert_eq!(journal.lock().unwrap().recover(|_, _| panic!("there was no run")).unwrap().living, Vec::new());
        locked.forget().unwrap();
        assert_eq!(journal.roots().unwrap(), vec![]);
    }
}
