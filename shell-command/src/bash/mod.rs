//! Finds the commands in bash text, with two independent parsers.
//!
//! A parser that misreads one quote lets a command through, so nothing here relies on a single reading.
//! [`grammar`](self) parses the text as bash does and gives up at the first construct it is not sure of; `tree` uses
//! tree-sitter, an independent implementation. The line is known in full only if both find the same commands at the
//! same positions. If they differ, or one gives up, the line is opaque and the commands of both are listed.

mod ansi_c;
mod compound;
mod cursor;
mod dollar;
mod grammar;
mod heredoc;
mod redirect;
mod tree;
mod word;

use std::collections::BTreeSet;

use stockade_protocol::Word;

use cursor::Parser;

/// Longer texts are not read at all. A heredoc that writes a source file fits; parsing stays well below seconds.
const LONGEST_TEXT: usize = 128 * 1024;

/// A longer text that the first reading doubts, or a line with more commands, is not read a second time, since it is
/// opaque anyway. Tree-sitter's error recovery takes quadratic time (22 s for 48 KB of `a=(`), and so do pipelines.
const LONGEST_DOUBTED_TEXT: usize = 2 * 1024;

/// Limit on the commands of a line, which bounds the list and the second reading.
pub(crate) const MOST_COMMANDS: usize = 500;

/// The result of both readings.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The commands in text order, each followed by the commands inside it.
    pub(crate) commands: Vec<Found>,
    /// Names that the line defines as functions.
    pub(crate) functions: BTreeSet<String>,
    /// Why the line may run more than `commands`.
    pub(crate) opaque: Option<String>,
}

/// A simple command as written, with wrappers not yet unwrapped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) words: Vec<FoundWord>,
    pub(crate) assigns: Vec<String>,
    pub(crate) writes: Vec<Word>,
    pub(crate) reads: Vec<Word>,
    /// The text of its standard input, if known (`<<'E'`, `<<<`).
    pub(crate) input: Input,
    pub(crate) via: Option<String>,
    /// Heredocs that belong to it, as indices into the parser's table: their text comes later.
    heredocs: Vec<usize>,
}

/// A word with its position, for comparing the two readings.
#[derive(Clone, Debug)]
pub(crate) struct FoundWord {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) word: Word,
    /// The most harmful possible expansion of an unknown word: `/` for `/*`.
    pub(crate) worst: Option<String>,
}

/// The standard input that the line itself provides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Input {
    #[default]
    None,
    Known(String),
    Unknown,
}

/// Why a text can't be known in full. The texts are shown in prompts: sentences that do not name their subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt(&'static str);

type Step<T> = Result<T, Doubt>;

/// Reads `text` with both parsers.
pub(crate) fn read(text: &str) -> Reading {
    if text.len() > LONGEST_TEXT {
        return Reading { opaque: Some("the line is too long to be read".into()), ..Reading::default() };
    }
    let mut parser = Parser::new(text);
    let outcome = parser.whole();
    let doubt = parser.doubt.or(outcome.err());
    let functions = std::mem::take(&mut parser.functions);
    let tame = tree::tame(text, &parser.hidden);
    let mut commands = parser.into_commands();
    let too_much = match doubt {
        Some(Doubt(why)) => (text.len() > LONGEST_DOUBTED_TEXT).then_some(why),
        None => (commands.len() > MOST_COMMANDS).then_some("the line has too many commands"),
    };
    if let Some(why) = too_much {
        return Reading { commands, functions, opaque: Some(why.to_owned()) };
    }
    let opaque = match tree::read(&tame) {
        Err(Doubt(why)) => Some(why),
        Ok(seen) => {
            let differs = doubt.is_none() && !seen.agrees_with(&commands);
            seen.add_unseen_to(&mut commands, text);
            doubt
                .map(|Doubt(why)| why)
                .or(seen.broken.then_some("the line has a syntax error"))
                .or(differs.then_some("two readings of the line differ"))
        }
    };
    Reading { commands, functions, opaque: opaque.map(str::to_owned) }
}

/// The value of a single word that only the second reading found.
fn lone_word(text: &str) -> Word {
    let mut parser = Parser::new(text);
    match parser.word() {
        Ok(Some(found)) if found.end == text.len() => found.word,
        Ok(_) | Err(_) => Word::Unknown,
    }
}
