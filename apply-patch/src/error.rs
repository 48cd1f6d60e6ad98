//! What can go wrong, with the path it went wrong at.

use std::fmt;
use std::io;

use stockade_protocol::AbsPath;

use crate::DiffError;

/// Why a patch is refused. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// No root holds the path.
    #[error("`{path}` leads to `{resolved}`, which is below no directory that may be written")]
    OutsideRoots {
        /// As it was given.
        path: AbsPath,
        /// Where it leads, with all symbolic links followed.
        resolved: AbsPath,
    },
    /// The path is below a root, but the policy does not let it be written.
    #[error("`{path}` leads to `{resolved}`, which the policy does not let be written")]
    Protected {
        /// As it was given.
        path: AbsPath,
        /// Where it leads.
        resolved: AbsPath,
    },
    /// A symbolic link stands in the way.
    #[error("`{path}` leads through a symbolic link to `{resolved}`: name that file if it is meant")]
    Link {
        /// As it was given.
        path: AbsPath,
        /// Where it leads, with all symbolic links followed.
        resolved: AbsPath,
    },
    /// A directory, device, pipe or socket.
    #[error("`{path}` is {kind}, not a file")]
    NotAFile {
        /// As it was given.
        path: AbsPath,
        /// What it is.
        kind: &'static str,
    },
    /// Something on the way is a file.
    #[error("something on the way to `{path}` is not a directory")]
    NotADirectory {
        /// As it was given.
        path: AbsPath,
    },
    /// The file to be changed or deleted is not there.
    #[error("`{path}` does not exist")]
    Missing {
        /// As it was given.
        path: AbsPath,
    },
    /// The file to be added, or the place to move to, is there already.
    #[error("`{path}` exists already: update it, or delete it first")]
    Exists {
        /// As it was given.
        path: AbsPath,
    },
    /// The file to be deleted holds something else than was seen.
    #[error("`{path}` does not hold what the patch says it deletes: read it again")]
    OtherContent {
        /// As it was given.
        path: AbsPath,
    },
    /// The diff can't be read or does not fit.
    #[error("can't change `{path}`")]
    Diff {
        /// As it was given.
        path: AbsPath,
        /// Why.
        source: DiffError,
    },
    /// An update that neither changes nor moves the file.
    #[error("the update of `{path}` changes nothing")]
    NoChange {
        /// As it was given.
        path: AbsPath,
    },
    /// Two changes of one patch meet at one path, or one needs the other's file as its directory.
    #[error("the patch changes `{path}` more than once")]
    Overlap {
        /// As it was given the second time.
        path: AbsPath,
    },
    /// More than is held in memory.
    #[error("`{path}` makes the patch larger than {limit} bytes")]
    TooLarge {
        /// As it was given.
        path: AbsPath,
        /// How many bytes there may be.
        limit: u64,
    },
    /// The file, a directory on its way, or the root is another one than when the patch was prepared.
    #[error("`{path}` was changed by somebody else since the patch was prepared: prepare it again")]
    Changed {
        /// Where.
        path: AbsPath,
    },
    /// The new file would belong to somebody else than the old one, or lose its access control list.
    #[error("can't keep owner and permissions of `{path}`")]
    Ownership {
        /// Where.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// A root that is no directory of this host.
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
        /// What was tried.
        act: &'static str,
        /// Where.
        path: AbsPath,
        /// Why.
        source: io::Error,
    },
    /// This system has no way to write below a directory without following links.
    #[error("patches can't be written safely on this system: apply them in the sandbox")]
    Unsupported,
}

/// A patch that failed while it was written, and what has become of each file.
#[derive(Debug, thiserror::Error)]
pub struct ApplyError {
    /// Why.
    #[source]
    pub cause: Box<PatchError>,
    /// Files that hold their new contents: they could not be put back.
    pub written: Vec<AbsPath>,
    /// Files that had been written and were put back as they were.
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
