//! Where a value of the settings comes from.

use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// No source sets it.
    Default,
    /// The administrator's file.
    System(PathBuf),
    /// The user's file.
    User(PathBuf),
    /// The project's file.
    Project(PathBuf),
    /// A profile of a file.
    Profile {
        /// Its name.
        name: String,
        /// The file that has it.
        file: PathBuf,
    },
    /// The command line.
    Flag,
    /// The administrator's maximum, which the value would have exceeded.
    Maximum(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::System(file) | Self::User(file) | Self::Project(file) => write!(f, "{}", file.display()),
            Self::Profile { name, file } => write!(f, "profile `{name}` in {}", file.display()),
            Self::Flag => f.write_str("command line"),
            Self::Maximum(file) => write!(f, "administrator's maximum in {}", file.display()),
        }
    }
}
