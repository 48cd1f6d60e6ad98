//! A line editor.

use super::text::is_plain;

pub(super) const CTRL_C: char = '\u{3}';
pub(super) const CTRL_D: char = '\u{4}';
const BACKSPACE: [char; 2] = ['\u{8}', '\u{7f}'];

/// The echo of typed characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Echo {
    Shown,
    /// A star for each character.
    Hidden,
}

/// A line, and the bytes of an incomplete character.
pub(super) struct Line {
    text: String,
    unfinished: Vec<u8>,
    echo: Echo,
    /// Limit on characters.
    longest: usize,
}

/// The result of some keys, with the text to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    More { echo: String },
    Finished { text: String, echo: String },
    Stopped,
}

impl Line {
    pub(super) fn new(echo: Echo, longest: usize) -> Self {
        Self { text: String::new(), unfinished: Vec::new(), echo, longest }
    }

    /// Handles one chunk from the terminal. Text after the end of the line in the same chunk was pasted, and does not
    /// answer the next question.
    pub(super) fn press(&mut self, bytes: &[u8]) -> Typed {
        let mut echo = String::new();
        // An arrow or a function key.
        if bytes.starts_with(b"\x1b") {
            return Typed::More { echo };
        }
        self.unfinished.extend_from_slice(bytes);
        let (typed, rest) = whole_characters(&self.unfinished);
        self.unfinished = rest;
        for c in typed.chars() {
            match c {
                CTRL_C => return Typed::Stopped,
                '\r' | '\n' | CTRL_D => return Typed::Finished { text: std::mem::take(&mut self.text), echo },
                c if BACKSPACE.contains(&c) && self.text.pop().is_some() => echo.push_str("\u{8} \u{8}"),
                c if is_plain(c) && self.text.chars().count() < self.longest => {
                    self.text.push(c);
                    echo.push(if self.echo == Echo::Hidden { '*' } else { c });
                }
                _ => {}
            }
        }
        Typed::More { echo }
    }
}

/// The complete characters, and the bytes of an incomplete one.
fn whole_characters(bytes: &[u8]) -> (String, Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), Vec::new()),
        Err(error) if error.error_len().is_none() => {
            let (whole, rest) = bytes.split_at(error.valid_up_to());
            (String::from_utf8_lossy(whole).into_owned(), rest.to_vec())
        }
        Err(_) => (String::from_utf8_lossy(bytes).into_owned(), Vec::new()),
    }
}
