//! The suite that every backend passes, on macOS.

#![cfg(target_os = "macos")]
#![expect(clippy::unwrap_used, reason = "a test that can't go on fails, and where that may be is in helpers as well")]

mod policies;

use std::fs;

use stockade_protocol::{Access, Argv, FileRule, NetworkPolicy};
use stockade_sandbox_macos::{Loss, ProxyPorts, Seatbelt, diagnose, user_directories};
use stockade_sandboxing::conformance::{SuiteContext, answer, conform};
use stockade_sandboxing::{CommandSpec, Plan as _, Stdio, Support, WaitStatus};

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

/// The suite's own policies have neither private directories nor a network. A word that the system can't read, or a
/// parameter that is not passed, fails here.
#[test]
fn every_word_of_a_profile_is_read_by_the_system() {
    let temporary = user_directories().unwrap().temporary.to_host_path().unwrap();
    let directory = tempfile::tempdir_in(temporary).unwrap();
    let workspace = directory.path().canonicalize().unwrap();
    ["sub", ".git"].iter().for_each(|name| fs::create_dir(workspace.join(name)).unwrap());
    let command = CommandSpec {
        argv: Argv::parse(["/usr/bin/true"]).unwrap(),
        cwd: "/".parse().unwrap(),
        environment: Default::default(),
        process: Default::default(),
    };
    let ports = ProxyPorts::new([3128]);
    for permissions in policies::policies(workspace.to_str().unwrap()) {
        for seatbelt in [Seatbelt::new(), Seatbelt::new().accepting(Loss::CertificateFetches)] {
            let plan = seatbelt.plan(&command, &permissions, Some(&ports)).unwrap();
            let ended = plan.spawn(Stdio::default()).and_then(|mut running| running.wait(None));
            assert!(matches!(ended, Ok(Some(WaitStatus::Exited(0)))), "{ended:?} under\n{plan}");
        }
    }
}
