//! Reads the language of profiles: lists, symbols, texts and comments. What the system's own reader would
//! not take is an error.

/// One expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    List(Vec<Expression>),
    Symbol(String),
    Text(String),
    /// `'name`.
    Quoted(String),
    Number(i64),
}

pub(crate) fn read(text: &str) -> Result<Vec<Expression>, String> {
    let mut reader = Reader { rest: text };
    let mut forms = Vec::new();
    while reader.skip_blank() {
        forms.push(reader.expression()?);
    }
    Ok(forms)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = self.rest.get(character.len_utf8()..)?;
        Some(character)
    }

    /// Whether anything is left behind blanks and comments.
    fn skip_blank(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(';') {
                Some(comment) => self.rest = comment.split_once('\n').map_or("", |(_, rest)| rest),
                None => return !self.rest.is_empty(),
            }
        }
    }

    fn expression(&mut self) -> Result<Expression, String> {
        if let Some(rest) = self.rest.strip_prefix("#\"") {
            self.rest = rest;
            return self.text(Escapes::None);
        }
        match self.next() {
            Some('(') => self.list(),
            Some('"') => self.text(Escapes::Backslash),
            Some('\'') => Ok(Expression::Quoted(self.word(String::new())?)),
            Some(first) if is_word(first) => {
                let word = self.word(first.to_string())?;
                Ok(word.parse().map_or(Expression::Symbol(word), Expression::Number))
            }
            other => Err(format!("{other:?} starts no expression, before {:.40}", self.rest)),
        }
    }

    fn list(&mut self) -> Result<Expression, String> {
        let mut items = Vec::new();
        loop {
            if !self.skip_blank() {
                return Err("a list is not closed".to_owned());
            }
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                return Ok(Expression::List(items));
            }
            items.push(self.expression()?);
        }
    }

    fn word(&mut self, mut word: String) -> Result<String, String> {
        while let Some(next) = self.rest.chars().next().filter(|next| is_word(*next)) {
            word.push(next);
            self.next();
        }
        if word.is_empty() { Err("a name is missing".to_owned()) } else { Ok(word) }
    }

    fn text(&mut self, escapes: Escapes) -> Result<Expression, String> {
        let mut text = String::new();
        loop {
            match self.next().ok_or("a text is not closed")? {
                '"' => return Ok(Expression::Text(text)),
                '\\' if escapes == Escapes::Backslash => match self.next() {
                    Some(escaped @ ('"' | '\\')) => text.push(escaped),
                    other => return Err(format!("`\\` before {other:?}")),
                },
                other => text.push(other),
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Backslash,
    None,
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-*_?".contains(character)
}

#[test]
fn what_cannot_be_read_is_an_error() {
    for text in ["(", ")", "(a", "\"x", "(a \"x)", "#\"x", "(a ')", "(a \\)", "\"\\x\"", "{}"] {
        assert!(read(text).is_err(), "{text}");
    }
    let list = |items| Expression::List(items);
    let symbol = |text: &str| Expression::Symbol(text.to_owned());
    assert_eq!(
        read("; c (\n(a* (b \"\\\"\" #\"\\.\") 1 'c-d) ; e").unwrap(),
        [list(vec![
            symbol("a*"),
            list(vec![symbol("b"), Expression::Text("\"".to_owned()), Expression::Text("\\.".to_owned())]),
            Expression::Number(1),
            Expression::Quoted("c-d".to_owned())
        ])]
    );
}
