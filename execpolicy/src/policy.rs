//! The rules of all layers, and their combined decision.

mod matching;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use stockade_protocol::{AbsPath, Argv, CommandRole, Decision, Host, NetworkProtocol, ParsedCommand, ParsedLine, Word};

use crate::declare::Declarations;
use crate::evaluation::{Certainty, CommandEvaluation, Evaluation, RuleMatch};
use crate::index::{Index, Seen};
use crate::network::NetworkRule;
use crate::report::CheckReport;
use crate::rule::{HostExecutable, PrefixRule};
use crate::{Layer, program};

use matching::Hit;
pub(crate) use matching::Subject;

/// Whether a path may match the bare name of its program in an allowing rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostExecutables {
    /// Only the exact word of the rule matches.
    Ignore,
    /// `/usr/bin/git` matches a rule for `git` if `host_executable` lists it.
    Resolve,
}

/// A merged, immutable set of rules.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Shared with every match, so that a reference to a rule is cheap.
    rules: Arc<Vec<PrefixRule>>,
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
    /// Parses the rules of one text, such as a file in memory. Errors call it `name`.
    pub fn parse(name: &str, text: &str, layer: Layer) -> Result<Self, crate::RulesError> {
        crate::load::parse(name, text, layer, None).map(|declarations| Self::build(vec![declarations]))
    }

    /// Builds the policy of several files.
    pub(crate) fn build(files: Vec<Declarations>) -> Self {
        let (mut rules, mut executables, mut network) = (Vec::new(), Vec::new(), Vec::new());
        for file in files {
            rules.extend(file.prefix_rules);
            executables.extend(file.host_executables);
            network.extend(file.network_rules);
        }
        Self::assemble(rules, executables, network)
    }

    /// Merges two policies. Their order affects only the order of matches within a layer.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        let mut rules = Arc::unwrap_or_clone(self.rules);
        rules.extend(Arc::unwrap_or_clone(other.rules));
        let executables = self.executables.into_iter().chain(other.executables).collect();
        let network = self.network.into_iter().chain(other.network).collect();
        Self::assemble(rules, executables, network)
    }

    fn assemble(
        mut rules: Vec<PrefixRule>,
        mut executables: Vec<HostExecutable>,
        mut network: Vec<NetworkRule>,
    ) -> Self {
        rules.sort_by_key(|rule| rule.origin.layer);
        executables.sort_by_key(|entry| entry.origin.layer);
        network.sort_by_key(|rule| rule.origin.layer);
        let index = Index::new(&rules);
        Self { index, trusted: trusted(&executables), rules: Arc::new(rules), executables, network }
    }

    /// The prefix rules, in the order of the layers.
    pub fn rules(&self) -> impl Iterator<Item = &PrefixRule> {
        self.rules.iter()
    }

    /// Whether any rule restricts a command.
    pub fn restricts(&self) -> bool {
        self.index.any_restriction().is_some()
    }

    /// Whether any rule gives a program more than its caller has: a profile, or a place outside of the sandbox.
    pub fn grants(&self) -> bool {
        self.rules.iter().any(PrefixRule::grants)
    }

    /// The base names of the programs that rules restrict, whatever their arguments.
    pub fn restricted_programs(&self) -> HashSet<Vec<u8>> {
        self.programs(|rule| rule.decision != Decision::Allow)
    }

    /// The programs that rules restrict by a path, as the rules have it.
    pub fn restricted_paths(&self) -> HashSet<&str> {
        let restricting = self.rules.iter().filter(|rule| rule.decision != Decision::Allow);
        let programs = restricting.filter_map(|rule| rule.pattern.first()).flat_map(|token| token.alternatives());
        programs.filter(|program| program.contains('/')).collect()
    }

    /// The base names of the programs that rules give something to, whatever their arguments.
    pub fn granted_programs(&self) -> HashSet<Vec<u8>> {
        self.programs(PrefixRule::grants)
    }

    fn programs(&self, counts: impl Fn(&PrefixRule) -> bool) -> HashSet<Vec<u8>> {
        let counting = self.rules.iter().filter(|rule| counts(rule));
        let programs = counting.filter_map(|rule| rule.pattern.first()).flat_map(|token| token.alternatives());
        let base_name = |program: &str| program::base_name(program.as_bytes()).unwrap_or(program.as_bytes()).to_vec();
        programs.map(|program| program::key(&base_name(program)).into_owned()).collect()
    }

    /// The network rules, in the order of the layers.
    pub fn network_rules(&self) -> &[NetworkRule] {
        &self.network
    }

    /// The programs with trusted paths, each with its paths, in the order of the layers.
    pub fn host_executables(&self) -> impl Iterator<Item = (&str, &[AbsPath])> {
        self.executables.iter().map(|entry| (entry.name.as_str(), entry.paths.as_slice()))
    }

    /// The strictest network rule that covers a destination.
    pub fn network_rule(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Option<&NetworkRule> {
        self.network_rule_covering(host, protocol, Some(port))
    }

    /// Like `network_rule`, for one port or for all ports.
    pub(crate) fn network_rule_covering(
        &self,
        host: &Host,
        protocol: NetworkProtocol,
        port: Option<u16>,
    ) -> Option<&NetworkRule> {
        // `max_by_key` returns the last maximum; reversed, that is the one of the earliest layer.
        self.network.iter().rev().filter(|rule| rule.covers(host, protocol, port)).max_by_key(|rule| rule.decision)
    }

    /// The decision of [`evaluate`](Self::evaluate) without the reasons, for frequent callers.
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

    /// The decision about a command whose words are all known, reading only as many words as the rules name.
    pub fn decide_argv(
        &self,
        argv: &Argv,
        paths: HostExecutables,
        fallback: impl FnOnce(&Argv) -> Decision,
    ) -> Decision {
        let (matched, _) = self.decide_one(argv, paths);
        matched.unwrap_or_else(|| fallback(argv))
    }

    /// The decision of the matching rules, and the minimum that an unknown word requires.
    fn decide_one(&self, command: &impl Subject, paths: HostExecutables) -> (Option<Decision>, Decision) {
        let mut matched = None;
        // An unknown program can be anything, so the fallback alone does not suffice.
        let mut floor = if matches!(command.word(0), Some(Seen::Unknown)) { Decision::Prompt } else { Decision::Allow };
        let mut may_allow = None;
        self.scan(command, paths, &mut |hit| match hit {
            Hit::Rules { node, words, allows, skipped, .. } => {
                matched = matched.max(node.restricts);
                let is_allowed = node.allows || (node.allows_exactly && skipped == 0 && command.word(words).is_none());
                if is_allowed && allows.granted(|| *may_allow.get_or_insert_with(|| command.may_be_allowed())) {
                    matched = matched.max(Some(Decision::Allow));
                }
            }
            Hit::Unsure { .. } => floor = Decision::Prompt,
        });
        (matched, floor)
    }

    /// The decision about the line, and why: every rule that matched, for every command.
    ///
    /// `fallback` decides about the commands that no rule matches.
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
        let unseen = line.opaque.as_ref().and_then(|_| self.any_restriction());
        Evaluation { commands, decision: verdict.of(line), exact: None, unseen }
    }

    /// Like [`evaluate`](Self::evaluate), for a line extracted from `argv`, such as the script of `bash -c`. A rule
    /// that allows exactly this `argv` then also covers the unknown parts of the line: its author saw all of it.
    /// Restricting rules stay in force.
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
}

/// The paths of each name. The first layer that lists a name decides for it: otherwise a later one could make an
/// administrator's rule for `git` allow another program.
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

/// Accumulates the decision about a line.
#[derive(Default)]
struct Verdict {
    strictest: Option<Decision>,
    judged: bool,
}

impl Verdict {
    /// Adds the decision about a command that is not a mere wrapper.
    fn judge(&mut self, decision: Decision) {
        self.judged = true;
        self.restrict(decision);
    }

    fn restrict(&mut self, decision: Decision) {
        self.strictest = self.strictest.max(Some(decision));
    }

    /// The decision: at least `Prompt` for a line that is opaque or has no commands.
    fn of(&self, line: &ParsedLine) -> Decision {
        let floor = if line.opaque.is_some() || !self.judged { Decision::Prompt } else { Decision::Allow };
        self.strictest.unwrap_or(Decision::Allow).max(floor)
    }
}
