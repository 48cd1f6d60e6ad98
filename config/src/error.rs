//! Errors of settings files, with their position.

use std::io;
use std::path::{Path, PathBuf};

use stockade_protocol::{Invalid, RawText};

/// Why settings can't be loaded. A file is used completely or not at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The system refused.
    #[error("could not {act} `{}`", .path.display())]
    Io {
        /// The operation that failed.
        act: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file has an invalid value.
    #[error("{}:{line}:{column}: {problem}", .file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The place in the line, counted from 1.
        column: usize,
        /// What is wrong, with the key's path, and what to write instead.
        problem: String,
    },
    /// A file exceeds the size limit.
    #[error("`{}` is larger than {limit} bytes", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
    },
    /// A file or directory that another user may have planted or may change.
    #[error("`{}` {why}", .path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        why: &'static str,
    },
    /// No file has a profile of this name, which a flag names.
    #[error(
        "`--profile {name}`: no profile of the settings is called `{name}` (permission profiles are named with `--with`){suggestion}"
    )]
    UnknownProfile {
        /// The name.
        name: String,
        /// The known names.
        suggestion: String,
    },
    /// No permission profile has this name.
    #[error(
        "no permission profile is called `{name}`, which {place} names{suggestion} (`stockade profile list` has all of them)"
    )]
    UnknownPermissionProfile {
        /// The name.
        name: String,
        /// Where it is named.
        place: String,
        /// The known names.
        suggestion: String,
    },
    /// A permission profile that only the user may name.
    #[error(
        "the permission profile `{name}` can't be named by {place}: it lets a command act as you, so pass `--with {name}`, or put it into `with` of your own settings{or_rule}"
    )]
    OnlyWhenNamed {
        /// The name.
        name: String,
        /// Where it is named.
        place: String,
        /// What else may name it.
        or_rule: &'static str,
    },
    /// A project's permission profile has the name of another.
    #[error("`{file}` can't be called `{name}`, which is known without the project ({known}): give it another name")]
    ProfileTaken {
        /// The name.
        name: String,
        /// The project's file.
        file: String,
        /// Where the other comes from.
        known: String,
    },
    /// A line of a permission profile that can't be granted.
    #[error("the permission profile `{profile}` can't be granted: `{line}`: {why}")]
    ProfileLine {
        /// The profile.
        profile: String,
        /// The line, as it is written.
        line: String,
        /// Why not.
        why: String,
    },
    /// No socket of a permission profile is there: its agent does not run.
    #[error("the permission profile `{profile}` can't be granted: `{line}`: {why}")]
    NoAgent {
        /// The profile.
        profile: String,
        /// The line, as it is written.
        line: String,
        /// Why not.
        why: String,
    },
    /// A flag asks for more than the administrator allows.
    #[error("{key} `{wanted}` exceeds the administrator's maximum `{maximum}`, set in `{}`", .file.display())]
    ExceedsMaximum {
        /// The setting.
        key: &'static str,
        /// What was asked for.
        wanted: String,
        /// The maximum.
        maximum: String,
        /// The file with the maximum.
        file: PathBuf,
    },
    /// A flag grants something that the administrator does not allow.
    #[error("{key} `{wanted}` exceeds the administrator's maximum, set in `{}`", .file.display())]
    BeyondMaximum {
        /// The setting.
        key: &'static str,
        /// What was asked for.
        wanted: String,
        /// The file with the maximum.
        file: PathBuf,
    },
    /// A flag passes or sets a variable that the administrator excludes, or sets to another value.
    #[error("the variable `{name}` can't be set: the administrator's maximum in `{}` {act} it", .file.display())]
    MaximumOnVariable {
        /// The variable.
        name: String,
        /// What the maximum does with it: `excludes` or `sets`.
        act: &'static str,
        /// The file with the maximum.
        file: PathBuf,
    },
    /// A value that has no meaning on this host.
    #[error("{0}")]
    Value(#[from] Invalid),
    /// A variable that names a directory of the user in a way that may later lead elsewhere.
    #[error("`{name}` is `{value}`, which {why}: set it to an absolute path without `..`")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: RawText,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no directory for state.
    #[error(
        "there is no place for the state, such as the list of trusted projects: set `XDG_STATE_HOME` or `HOME` to an absolute path"
    )]
    NoPlace,
}

impl ConfigError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { act, path, source }
    }
}
