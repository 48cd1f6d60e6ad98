//! A page of text, built line by line, with or without colour.

use std::ffi::OsString;

use super::text::{Detail, is_shortened};
use super::wrap;

/// Whether colours are used. They only repeat what the text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Colour,
}

impl Paint {
    /// The choice for a terminal with these environment variables: <https://no-color.org>.
    pub(super) fn for_terminal(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = Kind::for_terminal(&variable) == Kind::Dumb;
        if is_dumb || set("NO_COLOR") { Self::Plain } else { Self::Colour }
    }
}

/// Display options of all questions.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) paint: Paint,
    /// The accepted losses of a command's sandbox.
    pub(super) left_out: Vec<String>,
    pub(super) terminal: Kind,
    pub(super) lifetime: Lifetime,
    pub(super) interrupt: Interrupt,
}

/// The effect of Ctrl-C at a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// It denies, and stops the run and every later question.
    Stops,
    /// It leaves the question open, for others to answer.
    Leaves,
}

/// How long an answer "for this session" holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// For one command, about which the same question never comes again.
    #[default]
    Run,
    /// For the next commands, too.
    Session,
}

impl Lifetime {
    /// The noun after "for the rest of this".
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
        }
    }
}

/// Whether a terminal understands control sequences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dumb,
    Usual,
}

impl Kind {
    /// The kind of a terminal with these environment variables.
    pub(super) fn for_terminal(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let dumb = variable("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if dumb { Self::Dumb } else { Self::Usual }
    }
}

impl From<Paint> for Look {
    fn from(paint: Paint) -> Self {
        Self {
            paint,
            left_out: Vec::new(),
            terminal: Kind::Usual,
            lifetime: Lifetime::Run,
            interrupt: Interrupt::Stops,
        }
    }
}

/// The tone of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Normal,
    Title,
    Warning,
    Added,
    Removed,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Normal => None,
            Self::Title => Some("1"),
            Self::Warning => Some("1;31"),
            Self::Added => Some("32"),
            Self::Removed => Some("31"),
        }
    }
}

/// Limit on list entries on a short page.
const SHORT_LIST: usize = 24;

/// The lines so far, and whether anything was omitted.
pub(super) struct Page {
    pub(super) detail: Detail,
    paint: Paint,
    columns: usize,
    text: String,
    shortened: bool,
}

impl Page {
    /// An empty page for a screen of this many columns.
    pub(super) fn new(paint: Paint, columns: usize, detail: Detail) -> Self {
        Self { detail, paint, columns, text: String::new(), shortened: false }
    }

    /// Adds an indented line. The text has to be escaped for a terminal. Long lines are wrapped, indented deeper than
    /// any other line.
    pub(super) fn line(&mut self, indent: usize, tone: Tone, text: &str) {
        self.shortened |= is_shortened(text);
        let continued = indent + 2;
        for (number, row) in wrap::rows(text, self.columns, 2 * indent, 2 * continued).into_iter().enumerate() {
            self.text.push_str(&"  ".repeat(if number == 0 { indent } else { continued }));
            match tone.code().filter(|_| self.paint == Paint::Colour) {
                Some(code) => self.text.extend(["\u{1b}[", code, "m", row, "\u{1b}[0m"]),
                None => self.text.push_str(row),
            }
            self.text.push('\n');
        }
    }

    pub(super) fn plain(&mut self, indent: usize, text: &str) {
        self.line(indent, Tone::Normal, text);
    }

    /// An empty line and a heading.
    pub(super) fn section(&mut self, heading: &str) {
        self.text.push('\n');
        self.plain(1, heading);
    }

    /// Every entry of a list or, on a short page, the first ones and the number of the others.
    pub(super) fn list<T>(&mut self, entries: &[T], what: &str, mut show: impl FnMut(&mut Self, &T)) {
        let most = match self.detail {
            Detail::Short => SHORT_LIST,
            Detail::Whole => usize::MAX,
        };
        for entry in entries.iter().take(most) {
            show(self, entry);
        }
        self.left_out(2, entries.len().saturating_sub(most), what);
    }

    /// Adds a line about omitted entries.
    pub(super) fn left_out(&mut self, indent: usize, count: usize, what: &str) {
        if count > 0 {
            self.shortened = true;
            self.line(indent, Tone::Warning, &format!("and {count} more {what}, not shown here"));
        }
    }

    /// The text, and whether it is incomplete.
    pub(super) fn finish(self) -> (String, bool) {
        (self.text, self.shortened)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_have_them() {
        let paint = |set: &'static [(&str, &str)]| {
            Paint::for_terminal(|name| set.iter().find(|(own, _)| *own == name).map(|(_, value)| value.into()))
        };
        assert_eq!(paint(&[("TERM", "xterm")]), Paint::Colour);
        assert_eq!(paint(&[("TERM", "xterm"), ("NO_COLOR", "")]), Paint::Colour);
        assert_eq!(paint(&[("TERM", "xterm"), ("NO_COLOR", "1")]), Paint::Plain);
        assert_eq!(paint(&[("TERM", "dumb")]), Paint::Plain);
        assert_eq!(paint(&[]), Paint::Plain);
    }
}
