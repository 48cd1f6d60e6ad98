//! All rules that count, from every layer, and the decision they make together.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stockade_protocol::{AbsPath, Argv, CommandRole, Decision, Host, ParsedCommand, ParsedLine, RawText, Word};

use crate::declare::Declarations;
use crate::evaluation::{Certainty, CommandEvaluation, Evaluation, RuleMatch};
use crate::index::{Index, Met, RuleId, Seen};
use crate::network::{NetworkProtocol, NetworkRule};
use crate::report::CheckReport;
use crate::rule::{HostExecutable, PrefixRule};
use crate::{Layer, program};

/// Whether a path may stand for the bare name of its program in a rule that allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostExecutables {
    /// Only the exact word of the rule matches.
    Ignore,
    /// `/usr/bin/git` matches a rule for `git` if `host_executable` lists it.
    Resolve,
}

/// A merged, immutable set of rules.
#[derive(Debug, Default)]
pub struct Policy {
    rules: Vec<Arc<PrefixRule>>,
    executables: Vec<HostExecutable>,
    network: Vec<NetworkRule>,
    trusted: HashMap<Vec<u8>, (Layer, HashSet<AbsPath>)>,
    index: Index,
}

/// Two policies are equal if they hold the same rules in the same order.
impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        (&self.rules, &self.executables, &self.network) == (&other.rules, &other.executables, &other.network)
    }
}

impl Policy {
    /// Reads the rules of one text, such as a file that is already in memory. `name` is what errors
    /// call it.
    pub fn parse(name: &str, text: &str, layer: Layer) -> Result<Self, crate::RulesError> {
        crate::load::parse(name, text, layer).map(|declarations| Self::build(vec![declarations]))
    }

    /// The rules of several files at once.
    pub(crate) fn build(files: Vec<Declarations>) -> Self {
        let (mut rules, mut executables, mut network) = (Vec::new(), Vec::new(), Vec::new());
        for file in files {
            rules.extend(file.prefix_rules.into_iter().map(Arc::new));
            executables.extend(file.host_executables);
            network.extend(file.network_rules);
        }
        Self::assemble(rules, executables, network)
    }

    /// Puts two policies together. The order of the two matters only for the order in which matches
    /// are listed within a layer.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let join = |mut own: Vec<_>, theirs| {
            own.extend(theirs);
            own
        };
        let executables = self.executables.into_iter().chain(other.executables).collect();
        let network = self.network.into_iter().chain(other.network).collect();
        Self::assemble(join(self.rules, other.rules), executables, network)
    }

    fn assemble(
        mut rules: Vec<Arc<PrefixRule>>,
        mut executables: Vec<HostExecutable>,
        mut network: Vec<NetworkRule>,
    ) -> Self {
        rules.sort_by_key(|rule| rule.origin.layer);
        executables.sort_by_key(|entry| entry.origin.layer);
        network.sort_by_key(|rule| rule.origin.layer);
        Self { index: Index::new(&rules), trusted: trusted(&executables), rules, executables, network }
    }

    /// The prefix rules, in the order of the layers.
    pub fn rules(&self) -> impl Iterator<Item = &PrefixRule> {
        self.rules.iter().map(AsRef::as_ref)
    }

    /// The network rules, in the order of the layers.
    pub fn network_rules(&self) -> &[NetworkRule] {
        &self.network
    }

    /// The strictest network rule for a destination, if any names it.
    pub fn network_rule(&self, host: &Host, protocol: NetworkProtocol) -> Option<&NetworkRule> {
        // `max_by_key` keeps the last of equals; the first is the one of the earliest layer.
        self.network.iter().rev().filter(|rule| rule.matches(host, protocol)).max_by_key(|rule| rule.decision)
    }

    /// What happens to the line, without the reasons: the same as the decision of
    /// [`evaluate`](Self::evaluate), for callers that ask often.
    pub fn decide(
        &self,
        line: &ParsedLine,
        paths: HostExecutables,
        fallback: impl Fn(&ParsedCommand) -> Decision,
    ) -> Decision {
        let mut verdict = Verdict::default();
        for command in &line.commands {
            let (matched, floor) = self.decide_one(command, paths);
            match (command.role, matched) {
                (CommandRole::Runs, matched) => verdict.judge(matched.unwrap_or_else(|| fallback(command)).max(floor)),
                (CommandRole::Wrapper, matched) => verdict.restrict(matched.unwrap_or(Decision::Allow).max(floor)),
            }
        }
        verdict.of(line)
    }

    /// What happens to a command whose words are all known, without looking at more of them than
    /// the rules name.
    pub fn decide_argv(
        &self,
        argv: &Argv,
        paths: HostExecutables,
        fallback: impl FnOnce(&Argv) -> Decision,
    ) -> Decision {
        let (matched, _) = self.decide_one(argv, paths);
        matched.unwrap_or_else(|| fallback(argv))
    }

    /// The decision of the rules that match, and the least that an unknown word asks for.
    fn decide_one(&self, command: &impl Subject, paths: HostExecutables) -> (Option<Decision>, Decision) {
        let mut matched = None;
        // A program that is not known can be anything, whatever the fallback thinks of its words.
        let mut floor = if matches!(command.word(0), Some(Seen::Unknown)) { Decision::Prompt } else { Decision::Allow };
        let mut may_allow = None;
        self.scan(command, paths, &mut |hit| match hit {
            Hit::Rules { node, allows, .. } => {
                matched = matched.max(node.restricts);
                if node.allows && allows.granted(|| *may_allow.get_or_insert_with(|| command.may_be_allowed())) {
                    matched = matched.max(Some(Decision::Allow));
                }
            }
            Hit::Unsure { .. } => floor = Decision::Prompt,
        });
        (matched, floor)
    }

    /// What happens to the line, and why: every rule that matched, for every command.
    ///
    /// `fallback` judges the commands that no rule matches.
    pub fn evaluate(
        &self,
        line: &ParsedLine,
        paths: HostExecutables,
        fallback: impl Fn(&ParsedCommand) -> Decision,
    ) -> Evaluation {
        let mut verdict = Verdict::default();
        let commands = line.commands.iter().map(|command| {
            let one = self.evaluate_one(command, paths, &fallback);
            match command.role {
                CommandRole::Runs => verdict.judge(one.decision),
                CommandRole::Wrapper => verdict.restrict(one.decision),
            }
            one
        });
        let commands = commands.collect();
        Evaluation { commands, decision: verdict.of(line), exact: None }
    }

    /// Like [`evaluate`](Self::evaluate), for a line that was taken out of `argv`, such as the
    /// script of `bash -c`. A rule that allows exactly this `argv`, to the last word, then answers
    /// the questions that the line left open: it was saved by someone who saw all of it. Rules that
    /// restrict stay in force.
    pub fn evaluate_argv(
        &self,
        argv: &Argv,
        line: &ParsedLine,
        paths: HostExecutables,
        fallback: impl Fn(&ParsedCommand) -> Decision,
    ) -> Evaluation {
        let mut evaluation = self.evaluate(line, paths, fallback);
        if evaluation.decision != Decision::Prompt || evaluation.is_restricted() {
            return evaluation;
        }
        let whole = self.matches(argv, paths);
        if whole.iter().all(|found| found.decision() == Decision::Allow) {
            evaluation.exact = whole.into_iter().find(|found| found.matched_prefix.len() == argv.words().len());
        }
        if evaluation.exact.is_some() {
            evaluation.decision = Decision::Allow;
        }
        evaluation
    }

    /// Every rule that matches a command whose words are all known, as `execpolicy check` prints it.
    pub fn check(&self, argv: &Argv, paths: HostExecutables) -> CheckReport {
        CheckReport::of_matches(&self.matches(argv, paths))
    }

    fn evaluate_one(
        &self,
        command: &ParsedCommand,
        paths: HostExecutables,
        fallback: impl Fn(&ParsedCommand) -> Decision,
    ) -> CommandEvaluation {
        let matches = self.matches(command, paths);
        let certain =
            matches.iter().filter(|found| found.certainty == Certainty::Certain).map(RuleMatch::decision).max();
        let floor = matches.iter().map(RuleMatch::decision).max().unwrap_or(Decision::Allow);
        let fallback = match (command.role, certain) {
            (CommandRole::Runs, None) => Some(fallback(command)),
            (CommandRole::Runs, Some(_)) | (CommandRole::Wrapper, _) => None,
        };
        let decision = certain.or(fallback).unwrap_or(Decision::Allow).max(floor);
        let unknown_program = matches!(command.words.first(), Some(Word::Unknown));
        let decision = if unknown_program { decision.max(Decision::Prompt) } else { decision };
        CommandEvaluation { decision, matches, fallback }
    }

    /// Every rule that matches a command, or may match it.
    pub(crate) fn matches(&self, command: &impl Subject, paths: HostExecutables) -> Vec<RuleMatch> {
        let mut found = Vec::new();
        let mut may_allow = None;
        self.scan(command, paths, &mut |hit| match hit {
            Hit::Rules { node, words, program, resolved, allows } => {
                for rule in node.rules.iter().filter_map(|id| self.rule(*id)) {
                    let applies = rule.decision != Decision::Allow
                        || allows.granted(|| *may_allow.get_or_insert_with(|| command.may_be_allowed()));
                    if applies {
                        found.push(RuleMatch {
                            rule: rule.clone(),
                            certainty: Certainty::Certain,
                            matched_prefix: prefix(command, program, words),
                            resolved_program: resolved.cloned(),
                        });
                    }
                }
            }
            Hit::Unsure { rule, words, program } => found.extend(self.rule(rule).map(|rule| RuleMatch {
                rule: rule.clone(),
                certainty: Certainty::Possible,
                matched_prefix: program.map_or_else(Vec::new, |program| prefix(command, program, words)),
                resolved_program: None,
            })),
        });
        found
    }

    fn rule(&self, id: RuleId) -> Option<&Arc<PrefixRule>> {
        self.rules.get(id as usize)
    }

    /// Walks the tree once for each name that the program goes by.
    fn scan<'i>(&'i self, command: &impl Subject, paths: HostExecutables, hit: &mut impl FnMut(Hit<'i, '_>)) {
        let given = match command.word(0) {
            None => return,
            Some(Seen::Unknown) => {
                if let Some(rule) = self.index.any_restriction() {
                    hit(Hit::Unsure { rule, words: 0, program: None });
                }
                return;
            }
            Some(Seen::Known(given)) => given,
        };
        self.scan_as(command, given, None, Allows::IfPlain, hit);
        let Some(name) = program::base_name(given) else { return };
        let path = AbsPath::parse(given.to_vec()).ok();
        // `//bin/rm` and `/bin/./rm` are `/bin/rm` to the system, so they are to a rule that restricts.
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
                Met::Rules(node, words) => hit(Hit::Rules { node, words, program, resolved, allows }),
                Met::Unsure(node, words) => {
                    if let Some((_, rule)) = node.below {
                        hit(Hit::Unsure { rule, words, program: Some(program) });
                    }
                }
            },
        );
    }

    fn trusts(&self, name: &[u8], path: &AbsPath) -> bool {
        self.trusted.get(program::key(name).as_ref()).is_some_and(|(_, paths)| paths.contains(path))
    }
}

/// The paths of each name. The first layer that lists a name decides for it: a later one could
/// otherwise have an administrator's rule for `git` allow a program of its own.
fn trusted(executables: &[HostExecutable]) -> HashMap<Vec<u8>, (Layer, HashSet<AbsPath>)> {
    let mut trusted: HashMap<Vec<u8>, (Layer, HashSet<AbsPath>)> = HashMap::new();
    for entry in executables {
        let layer = entry.origin.layer;
        let key = program::key(entry.name.as_bytes()).into_owned();
        let (owner, paths) = trusted.entry(key).or_insert_with(|| (layer, HashSet::new()));
        if *owner == layer {
            paths.extend(entry.paths.iter().cloned());
        }
    }
    trusted
}

/// The words that matched, with the program under the name it matched by.
fn prefix(command: &impl Subject, program: &[u8], words: usize) -> Vec<RawText> {
    let rest = (1..words).filter_map(|index| match command.word(index) {
        Some(Seen::Known(text)) => Some(RawText::from(text.to_vec())),
        Some(Seen::Unknown) | None => None,
    });
    std::iter::once(RawText::from(program.to_vec())).chain(rest).collect()
}

/// A place of the tree that a command reached, under one of the names of its program.
enum Hit<'i, 'p> {
    Rules {
        node: &'i crate::index::Node,
        words: usize,
        program: &'p [u8],
        resolved: Option<&'p AbsPath>,
        allows: Allows,
    },
    Unsure {
        rule: RuleId,
        words: usize,
        program: Option<&'p [u8]>,
    },
}

/// Whether rules that allow count under this name.
#[derive(Clone, Copy)]
enum Allows {
    IfPlain,
    Never,
}

impl Allows {
    fn granted(self, is_plain: impl FnOnce() -> bool) -> bool {
        match self {
            Self::IfPlain => is_plain(),
            Self::Never => false,
        }
    }
}

/// What rules are matched against.
pub(crate) trait Subject {
    fn word(&self, index: usize) -> Option<Seen<'_>>;

    /// Whether a rule may allow it. This may have to look at every word, so it is asked last.
    fn may_be_allowed(&self) -> bool;
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

/// The decision of a line while its commands are looked at.
#[derive(Default)]
struct Verdict {
    strictest: Option<Decision>,
    judged: bool,
}

impl Verdict {
    /// Counts a command that does something itself.
    fn judge(&mut self, decision: Decision) {
        self.judged = true;
        self.restrict(decision);
    }

    fn restrict(&mut self, decision: Decision) {
        self.strictest = self.strictest.max(Some(decision));
    }

    /// A line that may run more than was seen is never allowed, and neither is one in which nothing
    /// was seen at all.
    fn of(&self, line: &ParsedLine) -> Decision {
        let floor = if line.opaque.is_some() || !self.judged { Decision::Prompt } else { Decision::Allow };
        self.strictest.unwrap_or(Decision::Allow).max(floor)
    }
}
