//! Who is asked, when, and once.

use std::sync::Arc;
use std::time::Duration;

use stockade_core::{AuditDemand, AuditError, AuditSink, Channel, ChannelLimits, Orchestrator};
use stockade_protocol::{
    ApprovalSubject, AskForApproval, AuditEvent, EscalationExecution, ExecPolicyAmendment, ExecRequest, Outcome,
    RejectConfig, RequestId, ReviewDecision, ThreadId,
};
use stockade_sandboxing::{Backend, CommandSpec, Plan, Support, Unenforceable};

use crate::world::{World, refusal, stdout, writing};

const SESSION: ReviewDecision = ReviewDecision::ApprovedForSession;

#[tokio::test]
async fn a_known_safe_command_runs_unasked_and_an_unknown_one_is_asked() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    let safe = world.shell("ls; pwd");
    assert!(stdout(&run.run(&safe).await.unwrap()).ends_with(r"/ws\n"));
    assert_eq!(world.events(&safe), ["requested", "decided", "ended"]);
    let unknown = world.shell("touch made");
    assert!(refusal(&run.run(&unknown).await.unwrap()).contains("Reviewer: the reviewer said no: not in the script"));
    assert_eq!(world.events(&unknown), ["requested", "asked", "answered", "refused"]);
    assert!(!world.exists("ws/made"));
    world.script.say(ReviewDecision::Approved);
    run.run(&world.shell("touch made")).await.unwrap();
    assert!(world.exists("ws/made"));
}

/// or02: an agent that asks to leave the sandbox is always asked about, and refused where no question can be asked.
#[tokio::test]
async fn leaving_the_sandbox_is_always_a_question() {
    for (ask, words) in [
        (AskForApproval::Never, "the approval policy `never`"),
        (
            AskForApproval::Reject(RejectConfig { sandbox_approval: true, ..RejectConfig::default() }),
            "approval policy rejected sandbox approval prompt",
        ),
    ] {
        let world = World::new(ask).rules(r#"prefix_rule(pattern = ["touch"], decision = "allow")"#);
        let mut request = world.command(&["touch", "made"]);
        request.escalation = EscalationExecution::Unsandboxed;
        let refused = refusal(&world.orchestrator().run(&request).await.unwrap());
        assert!(refused.starts_with("ApprovalPolicy: ") && refused.contains(words), "{refused}");
        assert!(world.script.questions().is_empty());
        assert!(!world.exists("ws/made"));
    }
    let world = World::new(AskForApproval::OnRequest);
    let mut request = world.command(&["touch", "../outside/made"]);
    request.escalation = EscalationExecution::Unsandboxed;
    world.script.say(ReviewDecision::Approved);
    let outcome = world.orchestrator().run(&request).await.unwrap();
    assert_eq!(outcome.execution().unwrap().enforcement.engine, "none");
    assert!(world.exists("outside/made"));
    assert_eq!(world.script.questions().len(), 1);
}

/// or03: a sandbox that can't be built is a refusal, never a bare run.
#[tokio::test]
async fn without_a_sandbox_nothing_runs() {
    #[derive(Debug)]
    struct Broken;
    impl Backend for Broken {
        fn support(&self) -> &Support {
            static NONE: Support = Support { engine: String::new(), layers: Vec::new() };
            &NONE
        }
        fn compile(&self, _: &CommandSpec, _: &stockade_protocol::Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
            let text = |text: &str| text.to_owned();
            Err(Unenforceable { what: text("the policy"), why: text("no namespaces"), remedy: text("enable them") })
        }
    }
    let mut world = World::new(AskForApproval::OnFailure);
    world.backend = Arc::new(Broken);
    let refused = refusal(&world.orchestrator().run(&world.shell("touch made")).await.unwrap());
    assert_eq!(refused, "Sandbox: the policy can't be enforced: no namespaces (enable them)");
    assert!(!world.exists("ws/made"));
    assert!(world.script.questions().is_empty(), "nobody is asked to go without");
}

/// or04: an approval for the session is for this command, here, with this.
#[tokio::test]
async fn an_approval_for_the_session_speaks_of_nothing_else() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    world.script.say(SESSION);
    run.run(&world.shell("touch made")).await.unwrap();
    let again = world.shell("touch made");
    assert!(matches!(run.run(&again).await.unwrap(), Outcome::Exited { exit_code: 0, .. }));
    assert_eq!(world.script.questions().len(), 1, "the same is not asked twice");
    let by_memory = AuditEvent::Decided {
        decision: stockade_protocol::Decision::Allow,
        source: stockade_protocol::DecisionSource::SessionMemory,
        reason: None,
        sandbox_warnings: Vec::new(),
    };
    assert!(world.audit.of(&again.id).contains(&by_memory));

    let mut elsewhere = world.shell("touch made");
    elsewhere.cwd = world.path("outside");
    let mut with_more = world.shell("touch made");
    with_more.escalation = writing(&world.path("outside"));
    for (asked, other) in [elsewhere, with_more, world.shell("touch made2")].into_iter().enumerate() {
        refusal(&run.run(&other).await.unwrap());
        assert_eq!(world.script.questions().len(), asked + 2);
    }
}

/// or07: a saved rule speaks of the commands that start with it, not of what stands behind `&&`.
#[tokio::test]
async fn a_saved_rule_counts_at_once_and_alone() {
    let mut world = World::new(AskForApproval::Untrusted);
    world.saved = world.path("outside/saved.rules").to_host_path();
    let run = world.orchestrator();
    let amendment = ExecPolicyAmendment(world.command(&["mkdir", "a"]).command);
    world.script.say(ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment: amendment });
    run.run(&world.command(&["mkdir", "a"])).await.unwrap();
    assert!(world.exists("ws/a"));
    assert_eq!(world.script.questions().len(), 1);
    assert!(matches!(run.run(&world.command(&["mkdir", "a"])).await.unwrap(), Outcome::Exited { exit_code: 1, .. }));
    assert_eq!(world.script.questions().len(), 1, "the rule counts");
    refusal(&run.run(&world.shell("mkdir a && touch b")).await.unwrap());
    assert_eq!(world.script.questions().len(), 2, "the other part is judged alone");
}

/// or08: two that ask for the same thing at once share one question.
#[tokio::test]
async fn equal_requests_at_once_share_a_question() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = Duration::from_millis(100);
    world.script.say(ReviewDecision::Approved);
    let run = world.orchestrator();
    let (a, b) = (world.shell("echo hi >> log"), world.shell("echo hi >> log"));
    let (first, second) = tokio::join!(run.run(&a), run.run(&b));
    for outcome in [first.unwrap(), second.unwrap()] {
        assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }), "{outcome:?}");
    }
    assert_eq!(world.script.questions().len(), 1);
}

/// or10: when the approver is gone, everything that waits is denied, and the trail says so.
#[tokio::test]
async fn a_dead_approver_denies_everything_that_waits() {
    let world = World::new(AskForApproval::Untrusted);
    let (channel, consumer) = Channel::open(ChannelLimits::default());
    let run = Orchestrator::new(world.session.clone(), Arc::clone(&world.backend), Arc::new(channel))
        .with_audit(Arc::clone(&world.audit) as Arc<dyn AuditSink>, AuditDemand::Required);
    let requests: Vec<ExecRequest> = (0..5).map(|number| world.shell(&format!("touch made{number}"))).collect();
    let all = async {
        let runs: Vec<_> = requests.iter().map(|request| run.run(request)).collect();
        let mut outcomes = Vec::new();
        for outcome in futures(runs).await {
            outcomes.push(refusal(&outcome.unwrap()));
        }
        outcomes
    };
    let dies = async {
        while consumer.waiting() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        drop(consumer);
    };
    let (outcomes, ()) = tokio::join!(all, dies);
    for refused in outcomes {
        assert!(refused.starts_with("Reviewer: the question can't be answered"), "{refused}");
    }
    for request in &requests {
        assert_eq!(world.events(request), ["requested", "asked", "answered", "refused"]);
    }
}

/// Runs futures side by side.
async fn futures<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = all.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in all.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let std::task::Poll::Ready(output) = future.as_mut().poll(context) {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// or11: what a policy outside has approved is not asked about, but a rule that forbids it still does.
#[tokio::test]
async fn an_approval_from_outside_skips_the_question_and_no_rule() {
    let world =
        World::new(AskForApproval::Untrusted).rules(r#"prefix_rule(pattern = ["curl"], decision = "forbidden")"#);
    let run = world.orchestrator();
    let mut approved = world.shell("touch made");
    approved.approved_by_policy = true;
    approved.sandbox_warnings = vec![String::from("writes a file")];
    run.run(&approved).await.unwrap();
    assert!(world.exists("ws/made"));
    let decided = world.audit.of(&approved.id).into_iter().find_map(|event| {
        let AuditEvent::Decided { source, sandbox_warnings, .. } = event else { return None };
        Some((source, sandbox_warnings))
    });
    let expected = (stockade_protocol::DecisionSource::External, vec![String::from("writes a file")]);
    assert_eq!(decided, Some(expected));
    // It speaks of the command as it runs by default, not of leaving the sandbox.
    let mut wider = approved.clone();
    wider.escalation = EscalationExecution::Unsandboxed;
    refusal(&run.run(&wider).await.unwrap());
    assert_eq!(world.script.questions().len(), 1);
    let mut forbidden = world.command(&["curl", "example.com"]);
    forbidden.approved_by_policy = true;
    assert!(refusal(&run.run(&forbidden).await.unwrap()).starts_with("Rule: a rule (test.rules:1:1) forbids"));
    assert_eq!(world.script.questions().len(), 1);
}

/// or17: what can't be put on record is not run, where the record is required.
#[tokio::test]
async fn a_full_disk_stops_what_has_to_be_recorded() {
    struct Full;
    impl AuditSink for Full {
        fn append(&self, _: &ThreadId, _: &RequestId, _: AuditEvent) -> Result<(), AuditError> {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            Err(AuditError::Io { act: "write", path: "/audit".into(), source })
        }
    }
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator_with(Arc::new(Full), AuditDemand::Required);
    let refused = refusal(&run.run(&world.shell("touch made")).await.unwrap());
    assert!(refused.starts_with("Audit: could not write the audit trail"), "{refused}");
    assert!(!world.exists("ws/made"));
    let run = world.orchestrator_with(Arc::new(Full), AuditDemand::BestEffort);
    run.run(&world.shell("touch made")).await.unwrap();
    assert!(world.exists("ws/made"));
}

/// or20: a line with more parts than a person reads is asked about, even if each part is harmless.
#[tokio::test]
async fn a_flood_of_parts_is_a_question() {
    let world = World::new(AskForApproval::Untrusted);
    let line = vec!["ls"; 60].join("; ");
    refusal(&world.orchestrator().run(&world.shell(&line)).await.unwrap());
    let questions = world.script.questions();
    let [question] = questions.as_slice() else { panic!("{questions:?}") };
    let ApprovalSubject::Command(command) = &question.subject else { panic!("{question:?}") };
    assert_eq!(command.parsed.commands.len(), 61);
}

#[tokio::test]
async fn nobody_answering_is_a_no_and_a_late_answer_changes_nothing() {
    let mut world = World::new(AskForApproval::Untrusted);
    world.answer_limit = Duration::from_millis(50);
    *world.script.takes.lock().unwrap() = Duration::from_millis(200);
    world.script.say(ReviewDecision::Approved);
    let request = world.shell("touch made");
    let outcome = world.orchestrator().run(&request).await.unwrap();
    assert_eq!(refusal(&outcome), "Timeout: nobody answered in time");
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(world.events(&request), ["requested", "asked", "answered", "refused", "answered late"]);
    assert!(!world.exists("ws/made"));
}

#[tokio::test]
async fn abort_stops_the_session() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    world.script.say(ReviewDecision::Abort);
    for script in ["touch made", "ls"] {
        let refused = refusal(&run.run(&world.shell(script)).await.unwrap());
        assert_eq!(refused, "Reviewer: the reviewer stopped the session");
    }
    assert_eq!(world.script.questions().len(), 1);
}

#[tokio::test]
async fn a_rule_that_was_never_offered_is_not_saved() {
    let mut world = World::new(AskForApproval::Untrusted);
    world.saved = world.path("outside/saved.rules").to_host_path();
    let other = ExecPolicyAmendment(world.command(&["rm"]).command);
    world.script.say(ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment: other });
    let refused = refusal(&world.orchestrator().run(&world.command(&["mkdir", "a"])).await.unwrap());
    assert!(refused.contains("it was not among the answers offered"), "{refused}");
    assert!(!world.exists("outside/saved.rules") && !world.exists("ws/a"));
}

/// fs24: a request chooses where it starts, not what it may write.
#[tokio::test]
async fn the_working_directory_makes_nothing_writable() {
    let world = World::new(AskForApproval::Never);
    let mut request = world.shell("touch here; touch ../ws/there");
    request.cwd = world.path("outside");
    world.orchestrator().run(&request).await.unwrap();
    assert!(!world.exists("outside/here"));
    assert!(world.exists("ws/there"));
}
