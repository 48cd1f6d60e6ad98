//! Unified diffs, read strictly.
//!
//! A diff is bytes: its lines end at `\n`, and a `\r` before it belongs to the line. The numbers in a hunk's header
//! have to agree with its lines and with the hunks before it, so a diff that was cut or edited by hand is refused.
//! Only the first line number on the new side is ignored: it follows from the rest, and some programs write it wrong.
//! Other files, renames, modes and binary patches in git's headers are refused.
//!
//! The format is described in the [manual of GNU
//! diffutils](https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html).

mod placing;

/// A unified diff of one file.
///
/// ```
/// use stockade_apply_patch::UnifiedDiff;
///
/// let diff = UnifiedDiff::parse(b"@@ -1,2 +1,2 @@\n one\n-two\n+2\n")?;
/// assert_eq!(diff.apply(b"one\ntwo\nthree\n")?, b"one\n2\nthree\n");
/// assert!(diff.apply(b"one\ntwo \n").is_err());
/// # Ok::<(), stockade_apply_patch::DiffError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnifiedDiff {
    hunks: Vec<Hunk>,
}

/// Consecutive lines of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hunk {
    /// The number of lines of the old file before it.
    skipped: usize,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    kind: Kind,
    /// The line, including its line terminator.
    text: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Context,
    Removed,
    Added,
}

/// Why a diff can't be read or does not fit a file. Lines of the diff and of the file count from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// A line that has no place in a unified diff of one file.
    #[error("line {line} of the diff: expected {expected}")]
    Unexpected {
        /// The line of the diff.
        line: usize,
        /// What was expected there.
        expected: &'static str,
    },
    /// The diff ends within a line or a hunk.
    #[error("the diff is cut: {missing}")]
    Cut {
        /// What is missing.
        missing: &'static str,
    },
    /// A hunk's numbers contradict its lines or the hunks before it.
    #[error("line {line} of the diff: {problem}")]
    Numbers {
        /// The line with the numbers.
        line: usize,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// A hunk that removes and adds nothing.
    #[error("hunk {hunk} changes nothing")]
    NoChange {
        /// The hunk, counted from one.
        hunk: usize,
    },
    /// A hunk with neither context nor removed lines: its position can't be verified.
    #[error("hunk {hunk} has neither context nor removed lines: make the diff with context")]
    NoContext {
        /// The hunk, counted from one.
        hunk: usize,
    },
    /// The old lines are not in the file.
    #[error("hunk {hunk} does not match the file at line {line} or anywhere else: make the diff anew")]
    NoMatch {
        /// The first hunk that does not match at its stated line.
        hunk: usize,
        /// The stated line.
        line: usize,
    },
    /// The old lines occur more than once in the file, and not at the stated line.
    #[error("hunk {hunk} does not match at line {line}, and matches in more than one other place: make the diff anew")]
    Ambiguous {
        /// The first hunk that does not match at its stated line.
        hunk: usize,
        /// The stated line.
        line: usize,
    },
    /// The old lines are not at the stated line, and the search would take too long.
    #[error("hunk {hunk} does not match at line {line}, and the file is too large to search: make the diff anew")]
    TooLarge {
        /// The first hunk that does not match at its stated line.
        hunk: usize,
        /// The stated line.
        line: usize,
    },
}

impl UnifiedDiff {
    /// Reads a diff. Names and times in `---` and `+++` lines are ignored: the change names its file.
    pub fn parse(text: &[u8]) -> Result<Self, DiffError> {
        if text.last().is_some_and(|last| *last != b'\n') {
            return Err(DiffError::Cut { missing: "its last line has no end" });
        }
        let mut reader = Reader { lines: text.split_inclusive(|byte| *byte == b'\n').collect(), next: 0 };
        reader.skip_headers()?;
        let mut hunks: Vec<Hunk> = Vec::new();
        let mut ends = Ends::default();
        while let Some(header) = reader.take() {
            let line = reader.next;
            let numbers =
                Numbers::parse(header).ok_or(DiffError::Unexpected { line, expected: "`@@ -1,2 +1,2 @@`" })?;
            let skipped = ends.check(&numbers).map_err(|problem| DiffError::Numbers { line, problem })?;
            let lines = reader.hunk_lines(&numbers, &mut ends)?;
            if lines.iter().all(|line| line.kind == Kind::Context) {
                return Err(DiffError::NoChange { hunk: hunks.len() + 1 });
            }
            hunks.push(Hunk { skipped, lines });
        }
        Ok(Self { hunks })
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.hunks.is_empty()
    }

    /// All old lines: the content of a file that the diff empties.
    pub(crate) fn old_text(&self) -> Vec<u8> {
        self.hunks.iter().flat_map(Hunk::old_lines).flatten().copied().collect()
    }

    /// The file after the change.
    ///
    /// Old lines have to match byte for byte. If they don't match at the stated lines, all hunks together may be
    /// shifted by the same number of lines, if exactly one such number fits.
    pub fn apply(&self, file: &[u8]) -> Result<Vec<u8>, DiffError> {
        placing::apply(&self.hunks, file)
    }
}

impl Hunk {
    fn old_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Kind::Added)
    }

    fn new_lines(&self) -> impl Iterator<Item = &[u8]> {
        self.side(Kind::Removed)
    }

    fn side(&self, other: Kind) -> impl Iterator<Item = &[u8]> {
        self.lines.iter().filter(move |line| line.kind != other).map(|line| line.text.as_slice())
    }
}

/// `@@ -first,count +first,count @@`
pub(crate) struct Numbers {
    pub(crate) old: Span,
    pub(crate) new: Span,
}

#[derive(Clone, Copy)]
pub(crate) struct Span {
    first: usize,
    pub(crate) count: usize,
}

impl Numbers {
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        let header = header.strip_prefix(b"@@ -")?;
        let end = header.windows(3).position(|three| three == b" @@")?;
        let (spans, rest) = header.split_at_checked(end)?;
        // The rest is a line of the file that shows the hunk's context to people.
        if !matches!(rest.get(3), Some(b' ' | b'\r' | b'\n')) {
            return None;
        }
        let spans = std::str::from_utf8(spans).ok()?;
        let (old, new) = spans.split_once(" +")?;
        Some(Self { old: Span::parse(old)?, new: Span::parse(new)? })
    }
}

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let (first, count) = text.split_once(',').unwrap_or((text, "1"));
        // `parse` would accept a sign.
        let number =
            |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
        Some(Self { first: number(first)?, count: number(count)? })
    }

    /// The number of lines before the span. An empty span names the line before it.
    fn skipped(self) -> Option<usize> {
        if self.count == 0 { Some(self.first) } else { self.first.checked_sub(1) }
    }
}

/// The end of the preceding hunks on both sides.
#[derive(Default)]
struct Ends {
    old: usize,
    old_has_no_newline: bool,
    new_has_no_newline: bool,
}

impl Ends {
    /// The number of old lines before the hunk, if it is consistent with the preceding hunks.
    fn check(&mut self, numbers: &Numbers) -> Result<usize, &'static str> {
        let old = numbers.old.skipped().ok_or("lines count from one")?;
        if old < self.old {
            return Err("the hunk begins before the end of the one above it");
        }
        if self.old_has_no_newline || self.new_has_no_newline {
            return Err("the hunk above ends the file");
        }
        self.old = old.checked_add(numbers.old.count).ok_or("the numbers are too large")?;
        Ok(old)
    }
}

struct Reader<'a> {
    lines: Vec<&'a [u8]>,
    /// The index of the next line, which is the number of the last line taken.
    next: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a [u8]> {
        self.lines.get(self.next).copied()
    }

    fn take(&mut self) -> Option<&'a [u8]> {
        let line = self.peek()?;
        self.next += 1;
        Some(line)
    }

    fn take_if(&mut self, prefix: &[u8]) -> bool {
        let found = self.peek().is_some_and(|line| line.starts_with(prefix));
        self.next += usize::from(found);
        found
    }

    fn skip_headers(&mut self) -> Result<(), DiffError> {
        if self.take_if(b"diff ") {
            self.take_if(b"index ");
        }
        if self.take_if(b"--- ") && !self.take_if(b"+++ ") {
            return Err(DiffError::Unexpected { line: self.next + 1, expected: "`+++ `" });
        }
        Ok(())
    }

    fn hunk_lines(&mut self, numbers: &Numbers, ends: &mut Ends) -> Result<Vec<Line>, DiffError> {
        let (mut old, mut new) = (numbers.old.count, numbers.new.count);
        let mut lines = Vec::new();
        while old > 0 || new > 0 {
            let text = self.take().ok_or(DiffError::Cut { missing: "lines of its last hunk" })?;
            let unexpected = DiffError::Unexpected { line: self.next, expected: "` `, `-` or `+`" };
            let (kind, text) = match text.split_first() {
                Some((b' ', text)) => (Kind::Context, text),
                Some((b'-', text)) => (Kind::Removed, text),
                Some((b'+', text)) => (Kind::Added, text),
                // Editors and mailers strip the blank of an empty context line.
                Some((b'\n', [])) => (Kind::Context, text),
                _ => return Err(unexpected),
            };
            let more = DiffError::Numbers { line: self.next, problem: "the hunk has more lines than its header says" };
            if kind != Kind::Added {
                old = old.checked_sub(1).ok_or(more.clone())?;
            }
            if kind != Kind::Removed {
                new = new.checked_sub(1).ok_or(more)?;
            }
            let mut text = text.to_vec();
            if self.take_if(b"\\ ") {
                text.pop();
                self.end_sides(kind, ends)?;
            } else {
                self.check_open(kind, ends)?;
            }
            lines.push(Line { kind, text });
        }
        Ok(lines)
    }

    /// `\ No newline at end of file`: the line before it is the last of its side.
    fn end_sides(&self, kind: Kind, ends: &mut Ends) -> Result<(), DiffError> {
        self.check_open(kind, ends)?;
        ends.old_has_no_newline |= kind != Kind::Added;
        ends.new_has_no_newline |= kind != Kind::Removed;
        Ok(())
    }

    fn check_open(&self, kind: Kind, ends: &Ends) -> Result<(), DiffError> {
        let ended =
            (kind != Kind::Added && ends.old_has_no_newline) || (kind != Kind::Removed && ends.new_has_no_newline);
        if ended {
            return Err(DiffError::Unexpected { line: self.next, expected: "no line after the end of the file" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
