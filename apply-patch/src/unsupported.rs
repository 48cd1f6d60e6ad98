//! Systems where patches are refused.
//!
//! On Windows only the native API can open a path component by component without following reparse points. Until that
//! is implemented, no value of these types can exist there.

use std::convert::Infallible;

use stockade_protocol::{AbsPath, FileChange, ResolvedPath};

use crate::{Applied, ApplyError, PatchError, PreparedFile};

/// Writable directories; none can be opened on this system.
#[derive(Clone, Debug)]
pub struct Roots(Infallible);

/// A patch that can be applied; none can be made on this system.
#[derive(Debug)]
pub struct Prepared(Infallible);

impl Roots {
    /// Always [`PatchError::Unsupported`].
    pub fn open<'a>(_roots: impl IntoIterator<Item = &'a AbsPath>) -> Result<Self, PatchError> {
        Err(PatchError::Unsupported)
    }
}

/// Never called, since there are no roots.
pub fn prepare(
    _changes: &[FileChange],
    roots: &Roots,
    _may_write: impl Fn(&AbsPath) -> bool,
) -> Result<Prepared, PatchError> {
    match roots.0 {}
}

/// Always [`PatchError::Unsupported`].
pub(crate) fn look(_path: &AbsPath) -> Result<(AbsPath, Vec<u8>), PatchError> {
    Err(PatchError::Unsupported)
}

impl Prepared {
    /// The files, in the order in which they are written.
    pub fn files(&self) -> std::iter::Empty<PreparedFile<'_>> {
        match self.0 {}
    }

    /// The paths that differ when resolved.
    pub fn resolved_paths(&self) -> Vec<ResolvedPath> {
        match self.0 {}
    }

    /// Writes the files.
    pub fn apply(self) -> Result<Applied, ApplyError> {
        match self.0 {}
    }
}
