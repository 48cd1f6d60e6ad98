//! A patch as text: a unified diff of any number of files, git's too, or the envelope of codex's `apply_patch`.
//!
//! Parsing is strict, as for a diff of one file. Changes that [`FileChange`] can't express (modes, links, copies,
//! binary contents, merges) are refused with their line, never dropped. The envelope has neither line numbers nor the
//! content of deleted files, so [`PatchText::changes`] reads the files and produces ordinary changes: exactly the
//! shown and approved changes are written.

mod envelope;
mod locate;
mod names;
mod unified;

#[cfg(test)]
mod tests;

use stockade_protocol::{AbsPath, FileChange, Invalid, RawText};

use crate::resolve::resolve;
use crate::{DiffError, PatchError, look};

/// A parsed patch.
///
/// ```
/// use stockade_apply_patch::PatchText;
///
/// let text = PatchText::parse(b"--- a/notes\n+++ b/notes\n@@ -1 +1 @@\n-one\n+1\n")?;
/// let changes = text.changes(&"/home/me".parse()?, |_| true)?;
/// assert!(changes.iter().flat_map(|change| change.paths()).eq([&"/home/me/notes".parse()?]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchText {
    changes: Vec<TextChange>,
}

/// One file, by its name in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextChange {
    Add {
        name: Vec<u8>,
        content: Vec<u8>,
    },
    Delete {
        name: Vec<u8>,
        /// The content according to the text; `None` if the text does not have it.
        content: Option<Vec<u8>>,
    },
    Update {
        name: Vec<u8>,
        update: Update,
        to: Option<Vec<u8>>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Update {
    /// A unified diff of this file.
    Diff(Vec<u8>),
    /// Chunks without line numbers.
    Chunks(Vec<locate::Chunk>),
}

/// Why a text is not a patch, or does not apply to these files. Lines of the text count from one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// There is no change in it.
    #[error("no change was found: give a unified diff, or a text that begins with `*** Begin Patch`")]
    Empty,
    /// A line that has no place in a patch.
    #[error("line {line}: expected {expected}")]
    Unexpected {
        /// The line.
        line: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// The text ends too early.
    #[error("the patch is cut: {missing}")]
    Cut {
        /// What is missing.
        missing: &'static str,
    },
    /// A change that `FileChange` can't express.
    #[error("line {line}: {what}")]
    Unsupported {
        /// The line.
        line: usize,
        /// What it is, and what to do.
        what: &'static str,
    },
    /// Two names for one file.
    #[error(
        "line {line}: the diff names `{old}` and `{new}`: make it with `git diff`, or with the names `a/FILE` and `b/FILE`"
    )]
    TwoNames {
        /// The line.
        line: usize,
        /// The first name.
        old: RawText,
        /// The second one.
        new: RawText,
    },
    /// A change without the name of a file.
    #[error("a change of the patch names no file")]
    NoName,
    /// An invalid file name.
    #[error("`{name}` can't be the name of a file")]
    Name {
        /// The name.
        name: RawText,
        /// Why.
        source: Invalid,
    },
    /// An invalid diff of one file.
    #[error("the diff of `{name}` can't be read")]
    Diff {
        /// The file's name.
        name: RawText,
        /// Why.
        source: DiffError,
    },
    /// A piece that is not in the file.
    #[error("piece {piece} for `{path}` is not in the file: read it again, and copy the old lines as they are")]
    NoMatch {
        /// The file.
        path: AbsPath,
        /// The piece, counted from one.
        piece: usize,
    },
    /// A piece that is in the file more than once.
    #[error(
        "piece {piece} for `{path}` is in the file more than once: add context, or an `@@` line that names a line above it"
    )]
    Ambiguous {
        /// The file.
        path: AbsPath,
        /// The piece, counted from one.
        piece: usize,
    },
    /// A piece that only adds lines, behind an `@@` line.
    #[error("piece {piece} for `{path}` has neither context nor removed lines: add a line of context")]
    NoContext {
        /// The file.
        path: AbsPath,
        /// The piece, counted from one.
        piece: usize,
    },
    /// The search for the pieces would take too long.
    #[error("`{path}` is too large to look for the pieces of the patch: give a unified diff")]
    TooLarge {
        /// The file.
        path: AbsPath,
    },
    /// The file has to be read to interpret the text, and may not be.
    #[error("`{path}` may not be read here, and no patch changes what may not be read")]
    Unreadable {
        /// The file.
        path: AbsPath,
    },
    /// The permission to read can't be determined.
    #[error("what may be read here can't be told: {why}")]
    Unsettled {
        /// The cause.
        why: String,
    },
    /// The file can't be read.
    #[error(transparent)]
    File(#[from] Box<PatchError>),
}

impl PatchText {
    /// Reads a patch.
    pub fn parse(text: &[u8]) -> Result<Self, TextError> {
        let mut lines = Lines::of(text);
        let changes = if envelope::is_one(&lines) { envelope::read(&mut lines)? } else { unified::read(&mut lines)? };
        if changes.is_empty() { Err(TextError::Empty) } else { Ok(Self { changes }) }
    }

    /// The changes, with names relative to a directory. A file has to be read if the text alone does not determine the
    /// change; `may_read` is called with its resolved path first.
    pub fn changes(
        &self,
        directory: &AbsPath,
        may_read: impl Fn(&AbsPath) -> bool,
    ) -> Result<Vec<FileChange>, TextError> {
        self.changes.iter().map(|change| change.at(directory, &may_read)).collect()
    }
}

impl TextChange {
    fn at(&self, directory: &AbsPath, may_read: &dyn Fn(&AbsPath) -> bool) -> Result<FileChange, TextError> {
        let content_of = |path: &AbsPath| {
            let unreadable = || TextError::Unreadable { path: path.clone() };
            if !may_read(path) || !may_read(&resolve(path)) {
                return Err(unreadable());
            }
            let (resolved, content) = look(path).map_err(Box::new)?;
            if may_read(&resolved) { Ok(content) } else { Err(unreadable()) }
        };
        Ok(match self {
            Self::Add { name, content } => {
                FileChange::Add { path: path(directory, name)?, content: content.clone().into() }
            }
            Self::Delete { name, content } => {
                let path = path(directory, name)?;
                let content = match content {
                    Some(content) => content.clone(),
                    None => content_of(&path)?,
                };
                FileChange::Delete { path, content: content.into() }
            }
            Self::Update { name, update, to } => {
                let path_now = path(directory, name)?;
                let unified_diff = match update {
                    Update::Diff(diff) => diff.clone(),
                    // Only a move.
                    Update::Chunks(chunks) if chunks.is_empty() => Vec::new(),
                    Update::Chunks(chunks) => locate::diff(&path_now, &content_of(&path_now)?, chunks)?,
                };
                let move_path = to.as_ref().map(|name| path(directory, name)).transpose()?;
                FileChange::Update { path: path_now, unified_diff: unified_diff.into(), move_path }
            }
        })
    }
}

/// The path that a name stands for. `..` is refused.
fn path(directory: &AbsPath, name: &[u8]) -> Result<AbsPath, TextError> {
    let name = RawText::from(name.to_vec());
    let is_absolute = name.as_bytes().first() == Some(&b'/');
    let path = if is_absolute { AbsPath::parse(name.clone()) } else { directory.join(name.clone()) };
    match path {
        Ok(path) if path != *directory => Ok(path),
        Ok(_) => Err(TextError::NoName),
        Err(source) => Err(TextError::Name { name, source }),
    }
}

/// The lines of a text, with their ends.
struct Lines<'a> {
    lines: Vec<&'a [u8]>,
    /// The index of the next line, and so the number of the last one that was taken.
    next: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { lines: text.split_inclusive(|byte| *byte == b'\n').collect(), next: 0 }
    }

    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.next).copied()
    }

    /// The line after the next one.
    fn peek_second(&self) -> Option<&'a [u8]> {
        self.lines.get(self.next + 1).copied()
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    /// The rest of the next line behind a prefix, if it has it.
    fn take_after(&mut self, prefix: &str) -> Option<&'a [u8]> {
        let rest = self.peek()?.strip_prefix(prefix.as_bytes())?;
        self.next += 1;
        Some(without_end(rest))
    }

    fn unexpected(&self, expected: &'static str) -> TextError {
        TextError::Unexpected { line: self.next + 1, expected }
    }
}

/// A line without its terminator.
fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}
