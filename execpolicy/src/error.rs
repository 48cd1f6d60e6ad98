//! Errors of rules files, with the file and the fix.

use std::io;
use std::path::PathBuf;

use stockade_protocol::{Argv, RawText};

use crate::Diagnostic;

/// Rules could not be read, parsed or saved. There is no policy then: a policy without one of its files would allow
/// what the file forbids.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesError {
    /// The text of a file is not a valid set of rules.
    #[error("{0}")]
    Invalid(Box<Diagnostic>),
    /// A file or directory could not be read.
    #[error("cannot read `{}`", shown(.path))]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something other than a regular file has the name of a rules file.
    #[error("`{}` is {what}, not a regular file: move it away or replace it by the rules themselves", shown(.path))]
    NotAFile {
        /// Which one.
        path: PathBuf,
        /// The kind of file.
        what: &'static str,
    },
    /// A file exceeds the size limit.
    #[error("`{}` is larger than {limit} bytes: split it into several files", shown(.path))]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// A file that is not text.
    #[error("`{}` is not UTF-8 text at byte {offset}", shown(.path))]
    NotText {
        /// Which one.
        path: PathBuf,
        /// The offset of the first invalid byte.
        offset: usize,
    },
    /// A rule could not be saved. The file is as it was.
    #[error("cannot {act} `{}`", shown(.path))]
    Save {
        /// The operation that failed.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A prefix that can't be written in a rules file.
    #[error("`{prefix}` cannot be saved as a rule: `{word}` is not UTF-8 text")]
    Unwritable {
        /// The whole prefix.
        prefix: Argv,
        /// The word in question.
        word: RawText,
    },
    /// An allow rule that a stricter rule of the same file overrides.
    #[error("saving `{prefix}` would change nothing: {rule} at {origin} is stricter")]
    Restricted {
        /// The command to be allowed, or the host.
        prefix: RawText,
        /// The rule that stays in force.
        rule: String,
        /// The position of that rule.
        origin: String,
    },
}

impl From<Diagnostic> for RulesError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::Invalid(Box::new(diagnostic))
    }
}

/// A path for a message: on one line, with control characters escaped.
fn shown(path: &std::path::Path) -> RawText {
    path.as_os_str().as_encoded_bytes().to_vec().into()
}
