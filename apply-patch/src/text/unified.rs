//! Unified diffs of any number of files, with surrounding text as in mail and commits.

use stockade_protocol::RawText;

use super::names;
use super::{Lines, TextChange, TextError, Update, without_end};
use crate::UnifiedDiff;
use crate::diff::Numbers;

const NO_MODES: &str = "the patch changes a file's mode, which is not done here: leave that part out, and use chmod";
const NO_EXECUTABLES: &str =
    "the patch adds an executable file: change `new file mode` to 100644, and use chmod afterwards";
const NO_LINKS: &str = "the patch adds, changes or removes a link or a submodule, which is not done here: leave it out";
const NO_COPIES: &str = "the patch copies a file, which is not done here: make it with `git diff --no-renames`";
const NO_BINARIES: &str = "the patch changes a binary file, which is not done here: leave it out";
const NO_MERGES: &str = "this is the diff of a merge: make one against a single commit";

/// Reads all changes up to the end.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Vec<TextChange>, TextError> {
    let mut changes = Vec::new();
    // A line directly after a hunk that looks like a part of it is an error.
    let mut follows_hunk = false;
    while let Some(line) = lines.peek() {
        if lines.take_after("diff --git ").map(|header| read_git(header, lines, &mut changes)).transpose()?.is_some() {
            follows_hunk = true;
        } else if starts_plain(lines) {
            changes.push(read_plain(lines)?);
            follows_hunk = true;
        } else if line.starts_with(b"@@ -") {
            return Err(lines.unexpected("`--- FILE` and `+++ FILE` before a hunk"));
        } else if line.starts_with(b"@@@ ") || line.starts_with(b"diff --cc ") || line.starts_with(b"diff --combined ")
        {
            return Err(unsupported(lines, NO_MERGES));
        } else if line.starts_with(b"Binary files ") {
            return Err(unsupported(lines, NO_BINARIES));
        } else {
            let is_signature = matches!(without_end(line), b"-- " | b"--");
            if follows_hunk && !is_signature && matches!(line.first(), Some(b'+' | b'-' | b' ' | b'\\')) {
                return Err(lines.unexpected("no more lines of a hunk than its header says"));
            }
            follows_hunk &= without_end(line).is_empty();
            lines.take();
        }
    }
    Ok(changes)
}

fn starts_plain(lines: &Lines<'_>) -> bool {
    let starts = |line: Option<&[u8]>, with: &[u8]| line.is_some_and(|line| line.starts_with(with));
    starts(lines.peek(), b"--- ") && starts(lines.peek_second(), b"+++ ")
}

fn unsupported(lines: &Lines<'_>, what: &'static str) -> TextError {
    TextError::Unsupported { line: lines.next + 1, what }
}

/// The git headers of a file before its hunks.
#[derive(Default)]
struct Headers {
    is_new: bool,
    is_deleted: bool,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

fn read_git(header: &[u8], lines: &mut Lines<'_>, changes: &mut Vec<TextChange>) -> Result<(), TextError> {
    let first_line = lines.next;
    let headers = git_headers(lines)?;
    let named = if starts_plain(lines) { Some(file_names(lines)) } else { None };
    let hunks = hunks(lines)?;
    let (old, new) = match (headers, named) {
        (Headers { from: Some(from), to: Some(to), .. }, _) => (Some(from), Some(to)),
        (_, Some((old, new))) if names::have_prefixes(header) => one_name(first_line, old, new)?,
        (_, Some((old, new))) => {
            check_same(first_line, old.as_deref(), new.as_deref())?;
            (old, new)
        }
        (headers, None) => {
            let name = names::both(header);
            if name.is_none() || !(headers.is_new || headers.is_deleted) {
                return Err(TextError::Unexpected { line: first_line, expected: "changes of this file" });
            }
            (name.clone().filter(|_| !headers.is_new), name.filter(|_| !headers.is_deleted))
        }
    };
    changes.push(change(first_line, old, new, hunks)?);
    Ok(())
}

type Names = (Option<Vec<u8>>, Option<Vec<u8>>);

/// The names without their prefixes, which have to be equal then.
fn one_name(line: usize, old: Option<Vec<u8>>, new: Option<Vec<u8>>) -> Result<Names, TextError> {
    if let (Some(old), Some(new)) = (&old, &new) {
        let (old, new) = names::without_prefixes(old, new);
        check_same(line, Some(old), Some(new))?;
        return Ok((Some(old.to_vec()), Some(new.to_vec())));
    }
    let clean = |name: Option<Vec<u8>>| name.map(|name| names::without_prefix(&name).to_vec());
    Ok((clean(old), clean(new)))
}

fn check_same(line: usize, old: Option<&[u8]>, new: Option<&[u8]>) -> Result<(), TextError> {
    match (old, new) {
        (Some(old), Some(new)) if old != new => {
            Err(TextError::TwoNames { line, old: RawText::from(old.to_vec()), new: RawText::from(new.to_vec()) })
        }
        _ => Ok(()),
    }
}

fn git_headers(lines: &mut Lines<'_>) -> Result<Headers, TextError> {
    let mut headers = Headers::default();
    while let Some(line) = lines.peek() {
        let line = without_end(line);
        let after = |prefix: &str| line.strip_prefix(prefix.as_bytes());
        if let Some(mode) = after("new file mode ") {
            headers.is_new = true;
            check_mode(mode, lines)?;
        } else if let Some(mode) = after("deleted file mode ") {
            headers.is_deleted = true;
            if !mode.starts_with(b"100") {
                return Err(unsupported(lines, NO_LINKS));
            }
        } else if after("old mode ").is_some() || after("new mode ").is_some() {
            return Err(unsupported(lines, NO_MODES));
        } else if after("copy from ").is_some() || after("copy to ").is_some() {
            return Err(unsupported(lines, NO_COPIES));
        } else if let Some(name) = after("rename from ") {
            headers.from = Some(names::plain(name));
        } else if let Some(name) = after("rename to ") {
            headers.to = Some(names::plain(name));
        } else if let Some(ids) = after("index ") {
            if ids.ends_with(b" 120000") || ids.ends_with(b" 160000") {
                return Err(unsupported(lines, NO_LINKS));
            }
        } else if after("Binary files ").is_some() || after("GIT binary patch").is_some() {
            return Err(unsupported(lines, NO_BINARIES));
        } else if after("similarity index ").is_none() && after("dissimilarity index ").is_none() {
            break;
        }
        lines.take();
    }
    Ok(headers)
}

fn check_mode(mode: &[u8], lines: &Lines<'_>) -> Result<(), TextError> {
    match mode {
        b"100644" => Ok(()),
        b"120000" | b"160000" => Err(unsupported(lines, NO_LINKS)),
        _ => Err(unsupported(lines, NO_EXECUTABLES)),
    }
}

fn read_plain(lines: &mut Lines<'_>) -> Result<TextChange, TextError> {
    let first_line = lines.next + 1;
    let (old, new) = file_names(lines);
    let hunks = hunks(lines)?;
    let (old, new) = one_name(first_line, old, new)?;
    if hunks.is_empty() {
        return Err(lines.unexpected("`@@ -1,2 +1,2 @@`"));
    }
    change(first_line, old, new, hunks)
}

/// The names of the `--- ` and `+++ ` lines.
fn file_names(lines: &mut Lines<'_>) -> Names {
    let old = lines.take_after("--- ").and_then(names::name);
    let new = lines.take_after("+++ ").and_then(names::name);
    (old, new)
}

/// The hunks of one file, with as many lines as their headers say.
fn hunks(lines: &mut Lines<'_>) -> Result<Vec<u8>, TextError> {
    let mut text = Vec::new();
    while let Some(header) = lines.peek().filter(|line| line.starts_with(b"@@ -")) {
        let numbers = Numbers::parse(header).ok_or_else(|| lines.unexpected("`@@ -1,2 +1,2 @@`"))?;
        text.extend_from_slice(header);
        lines.take();
        let (mut old, mut new) = (numbers.old.count, numbers.new.count);
        while old > 0 || new > 0 || lines.peek().is_some_and(|line| line.starts_with(b"\\ ")) {
            let line = lines.peek().ok_or(TextError::Cut { missing: "lines of its last hunk" })?;
            let (from_old, from_new) = match line.first() {
                Some(b' ' | b'\n') => (1, 1),
                Some(b'-') => (1, 0),
                Some(b'+') => (0, 1),
                Some(b'\\') => (0, 0),
                _ => return Err(lines.unexpected("` `, `-` or `+`: the hunk has fewer lines than its header says")),
            };
            let too_many = || lines.unexpected("no more lines of a hunk than its header says");
            old = old.checked_sub(from_old).ok_or_else(too_many)?;
            new = new.checked_sub(from_new).ok_or_else(too_many)?;
            text.extend_from_slice(line);
            lines.take();
        }
    }
    Ok(text)
}

fn change(
    first_line: usize,
    old: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
    hunks: Vec<u8>,
) -> Result<TextChange, TextError> {
    let parsed = |name: &[u8]| {
        UnifiedDiff::parse(&hunks).map_err(|source| TextError::Diff { name: RawText::from(name.to_vec()), source })
    };
    let problem = |expected: &'static str| TextError::Unexpected { line: first_line, expected };
    match (old, new) {
        (None, None) => Err(problem("the name of a file")),
        (None, Some(name)) => {
            let content = parsed(&name)?.apply(b"").map_err(|_| problem("only added lines for a new file"))?;
            Ok(TextChange::Add { name, content })
        }
        (Some(name), None) => {
            let diff = parsed(&name)?;
            let content = diff.old_text();
            match diff.apply(&content) {
                Ok(rest) if rest.is_empty() => Ok(TextChange::Delete { name, content: Some(content) }),
                Ok(_) | Err(_) => Err(problem("all lines of a file that is deleted")),
            }
        }
        (Some(name), Some(new)) => {
            parsed(&name)?;
            let to = Some(new).filter(|new| *new != name);
            Ok(TextChange::Update { name, update: Update::Diff(hunks), to })
        }
    }
}
