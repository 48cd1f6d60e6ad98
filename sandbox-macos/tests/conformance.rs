//! The suite that every backend passes, on macOS.

#![cfg(target_os = "macos")]

use stockade_protocol::{Access, FileRule, NetworkPolicy};
use stockade_sandbox_macos::{Seatbelt, diagnose, user_directories};
use stockade_sandboxing::Support;
use stockade_sandboxing::conformance::{SuiteContext, answer, conform};

#[test]
fn inside() {
    answer().unwrap();
}

#[test]
fn seatbelt_works_here() {
    let diagnosis = diagnose();
    assert!(diagnosis.engines.iter().all(Support::works), "{diagnosis:#?}");
}

#[test]
fn a_sandbox_grants_what_the_permissions_say() {
    let temporary = user_directories().unwrap().temporary.to_host_path().unwrap();
    let directory = tempfile::tempdir_in(temporary).unwrap();
    let context = SuiteContext {
        directory: directory.path().canonicalize().unwrap(),
        platform: vec![FileRule::path("/".parse().unwrap(), Access::Read)],
        network: NetworkPolicy::Off,
        environment: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        arguments: ["--exact", "inside", "--nocapture"].map(String::from).into(),
    };
    let tally = conform(&Seatbelt::new(), &context, 50, 7).unwrap();
    assert!(tally.enforced >= 45 && tally.allowed > 1000 && tally.denied > 1000, "{tally:?}");
}
