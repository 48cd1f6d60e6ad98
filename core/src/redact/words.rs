//! Secrets among the words of a command: after an option, in an assignment, or in an operand of a known program.

use std::ops::Range;

use super::programs::{Operands, Programs, Reading, Secret};
use super::{REDACTED, names, text};

/// The words of a command, with secrets replaced.
pub(super) fn redact(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let hide = |(word, secret): (&&[u8], Option<Range<usize>>)| match secret {
        Some(secret) => {
            let before = word.get(..secret.start).unwrap_or_default();
            let after = text::redact(word.get(secret.end..).unwrap_or_default());
            [before, REDACTED.as_bytes(), &after].concat()
        }
        None => text::redact(word),
    };
    words.iter().zip(secrets(words)).map(hide).collect()
}

/// The secret part of each word, because of the word itself or the preceding one.
pub(super) fn secrets(words: &[&[u8]]) -> Vec<Option<Range<usize>>> {
    let mut reader = Reader::default();
    words.iter().map(|word| reader.read(word)).collect()
}

/// Reads a command word by word.
#[derive(Default)]
struct Reader {
    programs: Programs,
    /// The secret in a later word, after this many others.
    expected: Option<(usize, Secret)>,
    /// Whether a word may be a shell line.
    lines: bool,
}

impl Reader {
    fn read(&mut self, word: &[u8]) -> Option<Range<usize>> {
        // `sudo mysql …`, `env A=1 timeout 5 curl …`: any word may be the program that counts.
        let secret = match self.expected.take() {
            // `docker build --secret id=npm,src=.npmrc` names the location of the secret.
            Some((0, Secret::Whole)) if word.starts_with(b"id=") || word.starts_with(b"type=") => None,
            Some((0, secret)) if !word.starts_with(b"--") => part(word, 0, secret),
            Some((words, secret)) if words > 0 => {
                self.expected = Some((words - 1, secret));
                None
            }
            Some(_) | None => {
                let (own, next) = alone(word, &self.programs);
                self.expected = next;
                self.programs.take(word);
                // `sh -c "TOKEN=x make"`: a line that starts with an assignment, not a value.
                let is_line = self.lines && !word.starts_with(b"-") && word.iter().any(u8::is_ascii_whitespace);
                own.filter(|_| !is_line)
            }
        };
        self.lines |= LINES.iter().any(|line| is_program(word, line));
        secret
    }
}

/// Programs that take a shell line as a word.
const LINES: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "su", "sudo", "ssh", "eval", "watch", "script",
    "parallel", "xargs", "timeout", "nohup", "runuser", "-c",
];

fn is_program(word: &[u8], name: &str) -> bool {
    word.rsplit(|c| *c == b'/').next() == Some(name.as_bytes())
}

/// The secret in a word, and the one in a later word.
type Found = (Option<Range<usize>>, Option<(usize, Secret)>);

/// The secrets of a word that is not the value of the one before it.
fn alone(word: &[u8], programs: &Programs) -> Found {
    if programs.await_verb(word) {
        return (None, None);
    }
    let found = programs.complete().find_map(|reading| in_usage(word, reading));
    found.unwrap_or_else(|| by_name(word))
}

/// The secrets of a word according to a program's usage.
fn in_usage(word: &[u8], reading: &Reading) -> Option<Found> {
    let usage = reading.usage;
    if let Some(start) = usage.prefix(word) {
        return Some((part(word, start, Secret::Whole), None));
    }
    if word.starts_with(b"-") {
        let (start, secret) = usage.option(word).or_else(|| usage.cluster(word))?;
        return Some(match start {
            Some(start) => (part(word, start, secret), None),
            None => (None, Some((0, secret))),
        });
    }
    usage.operands.iter().find_map(|operands| match operands {
        // `vault login token=…` is read by its name.
        Operands::Nth(at, secret) if *at == reading.operands && name_and_value(word).1.is_none() => {
            part(word, 0, *secret).map(|secret| (Some(secret), None))
        }
        Operands::All(secret) => part(word, 0, *secret).map(|secret| (Some(secret), None)),
        Operands::Pairs if !word.starts_with(b"@") => {
            part(word, 0, Secret::BehindEquals).map(|secret| (Some(secret), None))
        }
        Operands::Settings => setting(word).map(|words| (None, Some((words, Secret::Whole)))),
        Operands::Nth(..) | Operands::Pairs => None,
    })
}

/// The number of words between a setting of this name and its secret.
fn setting(word: &[u8]) -> Option<usize> {
    const TOKENS: &[&str] =
        &["github-oauth.", "gitlab-oauth.", "gitlab-token.", "bitbucket-oauth.", "bearer.", "pypi-token."];
    let starts = |prefix: &&str| word.starts_with(prefix.as_bytes());
    let is_path = word.contains(&b'/') && !word.starts_with(b"//");
    if is_path || word.contains(&b'=') || word.iter().any(u8::is_ascii_whitespace) {
        return None;
    }
    // `poetry config http-basic.internal USER PASSWORD`
    if word.starts_with(b"http-basic.") {
        return Some(1);
    }
    let last = word.rsplit(|c| *c == b':').next().unwrap_or_default();
    (TOKENS.iter().any(starts) || names::is_secret(last)).then_some(0)
}

/// The secrets of a word according to its name.
fn by_name(word: &[u8]) -> Found {
    match name_and_value(word) {
        (name, Some(value)) if names::is_secret(name) => (part(word, value, Secret::Whole), None),
        (name, None) if word.starts_with(b"-") && !name.contains(&b':') && names::is_secret(name) => {
            (None, Some((0, Secret::Whole)))
        }
        // A file as often as a key, so the value decides.
        (b"--key", Some(value)) => (part(word, value, Secret::Opaque), None),
        (b"--key", None) => (None, Some((0, Secret::Opaque))),
        // `npm config set //host/:_authToken VALUE`
        (name, None) if is_registry_setting(name) => (None, Some((0, Secret::Whole))),
        (_, Some(_) | None) => (None, None),
    }
}

/// An option or assignment: the name before the first `=`, and the start of its value. The type in `password[text]=…`
/// is not part of the name.
fn name_and_value(word: &[u8]) -> (&[u8], Option<usize>) {
    let is_name = |name: &[u8]| name.iter().all(|c| c.is_ascii_alphanumeric() || b"-_./:".contains(c));
    let (name, value) = match word.iter().position(|c| *c == b'=') {
        Some(at) => (word.get(..at).unwrap_or_default(), Some(at + 1)),
        None => (word, None),
    };
    let typed = name.strip_suffix(b"]").and_then(|name| name.rsplitn(2, |c| *c == b'[').nth(1));
    let name = typed.unwrap_or(name);
    if is_name(name) { (name, value) } else { (b"", None) }
}

fn is_registry_setting(name: &[u8]) -> bool {
    let last = name.rsplit(|c| *c == b':').next().unwrap_or_default();
    [&b"_authToken"[..], b"_auth", b"_password"].contains(&last)
}

/// Whether a value is a long run of letters and digits, not a word, path or name.
fn is_opaque(value: &[u8]) -> bool {
    let is_of = |test: fn(&u8) -> bool| value.iter().any(test);
    let all = value.iter().all(|c| c.is_ascii_alphanumeric() || b"_-+=".contains(c));
    value.len() >= 16 && all && is_of(u8::is_ascii_digit) && is_of(u8::is_ascii_alphabetic)
}

/// The secret part of a word from `start` on, if any.
fn part(word: &[u8], start: usize, secret: Secret) -> Option<Range<usize>> {
    let value = word.get(start..).unwrap_or_default();
    let behind = |separator: u8| value.iter().position(|c| *c == separator).map(|at| at + 1);
    let own = match secret {
        Secret::Whole => 0..value.len(),
        Secret::Opaque if is_opaque(value) => 0..value.len(),
        Secret::Opaque => return None,
        // The user stays; `https://…` has none here.
        Secret::BehindColon => {
            let at = behind(b':')?;
            if value.get(at..).is_some_and(|rest| rest.starts_with(b"//")) {
                return None;
            }
            at..value.len()
        }
        Secret::BehindComma => behind(b',')?..value.len(),
        Secret::BehindPercent => behind(b'%')?..value.len(),
        Secret::BehindEquals => {
            let at = behind(b'=')?;
            // `name=@file` names the location of the secret.
            if value.get(at) == Some(&b'@') {
                return None;
            }
            at..value.len()
        }
        Secret::OracleLogin => {
            let from = behind(b'/').filter(|from| *from > 1)?;
            let to = value.iter().rposition(|c| *c == b'@').filter(|to| *to >= from).unwrap_or(value.len());
            from..to
        }
    };
    let is_reference = value.get(own.clone()).is_none_or(text::is_reference);
    (!own.is_empty() && !is_reference).then_some(start + own.start..start + own.end)
}
