//! The paths that an error message names.

use std::path::Path;

use stockade_protocol::AbsPath;
use stockade_sandboxing::absolute;

use super::files::Attempt;

/// The number of pieces before the reason that may contain the path: `tar (child): ../x: Cannot open: Read-only file
/// system`.
const MOST_PIECES: usize = 3;
/// The number of words tried as the first of a path with spaces.
const MOST_WORDS: usize = 16;

/// The paths in a message: the quoted text, else the text before the reason.
pub(super) fn paths(line: &str, reason: usize, attempt: Attempt, cwd: &AbsPath) -> Vec<AbsPath> {
    let in_quotes = quoted(line);
    let candidates = if in_quotes.is_empty() { before(line, reason, cwd) } else { in_quotes };
    let mut found: Vec<AbsPath> = Vec::new();
    for path in candidates.into_iter().filter_map(|text| to_path(text, attempt, cwd)) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

pub(super) fn quoted(line: &str) -> Vec<&str> {
    const PAIRS: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('‘', '’'), ('“', '”'), ('`', '`')];
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((at, open)) = rest.char_indices().find(|(_, c)| PAIRS.iter().any(|(open, _)| open == c)) {
        let after = rest.get(at + open.len_utf8()..).unwrap_or_default();
        let close = PAIRS.iter().find(|(first, _)| *first == open).map_or(open, |(_, last)| *last);
        let Some((inside, behind)) = after.split_once(close) else { break };
        found.push(inside);
        rest = behind;
    }
    found
}

/// `sh: 1: cannot create /etc/x: Permission denied`: the piece before the reason, and its last word.
fn before<'a>(line: &'a str, reason: usize, cwd: &AbsPath) -> Vec<&'a str> {
    let Some(pieces) = line.get(..reason).and_then(|before| before.trim_end().strip_suffix(':')) else {
        return Vec::new();
    };
    let mut pieces = pieces.rsplit(": ").map(str::trim).take(MOST_PIECES);
    let nearest = pieces.next().unwrap_or_default();
    // `Cannot open` is the act, and the path precedes it.
    let is_verb = nearest.to_lowercase().strip_prefix("cannot ").is_some_and(|verb| !verb.contains(' '));
    if is_verb {
        return pieces.filter(|piece| piece.contains('/')).collect();
    }
    let last_word = nearest.rsplit(' ').next().unwrap_or_default();
    // A path may contain spaces and follow other words.
    let exists = |text: &&str| {
        let path = absolute(cwd, Path::new(text)).ok().and_then(|path| path.to_host_path());
        path.is_some_and(|path| path.exists() || path.parent().is_some_and(Path::exists))
    };
    let with_spaces = nearest.match_indices(' ').filter_map(|(space, _)| nearest.get(space + 1..));
    let with_spaces = std::iter::once(nearest).chain(with_spaces).take(MOST_WORDS);
    let with_spaces = with_spaces.filter(|text| text.contains(' ') && text.contains('/'));
    match with_spaces.filter(exists).last() {
        Some(path) => vec![path],
        None => vec![last_word],
    }
}

/// Whether a path is specific to a process, such as its open files. What the command saw there can't be examined from
/// here.
pub(super) fn is_of_the_process(path: &AbsPath) -> bool {
    let mut names = path.components();
    match (names.next(), names.next()) {
        (Some(b"dev"), Some(b"fd" | b"stdin" | b"stdout" | b"stderr")) => true,
        (Some(b"proc"), Some(name)) => name == b"self" || name == b"thread-self" || name.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn to_path(text: &str, attempt: Attempt, cwd: &AbsPath) -> Option<AbsPath> {
    let text = text.trim();
    let sensible = !text.is_empty() && text.len() < 1024 && !text.contains("://") && !text.contains('\0');
    if !sensible {
        return None;
    }
    let absolute = absolute(cwd, Path::new(text)).ok()?;
    if is_of_the_process(&absolute) {
        return None;
    }
    // A sentence is not a path: an ancestor has to exist, and a bare word has to be a file itself, unless it was to be
    // created. A placeholder is gone by now, with everything below it.
    let (path, parent) = (absolute.to_host_path()?, absolute.parent()?.to_host_path()?);
    let exists = |path: &AbsPath| path.to_host_path().is_some_and(|path| path.exists());
    let is_made = match attempt {
        Attempt::Write | Attempt::MakeDirectory | Attempt::Replace | Attempt::Taken => true,
        Attempt::Unclear | Attempt::Missing => false,
    };
    let fits = match (text.contains('/'), is_made) {
        (false, false) => path.symlink_metadata().is_ok(),
        _ if path.exists() => true,
        (_, true) => {
            let below_something = absolute.ancestors().find(exists).is_some_and(|above| above.parent().is_some());
            (!text.contains(' ') && below_something) || parent.exists()
        }
        (true, false) => !text.contains(' ') && parent.exists(),
    };
    fits.then_some(absolute)
}
