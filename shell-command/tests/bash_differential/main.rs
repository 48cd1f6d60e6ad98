//! Every program that bash executes was listed by the parser, or the line was opaque.
//!
//! Generated and listed lines run under the real bash, in a temporary directory, with a `PATH`
//! that holds one logging stand-in. Every other program is "not found", which bash reports to a
//! handler that logs it with its arguments: no fork of a real program, and nothing that could do
//! harm. Each logged program must be among the listed commands with the same words, and each file
//! that appeared must have been announced as written, unless the line was opaque.
//!
//! `STOCKADE_SEED=n` repeats a run; every run prints its seed.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that can't go on has failed"
)]

mod generate;
mod harness;

use std::collections::BTreeMap;

use stockade_protocol::{ParsedLine, Word};
use stockade_shell_command::parse_bash;

use generate::Generator;
use harness::{Observed, observe};

const GENERATED: usize = 10_000;
const BUILTIN_LINES: usize = 6_000;

#[test]
fn every_program_that_bash_runs_is_listed_or_the_line_is_opaque() {
    let seed = generate::seed();
    let mut generator = Generator::new(seed);
    let mut lines: Vec<String> = generate::LISTED.iter().map(ToString::to_string).collect();
    lines.extend((0..GENERATED).map(|_| generator.line()));
    let counted = compare(seed, &lines);
    assert!(counted.complete * 3 > lines.len(), "too few lines were read in full: nothing is shown: {counted:?}");
    assert!(counted.executed > GENERATED / 4, "too few programs were executed: nothing is shown: {counted:?}");
}

#[test]
fn what_builtins_run_is_listed_or_the_line_is_opaque() {
    let seed = generate::seed();
    let mut generator = Generator::new(seed);
    let lines: Vec<String> = (0..BUILTIN_LINES).map(|_| generator.builtin_line()).collect();
    let counted = compare(seed, &lines);
    assert!(counted.complete * 10 > lines.len(), "too few lines were read in full: nothing is shown: {counted:?}");
    assert!(counted.executed_by_opaque > BUILTIN_LINES / 10, "too few arguments were evaluated: {counted:?}");
}

#[derive(Debug, Default)]
struct Counted {
    /// Lines that were read in full.
    complete: usize,
    /// Programs that those executed.
    executed: usize,
    /// Programs that the others executed.
    executed_by_opaque: usize,
}

/// Runs all lines under bash and fails for each that was misread.
fn compare(seed: u64, lines: &[String]) -> Counted {
    println!("STOCKADE_SEED={seed}");
    let mut wrong = Vec::new();
    let mut counted = Counted::default();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (line, observed) in lines.iter().zip(&observe(lines)) {
        let parsed = parse_bash(line);
        if let Some(why) = parsed.opaque {
            *reasons.entry(why).or_default() += 1;
            counted.executed_by_opaque += observed.programs.len();
            continue;
        }
        counted.complete += 1;
        counted.executed += observed.programs.len();
        wrong.extend(objection(&parsed, observed).map(|what| format!("{line:?}: {what}\n    {parsed:?}")));
    }
    println!("{} lines, {counted:?}", lines.len());
    println!("opaque lines by reason: {reasons:#?}");
    assert!(wrong.is_empty(), "seed {seed}: {} lines were misread\n{}", wrong.len(), wrong.join("\n"));
    counted
}

/// An effect in bash that the parser did not announce.
fn objection(parsed: &ParsedLine, observed: &Observed) -> Option<String> {
    let listed = |argv: &&Vec<Vec<u8>>| parsed.commands.iter().any(|command| may_be(&command.words, argv));
    let unlisted = observed.programs.iter().find(|argv| !listed(argv));
    if let Some(argv) = unlisted {
        let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        return Some(format!("bash executed {words:?}"));
    }
    let announced = parsed.commands.iter().any(|command| !command.writes.is_empty());
    (observed.wrote && !announced).then(|| "bash wrote a file".to_owned())
}

/// Whether words may turn into `argv`: an unknown word may become any number of words.
fn may_be(words: &[Word], argv: &[Vec<u8>]) -> bool {
    match (words, argv) {
        ([], []) => true,
        ([Word::Unknown, rest @ ..], argv) => (0..=argv.len()).any(|taken| may_be(rest, &argv[taken..])),
        ([Word::Known(text), rest @ ..], [first, others @ ..]) => text.as_bytes() == first && may_be(rest, others),
        _ => false,
    }
}
