//! A decision and its reasons.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, CommandRole, Decision, ParsedLine, RawText};

use crate::index::RuleId;
use crate::report::CheckReport;
use crate::rule::{Placement, PrefixRule};

/// What happens to a line, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The strictest decision of all commands. At least `Prompt` for a line that is not fully known.
    pub decision: Decision,
    /// One for each command of the line, in its order.
    pub commands: Vec<CommandEvaluation>,
    /// The rule that allows the whole argv to the last word, where it decided. See
    /// [`Policy::evaluate_argv`](crate::Policy::evaluate_argv).
    pub exact: Option<RuleMatch>,
    /// A rule that restricts, if the line is opaque: what can't be seen of it may meet that rule. Any rule counts, the
    /// strictest is named; nothing that is hidden in a line can be shown to stay clear of a rule.
    pub unseen: Option<RuleMatch>,
}

/// What happens to one command of a line, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEvaluation {
    /// The strictest of what matched, or what the fallback said.
    pub decision: Decision,
    /// Every rule that matches, or may match.
    pub matches: Vec<RuleMatch>,
    /// What the caller's fallback said, if no rule matched for certain.
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

/// A rule of a policy. It keeps the rules alive as a whole: counting references to each would cost
/// a decision more than all the rest.
#[derive(Clone)]
pub(crate) struct RuleRef {
    rules: Arc<Vec<PrefixRule>>,
    id: usize,
}

impl RuleRef {
    /// `id` has to be one that the index of these rules gave out.
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

/// Whether a rule matches whatever the unknown words of a command turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It matches.
    Certain,
    /// It matches if an unknown word becomes the right one. Only rules that restrict are listed so,
    /// the strictest for all that might, and they count as `Prompt`.
    Possible,
}

impl Evaluation {
    /// Whether any rule matches, or may match, some command.
    pub fn is_match(&self) -> bool {
        self.exact.is_some() || self.commands.iter().any(|command| !command.matches.is_empty())
    }

    /// Whether a rule, and not only the fallback or an unknown word, asks or refuses.
    pub(crate) fn is_restricted(&self) -> bool {
        let mut matches = self.commands.iter().flat_map(|command| &command.matches).chain(&self.unseen);
        matches.any(|found| found.decision() != Decision::Allow)
    }

    /// The rules that gave the decision, the strictest ones, with the command they matched.
    pub fn deciding(&self) -> impl Iterator<Item = (usize, &RuleMatch)> {
        let matches = self
            .commands
            .iter()
            .enumerate()
            .flat_map(|(index, command)| command.matches.iter().map(move |found| (index, found)));
        matches.filter(|(_, found)| found.decision() == self.decision)
    }

    /// Where an allowed line runs: outside if a rule lets each of its commands leave the sandbox. `line` is the line
    /// that was evaluated; `unsaid` is what holds for rules that do not say.
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

    /// The permission profiles that an allowed line has: those that the rules give to each of its commands. `line` is
    /// the line that was evaluated.
    pub fn profiles(&self, line: &ParsedLine) -> BTreeSet<&str> {
        if let Some(exact) = &self.exact {
            return exact.rule().profiles().iter().map(String::as_str).collect();
        }
        let commands = self.commands.iter().zip(&line.commands);
        let each =
            commands.filter(|(_, command)| command.role == CommandRole::Runs).map(|(judged, _)| judged.profiles());
        // All of them run in one sandbox, so one that no rule gives a profile to takes it from the others.
        each.reduce(|all, own| all.intersection(&own).copied().collect()).unwrap_or_default()
    }

    /// The form that `execpolicy check` prints. `line` is the line that was evaluated.
    pub fn report(&self, line: &ParsedLine) -> CheckReport {
        CheckReport::of_line(self, line)
    }
}

impl CommandEvaluation {
    /// The profiles that the rules that allow it give to it.
    fn profiles(&self) -> BTreeSet<&str> {
        let allowing = self.matches.iter().filter(|found| found.decision() == Decision::Allow);
        allowing.flat_map(|found| found.rule().profiles()).map(String::as_str).collect()
    }

    /// Where the rules that allow it let it run. One that says `outside = False` keeps it in.
    fn placement(&self, unsaid: Placement) -> Placement {
        let allowing = || self.matches.iter().filter(|found| found.decision() == Decision::Allow).map(RuleMatch::rule);
        let stays = allowing().any(|rule| rule.said_placement() == Some(Placement::Inside));
        let leaves = allowing().any(|rule| rule.placement(unsaid) == Placement::Outside);
        if leaves && !stays { Placement::Outside } else { Placement::Inside }
    }
}

impl RuleMatch {
    /// The rule, with its pattern, its justification and the file it stands in.
    pub fn rule(&self) -> &PrefixRule {
        self.rule.get()
    }

    /// What the match asks for: the rule's decision, or `Prompt` if it only may match.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// Whether it matches for certain.
    pub fn certainty(&self) -> Certainty {
        self.certainty
    }

    /// The words that matched, with the program under the name by which it matched.
    pub fn matched_prefix(&self) -> &[RawText] {
        &self.matched_prefix
    }

    /// The path that was given, where the rule matched by the name of the program.
    pub fn resolved_program(&self) -> Option<&AbsPath> {
        self.resolved_program.as_ref()
    }
}
