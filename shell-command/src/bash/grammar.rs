//! Lists, pipelines and simple commands.
//!
//! <https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html#tag_19_10_02> is the grammar; bash's
//! extensions are supported only if the text alone determines their meaning.

use super::cursor::Parser;
use super::dollar::{is_name, is_name_start};
use super::{Doubt, Found, FoundWord, Step};

/// Reserved words, recognised at the beginning of a command.
const RESERVED: [&str; 22] = [
    "!", "[[", "]]", "{", "}", "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if",
    "in", "select", "then", "time", "until", "while",
];

/// Reserved words that end a list.
const CLOSING: [&str; 8] = ["}", "do", "done", "elif", "else", "esac", "fi", "then"];

impl<'t> Parser<'t> {
    /// Reads commands until a token that can't begin one; the caller checks which.
    pub(super) fn list(&mut self) -> Step<()> {
        loop {
            self.skip_newlines()?;
            if self.list_ends() {
                return Ok(());
            }
            self.and_or()?;
            self.skip_blanks();
            let separated = match self.peek() {
                Some(b';') if !matches!(self.peek_at(1), Some(b';' | b'&')) => self.eat(";"),
                Some(b'&') => self.eat("&"),
                Some(b'\n') => true,
                Some(_) | None => false,
            };
            if !separated {
                return Ok(());
            }
        }
    }

    /// Reads a non-empty list, as all compound commands require.
    pub(super) fn filled_list(&mut self) -> Step<()> {
        self.skip_newlines()?;
        if self.list_ends() {
            return Err(Doubt("the line has a syntax error"));
        }
        self.list()
    }

    fn list_ends(&self) -> bool {
        match self.peek() {
            None | Some(b')') => true,
            Some(b';') => matches!(self.peek_at(1), Some(b';' | b'&')),
            Some(_) => self.bare_word().is_some_and(|word| CLOSING.contains(&word)),
        }
    }

    fn and_or(&mut self) -> Step<()> {
        loop {
            self.pipeline()?;
            self.skip_blanks();
            if !(self.eat("&&") || self.eat("||")) {
                return Ok(());
            }
            self.skip_newlines()?;
        }
    }

    fn pipeline(&mut self) -> Step<()> {
        while self.eat_reserved("!") {
            self.skip_blanks();
        }
        loop {
            self.command()?;
            self.skip_blanks();
            if self.starts_with("||") || !(self.eat("|&") || self.eat("|")) {
                return Ok(());
            }
            self.skip_newlines()?;
        }
    }

    fn command(&mut self) -> Step<()> {
        if self.starts_with("((") {
            return Err(Doubt("arithmetic can't be predicted"));
        }
        if self.peek() == Some(b'(') {
            return self.deeper(Self::subshell);
        }
        match self.bare_word() {
            Some("time") => self.timed(),
            Some(word) if RESERVED.contains(&word) => self.deeper(|parser| parser.compound(word)),
            Some(_) | None => self.simple(),
        }
    }

    /// `time` is a reserved word in bash and a program elsewhere. Both only start the command after it, so it is read
    /// as a command's first word, as long as that makes no difference.
    fn timed(&mut self) -> Step<()> {
        let start = self.at;
        self.at += "time".len();
        self.skip_blanks();
        let follows = self.bare_word();
        let differs = follows.is_some_and(|word| RESERVED.contains(&word))
            || self.assigned_name().is_some()
            || !self.peek().is_some_and(|byte| byte.is_ascii_alphabetic());
        self.at = start;
        if differs { Err(Doubt("`time` can't be followed here")) } else { self.simple() }
    }

    /// The unquoted word at this position, without parsing it.
    pub(super) fn bare_word(&self) -> Option<&'t str> {
        let rest = self.rest();
        let length = rest.find(|c: char| " \t\n;&|()<>".contains(c)).unwrap_or(rest.len());
        rest.get(..length).filter(|word| !word.is_empty())
    }

    /// Skips a reserved word if the text continues with it.
    pub(super) fn eat_reserved(&mut self, word: &str) -> bool {
        self.bare_word() == Some(word) && self.eat(word)
    }

    fn simple(&mut self) -> Step<()> {
        let mut command = Found::default();
        let mut redirected = false;
        loop {
            self.skip_blanks();
            if self.redirection(&mut command)? {
                redirected = true;
            } else if command.words.is_empty() && self.assignment(&mut command)? {
            } else if let Some(word) = self.word()? {
                self.check_first_word(&word, command.words.is_empty())?;
                command.words.push(word);
            } else {
                break;
            }
            if self.peek() == Some(b'(') {
                return self.function_named(&command, redirected);
            }
        }
        if command.words.is_empty() && command.assigns.is_empty() && !redirected {
            return Err(Doubt("the line has a syntax error"));
        }
        self.list_command(command);
        Ok(())
    }

    /// Rejects words that bash does not read as plain words here.
    fn check_first_word(&self, word: &FoundWord, first: bool) -> Step<()> {
        let raw = self.slice(word.start);
        if raw.starts_with('{') && raw.ends_with('}') && matches!(self.peek(), Some(b'<' | b'>')) {
            return Err(Doubt("a redirection sets a variable"));
        }
        // `i\<newline>f` is `if` to bash.
        let hidden = raw.contains("\\\n") && RESERVED.contains(&raw.replace("\\\n", "").as_str());
        if first && hidden { Err(Doubt("a continued line splits a reserved word")) } else { Ok(()) }
    }

    /// The variable that an assignment here would set.
    fn assigned_name(&self) -> Option<&'t str> {
        let rest = self.rest();
        let length = rest.bytes().take_while(|&byte| is_name(byte)).count();
        let (name, tail) = rest.split_at_checked(length)?;
        let named = name.bytes().next().is_some_and(is_name_start);
        (named && (tail.starts_with('=') || tail.starts_with("+=") || tail.starts_with('['))).then_some(name)
    }

    fn assignment(&mut self, command: &mut Found) -> Step<bool> {
        let Some(name) = self.assigned_name() else { return Ok(false) };
        self.at += name.len();
        if self.peek() == Some(b'[') {
            return Err(Doubt("a subscript is evaluated"));
        }
        self.eat("+");
        self.at += 1;
        command.assigns.push(name.to_owned());
        if self.eat("(") {
            self.array()?
        } else {
            drop(self.word()?)
        }
        Ok(true)
    }

    /// Reads the elements of `a=(…)` for the commands inside them.
    fn array(&mut self) -> Step<()> {
        self.no_heredoc_awaited()?;
        loop {
            self.skip_newlines()?;
            if self.eat(")") {
                return Ok(());
            }
            if self.peek() == Some(b'[') {
                return Err(Doubt("a subscript is evaluated"));
            }
            if self.word()?.is_none() {
                return Err(Doubt("the line has a syntax error"));
            }
        }
    }

    /// Reads `name() …`, the only meaning of `(` after a word.
    fn function_named(&mut self, command: &Found, redirected: bool) -> Step<()> {
        let name = match command.words.as_slice() {
            [name] if !redirected && command.assigns.is_empty() => self.text.get(name.start..name.end),
            [..] => None,
        };
        self.at += 1;
        self.skip_blanks();
        match name {
            Some(name) if self.eat(")") => self.deeper(|parser| parser.function_body(name)),
            Some(_) | None => Err(Doubt("the line has a syntax error")),
        }
    }
}
