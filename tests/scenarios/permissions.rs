//! Permissions that are asked for in advance, and tool calls that a client makes itself.

use std::collections::BTreeMap;

use stockade_core::{Orchestrator, PermissionsOutcome, PermissionsRequest, ToolReview};
use stockade_protocol::{
    AbsPath, Access, ApprovalSubject, AskForApproval, EscalationExecution, FileRule, FileRules, Outcome, Permissions,
    PermissionsScope, RefusedBy, RejectConfig, RememberArguments, ReviewDecision, SandboxPolicy, ToolCallApproval,
    ToolCallRequest,
};

use crate::world::{World, kind, refusal, writing};

fn more(path: &AbsPath) -> Permissions {
    let EscalationExecution::Permissions(more) = writing(path) else { panic!() };
    *more
}

fn asking(id: &str, permissions: Permissions) -> PermissionsRequest {
    PermissionsRequest { id: id.parse().unwrap(), permissions, justification: Some(String::from("for the cache")) }
}

async fn request(run: &Orchestrator, permissions: &Permissions) -> Result<PermissionsScope, RefusedBy> {
    match run.request_permissions(&asking("more", permissions.clone())).await.unwrap() {
        PermissionsOutcome::Granted { permissions: granted, scope } => {
            assert_eq!(*granted, *permissions);
            Ok(scope)
        }
        PermissionsOutcome::Refused(refusal) => Err(refusal.by),
    }
}

fn exit_code(outcome: &Outcome) -> Option<i32> {
    match outcome {
        Outcome::Exited { exit_code, .. } => Some(*exit_code),
        Outcome::Denied { exit_code, .. } => *exit_code,
        Outcome::Refused(_) | Outcome::TimedOut { .. } | Outcome::Cancelled { .. } | Outcome::Signaled { .. } => {
            panic!("{outcome:?}")
        }
    }
}

#[tokio::test]
async fn granted_for_the_session_they_widen_what_later_commands_get() {
    let world = World::new(AskForApproval::OnRequest);
    let (run, outside) = (world.orchestrator(), world.path("outside"));
    let touch = world.shell(&format!("touch {outside}/made"));
    assert_ne!(exit_code(&run.run(&touch).await.unwrap()), Some(0));

    world.script.say(ReviewDecision::ApprovedForSession);
    assert_eq!(request(&run, &more(&outside)).await, Ok(PermissionsScope::Session));
    let [question] = world.script.questions().try_into().unwrap();
    let ApprovalSubject::Permissions(asked) = question.subject else { panic!("{:?}", question.subject) };
    assert_eq!((asked.permissions, asked.justification.as_deref()), (more(&outside), Some("for the cache")));
    let events: Vec<_> = world.audit.of(&"more".parse().unwrap()).iter().map(kind).collect();
    assert_eq!(events, ["permissions_requested", "asked", "answered", "permissions_granted"]);

    assert_eq!(exit_code(&run.run(&touch).await.unwrap()), Some(0));
    assert_eq!(run.session().permissions.access(&outside), Access::Write);
    assert_eq!(request(&run, &more(&outside)).await, Ok(PermissionsScope::Session));
    assert_eq!(world.script.questions().len(), 1, "the session has them");

    // They belong to the sandbox policy that they were granted with, and can be taken back.
    let read_only: SandboxPolicy = serde_json::from_value(serde_json::json!({ "type": "read-only" })).unwrap();
    run.set_policy(AskForApproval::Never, read_only).unwrap();
    assert_eq!(run.session().permissions.access(&outside), Access::Read);
    run.set_policy(AskForApproval::OnRequest, SandboxPolicy::workspace_write()).unwrap();
    assert_eq!(run.session().permissions.access(&outside), Access::Write);
    assert!(run.remembered().iter().all(|(key, _)| run.forget(key)));
    assert_eq!(run.session().permissions.access(&outside), Access::Read);
}

/// or06: a directory that was granted opens nothing in it that is denied.
#[tokio::test]
async fn a_grant_of_a_directory_opens_no_denied_part_of_it() {
    let world = World::new(AskForApproval::OnRequest);
    let (outside, secret) = (world.path("outside"), world.path("outside/secret"));
    std::fs::create_dir(secret.to_host_path().unwrap()).unwrap();
    std::fs::write(secret.join("key").unwrap().to_host_path().unwrap(), "hunter2").unwrap();
    let world = world.deny(&secret);
    let run = world.orchestrator();
    world.script.say(ReviewDecision::ApprovedForSession);
    assert_eq!(request(&run, &more(&outside)).await, Ok(PermissionsScope::Session));
    let line = format!("touch {outside}/made; cat {secret}/key; touch {secret}/made");
    let outcome = run.run(&world.shell(&line)).await.unwrap();
    assert!(world.exists("outside/made") && !world.exists("outside/secret/made"), "{outcome:?}");
    assert!(!outcome.execution().unwrap().stdout.head.to_string().contains("hunter2"), "{outcome:?}");
    // What is denied can't be asked for either, and the earlier yes does not speak for it.
    assert_eq!(request(&run, &more(&secret)).await, Err(RefusedBy::Rule));
    assert_eq!(request(&run, &more(&secret.join("key").unwrap())).await, Err(RefusedBy::Rule));
    assert_eq!(world.script.questions().len(), 1);
}

#[tokio::test]
async fn granted_once_they_are_for_the_next_command_that_asks_for_them() {
    let world = World::new(AskForApproval::OnRequest);
    let (run, outside) = (world.orchestrator(), world.path("outside"));
    world.script.say(ReviewDecision::Approved);
    assert_eq!(request(&run, &more(&outside)).await, Ok(PermissionsScope::Once));

    let plain = world.shell(&format!("touch {outside}/plain"));
    assert_ne!(exit_code(&run.run(&plain).await.unwrap()), Some(0), "it does not ask for them");
    let mut wanting = world.shell(&format!("touch {outside}/made"));
    wanting.escalation = writing(&world.path("outside"));
    let explained = run.explain(&wanting).unwrap();
    assert!(matches!(explained.requirement, stockade_protocol::ExecApprovalRequirement::Skip { .. }));
    assert_eq!(explained.permissions.access(&outside), Access::Write);
    assert_eq!(exit_code(&run.run(&wanting).await.unwrap()), Some(0));
    assert_eq!(world.script.questions().len(), 1);
    refusal(&run.run(&wanting).await.unwrap());
    assert_eq!(world.script.questions().len(), 2, "the next one is asked about");

    // What a rule or the policy asks about is asked all the same.
    let world = World::new(AskForApproval::Untrusted);
    let (run, outside) = (world.orchestrator(), world.path("outside"));
    world.script.say(ReviewDecision::Approved);
    assert_eq!(request(&run, &more(&outside)).await, Ok(PermissionsScope::Once));
    let mut wanting = world.shell(&format!("touch {outside}/made"));
    wanting.escalation = writing(&outside);
    refusal(&run.run(&wanting).await.unwrap());
    assert_eq!(world.script.questions().len(), 2);
}

#[tokio::test]
async fn what_can_not_be_given_is_not_asked_for() {
    let never = World::new(AskForApproval::Never);
    assert_eq!(request(&never.orchestrator(), &more(&never.path("outside"))).await, Err(RefusedBy::ApprovalPolicy));
    let reject = RejectConfig { request_permissions: true, ..RejectConfig::default() };
    let rejecting = World::new(AskForApproval::Reject(reject));
    let refused = request(&rejecting.orchestrator(), &more(&rejecting.path("outside"))).await;
    assert_eq!(refused, Err(RefusedBy::ApprovalPolicy));

    let world = World::new(AskForApproval::OnRequest);
    let denied = world.path("outside");
    let world = world.deny(&denied);
    assert_eq!(request(&world.orchestrator(), &more(&denied)).await, Err(RefusedBy::Rule));

    let mut bounded = World::new(AskForApproval::OnRequest);
    let everything = FileRules::new([FileRule::path("/".parse().unwrap(), Access::Read)]).unwrap();
    bounded.session.maximum = Some(Permissions { files: everything, ..Permissions::default() });
    let run = bounded.orchestrator();
    assert_eq!(request(&run, &more(&bounded.path("outside"))).await, Err(RefusedBy::Administrator));
    let events: Vec<_> = bounded.audit.of(&"more".parse().unwrap()).iter().map(kind).collect();
    assert_eq!(events, ["permissions_requested", "refused"]);

    let missing = World::new(AskForApproval::OnRequest);
    let refused = request(&missing.orchestrator(), &more(&missing.path("not/there"))).await;
    assert_eq!(refused, Err(RefusedBy::Sandbox));
    for world in [never, rejecting, world, bounded, missing] {
        assert!(world.script.questions().is_empty());
    }
}

#[tokio::test]
async fn a_tool_call_is_approved_and_left_to_the_client() {
    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    let call = ToolCallApproval {
        server: String::from("files"),
        tool: String::from("delete"),
        arguments: BTreeMap::new(),
        remember: RememberArguments::Exact,
    };
    let request = ToolCallRequest {
        id: "call".parse().unwrap(),
        thread_id: world.session.thread_id.clone(),
        call,
        requires_approval: Some(true),
        remember: RememberArguments::Exact,
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    };
    let refused = run.review_tool_call(&request).await.unwrap();
    assert!(matches!(refused, ToolReview::Refused(refusal) if refusal.by == RefusedBy::Reviewer));
    world.script.say(ReviewDecision::ApprovedForSession);
    for _ in 0..2 {
        let approved = run.review_tool_call(&request).await.unwrap();
        assert_eq!(serde_json::to_value(approved).unwrap(), serde_json::json!({ "approved": {} }));
    }
    assert_eq!(world.script.questions().len(), 2);
    let events: Vec<_> = world.audit.of(&"call".parse().unwrap()).iter().map(kind).collect();
    assert_eq!(
        events[4..],
        ["tool_requested", "asked", "answered", "tool_approved", "tool_requested", "decided", "tool_approved"]
    );
}
