//! A channel under load and at its end: bounded, in order, nothing lost, nothing answered by mistake.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Script, denied, question, reply, save};
use stockade_core::{
    Answer, Approver as _, ApproverError, ApproverExt as _, Channel, ChannelLimits, LateAnswer, RateLimit, Unanswered,
};
use stockade_protocol::{NetworkPolicyRuleAction, ReviewDecision};
use tokio::task::JoinSet;

fn limits(waiting: usize, questions: usize) -> ChannelLimits {
    let rate = RateLimit { questions: NonZeroUsize::new(questions).unwrap(), within: Duration::from_secs(1) };
    ChannelLimits { waiting: NonZeroUsize::new(waiting).unwrap(), rate }
}

/// What was answered late, as it is reported.
fn observer() -> (Arc<Mutex<Vec<LateAnswer>>>, Arc<dyn stockade_core::LateAnswers>) {
    let late = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&late);
    (late, Arc::new(move |answer| seen.lock().unwrap().push(answer)))
}

fn is_busy(result: &Result<Answer, Unanswered>, words: &str) -> bool {
    matches!(result, Err(Unanswered::Busy { why }) if why.contains(words))
}

#[tokio::test(start_paused = true)]
async fn or12_a_flood_is_bounded_in_order_and_nothing_is_lost() {
    const FLOOD: usize = 10_000;
    const ROOM: usize = 1_000;
    let (channel, mut consumer) = Channel::open(limits(ROOM, FLOOD));
    let channel = Arc::new(channel);
    let mut askers = JoinSet::new();
    for number in 0..FLOOD {
        let channel = Arc::clone(&channel);
        askers.spawn(async move { (number, channel.review(question(&number.to_string())).await) });
    }
    // One round in which every asker has asked.
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(consumer.waiting(), ROOM);
    for number in 0..ROOM {
        let shown = consumer.next().await.unwrap();
        assert_eq!(shown.id.as_str(), number.to_string(), "the oldest comes first");
        consumer.reply(reply(shown.id.as_str(), ReviewDecision::Approved)).unwrap();
    }
    let results = askers.join_all().await;
    assert_eq!(results.len(), FLOOD);
    for (number, result) in results {
        match number < ROOM {
            true => assert_eq!(result, Ok(ReviewDecision::Approved.into()), "{number}"),
            false => assert!(is_busy(&result, "1000 questions wait already"), "{number}: {result:?}"),
        }
    }
    assert_eq!(consumer.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn or12_the_rate_limit_answers_and_lets_go_again() {
    let (channel, mut consumer) = Channel::open(limits(100, 3));
    let channel = Arc::new(channel);
    let ask = |id: &'static str| {
        let channel = Arc::clone(&channel);
        tokio::spawn(async move { channel.review(question(id)).await })
    };
    let first: Vec<_> = ["a", "b", "c"].map(ask).into();
    tokio::time::sleep(Duration::from_millis(999)).await;
    assert!(is_busy(&channel.review(question("d")).await, "3 were asked within 1s"));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let later = ask("e");
    for id in ["a", "b", "c", "e"] {
        assert_eq!(consumer.next().await.unwrap().id.as_str(), id);
        consumer.reply(reply(id, ReviewDecision::Approved)).unwrap();
    }
    for task in first.into_iter().chain([later]) {
        assert_eq!(task.await.unwrap(), Ok(ReviewDecision::Approved.into()));
    }
}

#[tokio::test(start_paused = true)]
async fn or10_when_the_consumer_dies_every_question_is_denied() {
    let (channel, mut consumer) = Channel::open(ChannelLimits::default());
    let channel = Arc::new(channel);
    let mut askers = JoinSet::new();
    for number in 0..100 {
        let channel = Arc::clone(&channel);
        askers.spawn(async move { channel.review(question(&number.to_string())).await });
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    for _ in 0..10 {
        consumer.next().await.unwrap();
    }
    drop(consumer);
    let results = askers.join_all().await;
    assert_eq!(results.len(), 100);
    assert!(results.iter().all(|result| matches!(result, Err(Unanswered::Gone { .. }))), "{results:?}");
    assert!(matches!(channel.review(question("later")).await, Err(Unanswered::Gone { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_ignored_and_reported() {
    let (late, observer) = observer();
    let (channel, mut consumer) = Channel::open_reporting(ChannelLimits::default(), observer);
    let approver = Arc::new(channel.within(Duration::from_secs(5)));
    let asked = Arc::clone(&approver);
    let asking = tokio::spawn(async move { asked.review(question("a")).await });
    assert_eq!(consumer.next().await.unwrap().id.as_str(), "a");
    assert!(consumer.is_waited_for(&"a".parse().unwrap()));
    assert_eq!(asking.await.unwrap(), Ok(ReviewDecision::TimedOut.into()));
    assert!(!consumer.is_waited_for(&"a".parse().unwrap()));

    // A second question of the same name: the reply to the first one must not answer it.
    let asked = Arc::clone(&approver);
    let asking = tokio::spawn(async move { asked.review(question("a")).await });
    tokio::time::sleep(Duration::from_secs(2)).await;
    let result = consumer.reply(reply("a", ReviewDecision::Approved));
    assert!(matches!(result, Err(ApproverError::LateReply { .. })), "{result:?}");
    {
        let late = late.lock().unwrap();
        assert_eq!(late.len(), 1);
        assert_eq!(late[0].answer, ReviewDecision::Approved.into());
        assert_eq!(late[0].after, Duration::from_secs(7));
        assert_eq!(late[0].request.id.as_str(), "a");
    }
    assert_eq!(consumer.next().await.unwrap().id.as_str(), "a");
    consumer.reply(reply("a", denied("no"))).unwrap();
    assert_eq!(asking.await.unwrap(), Ok(denied("no").into()));
    assert_eq!(late.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_name_are_shown_one_at_a_time() {
    let (channel, mut consumer) = Channel::open(ChannelLimits::default());
    let (one, two) = (channel.review(question("a")), channel.review(question("a")));
    let screen = async {
        consumer.next().await.unwrap();
        let second = tokio::time::timeout(Duration::from_secs(1), consumer.next()).await;
        assert!(second.is_err(), "a reply to `a` could have been for either");
        consumer.reply(reply("a", ReviewDecision::Approved)).unwrap();
        consumer.next().await.unwrap();
        consumer.reply(reply("a", denied("not again"))).unwrap();
    };
    let (one, two, ()) = tokio::join!(one, two, screen);
    assert_eq!(one, Ok(ReviewDecision::Approved.into()));
    assert_eq!(two, Ok(denied("not again").into()));
}

#[tokio::test(start_paused = true)]
async fn given_up_questions_make_room() {
    let (channel, mut consumer) = Channel::open(limits(2, 1_000));
    let channel = Arc::new(channel);
    for round in 0..100 {
        let id = format!("given-up-{round}");
        let waiting = channel.review(question(&id));
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
        if round % 2 == 0 {
            // Shown or not, it counts only while its answer is awaited.
            tokio::time::timeout(Duration::from_millis(1), consumer.next()).await.ok();
        }
        assert!(consumer.waiting() <= 2);
    }
    let asked = Arc::clone(&channel);
    let asking = tokio::spawn(async move { asked.review(question("last")).await });
    assert_eq!(consumer.next().await.unwrap().id.as_str(), "last");
    consumer.reply(reply("last", ReviewDecision::Approved)).unwrap();
    assert_eq!(asking.await.unwrap(), Ok(ReviewDecision::Approved.into()));
}

#[tokio::test]
async fn only_answers_of_the_question_are_taken() {
    let (channel, mut consumer) = Channel::open(ChannelLimits::default());
    let mut ask = async |decision: ReviewDecision| {
        let screen = async {
            consumer.next().await.unwrap();
            consumer.reply(reply("a", decision)).map_err(|error| error.to_string())
        };
        tokio::join!(channel.review(question("a")), screen)
    };
    let (answer, told) = ask(save("evil.test", NetworkPolicyRuleAction::Allow)).await;
    assert!(matches!(answer, Err(Unanswered::Unusable { .. })), "{answer:?}");
    assert!(told.unwrap_err().contains("no rule to allow `evil.test` was proposed"));

    let (answer, _) = ask(save("example.com", NetworkPolicyRuleAction::Allow)).await;
    assert_eq!(answer, Ok(save("example.com", NetworkPolicyRuleAction::Allow).into()));

    // A denial stays a denial, without the rule that was not proposed.
    let (answer, told) = ask(save("evil.test", NetworkPolicyRuleAction::Deny)).await;
    assert!(matches!(answer.unwrap().decision, ReviewDecision::Denied { reason: Some(_) }));
    assert_eq!(told, Ok(()));

    let unknown = consumer.reply(reply("b", ReviewDecision::Approved));
    assert!(matches!(unknown, Err(ApproverError::UnknownReply { .. })), "{unknown:?}");
    drop(channel);
    assert_eq!(consumer.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_can_listen_on_for_whoever_cannot_be_stopped() {
    let (late, observer) = observer();
    let slow = Script { after: 50, result: Ok(ReviewDecision::Approved.into()) };
    let patient = slow.clone().within(Duration::from_millis(10)).report_late(observer, Duration::from_millis(100));
    assert_eq!(patient.review(question("a")).await, Ok(ReviewDecision::TimedOut.into()));
    tokio::time::sleep(Duration::from_millis(39)).await;
    assert!(late.lock().unwrap().is_empty());
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(late.lock().unwrap().len(), 1);
    assert_eq!(late.lock().unwrap()[0].after, Duration::from_millis(50));
}
