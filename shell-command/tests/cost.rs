//! Parsing takes bounded time that grows linearly with the length of any line.
//!
//! `STOCKADE_SEED=n` repeats a run; every run prints its seed and the slowest of its lines.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test that can't go on has failed")]

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stockade_shell_command::parse_bash;

/// Filler for a line: openers that are never closed, and whole constructs.
const PARTS: &[&str] = &[
    "a=(",
    "a+=(",
    "a=([",
    "a=(a ",
    "a=b(",
    "a=($(",
    "declare a=(",
    "${x#",
    "${x:-",
    "${x/",
    "${x//a/",
    "${",
    "${a[",
    "$(",
    "`",
    "`a ",
    "(",
    ")",
    "{ ",
    "{",
    "}",
    "<(",
    ">(",
    "\"$(",
    "$((",
    "((",
    "((a=",
    "$[",
    "[",
    "[ ",
    "[[ ",
    "[[ a =~ ",
    "]]",
    "case a in a) ",
    "if a; then ",
    "for i in ",
    "while a; do ",
    "select ",
    "coproc ",
    "function f ",
    "f() { ",
    "time ",
    "! ",
    "!",
    "<<E\n",
    "<<E ",
    "<<<",
    "<",
    ">",
    ">&",
    "&>",
    "1>",
    "2>&1 ",
    "'",
    "\"",
    "$'",
    "\\",
    "a;",
    "a|",
    "a&&",
    "a||",
    "a&",
    "a ",
    "a\n",
    "a[",
    "x=",
    "x=1 ",
    "x=1;",
    "@(",
    "?(",
    "*",
    "#",
    "$",
    "$x",
    "-",
    "=",
    "\u{e9}",
    "\u{1}",
    "a\\\n",
    "${x#}",
    "a=()",
    "a=(1) ",
    "\"${x}\" ",
    "$((1)) ",
    "`a` ",
    "$(a) ",
    "[[ a ]];",
    "(a);",
    "<(a) ",
    "{ a; };",
    "a>b ",
    "a >b;",
    "'x' ",
    "a <<< b\n",
    "a <<E\nE\n",
    "a <<E\n$(b)\nE\n",
    "if a; then b; fi\n",
    "for i in a; do b; done;",
    "nice ",
    "find -exec ",
    "find . -exec a \\; ",
    "bash -c '",
    "eval ",
    "env A=1 ",
    "sudo ",
    "xargs ",
    "git -c a=b ",
    "su -c a ",
];

/// Long enough for quadratic growth to show in a debug build.
const LENGTH: usize = 48 * 1024;

/// A release build needs milliseconds. The margin is for a debug build on a busy machine, not for slow code: quadratic
/// growth took minutes here.
const LIMIT: Duration = Duration::from_secs(10);

/// Processor time of parsing, which other programs on the machine do not change.
fn cost(text: &str) -> Duration {
    let used = || {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(used).expect("a positive time")
    };
    let start = used();
    drop(parse_bash(text));
    used() - start
}

fn check(lines: impl Iterator<Item = (String, String)>) {
    let mut costs: Vec<(Duration, String)> = lines.map(|(name, text)| (cost(&text), name)).collect();
    costs.sort();
    println!("slowest: {:?}", costs.iter().rev().take(8).collect::<Vec<_>>());
    let slow: Vec<_> = costs.iter().filter(|(cost, _)| *cost > LIMIT).collect();
    assert!(slow.is_empty(), "{slow:?}");
}

#[test]
fn a_line_of_one_part_repeated_is_read_in_time() {
    check(PARTS.iter().enumerate().map(|(index, part)| {
        let ending = ["", "a", "a)", "a}"][index % 4];
        (format!("{part:?} and {ending:?}"), format!("{}{ending}", part.repeat(LENGTH / part.len())))
    }));
}

#[test]
fn a_line_just_short_of_every_bound_is_read_in_time() {
    check(PARTS.iter().flat_map(|part| {
        // Below the bound on texts that are doubted, and below the one on the number of commands.
        [2_000 / part.len(), 490].map(|count| (format!("{part:?} {count} times"), format!("{}a", part.repeat(count))))
    }));
}

#[test]
fn a_line_of_mixed_parts_is_read_in_time() {
    let seed = match std::env::var("STOCKADE_SEED") {
        Ok(text) => text.parse().expect("STOCKADE_SEED is a number"),
        Err(_) => std::hash::RandomState::new().build_hasher().finish(),
    };
    println!("STOCKADE_SEED={seed}");
    let mut state = seed | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).expect("a number of 31 bits") % below
    };
    let lines: Vec<(String, String)> = (0..30)
        .map(|_| {
            let parts: String = (0..2 + next(3)).map(|_| PARTS[next(PARTS.len())]).collect();
            let length = [2_000, 20_000, LENGTH][next(3)];
            (format!("{parts:?} to {length}"), parts.repeat(length / parts.len()))
        })
        .collect();
    check(lines.into_iter());
}

#[test]
fn twice_the_length_takes_no_more_than_a_multiple_of_the_time() {
    for part in ["a=(", "${x#", "a|", ")", "$[", "x=1 ", "echo 'x' \"y\";\n"] {
        // Long enough for every part to take milliseconds in a debug build, and below the size that is not read. Measured
        // there for `$[`: 1.4, 2.9, 6.1, 15.5 and 34.2 ms for 8, 16, 32, 64 and 128 KiB.
        let [short, long] = [32 * 1024, 120 * 1024].map(|length| {
            let text = part.repeat(length / part.len());
            (0..5).map(|_| cost(&text)).min().unwrap_or_default().max(Duration::from_millis(4))
        });
        // About four times the length: four times the time, fourteen times if it grew with the square.
        assert!(long < short * 10, "{part:?}: {short:?} for 32 KiB, {long:?} for 120 KiB");
    }
}
