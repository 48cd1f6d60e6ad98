//! Many requests at once.

use std::sync::Arc;

use stockade_core::{AuditDemand, AuditTrail, TrailOptions, verify};
use stockade_protocol::{AskForApproval, Outcome, ReviewDecision};

use crate::world::{World, stdout};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hundred_runs_at_once_lose_nothing() {
    const RUNS: usize = 200;
    let world = World::new(AskForApproval::Untrusted);
    for _ in 0..RUNS {
        world.script.say(ReviewDecision::Approved);
    }
    let directory = tempfile::tempdir().unwrap();
    let trail = Arc::new(AuditTrail::open(directory.path(), TrailOptions::default()).unwrap());
    let run = Arc::new(world.orchestrator_with(trail, AuditDemand::Required));
    let runs: Vec<_> = (0..RUNS)
        .map(|number| {
            let (run, request) = (Arc::clone(&run), world.shell(&format!("echo {number} | tee {number}")));
            tokio::spawn(async move { (number, run.run(&request).await) })
        })
        .collect();
    for task in runs {
        let (number, outcome) = task.await.unwrap();
        let outcome = outcome.unwrap();
        assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }), "{number}: {outcome:?}");
        assert_eq!(stdout(&outcome), format!(r"{number}\n"));
        assert!(world.exists(&format!("ws/{number}")));
    }
    assert_eq!(world.script.questions().len(), RUNS);
    let verified = verify(directory.path()).unwrap();
    assert!(verified.bad.is_none(), "{verified:?}");
    assert_eq!(verified.records, u64::try_from(RUNS).unwrap() * 4);
}
