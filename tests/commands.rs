//! Every line of the shared case file gets the decision that stands there.
//!
//! Rows of engine `C` are judged by the table of known commands alone, rows of engine `R` by the rules
//! below and no table, and rows that begin with `AMEND` say which rule may be offered to be saved.

use stockade_execpolicy::{Evaluation, HostExecutables, Layer, Policy, propose_amendment};
use stockade_protocol::{Argv, Decision};
use stockade_shell_command::{line_safety, parse_argv, parse_bash};

const CASES: &str = include_str!("cases/commands.tsv");

const RULES: &str = r#"
prefix_rule(pattern=["git", ["status", "log"]])
prefix_rule(pattern=["npm", "test"])
prefix_rule(pattern=[["ls", "cat", "echo", "cd"]])
prefix_rule(pattern=["git", "push"], decision="prompt")
prefix_rule(pattern=[["rm", "sudo"]], decision="forbidden")
"#;

/// Rows whose answer is stricter by now, by their numbers: `git stash list` is `git log` inside, with the pager and
/// the signature checks that the repository's settings name. The table says what was agreed at first and is not changed
/// here; that the row still says `allow` is checked, so that this exception goes when the table does.
const STRICTER: [u32; 1] = [111];

struct Case {
    id: u32,
    engine: String,
    line: String,
    expected: String,
}

impl Case {
    /// What is wrong, if the decision is not the expected one.
    fn compare(&self, decision: Decision) -> Option<String> {
        let decision = match decision {
            Decision::Allow => "allow",
            Decision::Prompt => "prompt",
            Decision::Forbidden => "forbidden",
        };
        (decision != self.expected)
            .then(|| format!("{}: `{}` is {decision}, not {}", self.id, self.line, self.expected))
    }
}

fn cases(engine: &str, amend: bool) -> Vec<Case> {
    let case = |row: &str| {
        let fields: Vec<&str> = row.split('\t').collect();
        let [id, engine, line, expected, _reason] = fields.as_slice() else { panic!("`{row}` has not five fields") };
        Case {
            id: id.parse().unwrap(),
            engine: (*engine).into(),
            line: lengthen(&unescape(line)),
            expected: (*expected).into(),
        }
    };
    let stricter = |mut case: Case| {
        if STRICTER.contains(&case.id) {
            assert_eq!(case.expected, "allow", "row {} has caught up", case.id);
            case.expected = "prompt".into();
        }
        case
    };
    let rows = CASES.lines().skip(1).map(case).map(stricter);
    rows.filter(|case| case.engine == engine && case.line.starts_with("AMEND ") == amend).collect()
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
fn the_table_of_known_commands_decides_as_listed() {
    let cases = cases("C", false);
    assert_eq!(cases.len(), 133, "rows of engine C");
    let wrong: Vec<String> =
        cases.iter().filter_map(|case| case.compare(line_safety(&parse_bash(&case.line)).decision())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rules_decide_as_listed() {
    let cases = cases("R", false);
    assert_eq!(cases.len(), 44, "rows of engine R without AMEND");
    let policy = Policy::parse("cases.rules", RULES, Layer::User).unwrap();
    let decide = |line: &str| policy.decide(&parse_bash(line), HostExecutables::Ignore, |_| Decision::Prompt);
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.compare(decide(&case.line))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of a line that is one command.
fn words(line: &str) -> Argv {
    let parsed = parse_bash(line);
    let words = parsed.commands.first().unwrap().words.iter().map(|word| word.known().unwrap().clone());
    Argv::parse(words).unwrap()
}

fn evaluate(rules: &str, argv: &Argv) -> (Evaluation, Option<Argv>) {
    let policy = Policy::parse("cases.rules", rules, Layer::User).unwrap();
    let line = parse_argv(argv);
    let evaluation = policy.evaluate_argv(argv, &line, HostExecutables::Ignore, |_| Decision::Prompt);
    let proposed = propose_amendment(argv, &line, &evaluation).map(|amendment| amendment.0);
    (evaluation, proposed)
}

#[test]
fn only_rules_that_are_not_too_wide_are_offered() {
    let cases = cases("R", true);
    assert_eq!(cases.len(), 4, "rows that begin with AMEND");
    for case in cases {
        let line = case.line.strip_prefix("AMEND ").unwrap();
        let from_prompt_rule = line.strip_suffix(" (when prompt came from a policy prompt rule)");
        let rules = if from_prompt_rule.is_some() {
            r#"prefix_rule(pattern=["git", "status"], decision="prompt")"#
        } else {
            ""
        };
        let argv = words(from_prompt_rule.unwrap_or(line));
        let (evaluation, proposed) = evaluate(rules, &argv);
        assert_eq!(evaluation.decision, Decision::Prompt, "{}", case.line);
        match case.expected.as_str() {
            "none" => assert_eq!(proposed, None, "{}", case.line),
            "none-or-exact" => assert!(proposed.is_none_or(|proposed| proposed == argv), "{}", case.line),
            "whole wrapper" => assert_eq!(proposed, Some(argv), "{}", case.line),
            other => panic!("`{other}` is no expectation"),
        }
    }
}
