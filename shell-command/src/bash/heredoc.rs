//! Heredocs: their delimiter, their text, and the commands that their text substitutes.

use super::cursor::Parser;
use super::word::{Draft, Quotes};
use super::{Doubt, Found, Input, Step};

/// A heredoc whose text may not have been read yet.
pub(super) struct Heredoc {
    delimiter: String,
    literal: bool,
    strips_tabs: bool,
    text: Option<String>,
    pub(super) commands: Vec<Found>,
}

impl Heredoc {
    pub(super) fn input(&self) -> Input {
        self.text.clone().map_or(Input::Unknown, Input::Known)
    }
}

impl Parser<'_> {
    /// Reads the delimiter after `<<`.
    pub(super) fn heredoc_start(&mut self, strips_tabs: bool) -> Step<usize> {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let raw = self.bare_word().unwrap_or_default();
        let quoted = ['\'', '"'].into_iter().find_map(|quote| raw.strip_prefix(quote)?.strip_suffix(quote));
        let delimiter = quoted.unwrap_or(raw);
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if delimiter.is_empty() || !delimiter.bytes().all(plain) {
            return Err(Doubt("a heredoc's delimiter can't be followed"));
        }
        self.at += raw.len();
        self.awaited.push(self.heredocs.len());
        self.heredocs.push(Heredoc {
            delimiter: delimiter.to_owned(),
            literal: quoted.is_some(),
            strips_tabs,
            text: None,
            commands: Vec::new(),
        });
        Ok(self.heredocs.len() - 1)
    }

    pub(super) fn no_heredoc_awaited(&self) -> Step<()> {
        if self.awaited.is_empty() { Ok(()) } else { Err(Doubt("a heredoc has no text")) }
    }

    /// Reads the texts that begin after the current newline.
    pub(super) fn read_awaited_heredocs(&mut self) -> Step<()> {
        for index in std::mem::take(&mut self.awaited) {
            self.heredoc_text(index)?;
        }
        Ok(())
    }

    fn heredoc_text(&mut self, index: usize) -> Step<()> {
        let Some(heredoc) = self.heredocs.get(index) else { return Ok(()) };
        let (literal, strips_tabs) = (heredoc.literal, heredoc.strips_tabs);
        let body_start = self.at;
        let mut body_end = body_start;
        let mut text = String::new();
        loop {
            let rest = self.text.get(body_end..self.end).unwrap_or_default();
            let Some((line, _)) = rest.split_once('\n').or((!rest.is_empty()).then_some((rest, ""))) else {
                return Err(Doubt("a heredoc is not closed"));
            };
            let content = if strips_tabs { line.trim_start_matches('\t') } else { line };
            if content == heredoc.delimiter {
                self.at = (body_end + line.len() + 1).min(self.end);
                break;
            }
            if !literal && line.ends_with('\\') {
                // Bash joins such lines before it compares them with the delimiter.
                return Err(Doubt("a heredoc continues a line"));
            }
            text.push_str(content);
            text.push('\n');
            body_end += line.len() + 1;
        }
        self.hidden.push((body_start, self.at));
        let expands = !literal && text.contains(['$', '`', '\\']);
        let commands = if expands { self.heredoc_commands(body_start, body_end)? } else { Vec::new() };
        if !commands.is_empty() {
            // Only the first reading sees them.
            self.note(Doubt("a heredoc runs commands"));
        }
        if let Some(heredoc) = self.heredocs.get_mut(index) {
            heredoc.text = (!expands).then_some(text);
            heredoc.commands = commands;
        }
        Ok(())
    }

    /// The commands that a heredoc's text runs while it is expanded.
    fn heredoc_commands(&mut self, start: usize, end: usize) -> Step<Vec<Found>> {
        let resume = std::mem::replace(&mut self.at, start);
        let outer_end = std::mem::replace(&mut self.end, end);
        let outer_inner = std::mem::take(&mut self.inner);
        let result = self.deeper(|parser| {
            let mut draft = Draft::default();
            while let Some(c) = parser.rest().chars().next() {
                parser.quoted_char(c, &mut draft, Quotes::Heredoc)?;
            }
            Ok(())
        });
        self.at = resume;
        self.end = outer_end;
        let commands = std::mem::replace(&mut self.inner, outer_inner);
        result.map(|()| commands)
    }
}
