//! Every line of the shared case file gets the decision that stands there.
//!
//! Rows of engine `C` are judged by `line_safety` alone. Rows of engine `R` are judged by the few
//! rules of the file's description with an evaluator that is as simple as it can be: the point is
//! that the parse lets such rules decide rightly. Rows that begin with `AMEND` are about saved
//! rules, which this crate does not know.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that can't go on has failed"
)]

use stockade_protocol::{CommandRole, Decision, ParsedCommand, ParsedLine, Word};
use stockade_shell_command::{line_safety, parse_bash};

const CASES: &str = include_str!("../../tests/cases/commands.tsv");

struct Case {
    id: u32,
    engine: String,
    line: String,
    expected: Decision,
}

fn cases() -> Vec<Case> {
    let case = |row: &str| {
        let fields: Vec<&str> = row.split('\t').collect();
        let [id, engine, line, expected, _reason] = fields[..] else { panic!("`{row}` has not five fields") };
        if line.starts_with("AMEND ") {
            return None;
        }
        let expected = match expected {
            "allow" => Decision::Allow,
            "prompt" => Decision::Prompt,
            "forbidden" => Decision::Forbidden,
            other => panic!("`{other}` is no decision"),
        };
        Some(Case { id: id.parse().unwrap(), engine: engine.into(), line: lengthen(&unescape(line)), expected })
    };
    CASES.lines().skip(1).filter_map(case).collect()
}

/// `\\ \n \t \uXXXX`
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('\\') => out.push('\\'),
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                out.push(u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).unwrap());
            }
            other => panic!("`\\{other:?}` is no escape of the case file"),
        }
    }
    out
}

/// Repeats the beginning of a line that was shortened to `…...[N chars]`.
fn lengthen(text: &str) -> String {
    let Some((start, length)) = text.split_once("...[") else { return text.to_owned() };
    let length: usize = length.strip_suffix(" chars]").unwrap().parse().unwrap();
    let pattern = start.split_inclusive(';').next().unwrap();
    pattern.chars().cycle().take(length).collect()
}

#[test]
fn the_known_safe_classifier_decides_as_listed() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.engine == "C").collect();
    assert_eq!(cases.len(), 133, "rows of engine C");
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let safety = line_safety(&parse_bash(&case.line));
            let message = || format!("{}: `{}` is {safety:?}, not {:?}", case.id, case.line, case.expected);
            (safety.decision() != case.expected).then(message)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_that_match_words_decide_as_listed() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.engine == "R").collect();
    assert_eq!(cases.len(), 44, "rows of engine R without AMEND");
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let line = parse_bash(&case.line);
            let decision = decide(&line);
            let message = || format!("{}: `{}` is {decision:?}, not {:?}: {line:?}", case.id, case.line, case.expected);
            (decision != case.expected).then(message)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const RULES: [(&[&str], Decision); 10] = [
    (&["git", "status"], Decision::Allow),
    (&["git", "log"], Decision::Allow),
    (&["npm", "test"], Decision::Allow),
    (&["ls"], Decision::Allow),
    (&["cat"], Decision::Allow),
    (&["echo"], Decision::Allow),
    (&["cd"], Decision::Allow),
    (&["git", "push"], Decision::Prompt),
    (&["rm"], Decision::Forbidden),
    (&["sudo"], Decision::Forbidden),
];

fn decide(line: &ParsedLine) -> Decision {
    let commands = line.commands.iter().map(decide_command).max().unwrap_or(Decision::Prompt);
    if line.opaque.is_some() { commands.max(Decision::Prompt) } else { commands }
}

fn decide_command(command: &ParsedCommand) -> Decision {
    let matching = RULES.iter().filter(|(pattern, decision)| matches(command, pattern, *decision));
    matching.map(|&(_, decision)| decision).max().unwrap_or(match command.role {
        CommandRole::Runs => Decision::Prompt,
        CommandRole::Wrapper => Decision::Allow,
    })
}

fn matches(command: &ParsedCommand, pattern: &[&str], decision: Decision) -> bool {
    if decision == Decision::Allow && !command.is_plain() {
        return false;
    }
    let program = command.words.first().and_then(Word::as_str).unwrap_or_default();
    let program = match decision {
        Decision::Allow => program,
        Decision::Prompt | Decision::Forbidden => program.rsplit('/').next().unwrap_or(program),
    };
    let arguments = command.words.iter().skip(1).map(Word::as_str);
    pattern[0] == program
        && command.words.len() >= pattern.len()
        && pattern[1..].iter().zip(arguments).all(|(wanted, given)| given == Some(*wanted))
}
