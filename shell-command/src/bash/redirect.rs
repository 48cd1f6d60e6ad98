//! Redirections: which files a command's input and output are bound to.

use stockade_protocol::Word;

use super::cursor::Parser;
use super::{Doubt, Found, Input, Step};

/// The use of the word after an operator. Longer operators precede their prefixes.
const OPERATORS: [(&str, Target); 12] = [
    ("<<<", Target::Text),
    ("<<-", Target::Heredoc),
    ("<<", Target::Heredoc),
    ("<&", Target::Descriptor),
    ("<>", Target::Write),
    ("<", Target::Read),
    ("&>>", Target::Write),
    ("&>", Target::Write),
    (">>", Target::Write),
    (">&", Target::Descriptor),
    (">|", Target::Write),
    (">", Target::Write),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Read,
    Write,
    /// Another descriptor if it is a number, else a file to write.
    Descriptor,
    /// The word itself is the input.
    Text,
    Heredoc,
}

impl Parser<'_> {
    /// Reads the redirection that begins here, if one does.
    pub(super) fn redirection(&mut self, command: &mut Found) -> Step<bool> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let after = self.rest().get(digits..).unwrap_or_default();
        let operator = OPERATORS.into_iter().find(|(operator, _)| after.starts_with(operator));
        let Some((operator, target)) = operator else { return Ok(false) };
        if after.starts_with("<(") || after.starts_with(">(") || (digits > 0 && operator.starts_with('&')) {
            // A process substitution begins a word, and `1&>f` is the word `1` to bash.
            return Ok(false);
        }
        let start = self.at;
        self.at += digits + operator.len();
        if target == Target::Heredoc {
            let index = self.heredoc_start(operator == "<<-")?;
            command.heredocs.push(index);
            self.hidden.push((start, self.at));
            return Ok(true);
        }
        self.skip_blanks();
        if target == Target::Descriptor && self.closes_and_goes_on() {
            return Err(Doubt("what stands behind `>&-` is a word of its own"));
        }
        let Some(found) = self.word()? else { return Err(Doubt("a redirection has no target")) };
        match target {
            Target::Read => read(command, found.word),
            Target::Write => write(command, found.word),
            Target::Descriptor if is_descriptor(&found.word) => {}
            // Bash expands the name of such a file twice, so that quotes protect nothing: `>& '$(a)'` runs `a`.
            Target::Descriptor if !is_plain(&found.word) => {
                return Err(Doubt("bash reads the name of this file twice"));
            }
            Target::Descriptor => write(command, found.word),
            Target::Text => {
                command.input = match found.word.as_str() {
                    Some(text) => Input::Known(text.to_owned()),
                    None => Input::Unknown,
                }
            }
            Target::Heredoc => {}
        }
        Ok(true)
    }
}

impl Parser<'_> {
    /// Whether bash ends the redirection at this hyphen, which closes a descriptor, and reads the rest as a new word:
    /// `a >& --b` runs `a -b`.
    fn closes_and_goes_on(&self) -> bool {
        let behind = self.rest().strip_prefix('-').and_then(|rest| rest.chars().next());
        behind.is_some_and(|c| !matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>'))
    }
}

fn is_descriptor(word: &Word) -> bool {
    word.as_str().is_some_and(|text| {
        let digits = text.strip_suffix('-').unwrap_or(text);
        !text.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether repeated expansion leaves a word unchanged.
fn is_plain(word: &Word) -> bool {
    word.as_str()
        .is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_./,:@%+=-".contains(&byte)))
}

fn read(command: &mut Found, word: Word) {
    // Bash opens a socket for these names, and an unknown word may be one.
    let harmless = word.as_str().is_some_and(|path| !is_socket(path));
    if !harmless {
        command.writes.push(word.clone());
    }
    command.reads.push(word);
}

/// Only `/dev/null` discards. `/dev/stdout`, `/dev/fd/3` and `/proc/self/fd/3` reopen the file of a descriptor for
/// writing, even one opened for reading: `3<f >/dev/fd/3` writes `f`.
fn write(command: &mut Found, word: Word) {
    if word.as_str() != Some("/dev/null") {
        command.writes.push(word);
    }
}

fn is_socket(path: &str) -> bool {
    path.starts_with("/dev/tcp/") || path.starts_with("/dev/udp/")
}
