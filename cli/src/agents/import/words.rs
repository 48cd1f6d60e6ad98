//! Converts command patterns of other agents to whole words.

/// The part of a command that a pattern covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// Exactly this command.
    Exact,
    /// Every command that starts with the words.
    Prefix,
}

/// A parsed pattern: its leading words, and the rest that they don't express.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandPattern {
    pub(super) words: Vec<String>,
    pub(super) span: Span,
    /// The part that the words don't express. A rule of these words then matches more or less than the pattern.
    pub(super) rest: Option<Rest>,
}

/// The part of a pattern that whole words can't express.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Words with the last one as a prefix, `ls*`: a rule with the last word would match less.
    WithinWord,
    /// A wildcard in the place of words and followed by text, `git * main`.
    Middle,
    /// A wildcard within a word and followed by text, `python* -c`: a rule with the last word would match less.
    MiddleOfWord,
    /// Shell syntax.
    Shell,
}

impl Rest {
    pub(super) fn why(self) -> &'static str {
        match self {
            Self::WithinWord => "it also means words that only begin like that, and rules are of whole words",
            Self::Middle | Self::MiddleOfWord => {
                "it has a wildcard with something behind it, and rules are of the first words"
            }
            Self::Shell => "it has characters that a shell reads as more than words",
        }
    }
}

/// Reserved words of a shell, which are not commands.
const RESERVED: &[&str] = &[
    "!", "case", "coproc", "do", "done", "elif", "else", "esac", "eval", "exec", "fi", "for", "function", "if", "in",
    "select", "source", "then", "time", "until", "while", ".", "[[",
];

fn is_plain(word: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+^".contains(c);
    !word.is_empty() && word.chars().all(plain)
}

/// Claude Code's: exact, or with wildcards. A trailing wildcard after a space (or `:`) also matches nothing.
pub(super) fn with_wildcards(text: &str) -> CommandPattern {
    let text = text.trim();
    let (text, open) = match text.strip_suffix(":*").or_else(|| text.strip_suffix(" *")) {
        Some(text) => (text, true),
        None => (text, false),
    };
    match text.find('*') {
        None => CommandPattern { span: if open { Span::Prefix } else { Span::Exact }, ..literal(text) },
        Some(at) => {
            let (before, behind) = text.split_at_checked(at).unwrap_or((text, ""));
            let is_last = behind == "*" && !open;
            let whole = literal(before);
            let rest = match (before.is_empty() || before.ends_with([' ', '\t']), is_last) {
                (true, _) => Rest::Middle,
                (false, true) => Rest::WithinWord,
                (false, false) => Rest::MiddleOfWord,
            };
            CommandPattern { span: Span::Prefix, rest: whole.rest.or(Some(rest)), words: whole.words }
        }
    }
}

/// gemini-cli's: the beginning of a line, up to the end of a word.
pub(super) fn prefix(text: &str) -> CommandPattern {
    CommandPattern { span: Span::Prefix, ..literal(text) }
}

/// The words of a text without wildcards, up to the first shell syntax.
fn literal(text: &str) -> CommandPattern {
    let words: Vec<&str> = text.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let mut plain: Vec<String> =
        words.iter().take_while(|word| is_plain(word)).map(|word| (*word).to_owned()).collect();
    let starts_construct = plain.first().is_some_and(|first| first.contains('=') || RESERVED.contains(&first.as_str()));
    if starts_construct {
        plain.clear();
    }
    let rest = (plain.len() < words.len()).then_some(Rest::Shell);
    CommandPattern { words: plain, span: Span::Prefix, rest }
}

impl CommandPattern {
    /// The words of an allowing rule: never more than the pattern.
    pub(super) fn to_allow(&self) -> Result<(&[String], Span), &'static str> {
        match self.rest {
            None if self.words.is_empty() => Err("it allows every command: say with `ask` in the settings when to ask"),
            // `ls*` allows `ls` with any arguments, among others.
            None | Some(Rest::WithinWord) if !self.words.is_empty() => Ok((&self.words, self.span)),
            Some(rest) => Err(rest.why()),
            None => Err("it names no command"),
        }
    }

    /// The words of a prompting or forbidding rule: never less than the pattern.
    pub(super) fn to_restrict(&self) -> Result<&[String], &'static str> {
        let words = match self.rest {
            // The last word is only a prefix.
            Some(Rest::WithinWord | Rest::MiddleOfWord) => {
                self.words.split_last().map(|(_, before)| before).unwrap_or_default()
            }
            Some(Rest::Middle | Rest::Shell) | None => &self.words,
        };
        match (words.is_empty(), self.rest) {
            (false, _) => Ok(words),
            (true, Some(rest)) => Err(rest.why()),
            (true, None) => Err("it means every command, and a rule names one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(pattern: &CommandPattern) -> (String, String) {
        let allow = match pattern.to_allow() {
            Ok((words, span)) => format!("{} {span:?}", words.join(" ")),
            Err(_) => String::from("-"),
        };
        (allow, pattern.to_restrict().map_or_else(|_| String::from("-"), |words| words.join(" ")))
    }

    #[test]
    fn patterns_become_whole_words() {
        for (text, allow, restrict) in [
            ("npm run build", "npm run build Exact", "npm run build"),
            ("npm run test:*", "npm run test Prefix", "npm run test"),
            ("git commit *", "git commit Prefix", "git commit"),
            ("ls *", "ls Prefix", "ls"),
            ("ls*", "ls Prefix", "-"),
            ("git push --f*", "git push --f Prefix", "git push"),
            ("git * main", "-", "git"),
            ("python* -c *", "-", "-"),
            ("python* *", "-", "-"),
            ("git pu* --force", "-", "git"),
            ("git pu** x", "-", "git"),
            ("git push:* x", "-", "git"),
            ("git push * --force:*", "-", "git push"),
            ("* --version", "-", "-"),
            ("*", "-", "-"),
            ("", "-", "-"),
            ("echo \"a b\"", "-", "echo"),
            ("rm -rf $HOME", "-", "rm -rf"),
            ("a && b:*", "-", "a"),
            ("FOO=1 make", "-", "-"),
            ("for x", "-", "-"),
            ("git add * && git commit *", "-", "git add"),
        ] {
            assert_eq!(shown(&with_wildcards(text)), (allow.to_owned(), restrict.to_owned()), "{text}");
        }
        assert_eq!(shown(&prefix("git status")), (String::from("git status Prefix"), String::from("git status")));
    }

    proptest! {
        /// An allowing rule begins with the pattern's words before its first wildcard; a restricting rule does not go
        /// beyond them.
        #[test]
        fn words_are_those_of_the_pattern(text in "[a-c*: $;=\"]{0,24}") {
            let pattern = with_wildcards(&text);
            let stem = text.trim().strip_suffix(":*").unwrap_or(text.trim());
            let stem = stem.split('*').next().unwrap_or_default();
            let words: Vec<&str> = stem.split_whitespace().collect();
            if let Ok((allowed, _)) = pattern.to_allow() {
                prop_assert_eq!(allowed, words.as_slice());
            }
            if let Ok(restricted) = pattern.to_restrict() {
                prop_assert!(words.starts_with(&restricted.iter().map(String::as_str).collect::<Vec<_>>()));
            }
        }
    }
}
