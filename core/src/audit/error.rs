//! Errors of the audit trail.

use std::io;
use std::path::{Path, PathBuf};

/// Why a trail can't be written or read. A run that requires the trail is refused with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The system refused.
    #[error("could not {act} the audit trail `{}`", .path.display())]
    Io {
        /// The operation, such as `open`.
        act: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another user may have planted the file or directory, or may change it.
    #[error("the audit trail `{}` {why}", .path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: &'static str,
    },
    /// Another writer holds the lock for too long.
    #[error("the audit trail `{}` is held by another process for more than {seconds} seconds", .path.display())]
    Busy {
        /// The file that is locked.
        path: PathBuf,
        /// The time waited.
        seconds: u64,
    },
    /// The end of the trail can't be found, so it can't be continued.
    #[error("the audit trail `{}` is damaged and can't be continued: look at it, then move it away", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A record exceeds the size limit.
    #[error("a record of {bytes} bytes is larger than an audit trail takes")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// There is no directory for state.
    #[error("the audit trail has no place: set `XDG_STATE_HOME` or `HOME` to an absolute path")]
    NoPlace,
    /// A record can't be serialized.
    #[error("could not write a record as JSON")]
    Render(#[from] serde_json::Error),
}

impl AuditError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }
}
