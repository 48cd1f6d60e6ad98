use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::commands::session;
use super::connections::SocketServer;
use super::talk::Talk;
use crate::running::home::{Home, User};

/// A command that is denied and then asked about: a pipe is not made for a command while it runs.
fn outside(home: &Home, name: &str) -> Value {
    json!(["sh", "-c", format!("test -p {0} || mkfifo {0}", home.path(&format!("outside/{name}")).display())])
}

fn events(talk: &mut Talk, session: &Value) -> Vec<String> {
    let listed = talk.call("audit/list", &json!({"session_id": session}));
    let records = listed.get("records").unwrap().as_array().unwrap();
    records
        .iter()
        .map(|record| record.get("event").unwrap().as_object().unwrap().keys().next().unwrap().clone())
        .collect()
}

#[test]
fn a_yes_for_the_session_is_remembered_until_it_is_forgotten() {
    let home = Home::of(User::Ordinary);
    let (mut talk, session) = session(&home, &json!({"ask": "on-failure"}));
    let command = outside(&home, "a");
    let run = json!({"session_id": session, "command": command, "stream": false});
    let id = talk.send("command/run", &run);
    let question = talk.told("approval/request");
    assert!(question.pointer("/params/command_id").is_some() && question.pointer("/params/question_id").is_some());
    assert!(!home.exists("outside/a"));
    talk.answer(&question, &json!({"decision": "approved_for_session"}));
    assert!(talk.response(&id).unwrap().pointer("/outcome/exited").is_some());
    assert!(home.exists("outside/a"));
    // Unasked.
    std::fs::remove_file(home.path("outside/a")).unwrap();
    assert!(talk.call("command/run", &run).pointer("/outcome/exited").is_some());
    assert!(home.exists("outside/a"));
    let remembered = talk.call("approval/remembered", &json!({"session_id": session}));
    let approvals = remembered.get("approvals").unwrap().as_array().unwrap();
    assert_eq!(approvals.len(), 1, "{remembered}");
    // A policy that asks no questions refuses what is not remembered.
    let changed = talk.call("session/update", &json!({"session_id": session, "ask": "never"}));
    assert_eq!(changed.get("ask").unwrap(), "never");
    let other = json!({"session_id": session, "command": outside(&home, "b"), "stream": false});
    assert!(talk.call("command/run", &other).pointer("/outcome/denied").is_some());
    assert!(!home.exists("outside/b"));
    // What is remembered stands for an answer, so it does not count while nothing is asked, and counts again later.
    std::fs::remove_file(home.path("outside/a")).unwrap();
    assert!(talk.call("command/run", &run).pointer("/outcome/denied").is_some());
    assert!(!home.exists("outside/a"));
    for (ask, counts) in [(json!({"reject": {"sandbox_approval": true}}), false), (json!("on-failure"), true)] {
        talk.call("session/update", &json!({"session_id": session, "ask": ask}));
        let ran = talk.call("command/run", &run);
        let expected = if counts { "/outcome/exited" } else { "/outcome/denied" };
        assert!(ran.pointer(expected).is_some(), "{ask}: {ran}");
        assert_eq!(home.exists("outside/a"), counts, "{ask}");
    }
    let key = approvals.first().unwrap().get("key").unwrap();
    let forgotten = talk.call("approval/forget", &json!({"session_id": session, "key": key}));
    assert_eq!(forgotten.get("forgotten").unwrap(), 1);
    std::fs::remove_file(home.path("outside/a")).unwrap();
    let id = talk.send("command/run", &run);
    let question = talk.told("approval/request");
    talk.answer(&question, &json!({"decision": {"denied": {"rejection": "no more"}}}));
    assert!(talk.response(&id).unwrap().pointer("/outcome/denied").is_some());
    let recorded = events(&mut talk, &session);
    assert_eq!(recorded.first().unwrap(), "session_opened");
    assert_eq!(recorded.iter().filter(|event| *event == "asked").count(), 2);
    assert_eq!(recorded.iter().filter(|event| *event == "session_changed").count(), 3);
}

/// An answer that stops everything is said to every client, also to those that come later.
#[test]
fn all_clients_are_told_that_the_session_was_stopped() {
    let home = Home::of(User::Own);
    let server = SocketServer::start(&home, &[]);
    let mut first = Talk::at(&server.path).initialize(true);
    let opening = json!({"workspace": [home.path("ws")], "name": "work", "ask": "on-failure"});
    let opened = first.call("session/open", &opening);
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let attach = json!({"session_id": session, "capability": capability});
    let mut second = Talk::at(&server.path).initialize(false);
    second.call("session/attach", &attach);
    let id = first.send("command/run", &json!({"session_id": session, "command": outside(&home, "a")}));
    let question = first.told("approval/request");
    first.answer(&question, &json!({"decision": "abort"}));
    first.response(&id).unwrap();
    let mut third = Talk::at(&server.path).initialize(false);
    third.call("session/attach", &attach);
    let refused = third.call("command/run", &json!({"session_id": session, "command": ["true"]}));
    assert!(refused.pointer("/outcome/refused").is_some(), "{refused}");
    for talk in [&mut first, &mut second, &mut third] {
        let notice = talk.told("session/notice");
        let text = notice.pointer("/params/text").unwrap().as_str().unwrap();
        assert!(text.contains("`test` has stopped") && text.contains("stockade session end work"), "{text}");
    }
}

#[test]
fn the_first_of_two_clients_answers_and_the_other_is_told() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut one = Talk::at(&server.path).initialize(true);
    let opened = one.call("session/open", &json!({"workspace": [home.path("ws")]}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let id = one.send("command/run", &json!({"session_id": session, "command": outside(&home, "a"), "stream": false}));
    let first = one.told("approval/request");
    // The second comes later, and is asked what is open.
    let mut two = Talk::at(&server.path).initialize(true);
    let wrong = json!({"session_id": session, "capability": "0".repeat(64)});
    assert_eq!(two.refused("session/attach", &wrong).get("code").unwrap(), -32002);
    assert_eq!(two.refused("approval/list", &json!({"session_id": session})).get("code").unwrap(), -32002);
    assert_eq!(two.call("approval/list", &json!({})), json!({"questions": []}));
    two.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let second = two.told("approval/request");
    let question_id = second.pointer("/params/question_id").unwrap();
    assert_eq!(Some(question_id), first.pointer("/params/question_id"));
    // What was not offered answers nothing.
    two.answer(
        &second,
        &json!({"decision": {"approved_execpolicy_amendment": {"proposed_execpolicy_amendment": ["rm"]}}}),
    );
    two.told("approval/unusable");
    let listed = two.call("approval/list", &json!({}));
    assert_eq!(listed.pointer("/questions/0/question_id"), Some(question_id));
    let answer = json!({"session_id": session, "question_id": question_id, "decision": "approved"});
    two.call("approval/answer", &answer);
    let told = one.told("approval/resolved");
    assert_eq!(told.pointer("/params/decision").unwrap(), "approved");
    assert_eq!(told.pointer("/params/answered_by").unwrap(), "test");
    assert!(one.response(&id).unwrap().pointer("/outcome/exited").is_some());
    assert_eq!(two.refused("approval/answer", &answer).get("code").unwrap(), -32006);
    // A late answer of the first changes nothing.
    one.answer(&first, &json!({"decision": "denied"}));
    assert!(home.exists("outside/a"));
    two.told("command/ended");
}

#[test]
fn cancelling_dying_and_time_end_a_question() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut one = Talk::at(&server.path).initialize(true);
    let opened = one.call("session/open", &json!({"workspace": [home.path("ws")], "answer_timeout_ms": 3000}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let run =
        |id: &str| json!({"session_id": session, "command_id": id, "command": outside(&home, "a"), "stream": false});
    let id = one.send("command/run", &run("x"));
    one.told("approval/request");
    let begun = Instant::now();
    one.call("command/cancel", &json!({"session_id": session, "command_id": "x"}));
    assert_eq!(one.told("approval/resolved").pointer("/params/why").unwrap(), "cancelled");
    let ran = one.response(&id).unwrap();
    assert!(ran.pointer("/outcome/denied").is_some(), "its first run was denied: {ran}");
    assert!(begun.elapsed() < Duration::from_secs(3));

    let id = one.send("command/run", &run("y"));
    one.told("approval/request");
    assert_eq!(one.told("approval/resolved").pointer("/params/why").unwrap(), "timed out");
    assert!(one.response(&id).unwrap().pointer("/outcome/denied").is_some());

    // The client that was asked dies; the one that comes later answers.
    one.send("command/run", &run("z"));
    one.told("approval/request");
    drop(one);
    let mut two = Talk::at(&server.path).initialize(true);
    two.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let question = two.told("approval/request");
    two.answer(&question, &json!({"decision": "approved"}));
    let ended = two.told("command/ended");
    assert!(ended.pointer("/params/outcome/exited").is_some(), "{ended}");
    assert!(home.exists("outside/a"));
}

#[test]
fn a_thousand_questions_wait_in_order_and_no_more() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut opener = Talk::at(&server.path).initialize(false);
    let opened = opener.call("session/open", &json!({"workspace": [home.path("ws")], "ask": "on-request"}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let mut askers: Vec<Talk> = Vec::new();
    let mut sent: Vec<(usize, Value)> = Vec::new();
    for asker in 0..17 {
        let mut talk = Talk::at(&server.path).initialize(false);
        talk.call("session/attach", &json!({"session_id": session, "capability": capability}));
        for number in 0..60 {
            let call = json!({"server": "s", "tool": format!("t{}", asker * 60 + number)});
            let review = json!({"session_id": session, "call": call, "requires_approval": true});
            sent.push((asker, talk.send("tool/review", &review)));
        }
        askers.push(talk);
    }
    let begun = Instant::now();
    let open = loop {
        let listed = opener.call("session/list", &json!({}));
        let open = listed.pointer("/sessions/0/questions").unwrap().as_u64().unwrap();
        if open == 1000 || begun.elapsed() > Duration::from_secs(60) {
            break open;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(open, 1000);
    let mut answering = Talk::at(&server.path).initialize(true);
    answering.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let listed = opener.call("approval/list", &json!({"session_id": session}));
    let ids = listed.get("questions").unwrap().as_array().unwrap().iter();
    let ids: Vec<Value> = ids.map(|question| question.get("question_id").unwrap().clone()).collect();
    for id in ids {
        let question = answering.told("approval/request");
        assert_eq!(question.pointer("/params/question_id"), Some(&id));
        answering.answer(&question, &json!({"decision": "approved"}));
    }
    let results = sent.into_iter().map(|(asker, id)| askers.get_mut(asker).unwrap().response(&id).unwrap());
    let (approved, refused): (Vec<Value>, Vec<Value>) = results.partition(|result| result.get("approved").is_some());
    assert_eq!((approved.len(), refused.len()), (1000, 20));
    assert!(refused.iter().all(|result| result.to_string().contains("too many questions")));
}
