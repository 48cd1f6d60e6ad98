//! Questions that MCP servers pass on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use stockade_core::{Answer, Approver, AuditDemand, AuditSink, ElicitationOutcome, Orchestrator, Unanswered};
use stockade_protocol::{
    ApprovalRequest, AskForApproval, ElicitationApproval, RejectConfig, RequestId, ReviewDecision,
};

use crate::world::{World, kind};

/// Gives the same answer to every question.
struct Says(Answer);

#[async_trait]
impl Approver for Says {
    async fn review(&self, _: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        Ok(self.0.clone())
    }
}

fn question() -> ElicitationApproval {
    let schema = json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
    ElicitationApproval {
        server: String::from("mail"),
        message: String::from("Who are you?"),
        requested_schema: Some(serde_json::from_value(schema).unwrap()),
    }
}

fn name(value: Value) -> BTreeMap<String, Value> {
    BTreeMap::from([(String::from("name"), value)])
}

/// What the server is told, and the events on record.
async fn elicited(ask: AskForApproval, approver: Arc<dyn Approver>) -> (ElicitationOutcome, Vec<&'static str>) {
    let world = World::new(ask);
    let run = Orchestrator::new(world.session.clone(), Arc::clone(&world.backend), approver)
        .with_audit(Arc::clone(&world.audit) as Arc<dyn AuditSink>, AuditDemand::Required)
        .with_answer_limit(Duration::from_millis(500));
    let id: RequestId = "ask-1".parse().unwrap();
    let outcome = run.elicit(&id, &question()).await;
    let events = world.audit.of(&id);
    assert!(!serde_json::to_string(&events).unwrap().contains("hunter2"), "an answer is on record");
    (outcome, events.iter().map(kind).collect())
}

#[tokio::test]
async fn a_servers_question_is_answered_declined_or_cancelled() {
    let says = |decision: ReviewDecision, content| Arc::new(Says(Answer { decision, content })) as Arc<dyn Approver>;
    let asked = ["asked", "answered"];
    let (outcome, events) =
        elicited(AskForApproval::OnRequest, says(ReviewDecision::Approved, Some(name("hunter2".into())))).await;
    assert_eq!(outcome, ElicitationOutcome::Accept { content: name("hunter2".into()) });
    assert_eq!(events, asked);

    let no = ReviewDecision::Denied { reason: Some(String::from("none of its business")) };
    let (outcome, events) = elicited(AskForApproval::OnRequest, says(no, None)).await;
    assert_eq!(outcome, ElicitationOutcome::Decline { reason: String::from("none of its business") });
    assert_eq!(events, asked);

    let (outcome, _) = elicited(AskForApproval::OnRequest, says(ReviewDecision::Abort, None)).await;
    assert_eq!(outcome, ElicitationOutcome::Cancel { reason: String::from("the reviewer stopped the session") });
}

/// An answer that the server could not use is none, whichever approver gives it.
#[tokio::test]
async fn an_answer_has_to_fit_the_form() {
    for content in [None, Some(name(1.into())), Some(BTreeMap::from([(String::from("other"), Value::from("x"))]))] {
        let says = Arc::new(Says(Answer { decision: ReviewDecision::Approved, content: content.clone() }));
        let (outcome, events) = elicited(AskForApproval::OnRequest, says).await;
        let ElicitationOutcome::Cancel { reason } = outcome else { panic!("{content:?}: {outcome:?}") };
        assert!(reason.starts_with("the answer can't be used: "), "{reason}");
        assert_eq!(events, ["asked", "answered"]);
    }
}

#[tokio::test]
async fn where_nobody_may_be_asked_the_server_is_told_so() {
    let yes = || Arc::new(Says(Answer { decision: ReviewDecision::Approved, content: Some(name("x".into())) }));
    let reject = RejectConfig { mcp_elicitations: true, ..RejectConfig::default() };
    for (ask, words) in [
        (AskForApproval::Never, "the approval policy `never` asks no questions"),
        (AskForApproval::Reject(reject), "approval policy rejected MCP elicitation prompt"),
    ] {
        let (outcome, events) = elicited(ask, yes()).await;
        let ElicitationOutcome::Decline { reason } = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, format!("{words}: the server `mail` asks a question"));
        assert_eq!(events, ["decided", "refused"]);
    }
    let (outcome, _) = elicited(AskForApproval::Reject(RejectConfig::default()), yes()).await;
    assert!(matches!(outcome, ElicitationOutcome::Accept { .. }), "{outcome:?}");
}

/// No answer is waited for without end.
#[tokio::test]
async fn a_question_that_nobody_answers_is_cancelled() {
    struct Silent;
    #[async_trait]
    impl Approver for Silent {
        async fn review(&self, _: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
            std::future::pending().await
        }
    }
    let (outcome, _) = elicited(AskForApproval::OnRequest, Arc::new(Silent)).await;
    assert_eq!(outcome, ElicitationOutcome::Cancel { reason: String::from("nobody answered in time") });
    let no_terminal = Arc::new(stockade_core::Fixed::deny("there is no terminal to ask at"));
    let (outcome, _) = elicited(AskForApproval::OnRequest, no_terminal).await;
    assert_eq!(outcome, ElicitationOutcome::Decline { reason: String::from("there is no terminal to ask at") });
}
