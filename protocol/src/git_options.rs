//! The options that `git` takes before its subcommand: one table for all who look for the subcommand behind them.
//!
//! `git` knows no abbreviations of these (<https://git-scm.com/docs/git#_options>).

/// An option before the subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GitOption {
    /// What it changes.
    pub effect: GitOptionEffect,
    /// Whether the next word is its value.
    pub takes_next: bool,
}

/// What an option before the subcommand changes, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitOptionEffect {
    /// Neither where `git` works nor which programs it starts.
    Nothing,
    /// Which repository or directory it works in, or whether it starts the pager that is set up there.
    Place,
    /// Settings, which may name a program, or where its own programs are.
    Settings,
}

use GitOptionEffect::{Nothing, Place, Settings};

/// Options without a value.
const ALONE: &[(&str, GitOptionEffect)] = &[
    ("--bare", Place),
    ("--exec-path", Nothing),
    ("--glob-pathspecs", Nothing),
    ("--help", Nothing),
    ("--html-path", Nothing),
    ("--icase-pathspecs", Nothing),
    ("--info-path", Nothing),
    ("--literal-pathspecs", Nothing),
    ("--man-path", Nothing),
    ("--no-advice", Nothing),
    ("--no-lazy-fetch", Nothing),
    ("--no-optional-locks", Nothing),
    ("--no-pager", Nothing),
    ("--no-replace-objects", Nothing),
    ("--noglob-pathspecs", Nothing),
    ("--paginate", Place),
    ("--version", Nothing),
    ("-P", Nothing),
    ("-h", Nothing),
    ("-p", Place),
    ("-v", Nothing),
];

/// Options with a value, in the next word or, if they are long, behind `=`.
const WITH_VALUE: &[(&str, GitOptionEffect)] = &[
    ("--attr-source", Place),
    ("--config-env", Settings),
    ("--git-dir", Place),
    ("--namespace", Place),
    ("--super-prefix", Place),
    ("--work-tree", Place),
    ("-C", Place),
    ("-c", Settings),
];

impl GitOption {
    /// Reads a word that stands before the subcommand. `None` for one that is no known option.
    ///
    /// ```
    /// use stockade_protocol::{GitOption, GitOptionEffect};
    ///
    /// let place = GitOption { effect: GitOptionEffect::Place, takes_next: true };
    /// assert_eq!(GitOption::read("-C"), Some(place));
    /// assert_eq!(GitOption::read("--git-dir=x"), Some(GitOption { takes_next: false, ..place }));
    /// assert_eq!(GitOption::read("push"), None);
    /// ```
    pub fn read(word: &str) -> Option<Self> {
        let find = |table: &[(&str, GitOptionEffect)], name: &str| {
            table.iter().find(|(own, _)| *own == name).map(|(_, effect)| *effect)
        };
        if let Some(effect) = find(ALONE, word) {
            return Some(Self { effect, takes_next: false });
        }
        if let Some(effect) = find(WITH_VALUE, word) {
            return Some(Self { effect, takes_next: true });
        }
        let (name, _) = word.split_once('=').filter(|(name, _)| name.starts_with("--"))?;
        let effect = if name == "--exec-path" { Some(Settings) } else { find(WITH_VALUE, name) };
        effect.map(|effect| Self { effect, takes_next: false })
    }
}
