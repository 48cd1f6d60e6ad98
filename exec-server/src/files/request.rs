//! What the helper is asked, and what it answers: JSON between this program and itself.

use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;

use crate::message::base64_bytes;

/// An operation on files. It is an argument of the helper, so the trail says what was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum FileRequest {
    /// What is there.
    Metadata { path: AbsPath, links: Links },
    /// The content of a file.
    Read { path: AbsPath, links: Links },
    /// Blocks of a file, as standard input asks for them: `OFFSET LENGTH` a line.
    Blocks { path: AbsPath },
    /// Replaces the content of a file by what comes on standard input.
    Write { path: AbsPath, links: Links },
    /// Makes a directory.
    MakeDirectory { path: AbsPath, recursive: bool, links: Links },
    /// The path without links.
    Canonicalize { path: AbsPath },
    /// What is in a directory.
    List { path: AbsPath },
    /// What is in a directory and below it.
    Walk { path: AbsPath, options: WalkOptions },
    /// Removes a file or a directory.
    Remove { path: AbsPath, recursive: bool, force: bool, links: Links },
    /// Copies a file or a directory.
    Copy { from: AbsPath, to: AbsPath, recursive: bool },
}

impl FileRequest {
    /// Whether it changes something.
    pub(crate) fn writes(&self) -> bool {
        match self {
            Self::Metadata { .. }
            | Self::Read { .. }
            | Self::Blocks { .. }
            | Self::Canonicalize { .. }
            | Self::List { .. }
            | Self::Walk { .. } => false,
            Self::Write { .. } | Self::MakeDirectory { .. } | Self::Remove { .. } | Self::Copy { .. } => true,
        }
    }
}

/// What happens at a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Links {
    /// It is followed.
    Follow,
    /// The operation fails, wherever in the path it is.
    Refuse,
}

/// The bounds of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WalkOptions {
    pub(crate) max_depth: usize,
    pub(crate) max_directories: usize,
    pub(crate) max_entries: usize,
    pub(crate) follow_directory_symlinks: bool,
    #[serde(default)]
    pub(crate) prune_hidden_directories: bool,
}

/// What the helper answers, in one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileReply {
    Done {},
    Metadata(Metadata),
    Content {
        #[serde(with = "base64_bytes")]
        bytes: Vec<u8>,
    },
    Block {
        #[serde(with = "base64_bytes")]
        bytes: Vec<u8>,
        eof: bool,
    },
    Path(AbsPath),
    Entries(Vec<Entry>),
    Walk(Walk),
    Failed(FileFailure),
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) is_directory: bool,
    pub(crate) is_file: bool,
    pub(crate) is_symlink: bool,
    pub(crate) size: u64,
    pub(crate) created_at_ms: i64,
    pub(crate) modified_at_ms: i64,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) file_name: String,
    pub(crate) is_directory: bool,
    pub(crate) is_file: bool,
}

/// What a walk found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Walk {
    pub(crate) entries: Vec<(AbsPath, WalkedKind)>,
    pub(crate) errors: Vec<(AbsPath, String)>,
    pub(crate) truncated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WalkedKind {
    Directory,
    File,
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileFailure {
    pub(crate) kind: FailureKind,
    pub(crate) message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailureKind {
    NotFound,
    /// The request does not fit what is there.
    Invalid,
    /// This user, or the sandbox, may not.
    Denied,
    Other,
}
