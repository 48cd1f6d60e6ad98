//! Programs that a command starts, and the rules that restrict them.

use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{ApprovalSubject, AskForApproval, Outcome, ReviewDecision, ViolationTarget};
use stockade_sandbox_linux::{Auto, Warm};

use crate::world::World;

const RULES: &str = r#"prefix_rule(pattern = ["touch", "made"], decision = "prompt")"#;

fn world() -> World {
    let world = World::new(AskForApproval::OnRequest).rules(RULES);
    for (name, text) in
        [("start.sh", "touch made\n"), ("other.sh", "touch made more\n"), ("twice.sh", "touch made; touch made\n")]
    {
        std::fs::write(world.path(&format!("ws/{name}")).to_host_path().unwrap(), text).unwrap();
    }
    world
}

/// A yes for the session counts for later runs, in the same sandbox or another, and for nothing else.
#[tokio::test]
async fn a_yes_for_the_session_is_remembered() {
    for warm in [false, true] {
        let mut world = world();
        if warm {
            world.backend = Arc::new(Warm::new(Box::new(Auto::new())));
        }
        world.script.say(ReviewDecision::ApprovedForSession);
        let run = world.orchestrator();
        let first = world.command(&["sh", "start.sh"]);
        let outcome = run.run(&first).await.unwrap();
        assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }) && world.exists("ws/made"), "{outcome:?}");
        let events = ["requested", "decided", "asked", "answered", "program_judged", "ended"];
        assert_eq!(world.events(&first), events);
        run.run(&world.command(&["sh", "twice.sh"])).await.unwrap();
        let questions = world.script.questions();
        assert_eq!(questions.len(), 1, "{questions:?}");
        let ApprovalSubject::Command(asked) = &questions.first().unwrap().subject else { panic!("{questions:?}") };
        assert_eq!(asked.command.to_string(), "touch made");
        assert_eq!(asked.started_by.iter().map(ToString::to_string).collect::<Vec<_>>(), ["sh start.sh"]);
        let outcome = run.run(&world.command(&["sh", "other.sh"])).await.unwrap();
        assert_eq!(world.script.questions().len(), 2, "other words are another question");
        let Outcome::Denied { execution, .. } = outcome else { panic!("{outcome:?}") };
        let targets: Vec<&ViolationTarget> = execution.violations.iter().map(|found| &found.target).collect();
        assert!(
            matches!(targets.as_slice(), [ViolationTarget::Command(command)] if command.to_string() == "touch made more")
        );
    }
}

/// Without an answer in time a start is refused, and the next one does not wait for that again.
#[tokio::test]
async fn no_answer_is_a_no_and_is_waited_for_once() {
    let mut world = world();
    world.answer_limit = Duration::from_millis(300);
    *world.script.takes.lock().unwrap() = Duration::from_secs(600);
    let outcome = world.orchestrator().run(&world.command(&["sh", "twice.sh"])).await.unwrap();
    let Outcome::Denied { execution, .. } = &outcome else { panic!("{outcome:?}") };
    assert!(format!("{:?}", execution.violations).contains("nobody answered in time"), "{execution:?}");
    assert!(world.script.questions().len() == 1 && !world.exists("ws/made"));
}
