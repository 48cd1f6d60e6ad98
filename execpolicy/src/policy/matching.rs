//! Matches a command against the rules under each name of its program.

use stockade_protocol::{AbsPath, Argv, CommandRole, Decision, GitOption, ParsedCommand, RawText, Word};

use super::{HostExecutables, Policy};
use crate::evaluation::{Certainty, RuleMatch, RuleRef};
use crate::index::{Met, Node, RuleId, Seen};
use crate::program;
use crate::rule::Extent;

impl Policy {
    /// Every rule that matches a command, or may match it.
    pub(crate) fn matches(&self, command: &impl Subject, paths: HostExecutables) -> Vec<RuleMatch> {
        let mut found = Vec::new();
        let mut may_allow = None;
        self.scan(command, paths, &mut |hit| match hit {
            Hit::Rules { node, words, program, resolved, allows, skipped } => {
                for (decision, id) in self.index.rules_at(node) {
                    let goes_on = skipped > 0 || command.word(words).is_some();
                    let is_exact = self.rules.get(id as usize).is_some_and(|rule| rule.extent == Extent::Exact);
                    let applies = decision != Decision::Allow
                        || (!(is_exact && goes_on)
                            && allows.granted(|| *may_allow.get_or_insert_with(|| command.may_be_allowed())));
                    if applies {
                        found.push(RuleMatch {
                            rule: RuleRef::new(&self.rules, id),
                            decision,
                            certainty: Certainty::Certain,
                            matched_prefix: prefix(command, program, skipped, words),
                            resolved_program: resolved.cloned(),
                        });
                    }
                }
            }
            Hit::Unsure { rule, words, program, skipped } => found.push(RuleMatch {
                rule: RuleRef::new(&self.rules, rule),
                decision: Decision::Prompt,
                certainty: Certainty::Possible,
                matched_prefix: program.map_or_else(Vec::new, |program| prefix(command, program, skipped, words)),
                resolved_program: None,
            }),
        });
        found
    }

    /// The strictest restricting rule, as a possible match of unknown words.
    pub(super) fn any_restriction(&self) -> Option<RuleMatch> {
        self.index.any_restriction().map(|rule| RuleMatch {
            rule: RuleRef::new(&self.rules, rule),
            decision: Decision::Prompt,
            certainty: Certainty::Possible,
            matched_prefix: Vec::new(),
            resolved_program: None,
        })
    }

    /// Walks the tree once for each name of the program, and for `git` once more without the options before its
    /// subcommand.
    pub(super) fn scan<'i>(
        &'i self,
        command: &impl Subject,
        paths: HostExecutables,
        hit: &mut impl FnMut(Hit<'i, '_>),
    ) {
        self.scan_names(command, paths, hit);
        if let Some(plain) = GitSubcommand::of(command) {
            self.scan_names(&plain, paths, &mut |found| match found {
                // A rule for `git` itself has matched already.
                Hit::Rules { words: 0 | 1, .. } => {}
                found @ (Hit::Rules { .. } | Hit::Unsure { .. }) => hit(found.behind(&plain)),
            });
        }
    }

    fn scan_names<'i>(&'i self, command: &impl Subject, paths: HostExecutables, hit: &mut impl FnMut(Hit<'i, '_>)) {
        let given = match command.word(0) {
            None => return,
            Some(Seen::Unknown) => {
                if let Some(rule) = self.index.any_restriction() {
                    hit(Hit::Unsure { rule, words: 0, program: None, skipped: 0 });
                }
                return;
            }
            Some(Seen::Known(given)) => given,
        };
        self.scan_as(command, given, None, Allows::IfPlain, hit);
        let Some(name) = program::base_name(given) else { return };
        let path = AbsPath::parse(given.to_vec()).ok();
        // `//bin/rm` and `/bin/./rm` are `/bin/rm` to the kernel, and so to a restricting rule.
        if let Some(path) = path.as_ref().filter(|path| path.as_raw().as_bytes() != given) {
            self.scan_as(command, path.as_raw().as_bytes(), Some(path), Allows::Never, hit);
        }
        let is_trusted = paths == HostExecutables::Resolve && path.as_ref().is_some_and(|path| self.trusts(name, path));
        let allows = if is_trusted { Allows::IfPlain } else { Allows::Never };
        self.scan_as(command, name, path.as_ref(), allows, hit);
    }

    fn scan_as<'i, 'p>(
        &'i self,
        command: &impl Subject,
        program: &'p [u8],
        resolved: Option<&'p AbsPath>,
        allows: Allows,
        hit: &mut impl FnMut(Hit<'i, 'p>),
    ) {
        self.index.walk(
            program,
            |index| command.word(index),
            |met| match met {
                Met::Rules(node, words) => hit(Hit::Rules { node, words, program, resolved, allows, skipped: 0 }),
                Met::Unsure(node, words) => {
                    if let Some((_, rule)) = node.below {
                        hit(Hit::Unsure { rule, words, program: Some(program), skipped: 0 });
                    }
                }
            },
        );
    }

    fn trusts(&self, name: &[u8], path: &AbsPath) -> bool {
        self.trusted.get(program::key(name).as_ref()).is_some_and(|(_, paths)| paths.contains(path))
    }
}

/// The matched words, with the program under its matching name and without skipped options.
fn prefix(command: &impl Subject, program: &[u8], skipped: usize, words: usize) -> Vec<RawText> {
    let rest = (1 + skipped..words + skipped).filter_map(|index| match command.word(index) {
        Some(Seen::Known(text)) => Some(RawText::from(text.to_vec())),
        Some(Seen::Unknown) | None => None,
    });
    std::iter::once(RawText::from(program.to_vec())).chain(rest).collect()
}

/// A node of the tree that a command reached, under one name of its program.
pub(super) enum Hit<'i, 'p> {
    Rules {
        node: &'i Node,
        words: usize,
        program: &'p [u8],
        resolved: Option<&'p AbsPath>,
        allows: Allows,
        /// The number of words skipped after the program.
        skipped: usize,
    },
    Unsure {
        rule: RuleId,
        words: usize,
        program: Option<&'p [u8]>,
        skipped: usize,
    },
}

impl Hit<'_, '_> {
    /// The same node, reached without the options before a subcommand. Allowing rules apply to the command as written,
    /// so they do not count here.
    fn behind<S>(mut self, plain: &GitSubcommand<'_, S>) -> Self {
        match &mut self {
            Self::Rules { allows, skipped, .. } => {
                *skipped = plain.skipped;
                *allows = Allows::Never;
            }
            Self::Unsure { skipped, .. } => *skipped = plain.skipped,
        }
        self
    }
}

/// Whether allowing rules count under this name.
#[derive(Clone, Copy)]
pub(super) enum Allows {
    IfPlain,
    Never,
}

impl Allows {
    pub(super) fn granted(self, is_plain: impl FnOnce() -> bool) -> bool {
        match self {
            Self::IfPlain => is_plain(),
            Self::Never => false,
        }
    }
}

/// A command that rules are matched against.
pub(crate) trait Subject {
    fn word(&self, index: usize) -> Option<Seen<'_>>;

    /// Whether a rule may allow it. This may have to check every word, so it is called last.
    fn may_be_allowed(&self) -> bool;
}

/// A `git` command without the options before its subcommand, so that a rule for `git push` matches `git -C . push`
/// too.
struct GitSubcommand<'a, S> {
    command: &'a S,
    skipped: usize,
    /// One of them is unknown: the subcommand may be anything.
    is_unsure: bool,
}

impl<'a, S: Subject> GitSubcommand<'a, S> {
    /// `None` if there is no option before the subcommand.
    fn of(command: &'a S) -> Option<Self> {
        let Some(Seen::Known(program)) = command.word(0) else { return None };
        if program::key(program::base_name(program).unwrap_or(program)).as_ref() != b"git" {
            return None;
        }
        let mut plain = Self { command, skipped: 0, is_unsure: false };
        while let Some(Seen::Known(word)) = command.word(1 + plain.skipped).filter(|_| !plain.is_unsure) {
            if !word.starts_with(b"-") {
                break;
            }
            let Some(option) = std::str::from_utf8(word).ok().and_then(GitOption::read) else {
                plain.is_unsure = true;
                break;
            };
            plain.skipped += 1;
            if option.takes_next {
                // An expansion may become several words.
                plain.is_unsure = matches!(command.word(1 + plain.skipped), Some(Seen::Unknown));
                plain.skipped += 1;
            }
        }
        (plain.skipped > 0 || plain.is_unsure).then_some(plain)
    }
}

impl<S: Subject> Subject for GitSubcommand<'_, S> {
    fn word(&self, index: usize) -> Option<Seen<'_>> {
        match index {
            0 => self.command.word(0),
            1 if self.is_unsure => Some(Seen::Unknown),
            _ => self.command.word(index + self.skipped),
        }
    }

    fn may_be_allowed(&self) -> bool {
        self.command.may_be_allowed()
    }
}

impl Subject for ParsedCommand {
    fn word(&self, index: usize) -> Option<Seen<'_>> {
        self.words.get(index).map(|word| match word {
            Word::Known(text) => Seen::Known(text.as_bytes()),
            Word::Unknown => Seen::Unknown,
        })
    }

    fn may_be_allowed(&self) -> bool {
        self.role == CommandRole::Runs && self.is_plain()
    }
}

impl Subject for Argv {
    fn word(&self, index: usize) -> Option<Seen<'_>> {
        self.words().get(index).map(|word| Seen::Known(word.as_bytes()))
    }

    fn may_be_allowed(&self) -> bool {
        true
    }
}
