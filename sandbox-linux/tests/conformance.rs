//! The suite that every backend passes, on Linux: here it is seen that the suite itself works.
//! `tests/sandbox/conformance.rs` asks more of these engines.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use stockade_protocol::{Access, FileRule, NetworkPolicy};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::Bare;
use stockade_sandboxing::conformance::{SuiteContext, Tally, answer, conform};

fn run(backend: &dyn stockade_sandboxing::Backend, policies: usize) -> Result<Tally, String> {
    let directory = tempfile::tempdir().unwrap();
    let context = SuiteContext {
        directory: directory.path().canonicalize().unwrap(),
        platform: vec![FileRule::path("/".parse().unwrap(), Access::Read)],
        network: NetworkPolicy::Off,
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        arguments: ["--exact", "inside", "--nocapture"].map(String::from).into(),
    };
    conform(backend, &context, policies, 7)
}

#[test]
fn inside() {
    answer().unwrap();
}

#[test]
fn a_sandbox_grants_what_the_permissions_say() {
    let tally = run(&Native::new(), 25).unwrap();
    assert!(tally.enforced >= 20 && tally.allowed > 1000 && tally.denied > 1000, "{tally:?}");
}

/// A suite that nothing fails would say nothing.
#[test]
fn a_backend_that_confines_nothing_fails() {
    let error = run(&Bare, 5).unwrap_err();
    assert!(error.contains("works: true, and should not be so"), "{error}");
}
