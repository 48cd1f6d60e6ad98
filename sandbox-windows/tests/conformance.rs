//! The suite that every backend passes, on Windows. Under wine nothing confines, so it is not run there.

#![cfg(windows)]

use std::path::Path;

use stockade_protocol::{Access, FileRule, NetworkPolicy};
use stockade_sandbox_windows::{Windows, diagnose};
use stockade_sandboxing::Support;
use stockade_sandboxing::conformance::{SuiteContext, answer, conform};

#[test]
fn inside() {
    answer().unwrap();
}

#[test]
fn the_sandbox_works_here() {
    let diagnosis = diagnose();
    assert!(diagnosis.engines.iter().all(Support::works), "{diagnosis:#?}");
}

#[test]
fn a_sandbox_grants_what_the_permissions_say() {
    let directory = tempfile::tempdir().unwrap();
    let drives = ('A'..='Z').map(|letter| format!(r"{letter}:\")).filter(|root| Path::new(root).exists());
    let variable = |name: &str| Some((name.into(), std::env::var(name).ok()?.into()));
    let context = SuiteContext {
        directory: directory.path().canonicalize().unwrap(),
        platform: drives.map(|root| FileRule::path(root.parse().unwrap(), Access::Read)).collect(),
        network: NetworkPolicy::Full,
        environment: ["SystemRoot", "SystemDrive", "PATH"].into_iter().filter_map(variable).collect(),
        arguments: ["--exact", "inside", "--nocapture"].map(String::from).into(),
    };
    let tally = conform(&Windows::new(), &context, 50, 7).unwrap();
    assert!(tally.enforced >= 40 && tally.allowed > 1000 && tally.denied > 1000, "{tally:?}");
}
