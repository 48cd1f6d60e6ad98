use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::*;
use crate::peer::{Outgoing, Transport};
use crate::wire::{ClientCapabilities, ClientInfo, RpcId};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client of the session: what it is sent, and what it says.
struct Client {
    peer: Peer,
    lines: Outgoing,
}

impl Client {
    fn new(number: u64, answers: bool) -> Self {
        let (peer, lines) = Peer::new(ConnectionId(number), Transport::Socket);
        let capabilities = ClientCapabilities { answers, ..ClientCapabilities::default() };
        assert!(peer.introduce(ClientInfo { name: format!("client {number}"), version: None }, capabilities));
        Self { peer, lines }
    }

    async fn next(&mut self) -> Value {
        let line = timeout(PATIENCE, self.lines.next()).await.unwrap().unwrap();
        serde_json::from_slice(line.bytes()).unwrap()
    }

    /// The next question: its JSON-RPC id and its request's id.
    async fn question(&mut self) -> (RpcId, String) {
        let line = self.next().await;
        assert_eq!(line.get("method"), Some(&json!("approval/request")), "{line}");
        let rpc = RpcId::Text(line.get("id").and_then(Value::as_str).unwrap().to_owned());
        (rpc, line.pointer("/params/request/id").and_then(Value::as_str).unwrap().to_owned())
    }

    async fn says(&mut self, decision: Value) {
        let (rpc, id) = self.question().await;
        assert!(self.peer.answered(&rpc, Ok(json!({"id": id, "decision": decision}).to_string())));
    }

    async fn declines(&mut self) {
        let (rpc, _) = self.question().await;
        assert!(self.peer.answered(&rpc, Err(RpcError::new(ErrorKind::UnknownMethod, "no"))));
    }

    fn has_nothing(&mut self) -> bool {
        self.lines.waiting().is_none()
    }
}

fn questions() -> Questions {
    Questions::new("s".parse().unwrap(), None, Duration::from_secs(600), Desk::new(4000))
}

fn request(id: &str) -> Arc<ApprovalRequest> {
    let request = json!({
        "id": id, "thread_id": "s",
        "subject": {"network": {"host": "example.com", "protocol": "https", "port": 443}},
        "available_decisions": ["approved", "denied"],
    });
    Arc::new(serde_json::from_value(request).unwrap())
}

fn ask(questions: &Questions, id: &str) -> JoinHandle<Result<Answer, Unanswered>> {
    let (questions, request) = (questions.clone(), request(id));
    tokio::spawn(async move { questions.review(request).await })
}

async fn answer(asked: JoinHandle<Result<Answer, Unanswered>>) -> Result<ReviewDecision, Unanswered> {
    timeout(PATIENCE, asked).await.unwrap().unwrap().map(|answer| answer.decision)
}

#[tokio::test]
async fn the_first_answer_counts_and_the_others_are_told() {
    let (questions, mut one, mut two, mut silent) =
        (questions(), Client::new(1, true), Client::new(2, true), Client::new(3, false));
    for client in [&one, &two, &silent] {
        assert!(questions.attach(&client.peer));
    }
    assert!(!questions.attach(&one.peer));
    let asked = ask(&questions, "c1");
    one.question().await;
    two.says(json!("approved")).await;
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
    let told = json!({"jsonrpc": "2.0", "method": "approval/resolved",
        "params": {"session_id": "s", "question_id": "question-1", "decision": "approved", "answered_by": "client 2"}});
    assert_eq!([one.next().await, silent.next().await], [told.clone(), told]);
    assert!(two.has_nothing());
    let late =
        questions.answer(&one.peer, &"question-1".parse().unwrap(), ReviewDecision::Approved.into()).unwrap_err();
    assert_eq!(late.kind(), Some(ErrorKind::UnknownQuestion));
}

#[tokio::test]
async fn an_answer_that_was_not_offered_leaves_the_question_open() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    let asked = ask(&questions, "c1");
    client.says(json!("approved_for_session")).await;
    assert_eq!(client.next().await.get("method"), Some(&json!("approval/unusable")));
    let id = "question-1".parse().unwrap();
    let refused = questions.answer(&client.peer, &id, ReviewDecision::ApprovedForSession.into()).unwrap_err();
    assert_eq!((refused.kind(), questions.list().len()), (Some(ErrorKind::UnusableAnswer), 1));
    questions.answer(&client.peer, &id, ReviewDecision::Approved.into()).unwrap();
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
}

/// A client that mistypes its response may respond again: the question is open, and its id is known.
#[tokio::test]
async fn after_an_unusable_response_the_next_one_counts() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    let asked = ask(&questions, "c1");
    let (rpc, _) = client.question().await;
    assert!(client.peer.answered(&rpc, Ok(json!({"decision": "yes"}).to_string())));
    let why = "`yes` is no decision; the question offers `approved`, `denied`: answer with `approval/answer`";
    assert_eq!(client.next().await.pointer("/params/why"), Some(&json!(why)));
    assert!(client.peer.answered(&rpc, Ok(json!({"decision": "approved"}).to_string())));
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
    assert!(!client.peer.answered(&rpc, Ok(json!({"decision": "approved"}).to_string())), "it is settled");
}

/// Only the server may answer `TimedOut`.
#[tokio::test]
async fn no_client_answers_that_the_time_is_over() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    let asked = ask(&questions, "c1");
    client.says(json!("timed_out")).await;
    assert_eq!(client.next().await.get("method"), Some(&json!("approval/unusable")));
    let id = "question-1".parse().unwrap();
    let refused = questions.answer(&client.peer, &id, ReviewDecision::TimedOut.into()).unwrap_err();
    assert_eq!((refused.kind(), questions.list().len()), (Some(ErrorKind::UnusableAnswer), 1));
    // A no counts, offered or not.
    questions.answer(&client.peer, &id, ReviewDecision::Abort.into()).unwrap();
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Abort));
}

#[tokio::test]
async fn an_answer_to_another_question_and_nonsense_are_unusable() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    for said in [json!({"id": "c2", "decision": "approved"}), json!("yes"), json!({"id": "c1"})] {
        let asked = ask(&questions, "c1");
        let (rpc, _) = client.question().await;
        assert!(client.peer.answered(&rpc, Ok(said.to_string())));
        assert_eq!(client.next().await.get("method"), Some(&json!("approval/unusable")), "{said}");
        assert!(!asked.is_finished());
        asked.abort();
        assert_eq!(client.next().await.pointer("/params/why"), Some(&json!("cancelled")));
    }
}

#[tokio::test]
async fn a_client_that_comes_later_is_asked_what_is_open_in_order() {
    let questions = questions();
    let mut asked = Vec::new();
    for number in 0..1000 {
        asked.push(ask(&questions, &format!("c{number}")));
        while questions.len() <= number {
            tokio::task::yield_now().await;
        }
    }
    assert!(matches!(answer(ask(&questions, "more")).await, Err(Unanswered::Busy { .. })));
    let mut client = Client::new(1, true);
    questions.attach(&client.peer);
    for (number, asked) in asked.into_iter().enumerate() {
        let (rpc, id) = client.question().await;
        assert_eq!(id, format!("c{number}"));
        assert!(client.peer.answered(&rpc, Ok(json!({"id": id, "decision": "approved"}).to_string())));
        assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
    }
    assert_eq!((questions.len(), questions.0.desk.room.available_permits()), (0, 4000));
}

#[tokio::test]
async fn nothing_waits_for_a_client_that_dies_or_declines() {
    let (questions, mut one, mut two) = (questions(), Client::new(1, true), Client::new(2, true));
    questions.attach(&one.peer);
    questions.attach(&two.peer);
    let asked = ask(&questions, "c1");
    one.question().await;
    one.peer.end();
    assert_eq!(questions.detach(&one.peer), Some(1));
    two.says(json!("approved")).await;
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
    let asked = ask(&questions, "c2");
    two.declines().await;
    assert!(matches!(answer(asked).await, Err(Unanswered::Gone { .. })));
    // The last one goes: the question waits for another.
    two.next().await;
    let asked = ask(&questions, "c3");
    two.question().await;
    assert_eq!(questions.detach(&two.peer), Some(0));
    let mut three = Client::new(3, true);
    questions.attach(&three.peer);
    three.says(json!("denied")).await;
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Denied { reason: None }));
}

/// A question does not wait for clients that left, in any order; its timeout is ten minutes here.
#[tokio::test]
async fn a_question_that_no_client_is_left_to_answer_ends_at_once() {
    let why = |error: Unanswered| error.to_string();
    for leaves_first in [true, false] {
        let (questions, mut declining, mut leaving) = (questions(), Client::new(1, true), Client::new(2, true));
        questions.attach(&declining.peer);
        questions.attach(&leaving.peer);
        let asked = ask(&questions, "c1");
        leaving.question().await;
        if leaves_first {
            assert_eq!(questions.detach(&leaving.peer), Some(1));
            assert!(!asked.is_finished());
            declining.declines().await;
        } else {
            declining.declines().await;
            assert_eq!(questions.len(), 1);
            assert_eq!(questions.detach(&leaving.peer), Some(1));
        }
        let ended = why(answer(asked).await.unwrap_err());
        assert!(ended.contains("no client of the session answers (no)") || ended.contains("has left"), "{ended}");
    }
    // One that no client has declined is left to the next: another person may come.
    let (questions, silent, mut leaving) = (questions(), Client::new(1, false), Client::new(2, true));
    questions.attach(&silent.peer);
    questions.attach(&leaving.peer);
    let asked = ask(&questions, "c2");
    leaving.question().await;
    questions.detach(&leaving.peer);
    let mut late = Client::new(3, true);
    questions.attach(&late.peer);
    late.says(json!("approved")).await;
    assert_eq!(answer(asked).await, Ok(ReviewDecision::Approved));
}

#[tokio::test(start_paused = true)]
async fn time_cancelling_and_closing_end_a_question() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    let why = |told: &Value| told.pointer("/params/why").and_then(Value::as_str).unwrap_or_default().to_owned();
    let asked = ask(&questions, "c1");
    client.question().await;
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert!(!asked.is_finished());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(asked.await.unwrap().unwrap().decision, ReviewDecision::TimedOut);
    assert_eq!(why(&client.next().await), "timed out");

    questions.begin("c2".parse().unwrap(), "c2".parse().unwrap());
    let asked = ask(&questions, "c2");
    client.question().await;
    assert_eq!(questions.list().first().unwrap().command_id, Some("c2".parse().unwrap()));
    questions.cancel(&"c2".parse().unwrap());
    assert_eq!(why(&client.next().await), "cancelled");
    assert!(!answer(asked).await.unwrap().is_approval());
    assert!(!answer(ask(&questions, "c2")).await.unwrap().is_approval(), "a second one of it is not asked");
    assert!(client.has_nothing());

    let asked = ask(&questions, "c3");
    client.question().await;
    questions.close("the session was closed");
    assert_eq!(why(&client.next().await), "the session was closed");
    assert!(matches!(answer(asked).await, Err(Unanswered::Gone { .. })));
    assert!(matches!(answer(ask(&questions, "c4")).await, Err(Unanswered::Gone { .. })));
}

#[tokio::test]
async fn questions_of_one_request_are_told_apart() {
    let (questions, mut client) = (questions(), Client::new(1, true));
    questions.attach(&client.peer);
    let first = ask(&questions, "c1");
    let (rpc, _) = client.question().await;
    let second = ask(&questions, "c1");
    client.says(json!("denied")).await;
    assert!(!answer(second).await.unwrap().is_approval());
    assert!(client.peer.answered(&rpc, Ok(json!({"decision": "approved"}).to_string())), "a reply needs no id");
    assert!(answer(first).await.unwrap().is_approval());
}

#[tokio::test]
async fn the_room_is_shared_by_all_sessions() {
    let desk = Desk::new(1);
    let limit = Duration::from_secs(600);
    let [one, two] = ["a", "b"].map(|id| Questions::new(id.parse().unwrap(), None, limit, Arc::clone(&desk)));
    let asked = ask(&one, "c1");
    while one.len() == 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(answer(ask(&two, "c1")).await, Err(Unanswered::Busy { .. })));
    one.close("closed");
    asked.await.unwrap().unwrap_err();
    assert_eq!(desk.room.available_permits(), 1);
}
