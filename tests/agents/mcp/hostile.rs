//! MCP clients that flood, lie, forge and send what is no message; and what an agent can't do about its own questions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::flood::fills_no_memory;
use super::{McpUser, said, shell};
use crate::serving::talk::Talk;

/// The next error that has no id.
fn error_without_id(talk: &mut Talk) -> Value {
    loop {
        let message = talk.hear().unwrap();
        if message.get("error").is_some() && message.get("id").is_none_or(Value::is_null) {
            return message["error"].clone();
        }
    }
}

/// Parameters of a request as 2026-07-28 has them, of a client with elicitation.
fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
    });
    params
}

#[test]
fn lines_that_are_no_messages_are_answered_and_then_end_the_connection() {
    let user = McpUser::new();
    let mut talk = user.initialized(&[], &json!({}));
    for line in
        ["{", "[]", "null", "\u{0}", "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", &"[".repeat(100_000)]
    {
        talk.line(line);
        let error = error_without_id(&mut talk);
        assert!([-32700, -32600].contains(&error["code"].as_i64().unwrap()), "{line}: {error}");
    }
    // A good one in between counts, and one that is too long is passed over.
    talk.call("ping", &json!({}));
    talk.line(&format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"{}\"}}", "x".repeat(9 << 20)));
    assert!(error_without_id(&mut talk)["message"].as_str().unwrap().contains("longer than"));
    for method in ["tools", "tools/", "Tools/Call", "session/open", "approval/answer", "\u{202e}x"] {
        assert_eq!(talk.refused(method, &json!({}))["code"], -32601, "{method}");
    }
    assert_eq!(talk.refused("tools/call", &json!({"name": "approve", "arguments": {}}))["code"], -32602);
    let long = "x".repeat(4 << 20);
    for arguments in
        [json!({}), json!({"command": 1}), json!({"command": "a\u{0}b"}), json!({"argv": []}), json!({"command": long})]
    {
        let result = talk.call("tools/call", &json!({"name": "run", "arguments": arguments}));
        assert_eq!(result["isError"], true, "{result}");
    }
    for _ in 0..64 {
        talk.line("no message");
    }
    while talk.hear().is_some() {}
    assert!(talk.end().success());
}

#[test]
fn an_id_is_under_way_once_and_calls_are_limited() {
    let user = McpUser::new();
    let mut talk = user.initialized(&[], &json!({}));
    let call = |id: &Value, line: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": shell(line)}).to_string()
    };
    talk.line(&call(&json!("one"), "sleep 86400"));
    talk.line(&call(&json!("one"), "touch second"));
    assert!(error_without_id(&mut talk)["message"].as_str().unwrap().contains("is under way"));
    for number in 0..31 {
        talk.line(&call(&json!(format!("n{number}")), "sleep 86400"));
    }
    talk.line(&call(&json!("too many"), "touch second"));
    let refused = talk.response(&json!("too many")).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("calls are under way"), "{refused}");
    assert!(!user.home.exists("ws/second"));
    let cancelled =
        |id: &str| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    talk.line(&cancelled("one").to_string());
    // What was cancelled makes room, as soon as it has ended.
    let begun = Instant::now();
    loop {
        let id = talk.send("tools/call", &shell("echo room"));
        match talk.response(&id) {
            Ok(result) => break assert!(said(&result).contains("room"), "{result}"),
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(talk.end().success());
}

#[test]
fn a_million_requests_of_a_client_that_does_not_read_fill_no_memory() {
    let user = McpUser::new();
    let mut command = user.home.program();
    command.env("XDG_RUNTIME_DIR", user.home.path("run")).arg("mcp");
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "flood", "version": "1"}});
    let first = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).to_string();
    fills_no_memory(&mut command, &[first], |id| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/list\"}}")
    });
}

#[test]
fn a_state_is_good_for_one_answer_to_one_call() {
    let user = McpUser::asked();
    let mut talk = user.talk(&[]);
    let ask = |talk: &mut Talk, line: &str| {
        let asked = talk.call("tools/call", &modern(shell(line)));
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        assert!(asked["inputRequests"]["approval"]["params"]["message"].as_str().unwrap().contains(line), "{asked}");
        asked["requestState"].as_str().unwrap().to_owned()
    };
    let answered = |line: &str, state: &str| {
        let mut call = modern(shell(line));
        call["requestState"] = json!(state);
        call["inputResponses"] = json!({"approval": {"action": "accept", "content": {"decision": "allow-once"}}});
        call
    };
    // One that was not given out, whatever it looks like.
    let state = ask(&mut talk, "touch forged");
    let mut other = state.clone();
    other.replace_range(..1, if state.starts_with('0') { "1" } else { "0" });
    for forged in ["", "approved", &other, &state.to_uppercase(), &format!("{state} ")] {
        if forged != state {
            let refused = talk.refused("tools/call", &answered("touch forged", forged));
            assert_eq!(refused["code"], -32602, "{forged}: {refused}");
        }
    }
    // The question still stands after that: without an answer it is put again, with another state.
    let mut unanswered = answered("touch forged", &state);
    unanswered.as_object_mut().unwrap().remove("inputResponses");
    let again = talk.call("tools/call", &unanswered);
    let next = again["requestState"].as_str().unwrap();
    assert_ne!(next, state);
    assert_eq!(talk.refused("tools/call", &answered("touch forged", &state))["code"], -32602);
    let result = talk.call("tools/call", &answered("touch forged", next));
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
    // A yes for one command is none for another, and is used up by the attempt.
    let state = ask(&mut talk, "touch harmless");
    let refused = talk.refused("tools/call", &answered("touch harmful", &state));
    assert!(refused["message"].as_str().unwrap().contains("other arguments"), "{refused}");
    assert_eq!(talk.refused("tools/call", &answered("touch harmless", &state))["code"], -32602);
    assert!(!user.home.exists("ws/harmful") && !user.home.exists("ws/harmless"));
    // Nor is it one in another session.
    let state = ask(&mut talk, "touch elsewhere");
    let mut second = user.talk(&[]);
    assert_eq!(second.refused("tools/call", &answered("touch elsewhere", &state))["code"], -32602);
    assert!(!user.home.exists("ws/elsewhere"));
    // What is no answer is a no, and is told at once.
    for (at, answer) in
        [json!({"decision": "allow-once"}), json!("allow-once"), Value::Null, json!({"action": "ACCEPT"})]
            .into_iter()
            .enumerate()
    {
        let line = format!("touch unread{at}");
        let mut call = answered(&line, &ask(&mut talk, &line));
        call["inputResponses"] = json!({ "approval": answer });
        let result = talk.call("tools/call", &call);
        assert_eq!(result["isError"], true, "{answer}: {result}");
        assert!(!user.home.exists(&format!("ws/unread{at}")), "{answer}");
    }
    // A client that begins anew is asked anew, and the call before is over.
    let first = ask(&mut talk, "touch anew");
    let repeated = ask(&mut talk, "touch anew");
    assert_eq!(talk.refused("tools/call", &answered("touch anew", &first))["code"], -32602);
    assert!(!user.home.exists("ws/anew"));
    let result = talk.call("tools/call", &answered("touch anew", &repeated));
    assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
    // An answer to a question that was not asked yet is none.
    let mut eager = answered("touch eager", "");
    eager.as_object_mut().unwrap().remove("requestState");
    assert_eq!(talk.call("tools/call", &eager)["resultType"], "input_required");
    assert!(!user.home.exists("ws/eager"));
    assert!(talk.end().success() && second.end().success());
}

#[test]
fn calls_that_wait_for_an_answer_are_limited() {
    let user = McpUser::asked();
    let mut talk = user.talk(&[]);
    for number in 0..16 {
        let asked = talk.call("tools/call", &modern(shell(&format!("touch {number}"))));
        assert_eq!(asked["resultType"], "input_required", "{asked}");
    }
    let refused = talk.call("tools/call", &modern(shell("touch 16")));
    assert!(refused["isError"] == true && said(&refused).contains("wait for an answer already"), "{refused}");
    assert!(!user.home.exists("ws/16"));
    assert!(talk.end().success());
}

/// Nothing that an agent can call or run is a way to its own questions.
#[test]
fn an_agent_cannot_answer_its_own_question() {
    let user = McpUser::asked();
    let mut talk = user.initialized(&["--session", "work"], &json!({"elicitation": {}}));
    // From within the sandbox the server of the session is out of reach.
    let program = user.home.path("stockade").display().to_string();
    let inside = talk.call(
        "tools/call",
        &shell(&format!(
            "{program} session list; {program} session attend work; ls {}",
            user.home.path("run/stockade").display()
        )),
    );
    assert!(!said(&inside).contains("would allow it") && !said(&inside).contains("questions"), "{inside}");
    assert!(said(&inside).contains("cannot open directory"), "{inside}");
    // A second call while the first one waits: no tool answers, and no argument does.
    let waiting = talk.send("tools/call", &shell("touch asked"));
    let question = talk.told("elicitation/create");
    assert!(question["params"]["message"].as_str().unwrap().contains("touch asked"), "{question}");
    for name in ["approve", "approval/answer", "elicitation/create"] {
        assert_eq!(
            talk.refused("tools/call", &json!({"name": name, "arguments": {"decision": "allow-once"}}))["code"],
            -32602
        );
    }
    let bold =
        talk.call("tools/call", &json!({"name": "run", "arguments": {"command": "true", "decision": "allow-once"}}));
    assert_eq!(bold["isError"], true, "{bold}");
    // An answer with another id, and one that names no decision, are none.
    talk.line(
        &json!({"jsonrpc": "2.0", "id": 4711, "result": {"action": "accept", "content": {"decision": "allow-once"}}})
            .to_string(),
    );
    talk.answer(&question, &json!({"action": "accept", "content": {}}));
    let result = talk.response(&waiting).unwrap();
    assert!(said(&result).contains("named no decision") && !user.home.exists("ws/asked"), "{result}");
    // Late, it changes nothing any more.
    talk.answer(&question, &json!({"action": "accept", "content": {"decision": "allow-for-session"}}));
    let again = talk.send("tools/call", &shell("touch asked"));
    let question = talk.told("elicitation/create");
    talk.answer(&question, &json!({"action": "decline"}));
    assert!(said(&talk.response(&again).unwrap()).contains("declined"));
    assert!(!user.home.exists("ws/asked"));
    assert!(talk.end().success());
}

/// Another client of the session answers what this one does not ask, and takes back what it does.
#[test]
fn questions_go_to_the_other_clients_of_the_session() {
    for capabilities in [json!({}), json!({"elicitation": {}})] {
        let user = McpUser::asked();
        let mut talk = user.initialized(&["--session", "work"], &capabilities);
        let ticket: Value = serde_json::from_str(&user.home.read("run/stockade/work.session")).unwrap();
        let mut attendant = Talk::at(&user.home.path("run/stockade/serve.sock")).initialize(true);
        attendant
            .call("session/attach", &json!({"session_id": ticket["session_id"], "capability": ticket["capability"]}));
        let waiting = talk.send("tools/call", &shell("touch asked"));
        let question = attendant.told("approval/request");
        if capabilities["elicitation"].is_object() {
            // Dismissed here, it is still open there.
            let elicited = talk.told("elicitation/create");
            talk.answer(&elicited, &json!({"action": "cancel"}));
        }
        attendant.answer(&question, &json!({"decision": "approved"}));
        let result = talk.response(&waiting).unwrap();
        assert_eq!(result["structuredContent"]["exit_code"], 0, "{result}");
        assert!(user.home.exists("ws/asked"));
        if capabilities["elicitation"].is_object() {
            let waiting = talk.send("tools/call", &shell("touch asked"));
            talk.told("elicitation/create");
            let question = attendant.told("approval/request");
            attendant.answer(&question, &json!({"decision": {"denied": {"rejection": "not now"}}}));
            talk.told("notifications/cancelled");
            assert!(said(&talk.response(&waiting).unwrap()).contains("not now"));
        }
        assert!(talk.end().success());
    }
}
