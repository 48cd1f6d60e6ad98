//! `$…` and backticks: substitutions, parameters, arithmetic.
//!
//! Their values are never known. What matters are the commands inside them, and that some evaluate text that is not in
//! the line: arithmetic evaluates the values of variables, and a value `a[$(touch x)]` runs a command there.

use super::cursor::Parser;
use super::word::{Draft, Quotes};
use super::{Doubt, Step};

impl Parser<'_> {
    /// Reads the expansion that begins with this `$`.
    pub(super) fn dollar(&mut self, draft: &mut Draft, quotes: Quotes) -> Step<()> {
        let bare = quotes == Quotes::None;
        match self.peek_at(1) {
            Some(b'(') if self.peek_at(2) == Some(b'(') => self.arithmetic(draft),
            Some(b'(') => {
                self.at += 2;
                draft.unknown = true;
                self.substituted_commands("$(…)")
            }
            Some(b'{') => self.parameter(draft),
            Some(b'[') => Err(Doubt("arithmetic can't be predicted")),
            Some(b'\'') if bare => self.ansi_c_quotes(draft),
            Some(b'"') if bare => {
                // `$"…"`: the text is looked up in a message catalogue.
                self.at += 1;
                draft.unknown = true;
                self.double_quotes(draft)
            }
            Some(b'\\') if self.peek_at(2) == Some(b'\n') => Err(Doubt("a continued line splits a `$`")),
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                self.at += 2;
                draft.unknown = true;
                Ok(())
            }
            Some(first) if is_name_start(first) => {
                self.at += 1;
                self.name();
                draft.unknown = true;
                Ok(())
            }
            Some(_) | None => {
                self.at += 1;
                draft.push_quoted('$');
                Ok(())
            }
        }
    }

    /// Skips a variable's name.
    pub(super) fn name(&mut self) {
        while self.peek().is_some_and(is_name) {
            self.at += 1;
        }
    }

    /// Reads commands up to the `)` that closes them.
    pub(super) fn substituted_commands(&mut self, via: &str) -> Step<()> {
        self.inside(via, |parser| {
            parser.list()?;
            if parser.eat(")") { Ok(()) } else { Err(Doubt("a substitution is not closed")) }
        })
    }

    /// Reads a backquoted command. Bash unescapes its text before parsing it again; that is supported only if there is
    /// nothing to unescape.
    pub(super) fn backticks(&mut self, draft: &mut Draft, quotes: Quotes) -> Step<()> {
        self.at += 1;
        draft.unknown = true;
        let body = self.rest().split('`').next().unwrap_or_default();
        if body.len() == self.rest().len() {
            return Err(Doubt("a substitution is not closed"));
        }
        if body.contains('\\') || (quotes != Quotes::None && body.contains(['"', '\''])) {
            return Err(Doubt("a backquoted command holds quotes or escapes"));
        }
        let outer_end = std::mem::replace(&mut self.end, self.at + body.len());
        let result = self.inside("$(…)", |parser| {
            parser.list()?;
            if parser.at == parser.end { Ok(()) } else { Err(Doubt("the line has a syntax error")) }
        });
        self.end = outer_end;
        self.at += 1;
        result
    }

    /// Reads `${…}`. The forms that only read or choose are followed; those that evaluate (`@P`,
    /// `!name`, subscripts, offsets) or assign are noted as a doubt.
    fn parameter(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 2;
        draft.unknown = true;
        if self.peek() == Some(b'#') && self.peek_at(1) != Some(b'}') {
            self.at += 1;
        }
        let start = self.at;
        self.name();
        let named = self.at > start;
        let simple = match self.peek() {
            Some(b'}' | b'-' | b'+' | b'?' | b'#' | b'%' | b'/' | b'^' | b',') => named,
            Some(b':') => named && matches!(self.peek_at(1), Some(b'-' | b'+' | b'?')),
            Some(_) | None => false,
        };
        if !simple {
            self.note(Doubt("a parameter expansion may evaluate text"));
        }
        loop {
            match self.peek() {
                None => return Err(Doubt("a parameter expansion is not closed")),
                Some(b'}') => break,
                Some(b'\'' | b'"' | b'\\' | b'{' | b'\n' | b'<' | b'>') => {
                    return Err(Doubt("a parameter expansion holds quotes or escapes"));
                }
                Some(b'$') => self.deeper(|parser| parser.dollar(&mut Draft::default(), Quotes::Double))?,
                Some(b'`') => self.backticks(&mut Draft::default(), Quotes::Double)?,
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Reads `$((…))`, which is predictable only if it contains nothing but numbers.
    fn arithmetic(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 3;
        draft.unknown = true;
        let numbers = |c: char| c.is_ascii_digit() || " +-*/%<>=!&|^~?:".contains(c);
        let body = self.rest().split("))").next().unwrap_or_default();
        if body.len() == self.rest().len() || !body.chars().all(numbers) {
            return Err(Doubt("arithmetic can't be predicted"));
        }
        self.at += body.len() + 2;
        Ok(())
    }
}

pub(super) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

pub(super) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
