//! A denial, and the wider run that may follow.

use std::sync::Arc;

use stockade_core::{SandboxPreference, ShellRuntime};
use stockade_protocol::{
    Access, ApprovalSubject, AskForApproval, CommandApproval, EscalationExecution, Evidence, Outcome, ReviewDecision,
    ViolationTarget,
};
use stockade_sandbox_linux::Auto;

use crate::world::{World, refusal, writing};

fn command(subject: &ApprovalSubject) -> &CommandApproval {
    let ApprovalSubject::Command(command) = subject else { panic!("{subject:?}") };
    command
}

/// or01: without anybody to ask, a denial is an answer and not a reason to run bare.
#[tokio::test]
async fn a_denial_is_reported_and_nothing_runs_bare() {
    for ask in [AskForApproval::Never, AskForApproval::OnRequest] {
        let mut world = World::new(ask);
        world.backend = Arc::new(Auto::new());
        let outcome = world.orchestrator().run(&world.shell("echo x > ../outside/f")).await.unwrap();
        let Outcome::Denied { exit_code: Some(2), signal: None, execution } = &outcome else { panic!("{outcome:?}") };
        let [violation] = execution.violations.as_slice() else { panic!("{execution:?}") };
        assert_eq!(violation.target, ViolationTarget::Path(world.path("outside/f")));
        assert_eq!(violation.evidence, Evidence::Observed);
        assert!(!world.exists("outside/f"));
        assert!(world.script.questions().is_empty());
    }
}

#[tokio::test]
async fn the_least_that_explains_the_denial_is_asked_for_and_given() {
    let world = World::new(AskForApproval::OnFailure);
    world.script.say(ReviewDecision::Approved);
    let request = world.shell("echo first; echo x > ../outside/f");
    let outcome = world.orchestrator().run(&request).await.unwrap();
    assert!(world.exists("outside/f"));
    let questions = world.script.questions();
    let [question] = questions.as_slice() else { panic!("{questions:?}") };
    let asked = command(&question.subject);
    let EscalationExecution::Permissions(more) = &asked.escalation else { panic!("{asked:?}") };
    assert_eq!(more.access(&world.path("outside")), Access::Write);
    assert_eq!(more.files.iter().count(), 1);
    assert_eq!(asked.violations.len(), 1);
    let execution = outcome.execution().unwrap();
    assert_ne!(execution.enforcement.engine, "none", "the wider run is in the sandbox, too");
    let first = execution.first_attempt.as_ref().unwrap();
    assert_eq!(first.stdout.head.to_string(), r"first\n", "what the first run said is kept");
    assert_eq!(world.events(&request), ["requested", "decided", "asked", "answered", "ended"]);
}

#[tokio::test]
async fn a_no_leaves_the_first_outcome() {
    let world = World::new(AskForApproval::OnFailure);
    let outcome = world.orchestrator().run(&world.shell("echo x > ../outside/f")).await.unwrap();
    assert!(matches!(outcome, Outcome::Denied { .. }), "{outcome:?}");
    assert_eq!(world.script.questions().len(), 1);
    assert!(!world.exists("outside/f"));
}

/// What a command prints about a system call explains its end, and is no reason to let it out.
#[tokio::test]
async fn words_about_a_system_call_let_nobody_out() {
    let world = World::new(AskForApproval::OnFailure);
    world.script.say(ReviewDecision::Approved);
    let script = "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1";
    let outcome = world.orchestrator().run(&world.shell(script)).await.unwrap();
    let Outcome::Denied { execution, .. } = &outcome else { panic!("{outcome:?}") };
    let [violation] = execution.violations.as_slice() else { panic!("{execution:?}") };
    assert_eq!(violation.target, ViolationTarget::SystemCall(String::from("unshare")));
    assert!(world.script.questions().is_empty());
}

#[tokio::test]
async fn it_asks_once() {
    let world = World::new(AskForApproval::OnFailure);
    world.script.say(ReviewDecision::Approved);
    world.script.say(ReviewDecision::Approved);
    let script = "echo x > ../outside/f || exit 1; echo x > /etc/stockade-scenario";
    let outcome = world.orchestrator().run(&world.shell(script)).await.unwrap();
    assert!(matches!(outcome, Outcome::Denied { .. }), "{outcome:?}");
    assert_eq!(world.script.questions().len(), 1);
}

/// What was approved for the session is given again without a question, and nothing more.
#[tokio::test]
async fn a_remembered_escalation_is_exactly_what_was_approved() {
    let world = World::new(AskForApproval::OnFailure);
    let run = world.orchestrator();
    world.script.say(ReviewDecision::ApprovedForSession);
    let script = "echo x >> ../outside/f || exit 3; echo x > ../other";
    run.run(&world.shell(script)).await.unwrap();
    assert!(world.exists("outside/f"));
    std::fs::remove_file(world.path("outside/f").to_host_path().unwrap()).unwrap();
    let again = run.run(&world.shell(script)).await.unwrap();
    assert!(world.exists("outside/f"), "given again");
    assert!(!world.exists("other"), "and no more than that");
    assert!(again.execution().unwrap().first_attempt.is_none(), "from the start, not after another denial");
}

/// dr16: a wider run keeps the denials.
#[tokio::test]
async fn what_a_person_denied_is_not_offered_and_not_given() {
    let world = World::new(AskForApproval::OnFailure);
    let secret = world.path("ws/secret");
    std::fs::write(secret.to_host_path().unwrap(), "hunter2").unwrap();
    let world = world.deny(&secret);
    let run = world.orchestrator();
    let outcome = run.run(&world.shell("cat secret")).await.unwrap();
    let Outcome::Denied { execution, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(!execution.stdout.head.to_string().contains("hunter2"));
    assert!(execution.violations.iter().all(|violation| violation.amendment.is_none()), "{execution:?}");
    assert!(world.script.questions().is_empty());

    let mut asks = world.shell("cat secret");
    asks.escalation = writing(&secret);
    let refused = refusal(&run.run(&asks).await.unwrap());
    assert!(refused.contains(&format!("but `{secret}` is denied in the session's policy")), "{refused}");

    // Without the sandbox the denial still holds.
    let mut unsandboxed = world.shell("cat secret; touch ../outside/f");
    unsandboxed.escalation = EscalationExecution::Unsandboxed;
    world.script.say(ReviewDecision::Approved);
    let outcome = run.run(&unsandboxed).await.unwrap();
    assert!(world.exists("outside/f"));
    assert!(!outcome.execution().unwrap().stdout.head.to_string().contains("hunter2"));
}

/// A tool that runs only in a sandbox is refused where it would have none, approved or not.
#[tokio::test]
async fn a_tool_that_needs_the_sandbox_never_leaves_it() {
    let world = World::new(AskForApproval::OnFailure);
    let tool = ShellRuntime { preference: SandboxPreference::Require, ..ShellRuntime::default() };
    let mut request = world.command(&["touch", "../outside/f"]);
    request.escalation = EscalationExecution::Unsandboxed;
    world.script.say(ReviewDecision::Approved);
    let refused = refusal(&world.orchestrator().run_with(&tool, &request).await.unwrap());
    assert!(refused.starts_with("Sandbox: the tool runs only in a sandbox"), "{refused}");
    assert!(!world.exists("outside/f"));

    // One that can't do with a sandbox asks to leave it, and no question may be asked here.
    let world = World::new(AskForApproval::Never);
    let tool = ShellRuntime { preference: SandboxPreference::Forbid, ..ShellRuntime::default() };
    let refused = refusal(&world.orchestrator().run_with(&tool, &world.command(&["ls"])).await.unwrap());
    assert!(refused.contains("asks to run without the sandbox"), "{refused}");
}

/// To make one file in the root, the whole file system would have to be granted.
#[tokio::test]
async fn the_root_is_not_offered() {
    let world = World::new(AskForApproval::OnFailure);
    let outcome = world.orchestrator().run(&world.shell("echo x > /stockade-scenario")).await.unwrap();
    assert!(matches!(outcome, Outcome::Denied { .. }), "{outcome:?}");
    assert!(world.script.questions().is_empty(), "{:?}", world.script.questions());
}

/// Words in the output prove nothing.
/// pr17: the words of a command are no evidence.
#[tokio::test]
async fn a_command_that_only_speaks_of_a_denial_was_not_denied() {
    let world = World::new(AskForApproval::OnFailure);
    for script in [
        "echo 'Permission denied' >&2; exit 1",
        "echo 'cat: own: Permission denied' >&2; exit 1",
        "cat no-such-file",
        "cat ../ws/no-such-file",
        "exit 126",
    ] {
        let outcome = world.orchestrator().run(&world.shell(script)).await.unwrap();
        assert!(matches!(outcome, Outcome::Exited { .. }), "{script}: {outcome:?}");
    }
    assert!(world.script.questions().is_empty());
}

#[tokio::test]
async fn rules_that_say_outside_of_every_part_let_it_leave_the_sandbox() {
    let world = World::new(AskForApproval::Never).rules(r#"prefix_rule(pattern = ["touch"])"#);
    world.orchestrator().run(&world.command(&["touch", "../outside/a"])).await.unwrap();
    assert!(!world.exists("outside/a"), "a rule that allows spares the question");
    let rules = r#"prefix_rule(pattern = ["touch"], outside = True)"#;
    let world = World::new(AskForApproval::Never).rules(rules);
    let run = world.orchestrator();
    run.run(&world.command(&["touch", "../outside/a"])).await.unwrap();
    assert!(world.exists("outside/a"));
    run.run(&world.shell("touch ../outside/b; mkdir ../outside/c")).await.unwrap();
    assert!(world.exists("outside/b"), "the program of the rule leaves by itself");
    assert!(!world.exists("outside/c"), "one part is not allowed by a rule");
    // A sandbox that a person named holds, and so does a denial that a person wrote.
    let mut world = World::new(AskForApproval::Never).rules(rules);
    world.session.rules_outside = stockade_core::RulesOutside::Never;
    world.orchestrator().run(&world.command(&["touch", "../outside/a"])).await.unwrap();
    assert!(!world.exists("outside/a"));
    let world = World::new(AskForApproval::Never).rules(rules);
    let denied = world.path("ws/secret");
    let world = world.deny(&denied);
    world.orchestrator().run(&world.command(&["touch", "../outside/a"])).await.unwrap();
    assert!(!world.exists("outside/a"));
}
