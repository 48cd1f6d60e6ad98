//! A page of text that is built line by line, in colour or without.

use std::ffi::OsString;

use super::text::{Detail, is_shortened};
use super::wrap;

/// Whether colours are used. They only ever repeat what the words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Colour,
}

impl Paint {
    /// What suits a terminal with these environment variables: <https://no-color.org>.
    pub(super) fn for_terminal(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = Kind::for_terminal(&variable) == Kind::Dumb;
        if is_dumb || set("NO_COLOR") { Self::Plain } else { Self::Colour }
    }
}

/// How every question looks, whatever it is about.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) paint: Paint,
    /// What the sandbox of a command may leave out, as was accepted before.
    pub(super) left_out: Vec<String>,
    pub(super) terminal: Kind,
    pub(super) lifetime: Lifetime,
    pub(super) interrupt: Interrupt,
}

/// What Ctrl-C at a question does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// It is a no, and stops the run and every later question.
    Stops,
    /// It leaves the question open, for others to answer.
    Leaves,
}

/// How long an answer "for this session" holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as one command, about which the same question never comes again.
    #[default]
    Run,
    /// For the next commands, too.
    Session,
}

impl Lifetime {
    /// In words that follow "for the rest of this".
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Session => "session",
        }
    }
}

/// Whether a terminal can be expected to understand what is not plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dumb,
    Usual,
}

impl Kind {
    /// That of a terminal with these environment variables.
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

/// What a line is.
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

/// How many entries of a list a short page has.
const SHORT_LIST: usize = 24;

/// Lines so far, and whether anything was left out.
pub(super) struct Page {
    pub(super) detail: Detail,
    paint: Paint,
    columns: usize,
    text: String,
    shortened: bool,
}

impl Page {
    /// An empty page for a screen of so many columns.
    pub(super) fn new(paint: Paint, columns: usize, detail: Detail) -> Self {
        Self { detail, paint, columns, text: String::new(), shortened: false }
    }

    /// A line, indented by a number of steps. The text has to be fit for a terminal. What does not fit the screen goes
    /// on in further lines, indented deeper than any line of its own.
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

    /// Every entry of a list or, on a short page, the first ones and how many more there are.
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

    /// Says what is not shown.
    pub(super) fn left_out(&mut self, indent: usize, count: usize, what: &str) {
        if count > 0 {
            self.shortened = true;
            self.line(indent, Tone::Warning, &format!("and {count} more {what}, not shown here"));
        }
    }

    /// The text, and whether it is not everything.
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
