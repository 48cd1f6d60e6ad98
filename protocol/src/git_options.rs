//! The options that `git` takes before its subcommand: one table for all code that looks for the subcommand.
//!
//! `git` accepts no abbreviations of these (<https://git-scm.com/docs/git#_options>).

/// An option before the subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GitOption {
    /// Its effect.
    pub effect: GitOptionEffect,
    /// Whether the next word is its value.
    pub takes_next: bool,
}

/// The effect of an option before the subcommand, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GitOptionEffect {
    /// It changes neither the directory nor the programs that `git` starts.
    Nothing,
    /// It changes the repository or directory, or whether the pager configured there is started.
    Place,
    /// It changes settings, which may name a program, or the path of git's own programs.
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

/// Options with a value, in the next word or, for long ones, after `=`.
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
    /// Reads a word before the subcommand. `None` if it is not a known option.
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
