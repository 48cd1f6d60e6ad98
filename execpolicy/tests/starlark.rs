//! The interpreter agrees with Starlark's own evaluator.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails by panicking")]

#[path = "../benches/starlark_engine/mod.rs"]
mod starlark_engine;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stockade_execpolicy::{Layer, Policy};
use stockade_protocol::Decision;

fn own(text: &str) -> Option<Vec<starlark_engine::Collection>> {
    let policy = Policy::parse("t.rules", text, Layer::User).ok()?;
    let rule = |rule: &stockade_execpolicy::PrefixRule| {
        let token = |token: &stockade_execpolicy::PatternToken| token.alternatives().map(str::to_owned).collect();
        let decision = match rule.decision() {
            Decision::Allow => "allow",
            Decision::Prompt => "prompt",
            Decision::Forbidden => "forbidden",
        };
        (rule.pattern().iter().map(token).collect(), decision.to_owned())
    };
    Some(policy.rules().map(rule).collect())
}

/// A string, a list of strings and a condition, made from each other and from the variables `s` (a
/// string), `l` (a list of strings) and `x` (a string, bound by loops).
#[derive(Clone, Debug)]
struct Terms {
    text: String,
    list: String,
    condition: String,
}

const TEXTS: &[&str] =
    &["s", "x", "\"a\"", "'b'", r#"r"\n""#, "\"\"\"c\nd\"\"\"", r#""\x41\u00e9\101\q\"\t""#, "\"\"", "l[0]", "l[-1]"];
const LISTS: &[&str] = &["l", "[\"a\"]", "[s, x]", "[\"b\",]", "[y for y in (\"1\", s)]"];
const CONDITIONS: &[&str] = &["True", "not s", "None", "0", "[]", "l", "s == x", "\"l\" in l"];

fn terms() -> impl Strategy<Value = Terms> {
    let pick = |texts: &'static [&'static str]| prop::sample::select(texts).prop_map(str::to_owned);
    let leaf = (pick(TEXTS), pick(LISTS), pick(CONDITIONS)).prop_map(|(text, list, condition)| Terms {
        text,
        list,
        condition,
    });
    leaf.prop_recursive(4, 32, 2, |inner| {
        (inner.clone(), inner, 0..5_usize).prop_map(|(a, b, shape)| combine(&a, &b, shape))
    })
}

fn combine(a: &Terms, b: &Terms, shape: usize) -> Terms {
    let Terms { text: s, list: l, condition: c } = a;
    let Terms { text: t, list: m, condition: d } = b;
    let (text, list, condition) = match shape {
        0 => (format!("{s} + {t}"), format!("{l} + {m}"), format!("({c} and {d})")),
        1 => (format!("({s} if {c} else {t})"), format!("[{s} for x in {m}]"), format!("({c} or not {d})")),
        2 => (format!("({m} + [{s}])[0]"), format!("[x + {t} for x in {l} if {d}]"), format!("({s} in {t})")),
        3 => (
            format!("({s}, {t})[1]"),
            format!("[s + x for s in {l} for x in {m} if x != {t}]"),
            format!("({l} == {m})"),
        ),
        _ => (format!("[{s}, {t}][-2]"), format!("({l} if {c} else [{s}, {t}])"), format!("({t} not in {l})")),
    };
    Terms { text, list, condition }
}

fn statement() -> impl Strategy<Value = String> {
    (terms(), 0..9_usize).prop_map(|(Terms { text, list, condition }, shape)| match shape {
        0 => format!("l = {list}\n"),
        1 => format!("s += {text}\n"),
        2 => format!("x, s = ({text}, x)\n"),
        3 => format!("prefix_rule([\"p\", {text}, {list}])\n"),
        4 => format!("prefix_rule([\"p\"] + {list}, decision = \"prompt\" if {condition} else \"allow\")\n"),
        5 => format!(
            "for x in {list}:\n    if {condition}:\n        break\n    elif x == {text}:\n        continue\n    prefix_rule([\"q\", x])\n"
        ),
        6 => format!("[prefix_rule([\"r\", x, {text}]) for x in {list}]\n"),
        7 => format!("if {condition}:\n    prefix_rule([\"s\", {text}])\nelse:\n    prefix_rule([\"t\", {text}])\n"),
        _ => format!("prefix_rule(\n    [\"p\",  # a note\n    {text}\n])\n"),
    })
}

#[test]
fn a_file_means_what_starlark_says() {
    let (accepted, rules) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) });
    let files = prop::collection::vec(statement(), 1..6);
    let agree = runner.run(&files, |statements| {
        let text = format!("s = \"s\"\nl = [\"l\", \"m\"]\nx = \"x\"\n{}", statements.concat());
        if let Some(own) = own(&text) {
            accepted.set(accepted.get() + 1);
            rules.set(rules.get() + own.len());
            prop_assert_eq!(Some(own), starlark_engine::load(&text), "{}", text);
        }
        Ok(())
    });
    if let Err(error) = agree {
        panic!("{error}");
    }
    // Some have an empty list of alternatives or an index that is out of range; most have to load.
    assert!(accepted.get() > 150 && rules.get() > 300, "only {} files with {} rules", accepted.get(), rules.get());
}
