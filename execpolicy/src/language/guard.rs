//! Refuses text that would make the Starlark parser recurse, or work, without bound.
//!
//! That parser descends recursively, and so do traversal and drop of its tree, so a file of a few kilobytes (`((((…`,
//! `not not not …`, `a + a + a …`) can overflow the stack, and a number of a million digits is converted in quadratic
//! time. This scan knows just enough of the lexical rules to bound the depth of the tree before it is built: it may
//! overestimate, never underestimate.

use crate::source::{Problem, Span};

/// Brackets inside brackets. Rules need four.
const MAX_NESTING: usize = 32;
/// Operators that can nest, summed over all open brackets.
const MAX_OPERATORS: usize = 128;
/// Columns that a block may be indented by, and with it how deep blocks may nest.
const MAX_INDENT: usize = 64;
/// `elif` branches in a file: each one is nested in the one before.
const MAX_ELIF: usize = 64;
/// Characters of a number.
const MAX_DIGITS: usize = 32;

pub(super) fn check(text: &str) -> Result<(), Problem> {
    let mut scan = Scan { text, at: 0, levels: vec![0], elifs: 0, postfix: false, line_start: true };
    while let Some(byte) = scan.peek(0) {
        scan.step(byte)?;
    }
    Ok(())
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Operators since the last comma, for each open bracket; the first is the statement itself.
    levels: Vec<usize>,
    elifs: usize,
    /// Whether a bracket here would be a call or an index on the preceding expression.
    postfix: bool,
    line_start: bool,
}

impl Scan<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn refuse<T>(&self, message: &str, help: &str) -> Result<T, Problem> {
        Err(Problem::new(Span::new(self.at, self.at + 1), message, help))
    }

    fn step(&mut self, byte: u8) -> Result<(), Problem> {
        if std::mem::take(&mut self.line_start) {
            let indent = self
                .text
                .as_bytes()
                .iter()
                .skip(self.at)
                .take_while(|byte| **byte == b' ')
                .take(MAX_INDENT + 1)
                .count();
            if indent > MAX_INDENT && self.levels.len() == 1 {
                return self.refuse("a block is indented too far", "write the rules without nested blocks");
            }
        }
        match byte {
            b'"' | b'\'' => return self.string(byte),
            b'#' => self.skip_while(|byte| byte != b'\n'),
            b'\n' => self.newline(),
            // A continued line belongs to the same statement, with either line ending.
            b'\\' => self.at += if self.peek(1) == Some(b'\r') { 3 } else { 2 },
            b'(' | b'[' | b'{' => return self.open(),
            b')' | b']' | b'}' => self.close(),
            b',' | b';' => self.reset(),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' => return self.word(),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'&' | b'^' | b'~' | b'.' | b'<' | b'>' | b':' => {
                self.operator()?;
                self.at += 1;
            }
            b' ' | b'\r' | b'\t' => self.at += 1,
            _ => {
                self.postfix = false;
                self.at += 1;
            }
        }
        Ok(())
    }

    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&holds) {
            self.at += 1;
        }
    }

    /// Ends the statement, unless a bracket is open.
    fn newline(&mut self) {
        self.at += 1;
        if self.levels.len() == 1 {
            self.levels = vec![0];
            self.postfix = false;
            self.line_start = true;
        }
    }

    fn reset(&mut self) {
        self.at += 1;
        self.postfix = false;
        if let Some(level) = self.levels.last_mut() {
            *level = 0;
        }
    }

    fn open(&mut self) -> Result<(), Problem> {
        if self.postfix {
            self.operator()?;
        }
        self.postfix = false;
        if self.levels.len() > MAX_NESTING {
            return self
                .refuse("brackets are nested too deeply", "a pattern is a list of strings and lists of strings");
        }
        self.levels.push(0);
        self.at += 1;
        Ok(())
    }

    fn close(&mut self) {
        if self.levels.len() > 1 {
            self.levels.pop();
        }
        self.postfix = true;
        self.at += 1;
    }

    fn operator(&mut self) -> Result<(), Problem> {
        self.postfix = false;
        if let Some(level) = self.levels.last_mut() {
            *level += 1;
        }
        if self.levels.iter().sum::<usize>() > MAX_OPERATORS {
            return self.refuse("an expression has too many operators", "write it as a list, or in several steps");
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), Problem> {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let word = self.text.get(start..self.at).unwrap_or_default();
        let quoted = matches!(self.peek(0), Some(b'"' | b'\''));
        self.postfix = true;
        match word {
            "f" | "fr" if quoted => {
                self.at = start;
                return self.refuse("f-strings are not supported in rules files", "join the parts with `+`");
            }
            "not" | "and" | "or" | "if" | "else" | "in" | "for" | "lambda" => self.operator()?,
            "elif" => self.elifs += 1,
            _ => {}
        }
        if self.elifs > MAX_ELIF {
            return self.refuse("the file has too many `elif` branches", "write the rules without branches");
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) && word.len() > MAX_DIGITS {
            self.at = start;
            return self.refuse("a number has too many digits", "rules need no such numbers; quote it if it is a word");
        }
        Ok(())
    }

    /// Skips a string. A backslash takes the next character with it in every kind of string.
    fn string(&mut self, quote: u8) -> Result<(), Problem> {
        self.postfix = true;
        let long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if long { 3 } else { 1 };
        while let Some(byte) = self.peek(0) {
            match byte {
                b'\\' => self.at += 2,
                b'\n' if !long => return Ok(()),
                _ if byte == quote && !long => {
                    self.at += 1;
                    return Ok(());
                }
                _ if byte == quote && self.peek(1) == Some(quote) && self.peek(2) == Some(quote) => {
                    self.at += 3;
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }
}
