//! Why something could not be added to the trail, or the trail could not be read.

use std::io;
use std::path::PathBuf;

/// What keeps a trail from being written or read. A run that requires the trail is refused with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The system refused.
    #[error("could not {act} the audit trail `{}`", .path.display())]
    Io {
        /// What was tried, such as `open`.
        act: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file or its directory is one that somebody else may have put there or may change.
    #[error("the audit trail `{}` {why}", .path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: String,
    },
    /// There is no directory for state.
    #[error("the audit trail has no place: set `XDG_STATE_HOME` or `HOME` to an absolute path")]
    NoPlace,
    /// A record that has no written form.
    #[error("could not write a record as JSON")]
    Render(#[from] serde_json::Error),
}
