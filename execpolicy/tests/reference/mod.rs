//! A reference implementation that compares every rule with every word. The tree of words has to agree with it.

use stockade_protocol::{AbsPath, CommandRole, Decision, ParsedCommand, ParsedLine, Word};

/// A rule of the reference engine: alternatives by position.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) pattern: Vec<Vec<String>>,
    pub(crate) decision: Decision,
    /// Whether nothing may follow; only where it allows.
    pub(crate) exact: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Match {
    No,
    Possible,
    Certain,
}

/// The decision for a line, with paths resolved by `trusted`.
pub(crate) fn decide(rules: &[Rule], trusted: &[&str], line: &ParsedLine, fallback: Decision) -> Decision {
    let mut decision = if line.opaque.is_some() { Decision::Prompt } else { Decision::Allow };
    if line.commands.iter().all(|command| command.role == CommandRole::Wrapper) {
        decision = Decision::Prompt;
    }
    for command in &line.commands {
        decision = decision.max(decide_command(rules, trusted, command, fallback));
    }
    decision
}

fn decide_command(rules: &[Rule], trusted: &[&str], command: &ParsedCommand, fallback: Decision) -> Decision {
    let mut certain = None;
    let mut floor = if command.words.first() == Some(&Word::Unknown) { Decision::Prompt } else { Decision::Allow };
    for rule in rules {
        if rule.decision == Decision::Allow {
            let plain = command.role == CommandRole::Runs && command.is_plain();
            if plain && names(command, trusted).iter().any(|name| matches(rule, name, command) == Match::Certain) {
                certain = certain.max(Some(Decision::Allow));
            }
        } else {
            for name in all_names(command) {
                match matches(rule, &name, command) {
                    Match::No => {}
                    Match::Possible => floor = floor.max(Decision::Prompt),
                    Match::Certain => certain = certain.max(Some(rule.decision)),
                }
            }
        }
    }
    match command.role {
        CommandRole::Runs => certain.unwrap_or(fallback).max(floor),
        CommandRole::Wrapper => certain.unwrap_or(Decision::Allow).max(floor),
    }
}

/// The names under which a rule may allow the program.
fn names(command: &ParsedCommand, trusted: &[&str]) -> Vec<String> {
    let Some(given) = command.words.first().and_then(Word::as_str) else { return Vec::new() };
    let mut names = vec![given.to_owned()];
    let normal = AbsPath::parse(given).map(|path| path.to_string()).unwrap_or_default();
    if trusted.contains(&normal.as_str()) {
        names.extend(given.rsplit('/').next().map(str::to_owned));
    }
    names
}

/// The names under which a rule may restrict it.
fn all_names(command: &ParsedCommand) -> Vec<String> {
    let Some(given) = command.words.first().and_then(Word::as_str) else { return Vec::new() };
    let mut names = vec![given.to_owned()];
    names.extend(AbsPath::parse(given).ok().map(|path| path.to_string()));
    names.extend(given.rsplit('/').next().map(str::to_owned));
    names
}

fn matches(rule: &Rule, program: &str, command: &ParsedCommand) -> Match {
    for (position, token) in rule.pattern.iter().enumerate() {
        let word = match (position, command.words.get(position)) {
            (_, None) => return Match::No,
            (0, Some(_)) => program,
            (_, Some(Word::Unknown)) => return Match::Possible,
            (_, Some(Word::Known(text))) => text.as_str().unwrap_or_default(),
        };
        if !token.iter().any(|alternative| alternative == word) {
            return Match::No;
        }
    }
    if rule.exact && command.words.len() > rule.pattern.len() {
        return Match::No;
    }
    Match::Certain
}
