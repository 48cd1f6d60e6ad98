//! Secrets among the words of a command: behind an option, in an assignment, or where a program
//! takes them.

use std::ops::Range;

use super::programs::{Program, Secret};
use super::{REDACTED, names, text};

/// The words of a command, with secrets replaced.
pub(super) fn redact(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let hide = |(word, secret): (&&[u8], Option<Range<usize>>)| match secret {
        Some(secret) => {
            let before = word.get(..secret.start).unwrap_or_default();
            [before, REDACTED.as_bytes(), word.get(secret.end..).unwrap_or_default()].concat()
        }
        None => text::redact(word),
    };
    words.iter().zip(secrets(words)).map(hide).collect()
}

/// Which part of each word is a secret because of what the word is, or what stands before it.
pub(super) fn secrets(words: &[&[u8]]) -> Vec<Option<Range<usize>>> {
    let mut program = Program::of(words.first().copied().unwrap_or_default(), words);
    let mut found = Vec::with_capacity(words.len());
    let mut expected = None;
    let mut lines = false;
    for word in words {
        // `sudo mysql …`, `env A=1 timeout 5 curl …`: any word may be the program that counts.
        if !program.is_known() && !word.starts_with(b"-") {
            program = Program::of(word, words);
        }
        let secret = match expected.take() {
            Some(secret) if !word.starts_with(b"--") => Some(part(word, 0, secret)),
            Some(_) | None => None,
        };
        found.push(match secret {
            Some(part) => part,
            None => {
                let (own, next) = alone(word, &program);
                expected = next;
                // `sh -c "TOKEN=x make"`: a line that starts with an assignment, not a value.
                let is_line = lines && !word.starts_with(b"-") && word.iter().any(u8::is_ascii_whitespace);
                own.filter(|_| !is_line)
            }
        });
        lines |= LINES.iter().any(|line| is_program(word, line));
    }
    found
}

/// Programs that take a shell line as a word.
const LINES: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "busybox", "su", "sudo", "ssh", "eval", "watch", "script",
    "parallel", "xargs", "timeout", "nohup", "runuser", "-c",
];

fn is_program(word: &[u8], name: &str) -> bool {
    word.rsplit(|c| *c == b'/').next() == Some(name.as_bytes())
}

/// The secret in a word that stands for itself, and what the next word hides.
fn alone(word: &[u8], program: &Program) -> (Option<Range<usize>>, Option<Secret>) {
    if let Some((start, secret)) = program.attached(word) {
        return (part(word, start, secret), None);
    }
    if let Some(secret) = program.expects(word) {
        return (None, Some(secret));
    }
    match name_and_value(word) {
        (name, Some(value)) if names::is_secret(name) => (part(word, value, Secret::Whole), None),
        (name, None) if word.starts_with(b"-") && names::is_secret(name) => (None, Some(Secret::Whole)),
        // `npm config set //host/:_authToken VALUE`
        (name, None) if is_registry_setting(name) => (None, Some(Secret::Whole)),
        (_, Some(_) | None) => (None, None),
    }
}

/// An option or assignment: the name before the first `=`, and where its value starts.
fn name_and_value(word: &[u8]) -> (&[u8], Option<usize>) {
    let is_name = |name: &[u8]| name.iter().all(|c| c.is_ascii_alphanumeric() || b"-_./:".contains(c));
    let (name, value) = match word.iter().position(|c| *c == b'=') {
        Some(at) => (word.get(..at).unwrap_or_default(), Some(at + 1)),
        None => (word, None),
    };
    if is_name(name) { (name, value) } else { (b"", None) }
}

fn is_registry_setting(name: &[u8]) -> bool {
    let last = name.rsplit(|c| *c == b':').next().unwrap_or_default();
    [&b"_authToken"[..], b"_auth", b"_password"].contains(&last)
}

/// The secret part of a word, from `start` on; nothing where there is none.
fn part(word: &[u8], start: usize, secret: Secret) -> Option<Range<usize>> {
    let value = word.get(start..).unwrap_or_default();
    let start = match secret {
        Secret::Whole => start,
        // `user:password`: the user stays.
        Secret::BehindColon => start + value.iter().position(|c| *c == b':')? + 1,
    };
    let is_reference = text::is_reference(word.get(start..).unwrap_or_default());
    (start < word.len() && !is_reference).then_some(start..word.len())
}
