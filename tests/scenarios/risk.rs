//! How risky a request looks, for the person who is asked.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use stockade_core::{ASSESSMENT_LIMIT, RiskAssessor, Unassessed};
use stockade_protocol::{ApprovalRequest, AskForApproval, Outcome, ReviewDecision, RiskAssessment, RiskLevel};

use crate::world::{World, refusal};

/// What an assessor does.
enum Assessor {
    Says(RiskLevel),
    Rambles,
    Fails,
    Panics,
    Hangs,
}

fn says(level: RiskLevel, summary: String) -> RiskAssessment {
    RiskAssessment { level, category: String::from("data_loss"), summary }
}

#[async_trait]
impl RiskAssessor for Assessor {
    async fn assess(&self, request: Arc<ApprovalRequest>) -> Result<RiskAssessment, Unassessed> {
        assert_eq!(request.risk, None);
        match self {
            Self::Says(level) => Ok(says(*level, String::from("it writes"))),
            Self::Rambles => Ok(says(RiskLevel::Low, "no risk at all. ".repeat(1000))),
            Self::Fails => Err(Unassessed { why: String::from("no model") }),
            Self::Panics => panic!("a bug of the embedder"),
            Self::Hangs => std::future::pending().await,
        }
    }
}

#[tokio::test]
async fn the_question_shows_it_and_the_answer_decides() {
    for (level, answer) in [(RiskLevel::High, ReviewDecision::Approved), (RiskLevel::Low, no())] {
        let world = World::new(AskForApproval::Untrusted);
        world.script.say(answer.clone());
        let run = world.orchestrator().with_risk_assessor(Arc::new(Assessor::Says(level)));
        let outcome = run.run(&world.shell("touch made")).await.unwrap();
        assert_eq!(world.exists("ws/made"), answer.is_approval(), "{outcome:?}");
        let risks: Vec<_> = world.script.questions().into_iter().map(|question| question.risk).collect();
        assert_eq!(risks, [Some(says(level, String::from("it writes")))]);
    }
}

fn no() -> ReviewDecision {
    ReviewDecision::Denied { reason: None }
}

#[tokio::test]
async fn without_an_assessment_the_question_is_asked_all_the_same() {
    for assessor in [Assessor::Fails, Assessor::Panics, Assessor::Rambles, Assessor::Hangs] {
        let world = World::new(AskForApproval::Untrusted);
        world.script.say(ReviewDecision::Approved);
        let run = world.orchestrator().with_risk_assessor(Arc::new(assessor));
        let started = Instant::now();
        let outcome = run.run(&world.shell("touch made")).await.unwrap();
        assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }), "{outcome:?}");
        assert!(started.elapsed() < ASSESSMENT_LIMIT * 3, "{:?}", started.elapsed());
        let risks: Vec<_> = world.script.questions().into_iter().map(|question| question.risk).collect();
        assert_eq!(risks, [None]);
    }
}

#[tokio::test]
async fn what_nobody_is_asked_about_is_not_assessed() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator().with_risk_assessor(Arc::new(Assessor::Hangs));
    let mut request = world.shell("touch made");
    request.escalation = stockade_protocol::EscalationExecution::Unsandboxed;
    let started = Instant::now();
    refusal(&run.run(&request).await.unwrap());
    run.run(&world.shell("touch made")).await.unwrap();
    assert!(world.exists("ws/made") && started.elapsed() < ASSESSMENT_LIMIT);
}
