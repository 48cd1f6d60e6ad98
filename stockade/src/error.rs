//! Why a session could not be started, or a request could not be carried out.

use std::path::PathBuf;

use stockade_config::{ConfigError, Origin};
use stockade_core::{ApproverError, AuditError, RunError};
use stockade_execpolicy::RulesError;
use stockade_protocol::{AbsPath, Invalid};

use crate::platform::NoSuchEngine;

/// Why a session could not be started, or a request could not be carried out. A refusal is no error: it is an
/// [`Outcome`](crate::Outcome).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The working directory of this process is gone or can't be read.
    #[error("the working directory can't be found")]
    NoDirectory(#[source] std::io::Error),
    /// A directory that was named is none.
    #[error("`{}` is no directory", .path.display())]
    NotADirectory {
        /// As it was named.
        path: PathBuf,
    },
    /// A directory that this user may not enter.
    #[error("you can't enter the directory `{}`: name one that you may enter, or have its permissions changed", .path.display())]
    OutOfReach {
        /// As it was named.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A link in the place of a workspace leads to a home directory or to the root.
    #[error("`{}` links to your home directory or to the root; pass `--workspace {target}` to use it anyway", .path.display())]
    LeadsHome {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: AbsPath,
    },
    /// A command's own environment names what its session does not protect.
    #[error(
        "the command's environment names `{place}` as a place of credentials or of Stockade's own files, and the session was \
         opened without it: open another session with this environment (another name for `run --session`, a new start of an \
         agent), or leave the variable as it was"
    )]
    NotProtected {
        /// What it names.
        place: AbsPath,
    },
    /// The working directory can't be the workspace unless it is named as one.
    #[error(
        "`{here}` can't be the workspace: {reason}; start in a project's directory, or pass `--workspace {here}` to use it anyway"
    )]
    NotByAccident {
        /// The directory.
        here: AbsPath,
        /// Why not.
        reason: String,
    },
    /// Directories were made writable in a sandbox without any.
    #[error("`--writable` has no effect in a `read-only` sandbox ({origin}): pass `--sandbox workspace-write` as well")]
    NothingIsWritable {
        /// Where the sandbox comes from.
        origin: Origin,
    },
    /// The network was restricted without a sandbox that could.
    #[error(
        "`--network` has no effect without a sandbox of Stockade's own ({origin}): leave it out, or pass `--sandbox workspace-write`"
    )]
    NetworkIsOpen {
        /// Where the sandbox comes from.
        origin: Origin,
    },
    /// A program that the settings name has no name.
    #[error("a hook in the settings has no program")]
    NoHook,
    /// A host can't be one.
    #[error("`{}` can't be allowed: {why}", .text.escape_debug())]
    Host {
        /// As it was named.
        text: String,
        /// Why not.
        why: String,
    },
    /// A timeout of nothing, or longer than can be counted.
    #[error("the timeout is zero or too long")]
    Timeout,
    /// A path, a command or a name can't be one.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// Settings can't be read.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// Rules can't be read.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The program that answers in a person's place can't be used.
    #[error(transparent)]
    Approver(#[from] ApproverError),
    /// The trail is required and can't be written.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// This system has no such engine.
    #[error(transparent)]
    Engine(#[from] NoSuchEngine),
    /// The request could not be carried out.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Error {
    /// The error and what led to it, in one line.
    pub fn with_causes(&self) -> String {
        with_causes(self)
    }
}

/// An error and what led to it, in one line.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message = format!("{message}: {error}");
        cause = error.source();
    }
    message
}
