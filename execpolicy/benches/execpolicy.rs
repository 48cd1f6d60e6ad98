//! The cost of a decision with ten rules and with ten thousand, and the cost of loading them.
//!
//! Everything is measured in one run and reported as ratios, so that the machine cancels out. The bounds that the
//! project promises are checked at the end; a broken one fails the run.

mod starlark_engine;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use stockade_execpolicy::{HostExecutables, Layer, Policy};
use stockade_protocol::{Argv, Decision, ParsedLine, Word};

const FEW: usize = 10;
const MANY: usize = 10_000;
const LINES: usize = 1024;

fn main() {
    let mut broken = Vec::new();
    let mut bound = |what: &str, value: f64, most: f64| {
        println!("  {what}: {value:.2} (at most {most})");
        if value > most {
            broken.push(format!("{what}: {value:.2} > {most}"));
        }
    };
    decisions(&mut bound);
    long_command_lines(&mut bound);
    loading(&mut bound);
    if !broken.is_empty() {
        println!("\nbroken bounds:\n  {}", broken.join("\n  "));
        std::process::exit(1);
    }
}

fn decisions(bound: &mut impl FnMut(&str, f64, f64)) {
    for (case, verb) in [("hit", "verb"), ("miss", "absent")] {
        println!("\none decision, {case}:");
        let (few, many) = (policy(FEW), policy(MANY));
        let (few_lines, many_lines) = (lines(FEW, verb), lines(MANY, verb));
        let paths = HostExecutables::Resolve;
        let decide = |policy: &Policy, lines: &[ParsedLine]| {
            per_call(lines, |line| policy.decide(line, paths, |_| Decision::Prompt))
        };
        let evaluate = |policy: &Policy, lines: &[ParsedLine]| {
            per_call(lines, |line| policy.evaluate(line, paths, |_| Decision::Prompt).decision)
        };
        let [decide_few, decide_many] = interleaved([&|| decide(&few, &few_lines), &|| decide(&many, &many_lines)]);
        let [evaluate_few, evaluate_many] =
            interleaved([&|| evaluate(&few, &few_lines), &|| evaluate(&many, &many_lines)]);
        let scan = LinearScan::new(MANY);
        let linear = per_call(many_lines.get(..8).unwrap_or_default(), |line| scan.decide(line));
        println!("  decide: {decide_few:.0?} with {FEW} rules, {decide_many:.0?} with {MANY}");
        println!("  evaluate: {evaluate_few:.0?} with {FEW} rules, {evaluate_many:.0?} with {MANY}");
        println!(
            "  reference, every rule of the program in turn: {linear:.1?} with {MANY}, {:.0} times `decide`",
            ratio(linear, decide_many)
        );
        bound("decide, many to few", ratio(decide_many, decide_few), 1.5);
        bound("evaluate, many to few", ratio(evaluate_many, evaluate_few), 1.5);
        bound("evaluate with many rules in microseconds", evaluate_many.as_secs_f64() * 1e6, 1.0);
    }
}

fn long_command_lines(bound: &mut impl FnMut(&str, f64, f64)) {
    println!("\na command line of 100,000 words:");
    let policy = policy(MANY);
    let argv = |words: usize| {
        let tail = std::iter::repeat_n("operand", words);
        [Argv::parse(["tool", "verb7", "to7"].into_iter().chain(tail)).unwrap_or_else(|error| unreachable!("{error}"))]
    };
    let cost =
        |argv: &[Argv]| per_call(argv, |argv| policy.decide_argv(argv, HostExecutables::Resolve, |_| Decision::Prompt));
    let (short, long) = (argv(0), argv(100_000));
    let [short, long] = interleaved([&|| cost(&short), &|| cost(&long)]);
    println!("  decide_argv: {short:.0?} without the operands, {long:.0?} with");
    bound("long to short", ratio(long, short), 1.5);
}

fn loading(bound: &mut impl FnMut(&str, f64, f64)) {
    println!("\nloading {MANY} rules:");
    let text = text(MANY);
    let computed = format!("NAME = \"tool\"\n{text}");
    let time = |load: &dyn Fn() -> usize| {
        let start = Instant::now();
        assert_eq!(black_box(load()), MANY);
        start.elapsed()
    };
    let own = || Policy::parse("bench.rules", &text, Layer::User).map_or(0, |policy| policy.rules().count());
    let long = || Policy::parse("bench.rules", &computed, Layer::User).map_or(0, |policy| policy.rules().count());
    let [own, long, starlark] = interleaved([&|| time(&own), &|| time(&long), &|| {
        time(&|| starlark_engine::load(&text).map_or(0, |rules| rules.len()))
    }]);
    println!("  literal file: {own:.1?}; the same with a variable: {long:.1?}; plain starlark calls: {starlark:.1?}");
    bound("literal file to plain starlark", ratio(own, starlark), 0.5);
    println!("  file with a variable to plain starlark: {:.2}", ratio(long, starlark));
}

fn text(rules: usize) -> String {
    (0..rules).map(|index| format!("prefix_rule(pattern=[\"tool\", \"verb{index}\", [\"to{index}\", \"from{index}\"]], decision=\"allow\")\n")).collect()
}

fn policy(rules: usize) -> Policy {
    Policy::parse("bench.rules", &text(rules), Layer::User).unwrap_or_else(|error| unreachable!("{error}"))
}

/// Lines spread over all rules, always the same number of lines.
fn lines(rules: usize, verb: &str) -> Vec<ParsedLine> {
    let line = |index: usize| {
        let index = index * 7919 % rules;
        let words = ["tool".to_owned(), format!("{verb}{index}"), format!("to{index}"), "operand".to_owned()];
        ParsedLine::single(&Argv::parse(words).unwrap_or_else(|error| unreachable!("{error}")))
    };
    (0..LINES).map(line).collect()
}

/// The reference: the rules of each program, tried one after the other.
struct LinearScan {
    by_program: HashMap<String, Vec<Vec<Vec<String>>>>,
}

impl LinearScan {
    fn new(rules: usize) -> Self {
        let rest = |index| vec![vec![format!("verb{index}")], vec![format!("to{index}"), format!("from{index}")]];
        Self { by_program: HashMap::from([("tool".to_owned(), (0..rules).map(rest).collect())]) }
    }

    fn decide(&self, line: &ParsedLine) -> Decision {
        let Some((program, operands)) = line.commands.first().and_then(|command| command.words.split_first()) else {
            return Decision::Prompt;
        };
        let token_matches =
            |(token, word): (&Vec<String>, &Word)| token.iter().any(|own| Some(own.as_str()) == word.as_str());
        let matches =
            |rule: &&Vec<Vec<String>>| rule.len() <= operands.len() && rule.iter().zip(operands).all(token_matches);
        let rules = program.as_str().and_then(|program| self.by_program.get(program));
        let found = rules.into_iter().flatten().filter(matches).map(|_| Decision::Allow).max();
        found.unwrap_or(Decision::Prompt)
    }
}

/// The time of one call, over enough rounds to trust the clock.
fn per_call<T, R>(inputs: &[T], call: impl Fn(&T) -> R) -> Duration {
    let mut calls = 0_u32;
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(20) {
        for input in inputs {
            black_box(call(black_box(input)));
            calls += 1;
        }
    }
    start.elapsed() / calls
}

/// The best of several rounds for each, taken in turns so that a slow moment hits all of them.
fn interleaved<const N: usize>(measures: [&dyn Fn() -> Duration; N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..9 {
        for (best, measure) in best.iter_mut().zip(measures) {
            *best = (*best).min(measure());
        }
    }
    best
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64()
}
