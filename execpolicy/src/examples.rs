//! A rule's examples: its own tests, checked when the file is loaded.

use std::collections::HashSet;

use stockade_protocol::{AbsPath, Argv, Decision};

use crate::declare::{list, text};
use crate::language::{Located, Value};
use crate::program;
use crate::rule::{Extent, PrefixRule};
use crate::source::{Problem, Span};

/// Commands that a rule must and must not match.
pub(crate) struct Examples {
    pub(crate) matching: Vec<Example>,
    pub(crate) not_matching: Vec<Example>,
}

impl Examples {
    pub(crate) fn is_empty(&self) -> bool {
        self.matching.is_empty() && self.not_matching.is_empty()
    }
}

pub(crate) struct Example {
    words: Vec<String>,
    at: Span,
}

const HELP: &str = "write a list of commands, each a string or a list of words: `[\"git status\", [\"git\", \"log\"]]`";

pub(crate) fn read(value: Option<Located<'_>>) -> Result<Vec<Example>, Problem> {
    let Some(value) = value else { return Ok(Vec::new()) };
    list(value, "the list of examples", HELP)?.into_iter().map(example).collect()
}

fn example(item: Located<'_>) -> Result<Example, Problem> {
    let at = item.at;
    let words = match item.value {
        Value::Text(line) => shlex::split(&line).ok_or_else(|| {
            Problem::new(at, "the example has an open quote or escape", "close it, or write the words as a list")
        })?,
        Value::List(words) => {
            words.into_iter().map(|word| text(word, "a word of an example")).collect::<Result<_, _>>()?
        }
        other @ (Value::Tuple(_) | Value::Int(_) | Value::Bool(_) | Value::None) => {
            return Err(Problem::new(at, format!("an example is {}", other.kind()), HELP));
        }
    };
    if words.is_empty() {
        return Err(Problem::new(at, "the example has no words", "write the command that it stands for"));
    }
    Ok(Example { words, at })
}

pub(crate) fn check(rule: &PrefixRule, examples: &Examples, trusted: &HashSet<&AbsPath>) -> Result<(), Problem> {
    // Sets, because a rule may have as many alternatives as examples.
    let pattern = rule.pattern.iter().map(|token| token.alternatives().collect()).collect::<Vec<HashSet<&str>>>();
    let holds = |example: &Example| holds(rule, &pattern, example, trusted);
    if let Some(example) = examples.matching.iter().find(|example| !holds(example)) {
        let message = format!("the example `{}` does not match the pattern {}", shown(example), pattern_shown(rule));
        return Err(Problem::new(example.at, message, help(rule, example)));
    }
    if let Some(example) = examples.not_matching.iter().find(|example| holds(example)) {
        let message =
            format!("the example `{}` matches the pattern {}, but must not", shown(example), pattern_shown(rule));
        return Err(Problem::new(example.at, message, "narrow the pattern, or drop the example"));
    }
    Ok(())
}

/// Whether the rule matches, with the trusted paths of the same file.
fn holds(rule: &PrefixRule, pattern: &[HashSet<&str>], example: &Example, trusted: &HashSet<&AbsPath>) -> bool {
    let Some((given, rest)) = example.words.split_first() else { return false };
    let begins = |program: &str| {
        let mut words = std::iter::once(program).chain(rest.iter().map(String::as_str));
        let begins = pattern.iter().all(|token| words.next().is_some_and(|word| token.contains(word)));
        begins && (rule.extent == Extent::Prefix || words.next().is_none())
    };
    let name = program::base_name(given.as_bytes()).and_then(|name| std::str::from_utf8(name).ok());
    let is_trusted = || AbsPath::parse(given.as_str()).is_ok_and(|path| trusted.contains(&path));
    begins(given) || name.is_some_and(|name| begins(name) && (rule.decision != Decision::Allow || is_trusted()))
}

fn help(rule: &PrefixRule, example: &Example) -> &'static str {
    let is_path = example.words.first().is_some_and(|program| program.contains('/'));
    if is_path && rule.decision == Decision::Allow {
        "an allow rule matches a path only if it names that path or `host_executable` lists it"
    } else {
        "correct the pattern, or move the example to `not_match`"
    }
}

fn pattern_shown(rule: &PrefixRule) -> String {
    let shown = rule.to_string();
    if shown.len() > 120 { format!("{}…", shown.chars().take(120).collect::<String>()) } else { shown }
}

fn shown(example: &Example) -> String {
    let shown = Argv::parse(example.words.iter().map(String::as_str)).map(|argv| argv.to_string()).unwrap_or_default();
    shown.chars().take(120).collect()
}
