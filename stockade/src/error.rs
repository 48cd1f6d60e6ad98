//! The errors of this crate.

use std::fmt;
use std::path::PathBuf;

use stockade_config::{ConfigError, Origin};
use stockade_core::{ApproverError, AuditError, RunError};
use stockade_execpolicy::RulesError;
use stockade_protocol::{AbsPath, Invalid};

use crate::platform::NoSuchEngine;

/// Why a session could not be started, or a request failed. A refusal is not an error: it is an
/// [`Outcome`](crate::Outcome).
///
/// Its `Debug` form is the message with its causes, which a `main` that returns this error prints.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The working directory of this process can't be determined.
    #[error("the working directory can't be found")]
    NoDirectory(#[source] std::io::Error),
    /// A named directory is not a directory.
    #[error("`{}` is no directory", .path.display())]
    NotADirectory {
        /// As given.
        path: PathBuf,
    },
    /// A directory that this user may not enter.
    #[error("you can't enter the directory `{}`: name one that you may enter, or have its permissions changed", .path.display())]
    OutOfReach {
        /// As given.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A link given as the workspace leads to a home directory or to the root.
    #[error("`{}` links to your home directory or to the root; name `{target}` as the workspace to use it anyway", .path.display())]
    LeadsHome {
        /// The link.
        path: PathBuf,
        /// Its target.
        target: AbsPath,
    },
    /// A command's own environment names a path that its session does not protect.
    #[error(
        "the command's environment names `{place}` as a place of credentials or of Stockade's own files, and the session was \
         opened without it: open another session with this environment (another name for `run --session`, a new start of an \
         agent), or leave the variable as it was"
    )]
    NotProtected {
        /// The path.
        place: AbsPath,
    },
    /// The working directory can't be the workspace unless it is named explicitly.
    #[error(
        "`{here}` can't be the workspace: {reason}; start in a project's directory, or name `{here}` as the workspace to use it anyway"
    )]
    NotByAccident {
        /// The directory.
        here: AbsPath,
        /// Why not.
        reason: String,
    },
    /// Directories were made writable in a read-only sandbox.
    #[error("`--writable` has no effect in a `read-only` sandbox ({origin}): pass `--sandbox workspace-write` as well")]
    NothingIsWritable {
        /// The origin of the sandbox setting.
        origin: Origin,
    },
    /// The network was restricted without a sandbox to enforce it.
    #[error(
        "`--network` has no effect without a sandbox of Stockade's own ({origin}): leave it out, or pass `--sandbox workspace-write`"
    )]
    NetworkIsOpen {
        /// The origin of the sandbox setting.
        origin: Origin,
    },
    /// The settings name a program with an empty path.
    #[error("a hook in the settings has no program")]
    NoHook,
    /// An invalid host.
    #[error("`{}` can't be allowed: {why}", .text.escape_debug())]
    Host {
        /// As given.
        text: String,
        /// Why not.
        why: String,
    },
    /// A timeout of zero, or one that is too long.
    #[error("the timeout is zero or too long")]
    Timeout,
    /// An invalid path, command or name.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Settings can't be read.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// Rules can't be read.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The approver program can't be used.
    #[error(transparent)]
    Approver(#[from] ApproverError),
    /// The trail is required and can't be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// This system has no such engine.
    #[error(transparent)]
    Engine(#[from] NoSuchEngine),
    /// The request failed.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// The error and its causes, in one line.
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_causes())
    }
}

/// An error and its causes, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_fails_prints_the_message_with_its_causes() {
        let error = Error::NoDirectory(std::io::Error::other("gone"));
        assert_eq!(format!("{error:?}"), "the working directory can't be found: gone");
    }
}
