//! Errors, each with its path.

use std::fmt;
use std::io;

use stockade_protocol::AbsPath;

use crate::DiffError;

/// Why a patch is refused. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The path is below no root.
    #[error("`{path}` leads to `{resolved}`, which is below no directory that may be written")]
    OutsideRoots {
        /// The path as given.
        path: AbsPath,
        /// The path with all symbolic links resolved.
        resolved: AbsPath,
    },
    /// The path is below a root, but the policy does not let it be written.
    #[error("`{path}` leads to `{resolved}`, which the policy does not let be written")]
    Protected {
        /// The path as given.
        path: AbsPath,
        /// The resolved path.
        resolved: AbsPath,
    },
    /// A component of the path is a symbolic link.
    #[error("`{path}` leads through a symbolic link to `{resolved}`: name that file if it is meant")]
    Link {
        /// The path as given.
        path: AbsPath,
        /// The path with all symbolic links resolved.
        resolved: AbsPath,
    },
    /// A directory, device, pipe or socket.
    #[error("`{path}` is {kind}, not a file")]
    NotAFile {
        /// The path as given.
        path: AbsPath,
        /// The kind of the file.
        kind: &'static str,
    },
    /// A component of the path is not a directory.
    #[error("something on the way to `{path}` is not a directory")]
    NotADirectory {
        /// The path as given.
        path: AbsPath,
    },
    /// The file to be changed or deleted is not there.
    #[error("`{path}` does not exist")]
    Missing {
        /// The path as given.
        path: AbsPath,
    },
    /// The file to be added, or the target of a move, exists already.
    #[error("`{path}` exists already: update it, or delete it first")]
    Exists {
        /// The path as given.
        path: AbsPath,
    },
    /// The file to be deleted has other contents than the change says.
    #[error("`{path}` does not hold what the patch says it deletes: read it again")]
    OtherContent {
        /// The path as given.
        path: AbsPath,
    },
    /// The diff can't be read or does not fit.
    #[error("can't change `{path}`")]
    Diff {
        /// The path as given.
        path: AbsPath,
        /// Why.
        source: DiffError,
    },
    /// An update that neither changes nor moves the file.
    #[error("the update of `{path}` changes nothing")]
    NoChange {
        /// The path as given.
        path: AbsPath,
    },
    /// Two changes of one patch have the same path, or one needs the other's file as its directory.
    #[error("the patch changes `{path}` more than once")]
    Overlap {
        /// The path as given the second time.
        path: AbsPath,
    },
    /// The contents exceed the limit.
    #[error("`{path}` makes the patch larger than {limit} bytes")]
    TooLarge {
        /// The path as given.
        path: AbsPath,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file, a directory on its path, or the root has changed since the patch was prepared.
    #[error("`{path}` was changed by another program since the patch was prepared: prepare it again")]
    Changed {
        /// The path.
        path: AbsPath,
    },
    /// The new file can't keep the old one's owner or access control list.
    #[error("can't keep owner and permissions of `{path}`")]
    Ownership {
        /// The path.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// A root that is not a directory.
    #[error("`{path}` can't be a root: {problem}")]
    Root {
        /// The root.
        path: AbsPath,
        /// Why.
        problem: String,
    },
    /// The operating system refused.
    #[error("can't {act} `{path}`")]
    System {
        /// The operation that failed.
        act: &'static str,
        /// The path.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// This system can't write below a directory without following links.
    #[error("patches can't be written safely on this system: apply them in the sandbox")]
    Unsupported,
}

/// A patch that failed while it was written, and the state of each file.
#[derive(Debug, thiserror::Error)]
pub struct ApplyError {
    /// Why.
    #[source]
    pub cause: Box<PatchError>,
    /// Files that could not be restored and have their new contents.
    pub written: Vec<AbsPath>,
    /// Files that were written and restored.
    pub restored: Vec<AbsPath>,
    /// Files that were not reached.
    pub untouched: Vec<AbsPath>,
    /// Temporary files and new directories that could not be removed.
    pub leftovers: Vec<AbsPath>,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the patch was not applied")?;
        let lists = [
            ("; still written", &self.written),
            ("; put back", &self.restored),
            ("; untouched", &self.untouched),
            ("; left behind", &self.leftovers),
        ];
        for (words, paths) in lists.into_iter().filter(|(_, paths)| !paths.is_empty()) {
            let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
            write!(f, "{words}: {}", paths.join(", "))?;
        }
        Ok(())
    }
}
