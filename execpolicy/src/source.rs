//! The text of a rules file, with positions and diagnostics.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::RawText;

/// Longer lines are truncated around the marker, so that a file of one line cannot flood a terminal.
const SHOWN_CHARS: usize = 160;

/// A place in a rules file. Both count from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A range of bytes. Files are far smaller than 4 GiB, see [`crate::MAX_FILE_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        let clamp = |offset| u32::try_from(offset).unwrap_or(u32::MAX);
        Self { start: clamp(start), end: clamp(end) }
    }
}

/// A problem at a span of the text, before it is converted to a line and column.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) at: Span,
    pub(crate) message: String,
    pub(crate) help: String,
}

impl Problem {
    pub(crate) fn new(at: Span, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { at, message: message.into(), help: help.into() }
    }
}

/// A named text with line lookup in logarithmic time, for files with ten thousand rules.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) name: Arc<str>,
    pub(crate) text: &'a str,
    line_starts: Vec<u32>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(name: &str, text: &'a str) -> Self {
        let breaks =
            text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| Span::new(at + 1, 0).start);
        Self { name: name.into(), text, line_starts: std::iter::once(0).chain(breaks).collect() }
    }

    pub(crate) fn position(&self, at: Span) -> Position {
        let (line, start) = self.line_of(at.start);
        let column = self.text.get(start..at.start as usize).map_or(0, |before| before.chars().count());
        Position { line, column: column + 1 }
    }

    /// The number and the start of the line that contains this offset.
    fn line_of(&self, offset: u32) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|index| self.line_starts.get(index)).copied().unwrap_or(0);
        (line.max(1), start as usize)
    }

    pub(crate) fn diagnose(&self, problem: Problem) -> Diagnostic {
        let (_, start) = self.line_of(problem.at.start);
        let rest = self.text.get(start..).unwrap_or_default();
        let line = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let position = self.position(problem.at);
        let marked = self.text.get(problem.at.start as usize..problem.at.end as usize).unwrap_or_default();
        Diagnostic {
            file: self.name.clone(),
            position,
            length: marked.split('\n').next().unwrap_or_default().chars().count().max(1),
            source_line: line.to_owned(),
            message: problem.message,
            help: problem.help,
        }
    }
}

/// A problem in a rules file, its position, and what to write instead.
///
/// Displayed like a rustc diagnostic, with all text of the file escaped: a rules file may come from an untrusted
/// project, and its text reaches a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, as it was named to the loader.
    pub file: Arc<str>,
    /// Where the marked part starts.
    pub position: Position,
    /// How many characters are marked on that line.
    pub length: usize,
    /// The line, as it stands in the file.
    pub source_line: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, message, help, .. } = self;
        let number = position.line.to_string();
        let gutter = " ".repeat(number.len());
        let (shown, before, marked) = self.excerpt();
        let (pad, marker) = (" ".repeat(before), "^".repeat(marked));
        writeln!(f, "{message}")?;
        writeln!(f, "{gutter}--> {}:{position}", RawText::from(file.as_ref()))?;
        writeln!(f, "{gutter} |")?;
        writeln!(f, "{number} | {shown}")?;
        writeln!(f, "{gutter} | {pad}{marker}")?;
        write!(f, "{gutter} = help: {help}")
    }
}

impl Diagnostic {
    /// The displayed part of the line, escaped, and the widths before and of the marker.
    fn excerpt(&self) -> (String, usize, usize) {
        let skip = self.position.column.saturating_sub(1);
        let from = skip.saturating_sub(SHOWN_CHARS / 2);
        let pick = |start: usize, count: usize| -> String {
            let part: String = self.source_line.chars().skip(start).take(count).collect();
            RawText::from(part).to_string()
        };
        let before = pick(from, skip - from);
        let marked = pick(skip, self.length.min(SHOWN_CHARS / 2));
        let after = pick(skip + self.length.min(SHOWN_CHARS / 2), SHOWN_CHARS / 2);
        let widths = (before.chars().count(), marked.chars().count().max(1));
        (format!("{before}{marked}{after}"), widths.0, widths.1)
    }
}

/// Text of a rule for a message: escaped and truncated.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_CHARS / 2).collect();
    let dots = if shown.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", RawText::from(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_at_its_line_and_column() {
        let source = Source::new("a.rules", "x = 1\ny = \"\u{e9}\u{1b}[2J\" + bad\n");
        let at = source.text.find("bad").unwrap();
        let shown =
            source.diagnose(Problem::new(Span::new(at, at + 3), "`bad` is not defined", "define it")).to_string();
        let expected = "`bad` is not defined\n --> a.rules:2:15\n  |\n2 | y = \"\u{e9}\\u{1b}[2J\" + bad\n  |                    ^^^\n  = help: define it";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_line_without_end_is_cut_around_the_marker() {
        let text = "x".repeat(1_000_000);
        let shown =
            Source::new("a.rules", &text).diagnose(Problem::new(Span::new(500_000, 900_000), "m", "h")).to_string();
        assert!(shown.len() < 600, "{}", shown.len());
    }
}
