//! Any text as a rules file: no panic, and what loads decides as it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_execpolicy::{HostExecutables, Layer, Policy};
use stockade_protocol::{Argv, Decision, ParsedLine};

fuzz_target!(|text: &str| {
    let loaded = Policy::parse("fuzz.rules", text, Layer::User);
    if let Err(error) = &loaded {
        error.to_string();
    }
    // A statement without effect sends every file the long way, where it has to mean the same.
    let long = Policy::parse("fuzz.rules", &format!("pass\n{text}"), Layer::User);
    match (&loaded, &long) {
        (Ok(short), Ok(long)) => assert_eq!(shown(short), shown(long), "the two readers disagree"),
        (Ok(_), Err(error)) => panic!("only the short way loads it: {error}"),
        (Err(error), Ok(_)) => panic!("only the long way loads it: {error}"),
        (Err(_), Err(_)) => {}
    }
    if let Ok(policy) = loaded {
        decides_as_it_says(&policy);
    }
});

/// All that a policy says, without the places, which the added line moves.
fn shown(policy: &Policy) -> Vec<String> {
    let rules = policy.rules().map(|rule| format!("{rule} {:?} {:?}", rule.decision(), rule.justification()));
    let network = policy.network_rules().iter().map(|rule| {
        format!("{} {:?} {:?} {:?} {:?}", rule.host(), rule.protocol(), rule.port(), rule.decision(), rule.justification())
    });
    rules.chain(network).collect()
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
