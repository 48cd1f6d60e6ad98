//! The commands of a shell line, as far as they can be determined without running it.
//!
//! `stockade-shell-command` writes these, `stockade-execpolicy` judges them, and a prompt shows them. A line is known
//! only as well as its least known part: [`ParsedLine::opaque`] gives the reason why a line may run more. Such a line
//! is never allowed without asking, while a forbidden command found in it stays forbidden.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Argv, RawText};

/// Every command that a line may run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParsedLine {
    /// The commands, in the order of the text; those found inside another stand right behind it.
    pub commands: Vec<ParsedCommand>,
    /// Why the line may run more than `commands`, if it may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<String>,
}

/// One command of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParsedCommand {
    /// The program and its arguments.
    pub words: Vec<Word>,
    /// Whether it does something itself.
    #[serde(default)]
    pub role: CommandRole,
    /// Names of the variables that are set for it alone (`A=1 git status`, `env A=1 …`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigns: Vec<String>,
    /// Files that its output is redirected to. `/dev/null` and other descriptors do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<Word>,
    /// Files that its input is redirected from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Word>,
    /// What it was found inside of, when it does not stand in the line itself: `bash -c`,
    /// `find -exec`, `trap`, a substitution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
}

/// Whether a command does something itself or only starts another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommandRole {
    /// It does its own work and is judged in full.
    #[default]
    Runs,
    /// It only starts the command behind it with the same rights (`timeout 5 git status`). That one
    /// is judged in its place; rules that restrict the wrapper still count.
    Wrapper,
}

/// One word of a command after quotes and escapes are gone.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Word {
    /// The word will be exactly this.
    Known(RawText),
    /// The word is made while the line runs (`$x`, `$(date)`, a glob); it may even become several.
    Unknown,
}

impl ParsedLine {
    /// A single command that is known in full, such as an argv that no shell is involved in.
    pub fn single(argv: &Argv) -> Self {
        let words = argv.words().iter().cloned().map(Word::Known).collect();
        Self { commands: vec![ParsedCommand { words, ..ParsedCommand::default() }], opaque: None }
    }
}

impl ParsedCommand {
    /// The words, if all of them are known.
    pub fn known_words(&self) -> Option<Vec<&RawText>> {
        self.words.iter().map(Word::known).collect()
    }

    /// Whether the command is just its words: all known, no assignments, no file written. Only such a command may be
    /// allowed by a rule.
    pub fn is_plain(&self) -> bool {
        !self.words.is_empty()
            && self.words.iter().all(|word| word.known().is_some())
            && self.assigns.is_empty()
            && self.writes.is_empty()
    }
}

impl Word {
    /// The text, if it is known.
    pub fn known(&self) -> Option<&RawText> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown => None,
        }
    }

    /// The text, if it is known and UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        self.known().and_then(RawText::as_str)
    }
}

impl<T: Into<RawText>> From<T> for Word {
    fn from(text: T) -> Self {
        Self::Known(text.into())
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(text) => text.fmt(f),
            Self::Unknown => f.write_str("…"),
        }
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}
