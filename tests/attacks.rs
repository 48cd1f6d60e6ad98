//! Every attack of the list has a test that names it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{program, repository, run, text};

/// The ids of `tests/cases/attacks.txt`: those to be tested, and those with a reason not to be.
fn listed() -> (BTreeSet<String>, BTreeSet<String>) {
    let list = std::fs::read_to_string(repository().join("tests/cases/attacks.txt")).unwrap();
    let (mut tested, mut excused) = (BTreeSet::new(), BTreeSet::new());
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once(':') {
            Some((id, reason)) => {
                assert!(!reason.trim().is_empty(), "{id} has no reason");
                excused.insert(id.to_owned());
            }
            None => tested.extend(line.split(' ').map(str::to_owned)),
        }
    }
    (tested, excused)
}

/// Whether a word has the form of an id: two letters and a number.
fn is_id(word: &str) -> bool {
    word.len() > 3
        && word.starts_with(|letter: char| letter.is_ascii_lowercase())
        && word.chars().take(2).all(|letter| letter.is_ascii_lowercase())
        && word.chars().skip(2).all(|digit| digit.is_ascii_digit())
}

/// The ids that a line of a test's source names: the name of an attack, of a function, or those at the start of a comment.
fn named(line: &str) -> Vec<&str> {
    let line = line.trim();
    if let Some(comment) = line.strip_prefix("/// ") {
        let ids = comment.split_once(": ").map_or("", |(ids, _)| ids);
        let ids: Vec<&str> = ids.split(", ").collect();
        return if ids.iter().all(|id| is_id(id)) { ids } else { Vec::new() };
    }
    let name = match line.split_once(" => ") {
        Some((name, _)) => name,
        None => line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ").unwrap_or(""),
    };
    name.split('_').next().filter(|id| is_id(id)).into_iter().collect()
}

/// The ids in a file, where a test follows: a comment without one names nothing.
fn named_by_tests(source: &str) -> BTreeSet<String> {
    let (mut ids, mut above) = (BTreeSet::new(), Vec::new());
    for line in source.lines() {
        let found = named(line).into_iter().map(str::to_owned);
        match line.trim() {
            comment if comment.starts_with("///") => above.extend(found),
            test if test.starts_with("#[test]") || test.starts_with("#[tokio::test") => ids.extend(above.drain(..)),
            attack if attack.contains(" => ") => ids.extend(above.drain(..).chain(found)),
            function if function.starts_with("fn or") || function.starts_with("async fn or") => ids.extend(found),
            _ => above.clear(),
        }
    }
    ids
}

#[test]
fn each_is_named_by_a_test() {
    let (tested, excused) = listed();
    let files = run(program("git").args(["ls-files", "-z", "*.rs"]).current_dir(repository()), 0);
    let files = text(&files.stdout);
    let sources = files.split('\0').filter(|file| !file.is_empty() && !file.ends_with("tests/attacks.rs"));
    let read = |file: &str| std::fs::read_to_string(repository().join(Path::new(file))).unwrap_or_default();
    let named: BTreeSet<String> = sources.flat_map(|file| named_by_tests(&read(file))).collect();
    let missing: Vec<_> = tested.difference(&named).collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
    let both: Vec<_> = excused.intersection(&named).collect();
    assert!(both.is_empty(), "tested, and said not to be: {both:?}");
    assert!(tested.len() > 100);
}

#[test]
fn only_tests_name_attacks() {
    let source = "/// fs01: a comment of no test.\nfn helper() {}\n/// px02, px18: of one.\n#[test]\nfn a() {}\n    \
                  /// What it is.\n    gm04_deep => Attack::with(\"x\");\n#[tokio::test]\nasync fn or12_flood() {}\n\
                  /// Words: no id.\n#[test]\nfn b() {}\n";
    let ids: Vec<_> = named_by_tests(source).into_iter().collect();
    assert_eq!(ids, ["gm04", "or12", "px02", "px18"]);
}
