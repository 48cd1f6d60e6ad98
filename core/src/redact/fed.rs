//! Passwords that a command reads from its standard input: `echo me:… | chpasswd`, `passwd --stdin me <<< …`.

use std::ops::Range;

/// Programs whose input is `user:password`.
const PAIRS: &[&str] = &["chpasswd", "chgpasswd", "newusers"];
/// Programs whose input is a password.
const WHOLE: &[&str] = &["passwd", "smbpasswd", "cryptsetup", "vncpasswd", "kinit"];
/// Options that make other programs read a password.
const OPTIONS: &[&str] = &["--password-stdin", "--passphrase-fd", "--with-token", "--token-stdin", "--pass-stdin"];

/// The secret part of the input.
#[derive(Clone, Copy, PartialEq)]
enum Input {
    BehindColon,
    Whole,
}

/// Finds the secrets in the input of `command`, from `feeding` or a here-string.
pub(super) fn find(bytes: &[u8], feeding: &[Range<usize>], command: &[Range<usize>], secrets: &mut Vec<Range<usize>>) {
    let text = |word: &Range<usize>| bytes.get(word.clone()).unwrap_or_default();
    let Some(input) = command.iter().find_map(|word| input_of(text(word), command.iter().map(text))) else { return };
    let program = feeding.first().map(text).map(base_name);
    if matches!(program, Some(b"echo" | b"printf")) {
        let words = feeding.iter().skip(1).filter(|word| !text(word).starts_with(b"-"));
        // The format of `printf`, unless it is the password itself.
        let is_format = |word: &&Range<usize>| program == Some(b"printf") && text(word).contains(&b'%');
        secrets.extend(words.filter(|word| !is_format(word)).filter_map(|word| hidden(bytes, word, input)));
    }
    for (number, word) in command.iter().enumerate() {
        let Some(glued) = text(word).strip_prefix(b"<<<") else { continue };
        let value = if glued.is_empty() { command.get(number + 1).cloned() } else { Some(word.start + 3..word.end) };
        secrets.extend(value.and_then(|value| hidden(bytes, &unquoted(bytes, value), input)));
    }
}

fn base_name(word: &[u8]) -> &[u8] {
    word.rsplit(|c| *c == b'/').next().unwrap_or_default()
}

fn input_of<'a>(word: &[u8], mut all: impl Iterator<Item = &'a [u8]>) -> Option<Input> {
    let is = |list: &[&str]| list.iter().any(|name| name.as_bytes() == base_name(word));
    if is(PAIRS) {
        return Some(Input::BehindColon);
    }
    let reads_password = base_name(word) == b"sudo" && all.any(|word| word == b"-S");
    (is(WHOLE) || is(OPTIONS) || reads_password).then_some(Input::Whole)
}

fn unquoted(bytes: &[u8], word: Range<usize>) -> Range<usize> {
    match bytes.get(word.clone()) {
        Some([b'"', .., b'"'] | [b'\'', .., b'\'']) => word.start + 1..word.end - 1,
        Some(_) | None => word,
    }
}

fn hidden(bytes: &[u8], word: &Range<usize>, input: Input) -> Option<Range<usize>> {
    let value = bytes.get(word.clone())?;
    let start = match input {
        Input::Whole => 0,
        Input::BehindColon => value.iter().position(|c| *c == b':')? + 1,
    };
    let is_reference = super::text::is_reference(value.get(start..)?);
    (start < value.len() && !is_reference).then_some(word.start + start..word.end)
}
