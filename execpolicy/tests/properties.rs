//! Laws that hold for all rules and all commands.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

mod reference;

use proptest::prelude::*;
use reference::Rule;
use stockade_execpolicy::{HostExecutables, Layer, Policy};
use stockade_protocol::{CommandRole, Decision, ParsedCommand, ParsedLine, Word};

/// Few words, so that rules and commands meet.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "-x", ""]).prop_map(str::to_owned)
}

fn program() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "/bin/a", "/opt/a", "./b"]).prop_map(str::to_owned)
}

fn decision() -> impl Strategy<Value = Decision> {
    prop::sample::select(vec![Decision::Allow, Decision::Prompt, Decision::Forbidden])
}

fn rule() -> impl Strategy<Value = Rule> {
    // Up to four to the power of five combinations: both ways of indexing are taken.
    let token = prop::collection::vec(word(), 1..4);
    let program = prop::collection::vec(program(), 1..3);
    (program, prop::collection::vec(token, 0..5), decision(), any::<bool>()).prop_map(
        |(program, rest, decision, exact)| Rule {
            pattern: std::iter::once(program).chain(rest).collect(),
            decision,
            exact: exact && decision == Decision::Allow,
        },
    )
}

fn command() -> impl Strategy<Value = ParsedCommand> {
    let given = prop_oneof![
        12 => program(),
        2 => prop::sample::select(vec!["//bin/a", "/bin/./a", "/bin/../bin/a", "/x/b", "c"]).prop_map(str::to_owned),
    ];
    let first = prop_oneof![12 => given.prop_map(Word::from), 1 => Just(Word::Unknown)];
    let rest = prop::collection::vec(prop_oneof![8 => word().prop_map(Word::from), 1 => Just(Word::Unknown)], 0..7);
    (first, rest, prop::bool::weighted(0.1), prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(first, rest, assigns, writes, wraps)| ParsedCommand {
            words: std::iter::once(first).chain(rest).collect(),
            role: if wraps { CommandRole::Wrapper } else { CommandRole::Runs },
            assigns: if assigns { vec!["A".into()] } else { vec![] },
            writes: if writes { vec!["out".into()] } else { vec![] },
            ..ParsedCommand::default()
        },
    )
}

fn line() -> impl Strategy<Value = ParsedLine> {
    (prop::collection::vec(command(), 0..4), prop::bool::weighted(0.1))
        .prop_map(|(commands, opaque)| ParsedLine { commands, opaque: opaque.then(|| "because".to_owned()) })
}

fn written(rules: &[Rule]) -> String {
    let decision = |decision| match decision {
        Decision::Allow => "allow",
        Decision::Prompt => "prompt",
        Decision::Forbidden => "forbidden",
    };
    rules
        .iter()
        .map(|rule| {
            let exact = if rule.exact { ", exact=True" } else { "" };
            format!("prefix_rule(pattern={:?}, decision=\"{}\"{exact})\n", rule.pattern, decision(rule.decision))
        })
        .collect()
}

const TRUSTED: &str = "host_executable(name=\"a\", paths=[\"/bin/a\"])\n";

fn policy(rules: &[Rule], layer: Layer) -> Policy {
    Policy::parse("t.rules", &(written(rules) + TRUSTED), layer).unwrap()
}

fn decide(policy: &Policy, line: &ParsedLine, fallback: Decision) -> Decision {
    let decision = policy.decide(line, HostExecutables::Resolve, |_| fallback);
    let evaluation = policy.evaluate(line, HostExecutables::Resolve, |_| fallback);
    assert_eq!(decision, evaluation.decision, "`decide` and `evaluate` disagree");
    decision
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_tree_agrees_with_the_slow_way(rules in prop::collection::vec(rule(), 0..12), line in line(), fallback in decision()) {
        let expected = reference::decide(&rules, &["/bin/a"], &line, fallback);
        prop_assert_eq!(decide(&policy(&rules, Layer::User), &line, fallback), expected);
    }

    #[test]
    fn every_match_is_listed(rules in prop::collection::vec(rule(), 0..8), command in command()) {
        // Each rule alone either matches or not; together they match as often.
        let line = ParsedLine { commands: vec![command], opaque: None };
        let count = |rules: &[Rule]| {
            let evaluation = policy(rules, Layer::User).evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
            evaluation.commands[0].matches.iter().filter(|found| found.certainty() == stockade_execpolicy::Certainty::Certain).count()
        };
        let alone: usize = rules.iter().map(|rule| count(std::slice::from_ref(rule))).sum();
        prop_assert_eq!(count(&rules), alone);
    }

    #[test]
    fn a_rule_more_is_never_laxer_than_the_rule(rules in prop::collection::vec(rule(), 0..8), more in rule(), line in line(), fallback in decision()) {
        let before = decide(&policy(&rules, Layer::User), &line, fallback);
        let alone = policy(std::slice::from_ref(&more), Layer::User).evaluate(&line, HostExecutables::Resolve, |_| fallback);
        let mut all = rules;
        all.push(more.clone());
        let after = decide(&policy(&all, Layer::User), &line, fallback);
        if more.decision != Decision::Allow {
            // A restriction takes the place of the fallback where it matches, and of nothing else.
            if alone.is_match() {
                let asked = alone.commands.iter().flat_map(|command| &command.matches).map(|found| found.decision()).max();
                prop_assert!(Some(after) >= asked);
            } else {
                prop_assert_eq!(after, before);
            }
        } else if !alone.is_match() {
            prop_assert_eq!(after, before);
        } else {
            prop_assert!(after <= before, "an allow rule made {before:?} stricter: {after:?}");
        }
    }

    #[test]
    fn an_allow_rule_undoes_no_restriction(rules in prop::collection::vec(rule(), 0..8), more in rule(), line in line()) {
        let more = Rule { decision: Decision::Allow, ..more };
        // With a fallback that allows, all that is left are the restrictions.
        let before = decide(&policy(&rules, Layer::System), &line, Decision::Allow);
        let merged = policy(&rules, Layer::System).merge(policy(&[more], Layer::Project));
        prop_assert_eq!(decide(&merged, &line, Decision::Allow), before);
    }

    #[test]
    fn the_order_in_a_file_does_not_matter(rules in prop::collection::vec(rule(), 0..8).prop_shuffle(), line in line(), fallback in decision()) {
        let mut reversed = rules.clone();
        reversed.reverse();
        let mut sorted = rules.clone();
        sorted.sort_by_key(|rule| format!("{rule:?}"));
        let expected = decide(&policy(&rules, Layer::User), &line, fallback);
        prop_assert_eq!(decide(&policy(&reversed, Layer::User), &line, fallback), expected);
        prop_assert_eq!(decide(&policy(&sorted, Layer::User), &line, fallback), expected);
    }

    #[test]
    fn merging_is_associative(parts in prop::collection::vec((prop::collection::vec(rule(), 0..4), layer()), 3), line in line()) {
        let part = |index: usize| policy(&parts[index].0, parts[index].1);
        let left = part(0).merge(part(1)).merge(part(2));
        let right = part(0).merge(part(1).merge(part(2)));
        prop_assert_eq!(&left, &right);
        prop_assert_eq!(decide(&left, &line, Decision::Prompt), decide(&right, &line, Decision::Prompt));
        // And the decision does not depend on the order of the layers either.
        let backwards = part(2).merge(part(1)).merge(part(0));
        prop_assert_eq!(decide(&left, &line, Decision::Prompt), decide(&backwards, &line, Decision::Prompt));
    }
}

fn layer() -> impl Strategy<Value = Layer> {
    prop::sample::select(vec![Layer::System, Layer::User, Layer::Project, Layer::Session])
}
