//! Restrictions that a user can agree to run without, by name.
//!
//! A sandbox that can't enforce a part of a policy refuses it. A user who prefers to run without that part accepts the
//! loss by the name in the refusal. Each system has its own names; a file may list those of several systems.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// Something that a sandbox may not be able to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LossName {
    /// Linux, engine `landlock`: metadata in a writable directory (`.git`, …) can be written.
    ProtectedMetadata,
    /// Linux, engine `landlock`: what is read-only inside a writable directory can be written.
    ReadOnlyParts,
    /// Linux, engine `landlock`: well-known credentials can be read.
    Credentials,
    /// Linux, engine `landlock`: what was denied below a readable directory can be read.
    DeniedReads,
    /// Linux, engine `landlock`: there is no private `/tmp`.
    PrivateDirectories,
    /// Linux, engine `landlock`: modes, owners and times of every file that the user owns can be changed.
    FileAttributes,
    /// macOS: the system fetches what certificates name, past the proxy.
    CertificateFetches,
    /// Windows: programs that do not ask the proxy reach every destination.
    DirectConnections,
}

impl LossName {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::ProtectedMetadata,
        Self::ReadOnlyParts,
        Self::Credentials,
        Self::DeniedReads,
        Self::PrivateDirectories,
        Self::FileAttributes,
        Self::CertificateFetches,
        Self::DirectConnections,
    ];

    /// The name, as files, flags and reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProtectedMetadata => "protected_metadata",
            Self::ReadOnlyParts => "read_only_parts",
            Self::Credentials => "credentials",
            Self::DeniedReads => "denied_reads",
            Self::PrivateDirectories => "private_directories",
            Self::FileAttributes => "file_attributes",
            Self::CertificateFetches => "certificate_fetches",
            Self::DirectConnections => "direct_connections",
        }
    }

    /// The consequence of the loss, for messages.
    pub fn consequence(self) -> &'static str {
        match self {
            Self::ProtectedMetadata => "metadata such as .git can be written in writable directories",
            Self::ReadOnlyParts => "what is read-only inside a writable directory can be written",
            Self::Credentials => "well-known credentials can be read",
            Self::DeniedReads => "what was denied below a readable directory can be read",
            Self::PrivateDirectories => "there is no private /tmp",
            Self::FileAttributes => "modes, owners and times of every file of this user can be changed",
            Self::CertificateFetches => "what certificates name is fetched past the proxy",
            Self::DirectConnections => "programs that do not ask the proxy reach every destination",
        }
    }
}

impl fmt::Display for LossName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        use serde::de::IntoDeserializer as _;
        use serde::de::value::{Error, StrDeserializer};

        for loss in LossName::ALL {
            let name: StrDeserializer<'_, Error> = loss.name().into_deserializer();
            assert_eq!(LossName::deserialize(name), Ok(loss));
        }
    }
}
