//! Any text as a rules file: no panic, and what loads decides as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_execpolicy::{HostExecutables, Layer, Policy, RulesError};
use stockade_protocol::{Argv, Decision, ParsedLine};

fuzz_target!(|text: &str| {
    let loaded = Policy::parse("fuzz.rules", text, Layer::User);
    if let Err(error) = &loaded {
        error.to_string();
    }
    // A statement without effect sends every file the long way, where it has to mean the same.
    let long = Policy::parse("fuzz.rules", &format!("{text}\npass\n"), Layer::User);
    match (&loaded, &long) {
        (Ok(short), Ok(long)) => assert!(short == long, "the two readers disagree"),
        (Ok(_), Err(error)) => assert!(ends_open(text), "only the short way loads it: {error}"),
        (Err(RulesError::Invalid(found)), Ok(_)) => assert!(ends_open(text), "only the long way loads it: {found}"),
        (Err(_), _) => {}
    }
    if let Ok(policy) = loaded {
        decides_as_it_says(&policy);
    }
});

/// Whether the text may swallow the statement behind it, or be completed by it.
fn ends_open(text: &str) -> bool {
    let last = text.lines().last().unwrap_or_default();
    text.trim_end().ends_with(['\\', ':', '\r']) || last.starts_with([' ', '\t', '\r']) || last.contains(':')
}

fn decides_as_it_says(policy: &Policy) {
    for rule in policy.rules().take(50) {
        let words = rule.pattern().iter().filter_map(|token| token.alternatives().next());
        let Ok(argv) = Argv::parse(words) else { continue };
        let line = ParsedLine::single(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Allow);
        assert!(evaluation.decision >= rule.decision());
        assert!(evaluation.is_match());
        assert_eq!(evaluation.decision, policy.decide(&line, HostExecutables::Resolve, |_| Decision::Allow));
        assert_eq!(evaluation.decision, policy.decide_argv(&argv, HostExecutables::Resolve, |_| Decision::Allow));
    }
}
