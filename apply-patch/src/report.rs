//! What is said about a patch before and after it is written.

use stockade_protocol::{AbsPath, ResolvedPath};

/// One file of a prepared patch. A move is two: the new file and the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedFile<'a> {
    /// As it was given, and where it is.
    pub path: &'a ResolvedPath,
    /// What is in it now; `None` if it does not exist.
    pub before: Option<&'a [u8]>,
    /// What will be in it; `None` if it goes away.
    pub after: Option<&'a [u8]>,
}

/// A patch that was written, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The files that were written or removed, by their resolved paths.
    pub paths: Vec<AbsPath>,
    /// Old contents under temporary names that could not be removed.
    pub leftovers: Vec<AbsPath>,
}
