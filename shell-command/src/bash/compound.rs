//! Subshells, groups, loops, choices, tests and functions.

use stockade_protocol::Word;

use super::cursor::Parser;
use super::dollar::{is_name, is_name_start};
use super::{Doubt, Found, FoundWord, Step};

const SYNTAX: Doubt = Doubt("the line has a syntax error");

impl Parser<'_> {
    pub(super) fn subshell(&mut self) -> Step<()> {
        self.at += 1;
        self.filled_list()?;
        if !self.eat(")") {
            return Err(SYNTAX);
        }
        self.compound_redirections()
    }

    /// Reads the compound command that begins with this reserved word.
    pub(super) fn compound(&mut self, word: &str) -> Step<()> {
        self.at += word.len();
        match word {
            "{" => self.group()?,
            "if" => self.choice()?,
            "while" | "until" => {
                self.filled_list()?;
                self.do_group()?;
            }
            "for" => self.for_loop()?,
            "case" => self.case()?,
            "[[" => self.test()?,
            "function" => {
                self.skip_blanks();
                let name = self.bare_word().ok_or(SYNTAX)?;
                self.at += name.len();
                self.skip_blanks();
                if self.eat("(") {
                    self.skip_blanks();
                    if !self.eat(")") {
                        return Err(SYNTAX);
                    }
                }
                return self.function_body(name);
            }
            "coproc" => return Err(Doubt("a coprocess can't be followed")),
            "select" => return Err(Doubt("`select` can't be followed")),
            _ => return Err(SYNTAX),
        }
        self.compound_redirections()
    }

    /// `{ …; } > f` writes regardless of the commands inside: an entry without words records that.
    fn compound_redirections(&mut self) -> Step<()> {
        let mut bearer = Found::default();
        loop {
            self.skip_blanks();
            if !self.redirection(&mut bearer)? {
                break;
            }
        }
        if bearer.writes.is_empty() && bearer.reads.is_empty() && bearer.heredocs.is_empty() && self.inner.is_empty() {
            return Ok(());
        }
        self.list_command(bearer);
        Ok(())
    }

    fn expect(&mut self, word: &str) -> Step<()> {
        if self.eat_reserved(word) { Ok(()) } else { Err(SYNTAX) }
    }

    fn group(&mut self) -> Step<()> {
        self.filled_list()?;
        self.expect("}")
    }

    fn do_group(&mut self) -> Step<()> {
        self.expect("do")?;
        self.filled_list()?;
        self.expect("done")
    }

    fn choice(&mut self) -> Step<()> {
        loop {
            self.filled_list()?;
            self.expect("then")?;
            self.filled_list()?;
            if !self.eat_reserved("elif") {
                break;
            }
        }
        if self.eat_reserved("else") {
            self.filled_list()?;
        }
        self.expect("fi")
    }

    /// A loop sets its variable for the rest of the line (`for PATH in .; do ls; done`), so it is listed as an
    /// assignment.
    fn for_loop(&mut self) -> Step<()> {
        self.skip_blanks();
        let name = self.bare_word().filter(|name| is_identifier(name)).ok_or(Doubt("this loop can't be followed"))?;
        self.at += name.len();
        self.skip_newlines()?;
        if self.eat_reserved("in") {
            loop {
                self.skip_blanks();
                if self.word()?.is_none() {
                    break;
                }
            }
        }
        self.list_command(Found { assigns: vec![name.to_owned()], ..Found::default() });
        self.skip_blanks();
        self.eat(";");
        self.skip_newlines()?;
        self.do_group()
    }

    fn case(&mut self) -> Step<()> {
        self.skip_blanks();
        self.word()?.ok_or(SYNTAX)?;
        self.skip_newlines()?;
        self.expect("in")?;
        loop {
            self.skip_newlines()?;
            if self.eat_reserved("esac") {
                break;
            }
            self.eat("(");
            loop {
                self.skip_blanks();
                self.word()?.ok_or(SYNTAX)?;
                self.skip_blanks();
                if !self.eat("|") {
                    break;
                }
            }
            if !self.eat(")") {
                return Err(SYNTAX);
            }
            self.list_inner();
            self.list()?;
            if !(self.eat(";;&") || self.eat(";;") || self.eat(";&")) {
                self.expect("esac")?;
                break;
            }
        }
        self.list_inner();
        Ok(())
    }

    /// Reads `[[ … ]]` as a command, operators and all.
    fn test(&mut self) -> Step<()> {
        let start = self.at - 2;
        let mut words = vec![FoundWord { start, end: self.at, word: Word::from("[["), worst: None }];
        loop {
            self.skip_newlines()?;
            if self.eat_reserved("]]") {
                words.push(FoundWord { start: self.at - 2, end: self.at, word: Word::from("]]"), worst: None });
                break;
            }
            let start = self.at;
            // `<(` and `>(` run commands here, too.
            let substitutes = matches!(self.peek(), Some(b'<' | b'>')) && self.peek_at(1) == Some(b'(');
            let mut operators = ["&&", "||", "(", ")", "<", ">"].into_iter();
            let operator = operators.find(|operator| !substitutes && self.eat(operator));
            let word = match operator {
                Some(operator) => FoundWord { start, end: self.at, word: Word::from(operator), worst: None },
                None => self.word()?.ok_or(SYNTAX)?,
            };
            if word.word.as_str() == Some("=~") {
                return Err(Doubt("a regular expression can't be followed"));
            }
            words.push(word);
        }
        if evaluates(&words) {
            self.note(Doubt("a test evaluates arithmetic"));
        }
        self.list_command(Found { words, ..Found::default() });
        Ok(())
    }

    pub(super) fn function_body(&mut self, name: &str) -> Step<()> {
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_:.-+@%,/".contains(&byte)) {
            return Err(Doubt("a function's name can't be followed"));
        }
        self.functions.insert(name.to_owned());
        self.skip_newlines()?;
        let outer = self.via.replace(format!("function {name}"));
        let result = if self.peek() == Some(b'(') && self.peek_at(1) != Some(b'(') {
            self.subshell()
        } else if self.bare_word() == Some("{") {
            self.compound("{")
        } else {
            Err(Doubt("this function can't be followed"))
        };
        self.via = outer;
        result
    }
}

fn is_identifier(name: &str) -> bool {
    name.bytes().next().is_some_and(is_name_start) && name.bytes().all(is_name)
}

/// Whether a test evaluates arithmetic: `-eq` and its kin take expressions, `-v` and `-R` take subscripts.
fn evaluates(words: &[FoundWord]) -> bool {
    words
        .iter()
        .any(|word| matches!(word.word.as_str(), Some("-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-v" | "-R")))
}
