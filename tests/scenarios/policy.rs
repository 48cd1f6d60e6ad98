//! Another policy in a running session, and what the session remembers.

use std::sync::Arc;
use std::time::Duration;

use stockade_core::{ApprovalKey, RuleStore};
use stockade_execpolicy::{Layer, Policy};
use stockade_protocol::{
    Access, AskForApproval, Decision, EscalationExecution, Host, HostRule, HostRules, NetworkPolicy, NetworkProtocol,
    Outcome, ReviewDecision, SandboxPolicy,
};

use crate::world::{World, refusal};

fn read_only() -> SandboxPolicy {
    serde_json::from_value(serde_json::json!({ "type": "read-only" })).unwrap()
}

fn succeeded(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Exited { exit_code, .. } => *exit_code == 0,
        Outcome::Denied { .. } => false,
        Outcome::Refused(_) | Outcome::TimedOut { .. } | Outcome::Cancelled { .. } | Outcome::Signaled { .. } => {
            panic!("{outcome:?}")
        }
    }
}

#[tokio::test]
async fn a_new_policy_counts_from_the_next_request_and_the_memory_stays() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    world.script.say(ReviewDecision::ApprovedForSession);
    run.run(&world.shell("touch made")).await.unwrap();
    assert_eq!(run.remembered().len(), 1);

    run.set_policy(AskForApproval::Never, read_only()).unwrap();
    assert_eq!(run.session().ask, AskForApproval::Never);
    assert!(!succeeded(&run.run(&world.shell("touch more")).await.unwrap()));
    assert!(!world.exists("ws/more"), "the sandbox is read-only now");
    assert!(!succeeded(&run.run(&world.shell("touch made")).await.unwrap()), "so it is for what was approved");

    run.set_policy(AskForApproval::Untrusted, read_only()).unwrap();
    refusal(&run.run(&world.shell("touch made")).await.unwrap());
    assert_eq!(world.script.questions().len(), 2, "another sandbox is another question");

    run.set_policy(AskForApproval::Untrusted, SandboxPolicy::workspace_write()).unwrap();
    assert!(succeeded(&run.run(&world.shell("touch made")).await.unwrap()));
    assert_eq!(world.script.questions().len(), 2, "the former one is remembered");
}

/// Settings and rules that were read again: what is remembered stays, and so does a question that is open.
#[tokio::test]
async fn a_renewed_session_and_its_rules_count_from_the_next_request() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = Duration::from_millis(300);
    let run = Arc::new(world.orchestrator());
    world.script.say(ReviewDecision::ApprovedForSession);
    run.run(&world.shell("touch made")).await.unwrap();
    world.script.say(ReviewDecision::Approved);
    let waiting = tokio::spawn({
        let (run, request) = (Arc::clone(&run), world.shell("touch waited"));
        async move { run.run(&request).await }
    });
    while world.script.questions().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    let forbidding = || {
        let rules = "prefix_rule(pattern = ['touch'], decision = 'forbidden')";
        RuleStore::new(Policy::parse("again.rules", rules, Layer::User).unwrap())
    };
    run.renew(world.session.clone(), forbidding()).unwrap();
    assert!(refusal(&run.run(&world.shell("touch made")).await.unwrap()).contains("again.rules"));
    assert!(succeeded(&waiting.await.unwrap().unwrap()), "it began before");
    assert_eq!(run.remembered().len(), 1);

    run.renew(world.session.clone(), RuleStore::default()).unwrap();
    assert!(succeeded(&run.run(&world.shell("touch made")).await.unwrap()));
    assert_eq!(world.script.questions().len(), 2, "it is remembered");
    let mut denying = world.session.clone();
    denying.ask = AskForApproval::Never;
    run.renew(denying, RuleStore::default()).unwrap();
    assert_eq!(run.session().ask, AskForApproval::Never);

    let mut other = world.session.clone();
    other.thread_id = "other".parse().unwrap();
    assert!(run.renew(other, forbidding()).unwrap_err().to_string().contains("`other`"));
    assert!(succeeded(&run.run(&world.shell("touch made")).await.unwrap()), "nothing has changed");
}

#[tokio::test]
async fn a_request_that_waits_goes_on_as_it_began() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = Duration::from_millis(300);
    world.script.say(ReviewDecision::Approved);
    let run = Arc::new(world.orchestrator());
    let waiting = tokio::spawn({
        let (run, request) = (Arc::clone(&run), world.shell("touch made"));
        async move { run.run(&request).await }
    });
    while world.script.questions().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    run.set_policy(AskForApproval::Never, read_only()).unwrap();
    assert!(!succeeded(&run.run(&world.shell("touch more")).await.unwrap()));
    assert!(succeeded(&waiting.await.unwrap().unwrap()));
    assert!(world.exists("ws/made") && !world.exists("ws/more"));
}

/// A policy says what is granted, not what a person took away.
#[tokio::test]
async fn denials_stay_whatever_the_policy() {
    let mut world = World::new(AskForApproval::Never);
    std::fs::create_dir(world.path("ws/secret").to_host_path().unwrap()).unwrap();
    let secret = world.path("ws/secret");
    let host: Host = "evil.test".parse().unwrap();
    let forbidden =
        HostRule { host: "evil.test".parse().unwrap(), protocol: None, port: None, decision: Decision::Forbidden };
    world.session.permissions.network =
        NetworkPolicy::Hosts(HostRules { rules: vec![forbidden], ..HostRules::default() });
    world.session.permissions.limits.cpu_seconds = std::num::NonZeroU64::new(64);
    let limits = world.session.permissions.limits;
    let world = world.deny(&secret);
    let run = world.orchestrator();
    for policy in [
        read_only(),
        SandboxPolicy::DangerFullAccess {},
        serde_json::from_value(serde_json::json!({ "type": "workspace-write", "network_access": true })).unwrap(),
    ] {
        run.set_policy(AskForApproval::Never, policy.clone()).unwrap();
        let permissions = run.session().permissions.clone();
        assert_eq!(permissions.access(&secret.join("x").unwrap()), Access::None, "{policy:?}");
        let decision = permissions.connect(&host, NetworkProtocol::Https, 443);
        assert_eq!(decision, Decision::Forbidden, "{policy:?}");
        assert_eq!(permissions.limits, limits, "{policy:?}");
        assert!(!succeeded(&run.run(&world.shell("ls secret")).await.unwrap()), "{policy:?}");
    }
}

#[tokio::test]
async fn what_is_remembered_can_be_seen_and_forgotten() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    for script in ["touch a", "touch b"] {
        world.script.say(ReviewDecision::ApprovedForSession);
        run.run(&world.shell(script)).await.unwrap();
    }
    let of = |script: &str| {
        let wanted = world.shell(script).command;
        let is_it = |key: &ApprovalKey| matches!(key, ApprovalKey::Command(key) if key.command == wanted);
        run.remembered().into_iter().find(|(key, _)| is_it(key))
    };
    let (key, execution) = of("touch a").unwrap();
    assert_eq!(execution, EscalationExecution::TurnDefault);
    assert!(run.forget(&key) && !run.forget(&key));
    assert!(of("touch a").is_none() && of("touch b").is_some());
    run.run(&world.shell("touch b")).await.unwrap();
    assert_eq!(world.script.questions().len(), 2);
    refusal(&run.run(&world.shell("touch a")).await.unwrap());
    assert_eq!(world.script.questions().len(), 3, "it is asked about again");
    assert_eq!((run.forget_all(), run.forget_all()), (1, 0));
    refusal(&run.run(&world.shell("touch b")).await.unwrap());
    assert_eq!(world.script.questions().len(), 4);
}
