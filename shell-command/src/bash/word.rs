//! One word: unquoted and unescaped, or known to be unpredictable.
//!
//! <https://www.gnu.org/software/bash/manual/bash.html#Shell-Expansions> is the order that bash
//! follows. A word is `Known` only if none of these expansions can touch it.

use stockade_protocol::Word;

use super::cursor::Parser;
use super::{Doubt, FoundWord, Step};

/// A word under construction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) bytes: Vec<u8>,
    pub(super) unknown: bool,
    /// The last character, if it stood outside of quotes.
    last: Option<char>,
    quoted: bool,
    opens_brace: bool,
    separates_in_brace: bool,
}

impl Draft {
    pub(super) fn push_quoted(&mut self, c: char) {
        self.last = None;
        self.bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }

    pub(super) fn push_quoted_bytes(&mut self, bytes: &[u8]) {
        self.last = None;
        self.bytes.extend_from_slice(bytes);
        // Even an empty quote keeps a following `~` from being at the start.
        self.quoted = true;
    }

    fn push_bare(&mut self, c: char) {
        match c {
            '{' => self.opens_brace = true,
            ',' => self.separates_in_brace = true,
            '.' if self.last == Some('.') => self.separates_in_brace = true,
            '~' if self.starts_a_path() => self.unknown = true,
            '*' | '?' | '[' => self.unknown = true,
            _ => {}
        }
        self.push_quoted(c);
        self.last = Some(c);
    }

    /// Whether a `~` here is a home directory: at the start, and after `=` and `:`, where bash expands it in words
    /// that look like assignments.
    fn starts_a_path(&self) -> bool {
        match self.last {
            Some(last) => matches!(last, '=' | ':'),
            None => self.bytes.is_empty() && !self.quoted,
        }
    }
}

impl Parser<'_> {
    /// Reads the word that begins here, if one does.
    pub(super) fn word(&mut self) -> Step<Option<FoundWord>> {
        let start = self.at;
        let mut draft = Draft::default();
        while self.part(start, &mut draft)? {}
        if self.at == start {
            return Ok(None);
        }
        let raw = self.slice(start);
        // Brace expansion comes first and makes several words: `{touch,PWNED}`.
        let braces = draft.opens_brace && draft.separates_in_brace;
        // `[` alone is a command, not a pattern.
        let known = raw == "[" || !(draft.unknown || braces);
        let word = if known { Word::from(draft.bytes) } else { Word::Unknown };
        let worst = if known { None } else { worst_case(raw) };
        Ok(Some(FoundWord { start, end: self.at, word, worst }))
    }

    /// Reads one part of a word. False: the word has ended.
    fn part(&mut self, start: usize, draft: &mut Draft) -> Step<bool> {
        let Some(c) = self.rest().chars().next() else { return Ok(false) };
        match c {
            ' ' | '\t' | '\n' | ';' | '&' | '|' | ')' => return Ok(false),
            '(' => return self.parenthesis(draft),
            '<' | '>' if self.peek_at(1) == Some(b'(') => self.process_substitution(start, draft)?,
            '<' | '>' => return Ok(false),
            '\\' => self.backslash(draft)?,
            '\'' => self.single_quotes(draft)?,
            '"' => self.double_quotes(draft)?,
            '$' => self.dollar(draft, Quotes::None)?,
            '`' => self.backticks(draft, Quotes::None)?,
            _ => {
                if !c.is_ascii() && c.is_whitespace() {
                    self.note(Doubt("the line has a blank that only looks like one"));
                }
                draft.push_bare(c);
                self.at += c.len_utf8();
            }
        }
        Ok(true)
    }

    /// A `(` ends a word, unless it makes an extended pattern, which depends on `shopt`.
    fn parenthesis(&self, draft: &Draft) -> Step<bool> {
        match draft.last {
            Some('?' | '*' | '+' | '@' | '!') => Err(Doubt("extended patterns can't be predicted")),
            Some(_) | None => Ok(false),
        }
    }

    fn process_substitution(&mut self, start: usize, draft: &mut Draft) -> Step<()> {
        if self.at != start {
            return Err(Doubt("a process substitution stands inside a word"));
        }
        self.at += 2;
        draft.unknown = true;
        self.substituted_commands("<(…)")
    }

    fn backslash(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 1;
        let Some(c) = self.rest().chars().next() else { return Err(Doubt("the line ends in a backslash")) };
        self.at += c.len_utf8();
        if c != '\n' {
            draft.push_quoted(c);
        }
        Ok(())
    }

    fn single_quotes(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 1;
        let Some(length) = self.rest().find('\'') else { return Err(Doubt("a quote is not closed")) };
        draft.push_quoted_bytes(self.rest().get(..length).unwrap_or_default().as_bytes());
        self.at += length + 1;
        Ok(())
    }

    pub(super) fn double_quotes(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 1;
        draft.push_quoted_bytes(b"");
        loop {
            match self.rest().chars().next() {
                None => return Err(Doubt("a quote is not closed")),
                Some('"') => break,
                Some(c) => self.quoted_char(c, draft, Quotes::Double)?,
            }
        }
        self.at += 1;
        draft.last = None;
        Ok(())
    }

    /// One step inside double quotes or a heredoc's text.
    pub(super) fn quoted_char(&mut self, c: char, draft: &mut Draft, quotes: Quotes) -> Step<()> {
        match c {
            '$' => return self.dollar(draft, quotes),
            '`' => return self.backticks(draft, quotes),
            '\\' => return self.quoted_backslash(draft, quotes),
            _ => {}
        }
        draft.push_quoted(c);
        self.at += c.len_utf8();
        Ok(())
    }

    fn quoted_backslash(&mut self, draft: &mut Draft, quotes: Quotes) -> Step<()> {
        self.at += 1;
        let Some(c) = self.rest().chars().next() else { return Err(Doubt("a quote is not closed")) };
        match c {
            '\n' => {}
            '$' | '`' | '\\' => draft.push_quoted(c),
            '"' if quotes == Quotes::Double => draft.push_quoted(c),
            _ => {
                draft.push_quoted('\\');
                draft.push_quoted(c);
            }
        }
        self.at += c.len_utf8();
        Ok(())
    }
}

/// The quoting around a `$` or a backtick.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    None,
    Double,
    Heredoc,
}

/// The worst expansion of a pattern or a home directory, if it is evident: all of `/etc` for `/etc/*`. Used only to
/// recognise catastrophes; the word stays unknown.
fn worst_case(raw: &str) -> Option<String> {
    let bare = raw.replace('"', "").replace("${HOME}", "$HOME");
    let place = bare.trim_end_matches(['*', '.']);
    let place = if place.len() < bare.len() && !place.ends_with('/') { bare.as_str() } else { place };
    let home = place.strip_prefix('~').or_else(|| place.strip_prefix("$HOME"));
    if let Some(below) = home {
        return below.trim_matches('/').is_empty().then(|| "~".to_owned());
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    (place.starts_with('/') && place.chars().all(plain)).then(|| place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bash::lone_word;

    #[test]
    fn quotes_and_escapes_are_taken_away() {
        for (text, value) in [
            ("r''m", "rm"),
            ("'a b'\\ \"c d\"", "a b c d"),
            (r#""a\$b\"c\d""#, r#"a$b"c\d"#),
            ("r\\\nm", "rm"),
            (r"$'\x74ouch'", "touch"),
            ("a#b", "a#b"),
            ("{}", "{}"),
            ("HEAD@{1}", "HEAD@{1}"),
            ("a~b", "a~b"),
            ("$", "$"),
            ("[", "["),
        ] {
            assert_eq!(lone_word(text), Word::from(value), "{text}");
        }
    }

    #[test]
    fn what_expands_is_unknown() {
        for text in ["$x", "\"$x\"", "*", "a?", "[ab]", "~", "~/x", "a=~/x", "{a,b}", "{1..3}", "`ls`", "$\"x\""] {
            assert_eq!(lone_word(text), Word::Unknown, "{text}");
        }
    }

    #[test]
    fn the_worst_case_of_a_pattern_is_its_directory() {
        for (raw, worst) in [
            ("/*", Some("/")),
            ("/etc/*", Some("/etc/")),
            ("~", Some("~")),
            ("\"$HOME\"/*", Some("~")),
            ("${HOME}/", Some("~")),
            ("$x/*", None),
            ("build/*", None),
            ("~/build", None),
        ] {
            assert_eq!(worst_case(raw).as_deref(), worst, "{raw}");
        }
    }
}
