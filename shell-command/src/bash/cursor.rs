//! The parser's position in the text, and the blanks, comments and continuations between tokens.

use std::collections::BTreeSet;

use super::heredoc::Heredoc;
use super::{Doubt, Found, Step};

/// Limit on nesting, which bounds the stack.
const DEEPEST: usize = 32;

/// Reads one text, once, from left to right.
pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// The end of the part being read: the text's end, or that of a heredoc or backtick body.
    pub(super) end: usize,
    /// Commands in order.
    pub(super) found: Vec<Found>,
    /// Commands inside words read since the last simple command.
    pub(super) inner: Vec<Found>,
    pub(super) heredocs: Vec<Heredoc>,
    /// Heredocs whose text begins after the next newline.
    pub(super) awaited: Vec<usize>,
    pub(super) functions: BTreeSet<String>,
    /// The ranges of heredoc operators and texts, which are hidden from the second reading.
    pub(super) hidden: Vec<(usize, usize)>,
    /// The first construct that can be parsed but not predicted.
    pub(super) doubt: Option<Doubt>,
    pub(super) via: Option<String>,
    depth: usize,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: 0,
            end: text.len(),
            found: Vec::new(),
            inner: Vec::new(),
            heredocs: Vec::new(),
            awaited: Vec::new(),
            functions: BTreeSet::new(),
            hidden: Vec::new(),
            doubt: None,
            via: None,
            depth: 0,
        }
    }

    /// Reads all of the text.
    pub(super) fn whole(&mut self) -> Step<()> {
        if self.text.bytes().any(|byte| matches!(byte, 0..=8 | 11..=31 | 127)) {
            // Bash drops NULs, keeps carriage returns in words and reads others by locale.
            self.note(Doubt("the line has control characters"));
        }
        self.list()?;
        if self.at < self.end {
            return Err(Doubt("the line has a syntax error"));
        }
        self.no_heredoc_awaited()
    }

    /// Records a doubt that does not stop the parsing.
    pub(super) fn note(&mut self, doubt: Doubt) {
        self.doubt.get_or_insert(doubt);
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.peek_at(0)
    }

    pub(super) fn peek_at(&self, ahead: usize) -> Option<u8> {
        let at = self.at.checked_add(ahead)?;
        if at < self.end { self.text.as_bytes().get(at).copied() } else { None }
    }

    /// The remaining text.
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..self.end).unwrap_or_default()
    }

    pub(super) fn slice(&self, start: usize) -> &'t str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    pub(super) fn starts_with(&self, token: &str) -> bool {
        self.rest().starts_with(token)
    }

    /// Skips `token` if the text continues with it.
    pub(super) fn eat(&mut self, token: &str) -> bool {
        let stands = self.starts_with(token);
        if stands {
            self.at += token.len();
        }
        stands
    }

    /// Skips blanks, continued lines and a comment, but not a newline.
    pub(super) fn skip_blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                Some(_) | None => return,
            }
        }
    }

    /// Skips blanks and newlines, and reads the heredocs that begin after a newline.
    pub(super) fn skip_newlines(&mut self) -> Step<()> {
        self.skip_blanks();
        while self.eat("\n") {
            self.read_awaited_heredocs()?;
            self.skip_blanks();
        }
        Ok(())
    }

    /// Reads something one level deeper.
    pub(super) fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Step<T>) -> Step<T> {
        if self.depth >= DEEPEST {
            return Err(Doubt("the line is nested too deeply"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Reads commands inside a word. They are listed after the word's command.
    pub(super) fn inside(&mut self, via: &str, read: impl FnOnce(&mut Self) -> Step<()>) -> Step<()> {
        if !self.awaited.is_empty() {
            // Versions of bash differ in the newline after which the text begins.
            self.note(Doubt("a heredoc is followed by a substitution"));
        }
        let outer_found = std::mem::take(&mut self.found);
        let outer_inner = std::mem::take(&mut self.inner);
        let outer_awaited = std::mem::take(&mut self.awaited);
        let outer_via = self.via.replace(via.to_owned());
        let result = self.deeper(read).and_then(|()| self.no_heredoc_awaited());
        self.via = outer_via;
        self.awaited = outer_awaited;
        let nested = std::mem::replace(&mut self.found, outer_found);
        let stray = std::mem::replace(&mut self.inner, outer_inner);
        self.inner.extend(nested);
        self.inner.extend(stray);
        result
    }

    /// Lists a command, followed by the commands inside its words.
    pub(super) fn list_command(&mut self, command: Found) {
        let inner = std::mem::take(&mut self.inner);
        self.found.push(Found { via: self.via.clone(), ..command });
        self.found.extend(inner);
    }

    /// Lists the commands inside words that belong to no simple command (`for x in $(ls)`).
    pub(super) fn list_inner(&mut self) {
        let inner = std::mem::take(&mut self.inner);
        self.found.extend(inner);
    }

    /// The commands, with those of a heredoc after the command that reads it.
    pub(super) fn into_commands(mut self) -> Vec<Found> {
        self.list_inner();
        let mut heredocs = self.heredocs;
        let mut commands = Vec::with_capacity(self.found.len());
        // A heredoc's own commands may read heredocs in turn, so this is a stack, last one first.
        let mut waiting: Vec<Found> = self.found.into_iter().rev().collect();
        while let Some(mut command) = waiting.pop() {
            for index in std::mem::take(&mut command.heredocs).into_iter().rev() {
                let Some(heredoc) = heredocs.get_mut(index) else { continue };
                command.input = heredoc.input();
                waiting.extend(std::mem::take(&mut heredoc.commands).into_iter().rev());
            }
            commands.push(command);
        }
        commands
    }
}
