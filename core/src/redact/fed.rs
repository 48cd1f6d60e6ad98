//! Passwords that a command reads from its standard input: `echo me:… | chpasswd`, `passwd --stdin me <<< …`, and
//! here-documents.

use std::ops::Range;

/// Programs whose input is `user:password`.
const PAIRS: &[&str] = &["chpasswd", "chgpasswd", "newusers"];
/// Programs whose input is a password.
const WHOLE: &[&str] = &["passwd", "smbpasswd", "cryptsetup", "vncpasswd", "kinit"];
/// Options that make other programs read a password.
const OPTIONS: &[&str] = &["--password-stdin", "--passphrase-fd", "--with-token", "--token-stdin", "--pass-stdin"];

/// Limit on the commands of a pipeline before the one that reads.
pub(super) const MOST_STAGES: usize = 8;
/// Limit on the lines of a here-document that are looked at, so that the time grows with the length alone.
const MOST_LINES: usize = 256;

/// The secret part of the input.
#[derive(Clone, Copy, PartialEq)]
enum Input {
    BehindColon,
    Whole,
}

/// Finds the secrets in the input of `command`: the words of `echo` and `printf` in an earlier stage of its pipeline,
/// here-strings, and the lines `below` it, if it is the last of its line, up to the end of a here-document.
pub(super) fn find(
    bytes: &[u8],
    feeding: &[Vec<Range<usize>>],
    command: &[Range<usize>],
    below: Option<Range<usize>>,
    secrets: &mut Vec<Range<usize>>,
) {
    let text = |word: &Range<usize>| bytes.get(word.clone()).unwrap_or_default();
    let Some(input) = command.iter().find_map(|word| input_of(text(word), command.iter().map(text))) else { return };
    for stage in feeding {
        // `sudo echo …`, `{ echo …; }`, `then echo …`
        let writes = |word: &Range<usize>| matches!(base_name(text(word)), b"echo" | b"printf");
        let Some(program) = stage.iter().position(writes) else { continue };
        let is_printf = stage.get(program).is_some_and(|word| base_name(text(word)) == b"printf");
        let words = stage.iter().skip(program + 1).filter(|word| !text(word).starts_with(b"-"));
        // The format of `printf`, unless it is the password itself.
        let is_format = |word: &&Range<usize>| is_printf && text(word).contains(&b'%');
        secrets.extend(words.filter(|word| !is_format(word)).filter_map(|word| hidden(bytes, word, input)));
    }
    for words in feeding.iter().map(Vec::as_slice).chain([command]) {
        for (number, word) in words.iter().enumerate() {
            let value = |glued: usize| match text(word).len() > glued {
                true => Some(word.start + glued..word.end),
                false => words.get(number + 1).cloned(),
            };
            if text(word).starts_with(b"<<<") {
                secrets.extend(value(3).and_then(|value| hidden(bytes, &unquoted(bytes, value), input)));
            } else if text(word).starts_with(b"<<")
                && let (Some(end), Some(below)) = (value(2), below.clone())
            {
                document(bytes, below, text(&end), input, secrets);
            }
        }
    }
}

/// Finds the secrets in the lines of a here-document, up to the line that is `end`.
fn document(bytes: &[u8], below: Range<usize>, end: &[u8], input: Input, secrets: &mut Vec<Range<usize>>) {
    let end = end.strip_prefix(b"-").unwrap_or(end);
    let end: Vec<u8> = end.iter().copied().filter(|c| !b"'\"\\".contains(c)).collect();
    let mut start = below.start;
    let lines = bytes.get(below).unwrap_or_default().split(|c| *c == b'\n');
    for line in lines.take(MOST_LINES).take_while(|line| line.trim_ascii() != end) {
        secrets.extend(hidden(bytes, &(start..start + line.len()), input));
        start += line.len() + 1;
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
