//! Descriptions of a patch before and after it is written.

use stockade_protocol::{AbsPath, ResolvedPath};

/// One file of a prepared patch. A move is two: the new file and the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedFile<'a> {
    /// The given and the resolved path.
    pub path: &'a ResolvedPath,
    /// The current contents; `None` if it does not exist.
    pub before: Option<&'a [u8]>,
    /// The new contents; `None` if it is removed.
    pub after: Option<&'a [u8]>,
}

/// A completely written patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The files that were written or removed, by their resolved paths.
    pub paths: Vec<AbsPath>,
    /// Old contents under temporary names that could not be removed.
    pub leftovers: Vec<AbsPath>,
}
