//! Every operation, filter and name of every profile has a line in `SOURCES.md`, with the public profile or document
//! that uses it in the same way, or the reason why it is there without one. These profiles were never run, so a word
//! that no system knows would be found on a user's machine.

#![expect(clippy::panic, clippy::indexing_slicing, reason = "a profile or a list that can't be read fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proptest::prelude::*;
use stockade_protocol::Permissions;
use stockade_sandbox_macos::{Loss, ProxyPorts, Seatbelt};

use crate::policies::policies;
use crate::reader::{Expression, read};
use crate::world::{World, command};

const SOURCES: &str = include_str!("../../SOURCES.md");

/// An operation, a filter, and what the filter names.
type Word = (String, String, String);

fn lines(heading: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let rest = SOURCES.split_once(heading).map_or("", |(_, rest)| rest);
    let table = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|')).skip(2);
    table.map(|line| line.trim().trim_matches('|').split('|').map(str::trim).collect())
}

/// What stands between backquotes.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The names of the sources.
fn sources() -> BTreeSet<String> {
    lines("## Sources").flat_map(|cells| quoted(cells.first().copied().unwrap_or_default())).collect()
}

/// The list: each word with its source or reason.
fn listed() -> BTreeMap<Word, String> {
    let mut listed = BTreeMap::new();
    for cells in lines("## Words") {
        let [operations, filters, names, source] = cells.as_slice() else { panic!("not four cells: {cells:?}") };
        let names = if names.is_empty() { vec![String::new()] } else { quoted(names) };
        for operation in quoted(operations) {
            for filter in if filters.is_empty() { vec![String::new()] } else { quoted(filters) } {
                for name in &names {
                    let word = (operation.clone(), filter.clone(), name.clone());
                    assert!(listed.insert(word.clone(), (*source).to_owned()).is_none(), "{word:?} stands there twice");
                }
            }
        }
    }
    listed
}

fn text(expression: &Expression) -> String {
    match expression {
        Expression::Text(text) | Expression::Symbol(text) | Expression::Quoted(text) => text.clone(),
        Expression::Number(number) => number.to_string(),
        Expression::List(items) => match items.as_slice() {
            // Numbered ones are of one kind.
            [Expression::Symbol(word), Expression::Text(name)] if word == "param" => {
                name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_owned()
            }
            _ => panic!("{expression:?}"),
        },
    }
}

fn words_of_filter(filter: &Expression, found: &mut BTreeSet<(String, String)>) {
    let Expression::List(items) = filter else { panic!("{filter:?}") };
    let [Expression::Symbol(kind), rest @ ..] = items.as_slice() else { panic!("{filter:?}") };
    if kind.starts_with("require-") {
        found.insert((kind.clone(), String::new()));
        rest.iter().for_each(|inner| words_of_filter(inner, found));
        return;
    }
    let name = rest.iter().map(text).collect::<Vec<_>>().join(" ");
    // A proxy's port is a number of the run's.
    let name = match name.strip_prefix("ip localhost:") {
        Some(_) => "ip localhost:PORT".to_owned(),
        None => name,
    };
    found.insert((kind.clone(), name));
}

fn words_of_rule(rule: &[Expression], found: &mut BTreeSet<Word>) {
    match rule {
        [Expression::Symbol(word), Expression::List(condition), then @ Expression::List(_)] if word == "if" => {
            let Expression::List(then) = then else { return };
            found.insert(("if".into(), text(&condition[0]), text(&condition[1])));
            words_of_rule(then, found);
        }
        [Expression::Symbol(verb), rest @ ..] => {
            let operations: Vec<String> =
                rest.iter().filter(|item| matches!(item, Expression::Symbol(_))).map(text).collect();
            let mut filters = BTreeSet::new();
            rest.iter()
                .filter(|item| matches!(item, Expression::List(_)))
                .for_each(|f| words_of_filter(f, &mut filters));
            if filters.is_empty() {
                filters.insert((String::new(), String::new()));
            }
            for operation in operations {
                for (filter, name) in &filters {
                    let operation = if verb == "deny" { format!("deny {operation}") } else { operation.clone() };
                    found.insert((operation, filter.clone(), name.clone()));
                }
            }
        }
        _ => panic!("{rule:?}"),
    }
}

fn words(profile: &str) -> BTreeSet<Word> {
    let mut found = BTreeSet::new();
    for form in read(profile).unwrap() {
        let Expression::List(items) = form else { panic!("{form:?}") };
        if items.first() != Some(&Expression::Symbol("version".to_owned())) {
            words_of_rule(&items, &mut found);
        }
    }
    found
}

fn generated() -> BTreeSet<Word> {
    let ports = ProxyPorts::new([3128]);
    let mut found = BTreeSet::new();
    for permissions in policies("/w").into_iter().chain([Permissions::default()]) {
        for seatbelt in [Seatbelt::new(), Seatbelt::new().accepting(Loss::CertificateFetches)] {
            let plan = seatbelt.plan_on(&command(), &permissions, Some(&ports), &World::default()).unwrap();
            found.extend(words(plan.profile().text()));
        }
    }
    found
}

#[test]
fn every_word_of_every_profile_has_a_source_or_a_reason() {
    let listed = listed();
    let missing: Vec<Word> = generated().into_iter().filter(|word| !listed.contains_key(word)).collect();
    assert!(missing.is_empty(), "not in SOURCES.md: {missing:?}");
    let known = sources();
    for (word, source) in &listed {
        let named = quoted(source);
        assert!(!source.is_empty(), "{word:?} has neither a source nor a reason");
        // Without a source there is a reason, in words.
        assert!(named.iter().any(|name| known.contains(name)) || source.starts_with("reason: "), "{word:?}: {source}");
    }
}

#[test]
fn no_line_of_the_list_is_left_over() {
    let generated = generated();
    let unused: Vec<Word> = listed().into_keys().filter(|word| !generated.contains(word)).collect();
    assert!(unused.is_empty(), "in SOURCES.md, and in no profile: {unused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The policies above miss no word that another would bring out.
    #[test]
    fn random_policies_have_no_other_words((permissions, _, found) in crate::agreement::any_case()) {
        let world = World { found, ..World::default() };
        let plan = Seatbelt::new().plan_on(&command(), &permissions, None, &world).unwrap();
        static LISTED: LazyLock<BTreeMap<Word, String>> = LazyLock::new(listed);
        let unknown = |word: &Word| !LISTED.contains_key(word);
        let missing: Vec<Word> = words(plan.profile().text()).into_iter().filter(unknown).collect();
        prop_assert!(missing.is_empty(), "not in SOURCES.md: {:?}", missing);
    }
}
