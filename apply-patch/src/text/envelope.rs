//! The envelope of codex's `apply_patch`: `*** Begin Patch`, changes, `*** End Patch`.

use super::locate::{Chunk, ChunkLine};
use super::{Lines, TextChange, TextError, Update, without_end};

const BEGIN: &[u8] = b"*** Begin Patch";
const END: &[u8] = b"*** End Patch";
const END_OF_FILE: &[u8] = b"*** End of File";
const A_CHANGE: &str = "`*** Add File: `, `*** Delete File: `, `*** Update File: ` or `*** End Patch`";

/// Whether the text is an envelope.
pub(super) fn is_one(lines: &Lines<'_>) -> bool {
    let first = lines.lines.iter().find(|line| !line.trim_ascii().is_empty());
    first.is_some_and(|line| line.trim_ascii() == BEGIN)
}

/// Reads all changes and the end.
pub(super) fn read(lines: &mut Lines<'_>) -> Result<Vec<TextChange>, TextError> {
    while lines.take().is_some_and(|line| line.trim_ascii() != BEGIN) {}
    let mut changes = Vec::new();
    loop {
        if lines.peek().ok_or(TextError::Cut { missing: "`*** End Patch`" })?.trim_ascii() == END {
            lines.take();
            break;
        }
        let change = if let Some(name) = lines.take_after("*** Add File: ") {
            TextChange::Add { name: name.to_vec(), content: added(lines) }
        } else if let Some(name) = lines.take_after("*** Delete File: ") {
            TextChange::Delete { name: name.to_vec(), content: None }
        } else if let Some(name) = lines.take_after("*** Update File: ") {
            let to = lines.take_after("*** Move to: ").map(<[u8]>::to_vec);
            let chunks = chunks(lines)?;
            if chunks.is_empty() && to.is_none() {
                return Err(lines.unexpected("lines that change, each behind ` `, `-` or `+`"));
            }
            TextChange::Update { name: name.to_vec(), update: Update::Chunks(chunks), to }
        } else {
            return Err(lines.unexpected(A_CHANGE));
        };
        changes.push(change);
    }
    match lines.lines.iter().skip(lines.next).position(|line| !line.trim_ascii().is_empty()) {
        None => Ok(changes),
        Some(after) => Err(TextError::Unexpected { line: lines.next + after + 1, expected: "nothing after the end" }),
    }
}

fn added(lines: &mut Lines<'_>) -> Vec<u8> {
    let mut content = Vec::new();
    while let Some(line) = lines.peek().and_then(|line| line.strip_prefix(b"+")) {
        content.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
        content.push(b'\n');
        lines.take();
    }
    content
}

/// The chunks of one file. Several consecutive `@@` lines locate one chunk.
fn chunks(lines: &mut Lines<'_>) -> Result<Vec<Chunk>, TextError> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut chunk = Chunk::default();
    while let Some(line) = lines.peek() {
        if without_end(line).trim_ascii_end() == END_OF_FILE {
            if chunk.lines.is_empty() {
                return Err(lines.unexpected("lines before the end of the file"));
            }
            lines.take();
            chunk.is_at_end = true;
            chunks.push(std::mem::take(&mut chunk));
            continue;
        }
        if line.starts_with(b"*** ") {
            break;
        }
        if let Some(locator) = line.strip_prefix(b"@@") {
            if !chunk.lines.is_empty() {
                chunks.push(std::mem::take(&mut chunk));
            }
            let locator = locator.trim_ascii();
            if !locator.is_empty() {
                chunk.locators.push(locator.to_vec());
            }
        } else {
            let text = line.strip_suffix(b"\n").unwrap_or(line);
            chunk.lines.push(match text.split_first() {
                // Editors strip the blank of an empty context line.
                None => ChunkLine::Context(Vec::new()),
                Some((b' ', text)) => ChunkLine::Context(text.to_vec()),
                Some((b'-', text)) => ChunkLine::Removed(text.to_vec()),
                Some((b'+', text)) => ChunkLine::Added(text.to_vec()),
                Some(_) => return Err(lines.unexpected("` `, `-`, `+`, `@@` or `*** `")),
            });
        }
        lines.take();
    }
    if !chunk.lines.is_empty() {
        chunks.push(chunk);
    } else if !chunk.locators.is_empty() {
        return Err(lines.unexpected("lines that change, each behind ` `, `-` or `+`"));
    }
    Ok(chunks)
}
