//! The fast parser: files that are nothing but calls with literal arguments.
//!
//! It accepts strings without prefix or exotic escapes, lists, `True` and `False`, comments and line breaks. At the
//! first other byte it gives up, and the full parser interprets the file or reports the error. So it has no error
//! messages, and accepts only what Starlark reads in the same way.

use std::borrow::Cow;

use super::value::{Call, Function, Located, Value};
use crate::source::Span;

/// Limit on the depth of lists in an argument; an example is two deep.
const MAX_DEPTH: usize = 4;

/// The calls of the file, or `None` if it contains anything else.
pub(super) fn read(text: &str) -> Option<Vec<Call<'_>>> {
    // A carriage return ends some comments and not others.
    if text.contains('\r') {
        return None;
    }
    let mut reader = Reader { text, at: 0 };
    // Rules are rarely shorter than this; reallocations would cost more than the parsing.
    let mut calls = Vec::with_capacity(text.len() / 64);
    while reader.skip_to_statement() {
        if calls.len() == super::MAX_CALLS {
            return None;
        }
        calls.push(reader.call()?);
        reader.end_of_statement()?;
    }
    (reader.at == text.len()).then_some(calls)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Advances to the first byte of a statement; `false` at the end, or at text for the full parser.
    fn skip_to_statement(&mut self) -> bool {
        loop {
            match self.peek() {
                Some(b'\n') => self.at += 1,
                Some(b'#') => self.skip_comment(),
                Some(b'a'..=b'z') => return true,
                Some(_) | None => return false,
            }
        }
    }

    fn skip_comment(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    fn skip_spaces(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// Inside brackets, line breaks and comments are space.
    fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\n') => self.at += 1,
                Some(b'#') => self.skip_comment(),
                Some(_) | None => return,
            }
        }
    }

    fn end_of_statement(&mut self) -> Option<()> {
        self.skip_spaces();
        match self.peek() {
            None | Some(b'\n' | b'#') => Some(()),
            Some(_) => None,
        }
    }

    fn name(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..)?;
        let end = rest.bytes().position(|byte| !(byte.is_ascii_lowercase() || byte == b'_'))?;
        self.at += end;
        rest.get(..end).filter(|name| !name.is_empty())
    }

    fn call(&mut self) -> Option<Call<'a>> {
        let start = self.at;
        let function = Function::named(self.name()?)?;
        self.skip_spaces();
        self.eat(b'(')?;
        let mut arguments = [const { None }; super::PARAMETERS];
        let mut unnamed = Some(0);
        loop {
            self.skip_blank();
            if self.eat(b')').is_some() {
                break;
            }
            let index = if self.peek()?.is_ascii_lowercase() {
                unnamed = None;
                let name = self.name()?;
                self.skip_blank();
                self.eat(b'=')?;
                self.skip_blank();
                function.parameter(name)?
            } else {
                let index = unnamed.filter(|index| *index < function.parameters().len())?;
                unnamed = Some(index + 1);
                index
            };
            let value = self.value(MAX_DEPTH)?;
            let slot = arguments.get_mut(index)?;
            if slot.replace(value).is_some() {
                return None;
            }
            self.separator(b')')?;
        }
        Some(Call { function, at: Span::new(start, self.at), arguments })
    }

    /// A comma, or the closing bracket, which is left for the caller.
    fn separator(&mut self, closing: u8) -> Option<()> {
        self.skip_blank();
        match self.peek()? {
            b',' => self.eat(b','),
            byte => (byte == closing).then_some(()),
        }
    }

    fn value(&mut self, depth: usize) -> Option<Located<'a>> {
        let start = self.at;
        let value = match self.peek()? {
            quote @ (b'"' | b'\'') => Value::Text(self.string(quote)?),
            b'[' => Value::List(self.list(depth.checked_sub(1)?)?),
            b'T' => self.truth("True", true)?,
            b'F' => self.truth("False", false)?,
            _ => return None,
        };
        Some(Located { value, at: Span::new(start, self.at) })
    }

    /// A keyword. A longer name is not mistaken for it, since no token that may follow a value continues a name.
    fn truth(&mut self, word: &str, truth: bool) -> Option<Value<'a>> {
        self.text.get(self.at..)?.starts_with(word).then(|| self.at += word.len())?;
        Some(Value::Bool(truth))
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Located<'a>>> {
        self.eat(b'[')?;
        let mut items = Vec::new();
        loop {
            self.skip_blank();
            if self.eat(b']').is_some() {
                return Some(items);
            }
            items.push(self.value(depth)?);
            self.separator(b']')?;
        }
    }

    fn string(&mut self, quote: u8) -> Option<Cow<'a, str>> {
        self.eat(quote)?;
        let rest = self.text.get(self.at..)?;
        let special = |byte: u8| byte == quote || matches!(byte, b'\\' | b'\n');
        let end = rest.bytes().position(special)?;
        self.at += end;
        let plain = rest.get(..end)?;
        if self.peek() == Some(b'\\') {
            return self.escaped(quote, plain.to_owned()).map(Cow::Owned);
        }
        self.eat(quote)?;
        // `""` in front of a third quote opens a long string.
        if plain.is_empty() && self.peek() == Some(quote) {
            return None;
        }
        Some(Cow::Borrowed(plain))
    }

    fn escaped(&mut self, quote: u8, mut out: String) -> Option<String> {
        loop {
            let c = self.text.get(self.at..)?.chars().next()?;
            self.at += c.len_utf8();
            match c {
                '\\' => {
                    out.push(match self.peek()? {
                        b'n' => '\n',
                        b't' => '\t',
                        quoted @ (b'"' | b'\'' | b'\\') => char::from(quoted),
                        _ => return None,
                    });
                    self.at += 1;
                }
                '\n' => return None,
                c if u32::from(c) == u32::from(quote) => return Some(out),
                c => out.push(c),
            }
        }
    }
}
