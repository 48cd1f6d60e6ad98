//! A decision and its reasons.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, CommandRole, Decision, ParsedLine, RawText};

use crate::index::RuleId;
use crate::report::CheckReport;
use crate::rule::{Placement, PrefixRule};

/// The decision about a line, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The strictest decision of all commands. At least `Prompt` for a line that is not fully known.
    pub decision: Decision,
    /// One for each command of the line, in its order.
    pub commands: Vec<CommandEvaluation>,
    /// The rule that allows exactly this argv, if it decided. See
    /// [`Policy::evaluate_argv`](crate::Policy::evaluate_argv).
    pub exact: Option<RuleMatch>,
    /// The strictest restricting rule, if the line is opaque: an unknown part of the line may match any rule.
    pub unseen: Option<RuleMatch>,
}

/// The decision about one command of a line, and its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEvaluation {
    /// The strictest decision of the matches, or the fallback's.
    pub decision: Decision,
    /// Every rule that matches, or may match.
    pub matches: Vec<RuleMatch>,
    /// The fallback's decision, if no rule matched for certain.
    pub fallback: Option<Decision>,
}

/// A rule that matches a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleMatch {
    pub(crate) rule: RuleRef,
    pub(crate) decision: Decision,
    pub(crate) certainty: Certainty,
    pub(crate) matched_prefix: Vec<RawText>,
    pub(crate) resolved_program: Option<AbsPath>,
}

/// A rule of a policy. It holds a reference to the whole list: counting references per rule would cost more than the
/// rest of a decision.
#[derive(Clone)]
pub(crate) struct RuleRef {
    rules: Arc<Vec<PrefixRule>>,
    id: usize,
}

impl RuleRef {
    /// `id` has to come from the index of these rules.
    pub(crate) fn new(rules: &Arc<Vec<PrefixRule>>, id: RuleId) -> Self {
        Self { rules: rules.clone(), id: id as usize }
    }

    #[expect(clippy::indexing_slicing, reason = "the index numbers the rules it was made from, and they never change")]
    fn get(&self) -> &PrefixRule {
        &self.rules[self.id]
    }
}

impl PartialEq for RuleRef {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RuleRef {}

impl fmt::Debug for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.get(), f)
    }
}

/// Whether a rule matches independent of a command's unknown words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It matches.
    Certain,
    /// It matches for some value of an unknown word. Only restricting rules are listed so, the strictest of the
    /// candidates, and they count as `Prompt`.
    Possible,
}

impl Evaluation {
    /// Whether any rule matches, or may match, some command.
    pub fn is_match(&self) -> bool {
        self.exact.is_some() || self.commands.iter().any(|command| !command.matches.is_empty())
    }

    /// Whether a rule prompts or forbids, not only the fallback or an unknown word.
    pub(crate) fn is_restricted(&self) -> bool {
        let mut matches = self.commands.iter().flat_map(|command| &command.matches).chain(&self.unseen);
        matches.any(|found| found.decision() != Decision::Allow)
    }

    /// The strictest rules, which made the decision, with the index of the command.
    pub fn deciding(&self) -> impl Iterator<Item = (usize, &RuleMatch)> {
        let matches = self
            .commands
            .iter()
            .enumerate()
            .flat_map(|(index, command)| command.matches.iter().map(move |found| (index, found)));
        matches.filter(|(_, found)| found.decision() == self.decision)
    }

    /// Where an allowed line runs: outside if a rule lets each of its commands leave the sandbox. `line` is the
    /// evaluated line; `unsaid` applies to rules without `outside`.
    pub fn placement(&self, line: &ParsedLine, unsaid: Placement) -> Placement {
        if let Some(exact) = &self.exact {
            return exact.rule().placement(unsaid);
        }
        let commands = self.commands.iter().zip(&line.commands);
        let mut placements = commands
            .filter(|(_, command)| command.role == CommandRole::Runs)
            .map(|(judged, _)| judged.placement(unsaid))
            .peekable();
        let leaves = placements.peek().is_some() && placements.all(|placement| placement == Placement::Outside);
        if leaves { Placement::Outside } else { Placement::Inside }
    }

    /// The permission profiles of an allowed line: those that the rules give to each of its commands. `line` is the
    /// evaluated line.
    pub fn profiles(&self, line: &ParsedLine) -> BTreeSet<&str> {
        if let Some(exact) = &self.exact {
            return exact.rule().profiles().iter().map(String::as_str).collect();
        }
        let commands = self.commands.iter().zip(&line.commands);
        let each =
            commands.filter(|(_, command)| command.role == CommandRole::Runs).map(|(judged, _)| judged.profiles());
        // All commands run in one sandbox, so a profile counts only if every command has it.
        each.reduce(|all, own| all.intersection(&own).copied().collect()).unwrap_or_default()
    }

    /// The report that `execpolicy check` prints. `line` is the evaluated line.
    pub fn report(&self, line: &ParsedLine) -> CheckReport {
        CheckReport::of_line(self, line)
    }
}

impl CommandEvaluation {
    /// The rules that made the decision, and match for certain: those that allow it, or those that ask before it.
    pub fn deciding(&self) -> impl Iterator<Item = &PrefixRule> {
        let is_one = |found: &&RuleMatch| {
            found.certainty() == Certainty::Certain
                && found.decision() == self.decision
                && found.rule().decision() == self.decision
        };
        self.matches.iter().filter(is_one).map(RuleMatch::rule)
    }

    /// The profiles that these rules give to it, after a yes if they ask.
    pub fn profiles(&self) -> BTreeSet<&str> {
        self.deciding().flat_map(PrefixRule::profiles).map(String::as_str).collect()
    }

    /// Where these rules let it run, after a yes if they ask. One with `outside = False` keeps it inside.
    pub fn placement(&self, unsaid: Placement) -> Placement {
        let deciding = || self.deciding();
        let stays = deciding().any(|rule| rule.said_placement() == Some(Placement::Inside));
        let leaves = deciding().any(|rule| rule.placement(unsaid) == Placement::Outside);
        if leaves && !stays { Placement::Outside } else { Placement::Inside }
    }
}

impl RuleMatch {
    /// The rule, with its pattern, its justification and the file it stands in.
    pub fn rule(&self) -> &PrefixRule {
        self.rule.get()
    }

    /// The effective decision: the rule's, or `Prompt` if it only may match.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Whether it matches for certain.
    pub fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// The matched words, with the program under its matching name.
    pub fn matched_prefix(&self) -> &[RawText] {
        &self.matched_prefix
    }

    /// The given path, if the rule matched by the program's name.
    pub fn resolved_program(&self) -> Option<&AbsPath> {
        self.resolved_program.as_ref()
    }
}
