//! Turns chunks without line numbers into a unified diff of the current file.
//!
//! Old lines match byte for byte. A chunk without an `@@` line has to occur exactly once in the rest of the file; one
//! with it is the first match below the named line, which is compared without surrounding blanks.

use stockade_protocol::AbsPath;

use super::TextError;

/// Limit on compared lines.
const MOST_COMPARED: usize = 1 << 26;

/// Consecutive lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    /// The `@@` lines above it, in order.
    pub(super) locators: Vec<Vec<u8>>,
    pub(super) lines: Vec<ChunkLine>,
    /// Whether it ends the file.
    pub(super) is_at_end: bool,
}

/// A line without its terminator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChunkLine {
    Context(Vec<u8>),
    Removed(Vec<u8>),
    Added(Vec<u8>),
}

/// The chunks as a unified diff of the file.
pub(super) fn diff(path: &AbsPath, content: &[u8], chunks: &[Chunk]) -> Result<Vec<u8>, TextError> {
    let mut file = File::of(path, content);
    let mut diff = Vec::new();
    let mut shift = 0_isize;
    for (index, chunk) in chunks.iter().enumerate() {
        let piece = index + 1;
        let (at, lines) = file.place(chunk, piece)?;
        let hunk = file.hunk(at, &lines);
        let span = |first: usize, count: usize| format!("{},{count}", if count == 0 { first } else { first + 1 });
        let header = format!("@@ -{} +{} @@\n", span(at, hunk.old), span(at.saturating_add_signed(shift), hunk.new));
        diff.extend_from_slice(header.as_bytes());
        diff.extend_from_slice(&hunk.text);
        shift += isize::try_from(hunk.new).unwrap_or_default() - isize::try_from(hunk.old).unwrap_or_default();
    }
    Ok(diff)
}

struct Hunk {
    text: Vec<u8>,
    old: usize,
    new: usize,
}

struct File<'a> {
    path: &'a AbsPath,
    lines: Vec<&'a [u8]>,
    ends_with_newline: bool,
    /// The line after the last chunk.
    next: usize,
    compared: usize,
}

impl<'a> File<'a> {
    fn of(path: &'a AbsPath, content: &'a [u8]) -> Self {
        let ends_with_newline = content.is_empty() || content.ends_with(b"\n");
        let body = content.strip_suffix(b"\n").unwrap_or(content);
        let lines = if content.is_empty() { Vec::new() } else { body.split(|byte| *byte == b'\n').collect() };
        Self { path, lines, ends_with_newline, next: 0, compared: 0 }
    }

    /// The position of a chunk, and its lines.
    fn place(&mut self, chunk: &Chunk, piece: usize) -> Result<(usize, Vec<ChunkLine>), TextError> {
        let no_match = || TextError::NoMatch { path: self.path.clone(), piece };
        for locator in &chunk.locators {
            let rest = self.lines.iter().enumerate().skip(self.next);
            let found = rest.clone().find(|(_, line)| line.trim_ascii() == locator);
            self.next = found.map(|(index, _)| index + 1).ok_or_else(no_match)?;
        }
        let old: Vec<&[u8]> = chunk.lines.iter().filter_map(ChunkLine::old).collect();
        if old.is_empty() {
            return self.append(chunk, piece);
        }
        let mut found = Vec::new();
        for at in self.next..=self.lines.len().saturating_sub(old.len()) {
            if chunk.is_at_end && at + old.len() != self.lines.len() {
                continue;
            }
            if self.is_at(at, &old)? {
                found.push(at);
            }
            if !found.is_empty() && (!chunk.locators.is_empty() || found.len() > 1) {
                break;
            }
        }
        match found.as_slice() {
            [] => Err(TextError::NoMatch { path: self.path.clone(), piece }),
            [at] => {
                self.next = at + old.len();
                Ok((*at, chunk.lines.clone()))
            }
            _ => Err(TextError::Ambiguous { path: self.path.clone(), piece }),
        }
    }

    fn is_at(&mut self, at: usize, old: &[&[u8]]) -> Result<bool, TextError> {
        for (line, old) in self.lines.iter().skip(at).zip(old) {
            self.compared += 1;
            if self.compared > MOST_COMPARED {
                return Err(TextError::TooLarge { path: self.path.clone() });
            }
            if line != old {
                return Ok(false);
            }
        }
        Ok(at + old.len() <= self.lines.len())
    }

    /// Appends a chunk that only adds lines to the end of the file.
    fn append(&mut self, chunk: &Chunk, piece: usize) -> Result<(usize, Vec<ChunkLine>), TextError> {
        let count = self.lines.len();
        if !chunk.locators.is_empty() || (count > 0 && self.next >= count) {
            return Err(TextError::NoContext { path: self.path.clone(), piece });
        }
        self.next = count;
        let last = self.lines.last().map(|line| ChunkLine::Context(line.to_vec()));
        Ok((count.saturating_sub(1), last.into_iter().chain(chunk.lines.iter().cloned()).collect()))
    }

    /// A hunk's lines. A last line without a terminator gets one.
    fn hunk(&self, at: usize, lines: &[ChunkLine]) -> Hunk {
        let mut hunk = Hunk { text: Vec::new(), old: 0, new: 0 };
        for line in lines {
            let is_open = |hunk: &Hunk| !self.ends_with_newline && at + hunk.old + 1 == self.lines.len();
            match line {
                ChunkLine::Context(text) if !is_open(&hunk) => {
                    hunk.push(b' ', text);
                    (hunk.old, hunk.new) = (hunk.old + 1, hunk.new + 1);
                }
                ChunkLine::Context(text) => {
                    hunk.push(b'-', text);
                    hunk.text.extend_from_slice(b"\\ No newline at end of file\n");
                    hunk.push(b'+', text);
                    (hunk.old, hunk.new) = (hunk.old + 1, hunk.new + 1);
                }
                ChunkLine::Removed(text) => {
                    hunk.push(b'-', text);
                    if is_open(&hunk) {
                        hunk.text.extend_from_slice(b"\\ No newline at end of file\n");
                    }
                    hunk.old += 1;
                }
                ChunkLine::Added(text) => {
                    hunk.push(b'+', text);
                    hunk.new += 1;
                }
            }
        }
        hunk
    }
}

impl Hunk {
    fn push(&mut self, sign: u8, text: &[u8]) {
        self.text.push(sign);
        self.text.extend_from_slice(text);
        self.text.push(b'\n');
    }
}

impl ChunkLine {
    fn old(&self) -> Option<&[u8]> {
        match self {
            Self::Context(text) | Self::Removed(text) => Some(text),
            Self::Added(_) => None,
        }
    }
}
