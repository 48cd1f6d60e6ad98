//! Recorded sequences of tool calls and their answers.
//!
//! A file in `tests/fixtures/approvals` is one session, a JSON object a line: the session's policy, then
//! for each call what is asked for, the question and the answer if there is one, every event on record,
//! and what came of it. Everything is compared in its order and word for word, but for durations.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use serde::Deserialize;
use stockade_core::{
    Answer, Approver, AuditDemand, AuditSink, Orchestrator, ToolCallOutcome, ToolCallRuntime, ToolCaller, Unanswered,
};
use stockade_protocol::{
    ApprovalRequest, AskForApproval, AuditEvent, Refusal, RequestId, ReviewDecision, ToolCallRequest,
};

use crate::world::World;

/// One line of a recording.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
enum Line {
    /// What the file shows, and the session it happens in. The first line.
    #[serde(rename = "session")]
    Session {
        #[serde(rename = "about")]
        _about: String,
        ask: AskForApproval,
        #[serde(default = "long")]
        answer_limit_ms: u64,
    },
    /// A tool wants to be called.
    #[serde(rename = "tool.call.required")]
    Required(ToolCallRequest),
    /// The approver is asked.
    #[serde(rename = "approval.requested")]
    Requested { reason: Option<String> },
    /// It answers, after a time.
    #[serde(rename = "approval.replied")]
    Replied {
        decision: ReviewDecision,
        #[serde(default)]
        after_ms: u64,
    },
    /// It is gone before it answers.
    #[serde(rename = "approval.gone")]
    Gone { why: String },
    /// The next event on record.
    #[serde(rename = "audit")]
    Audit(AuditEvent),
    /// What the caller gets.
    #[serde(rename = "outcome")]
    Outcome(Outcome),
}

fn long() -> u64 {
    60_000
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Called(serde_json::Value),
    Refused(Refusal),
    Failed(String),
}

/// One call with everything that has to happen around it.
#[derive(Default)]
struct Step {
    questions: Vec<Option<String>>,
    events: Vec<AuditEvent>,
    outcome: Option<Outcome>,
}

enum Reply {
    Decision(ReviewDecision, Duration),
    Gone(String),
}

/// Says what was recorded, and remembers what it was asked.
#[derive(Default)]
struct Recorded {
    replies: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<ApprovalRequest>>,
}

#[async_trait]
impl Approver for Recorded {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        self.asked.lock().unwrap().push(ApprovalRequest::clone(&request));
        let next = self.replies.lock().unwrap().pop_front();
        match next {
            Some(Reply::Decision(decision, after)) => {
                tokio::time::sleep(after).await;
                Ok(decision.into())
            }
            Some(Reply::Gone(why)) => Err(Unanswered::Gone { why }),
            None => panic!("nobody was to be asked: {request:?}"),
        }
    }
}

/// Answers with what it was called with; the tool `broken` fails.
struct Echo;

#[async_trait]
impl ToolCaller for Echo {
    async fn call(&self, request: &ToolCallRequest) -> Result<serde_json::Value, String> {
        if request.call.tool == "broken" {
            return Err(String::from("the server hung up"));
        }
        Ok(serde_json::to_value(&request.call.arguments).unwrap())
    }
}

struct Recording {
    ask: AskForApproval,
    answer_limit: Duration,
    steps: Vec<(ToolCallRequest, Step)>,
    replies: VecDeque<Reply>,
}

fn read(file: &Path) -> Recording {
    let text = std::fs::read_to_string(file).unwrap();
    let parse = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", file.display()));
    let mut lines = text.lines().map(parse);
    let Some(Line::Session { ask, answer_limit_ms, .. }) = lines.next() else { panic!("the session comes first") };
    let answer_limit = Duration::from_millis(answer_limit_ms);
    let mut recording = Recording { ask, answer_limit, steps: Vec::new(), replies: VecDeque::new() };
    for line in lines {
        if let Line::Required(request) = line {
            recording.steps.push((request, Step::default()));
            continue;
        }
        let (_, step) = recording.steps.last_mut().unwrap();
        match line {
            Line::Session { .. } | Line::Required(_) => panic!("one session a file"),
            Line::Requested { reason } => step.questions.push(reason),
            Line::Replied { decision, after_ms } => {
                recording.replies.push_back(Reply::Decision(decision, Duration::from_millis(after_ms)));
            }
            Line::Gone { why } => recording.replies.push_back(Reply::Gone(why)),
            Line::Audit(event) => step.events.push(event),
            Line::Outcome(outcome) => step.outcome = Some(outcome),
        }
    }
    recording
}

async fn replay(file: &Path) {
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let Recording { ask, answer_limit, steps, replies } = read(file);
    assert!(!steps.is_empty(), "{name} has no call");
    let world = World::new(ask);
    let approver = Arc::new(Recorded { replies: Mutex::new(replies), ..Recorded::default() });
    let asked = Arc::clone(&approver) as Arc<dyn Approver>;
    let run = Orchestrator::new(world.session.clone(), Arc::clone(&world.backend), asked)
        .with_audit(Arc::clone(&world.audit) as Arc<dyn AuditSink>, AuditDemand::Required)
        .with_answer_limit(answer_limit);
    for (request, expected) in steps {
        let before = approver.asked.lock().unwrap().len();
        let outcome = match run.run_with(&ToolCallRuntime::new(Echo), &request).await {
            Ok(ToolCallOutcome::Called { answer, .. }) => Outcome::Called(answer),
            Ok(ToolCallOutcome::Refused(refusal)) => Outcome::Refused(refusal),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        let call = format!("{name}, {}", request.id);
        assert_eq!(Some(outcome), expected.outcome, "{call}");
        let questions: Vec<_> =
            approver.asked.lock().unwrap().iter().skip(before).map(|question| question.reason.clone()).collect();
        assert_eq!(questions, expected.questions, "{call}");
        assert_eq!(events(&world, &request.id, expected.events.len()).await, expected.events, "{call}");
    }
    assert!(approver.replies.lock().unwrap().is_empty(), "{name} has answers that nobody asked for");
}

/// What is on record of a request, once there are so many events or it has taken too long. Durations
/// are left out.
async fn events(world: &World, request: &RequestId, count: usize) -> Vec<AuditEvent> {
    let start = Instant::now();
    while world.audit.of(request).len() < count && start.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut events = world.audit.of(request);
    for event in &mut events {
        if let AuditEvent::Answered { duration_ms, .. } | AuditEvent::ToolCalled { duration_ms } = event {
            *duration_ms = 0;
        }
    }
    events
}

#[tokio::test]
async fn every_recorded_sequence_happens_again() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/approvals");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    for file in files {
        replay(&file).await;
    }
}
