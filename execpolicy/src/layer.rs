//! The owners of rules.

use std::fmt;

/// The owner of a rule, in order of authority.
///
/// Layers do not override each other: every matching rule counts and the strictest wins, so a later
/// layer can restrict what an earlier one allows and can never allow what an earlier one restricts.
/// The order decides which `host_executable` list counts (the first layer that names a program) and
/// in which order matches are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The administrator of the machine.
    System,
    /// The user.
    User,
    /// The project that is being worked on, if it is trusted.
    Project,
    /// Files named for this run alone.
    Session,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::System => "system",
            Self::User => "user",
            Self::Project => "project",
            Self::Session => "session",
        })
    }
}
