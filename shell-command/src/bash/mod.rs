//! Bash text to the commands in it, read twice.
//!
//! A parser that misreads one quote lets a command through, so nothing here rests on a single
//! reading. [`grammar`](self) reads the text as bash does and gives up at the first thing that it
//! is not sure of; `tree` asks tree-sitter, written by other people from another point of view.
//! Only where both find the same commands at the same places is the line known in full. Where they
//! differ, or one gives up, the line is opaque and the commands that either of them saw are listed.

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

/// Longer texts are not read at all. A heredoc that writes a source file fits; a parser that can be
/// kept busy for seconds does not.
const LONGEST_TEXT: usize = 128 * 1024;

/// A longer text that the first reading doubts, or a line of more commands, is not read a second time. Tree-sitter
/// takes time with the square of the length where it recovers from errors (22 s for 48 KB of `a=(`), and in pipelines;
/// the line is opaque anyway.
const LONGEST_DOUBTED_TEXT: usize = 2 * 1024;

/// More commands than a person can judge. It bounds the list, and the second reading.
pub(crate) const MOST_COMMANDS: usize = 500;

/// What the two readings found.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The commands in the order of the text, those inside another right behind it.
    pub(crate) commands: Vec<Found>,
    /// Names that the line defines as functions.
    pub(crate) functions: BTreeSet<String>,
    /// Why the line may run more than `commands`.
    pub(crate) opaque: Option<String>,
}

/// A simple command as it stands in the text: wrappers not yet looked into.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) words: Vec<FoundWord>,
    pub(crate) assigns: Vec<String>,
    pub(crate) writes: Vec<Word>,
    pub(crate) reads: Vec<Word>,
    /// Text that is handed to its input, where that is known (`<<'E'`, `<<<`).
    pub(crate) input: Input,
    pub(crate) via: Option<String>,
    /// Heredocs that belong to it, as indices into the parser's table: their text comes later.
    heredocs: Vec<usize>,
}

/// A word with its place, so that the two readings can be compared.
#[derive(Clone, Debug)]
pub(crate) struct FoundWord {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) word: Word,
    /// The most harmful thing that an unknown word can be seen to stand for: `/` for `/*`.
    pub(crate) worst: Option<String>,
}

/// What a command gets to read from the line itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Input {
    #[default]
    None,
    Known(String),
    Unknown,
}

/// Why a text can't be known in full. The texts are complete sentences without a subject's name,
/// since a person reads them in a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt(&'static str);

type Step<T> = Result<T, Doubt>;

/// Reads `text` both ways.
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

/// The value of a lone word, for words that only the second reading saw.
fn lone_word(text: &str) -> Word {
    let mut parser = Parser::new(text);
    match parser.word() {
        Ok(Some(found)) if found.end == text.len() => found.word,
        Ok(_) | Err(_) => Word::Unknown,
    }
}
