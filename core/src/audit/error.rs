//! Why something could not be added to the trail, or the trail could not be read.

use std::io;
use std::path::{Path, PathBuf};

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
    /// The file or its directory is one that another user may have put there or may change.
    #[error("the audit trail `{}` {why}", .path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: &'static str,
    },
    /// Another writer does not finish.
    #[error("the audit trail `{}` is held by another process for more than {seconds} seconds", .path.display())]
    Busy {
        /// The file that is locked.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// The end of the trail can't be found, so there is nothing to go on from.
    #[error("the audit trail `{}` is damaged and can't be continued: look at it, then move it away", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// One record is larger than a trail takes.
    #[error("a record of {bytes} bytes is larger than an audit trail takes")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// There is no directory for state.
    #[error("the audit trail has no place: set `XDG_STATE_HOME` or `HOME` to an absolute path")]
    NoPlace,
    /// A record that has no written form.
    #[error("could not write a record as JSON")]
    Render(#[from] serde_json::Error),
}

impl AuditError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }
}
