use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::commands::session;
use super::connections::SocketServer;
use super::talk::Talk;
use crate::running::home::{Home, User};

fn open(talk: &mut Talk, home: &Home, more: &Value) -> (Value, Value) {
    let mut params = json!({"workspace": [home.path("ws")]});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let opened = talk.call("session/open", &params);
    (opened.get("session_id").unwrap().clone(), opened.get("capability").unwrap().clone())
}

fn listed(talk: &mut Talk) -> Vec<Value> {
    talk.call("session/list", &json!({})).get("sessions").unwrap().as_array().unwrap().clone()
}

fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_session_is_its_clients_alone() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let (mut one, mut two) = (Talk::at(&server.path).initialize(false), Talk::at(&server.path).initialize(false));
    let missing = one.refused("session/open", &json!({}));
    assert!(missing.get("message").unwrap().as_str().unwrap().contains("params.workspace"), "{missing}");
    let (session, _) = open(&mut one, &home, &json!({"name": "build"}));
    let taken = two.refused("session/open", &json!({"workspace": [home.path("ws")], "name": "build"}));
    assert_eq!(taken.get("code").unwrap(), -32602);
    let run = json!({"session_id": session, "command_id": "secret", "command": ["echo", "word"]});
    one.call("command/run", &run);
    let of_one = listed(&mut one);
    assert_eq!(of_one.first().unwrap().pointer("/commands/0/command").unwrap(), &json!(["echo", "word"]));
    let of_two = listed(&mut two);
    assert_eq!(of_two.first().unwrap().pointer("/name").unwrap(), "build");
    assert!(of_two.first().unwrap().pointer("/commands/0/command").is_none(), "{of_two:?}");
    for (method, more) in [
        ("command/run", json!({"command": ["true"]})),
        ("command/attach", json!({"command_id": "secret"})),
        ("command/cancel", json!({"command_id": "secret"})),
        ("session/update", json!({"sandbox": "danger-full-access"})),
        ("session/close", json!({})),
        ("approval/remembered", json!({})),
        ("audit/list", json!({})),
    ] {
        let mut params = json!({"session_id": session});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(two.refused(method, &params).get("code").unwrap(), -32002, "{method}");
    }
    let unknown = two.refused("command/run", &json!({"session_id": "nothing", "command": ["true"]}));
    assert_eq!(unknown.get("code").unwrap(), -32001);
    // The name is free again.
    one.call("session/close", &json!({"session_id": session}));
    open(&mut two, &home, &json!({"name": "build"}));
}

#[test]
fn changed_settings_and_rules_count_from_the_next_command_on() {
    let home = Home::of(User::Ordinary);
    let (mut talk, session) = session(&home, &json!({}));
    let run = json!({"session_id": session, "command": ["git", "push"], "stream": false});
    assert!(talk.call("command/run", &run).pointer("/outcome/refused").is_none());
    home.write("config/stockade/rules/a.rules", "prefix_rule(pattern = [\"git\"], decision = \"forbidden\")\n");
    home.give_to_user();
    assert_eq!(talk.call("command/run", &run).pointer("/outcome/refused/by").unwrap(), "rule");
    home.write("config/stockade/rules/a.rules", "nonsense(\n");
    let failed = talk.refused("command/run", &run);
    assert_eq!(failed.get("code").unwrap(), -32005, "{failed}");
    std::fs::remove_file(home.path("config/stockade/rules/a.rules")).unwrap();
    assert!(talk.call("command/run", &run).pointer("/outcome/refused").is_none());
}

#[test]
fn a_session_outlives_its_clients_for_its_time() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut watcher = Talk::at(&server.path).initialize(false);
    let mut talk = Talk::at(&server.path).initialize(false);
    let (session, capability) = open(&mut talk, &home, &json!({"linger_ms": 2000}));
    let line = "while :; do sleep 0.05; date +%N > beat; done";
    talk.send("command/run", &json!({"session_id": session, "command": ["bash", "-c", line]}));
    talk.told("command/started");
    drop(talk);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(listed(&mut watcher).len(), 1);
    let mut back = Talk::at(&server.path).initialize(false);
    back.call("session/attach", &json!({"session_id": session, "capability": capability}));
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(listed(&mut watcher).len(), 1, "a client is attached");
    back.call("session/detach", &json!({"session_id": session}));
    until(|| listed(&mut watcher).is_empty(), "it is not closed");
    let beat = home.read("ws/beat");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(home.read("ws/beat"), beat, "its command lives on");
    let gone = back.refused("session/attach", &json!({"session_id": session, "capability": capability}));
    assert_eq!(gone.get("code").unwrap(), -32001);
}

#[test]
fn closing_ends_commands_and_questions_and_is_on_record() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({"ask": "on-request"}));
    let long = talk.send("command/run", &json!({"session_id": session, "command": ["sleep", "100"]}));
    let held = talk.send(
        "command/run",
        &json!({"session_id": session, "command": ["sh", "-c", "trap '' TERM INT HUP; sleep 100 & wait"]}),
    );
    let call = json!({"server": "s", "tool": "t"});
    let review = talk.send("tool/review", &json!({"session_id": session, "call": call, "requires_approval": true}));
    talk.told("approval/request");
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    assert_eq!(talk.call("session/close", &json!({"session_id": session})), json!({"ended_commands": 2}));
    assert!(begun.elapsed() < Duration::from_secs(10));
    for id in [long, held] {
        let ran = talk.response(&id).unwrap();
        let reason = ran.pointer("/outcome/cancelled/reason").and_then(|reason| reason.as_str());
        assert!(reason.unwrap().starts_with("its session was ended"), "{ran}");
    }
    assert!(talk.response(&review).unwrap().pointer("/refused").is_some());
    let verified = talk.call("audit/verify", &json!({}));
    assert_eq!(verified.get("whole").unwrap(), true);
    let listed = talk.call("audit/list", &json!({}));
    let last = listed.get("records").unwrap().as_array().unwrap().last().unwrap();
    assert_eq!(last.pointer("/event/session_closed/commands").unwrap(), 2);
    // Another request of the session may have been the last to let go of its sandbox.
    until(|| std::fs::read_dir(home.path("ws")).unwrap().next().is_none(), "a held name is left");
    assert!(talk.end().success());
}
