use serde_json::{Value, json};

use super::talk::Talk;
use crate::running::home::Home;

/// A client that answers, with a session in the workspace.
fn session(home: &Home, params: &Value) -> (Talk, Value) {
    let mut talk = Talk::with(home.program().arg("serve")).initialize(true);
    let opened = talk.call("session/open", params);
    let id = opened.get("session_id").unwrap().clone();
    (talk, id)
}

fn records(talk: &mut Talk, session: &Value) -> Vec<String> {
    let listed = talk.call("audit/list", &json!({"session_id": session}));
    let name = |record: &Value| {
        let event = record.get("event").unwrap();
        event.as_object().map_or_else(|| event.to_string(), |event| event.keys().next().unwrap().clone())
    };
    listed.get("records").unwrap().as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_patch_is_asked_about_and_written_in_both_forms() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({"ask": "untrusted"}));
    let text = "--- /dev/null\n+++ b/one.txt\n@@ -0,0 +1 @@\n+one\n";
    let id = talk.send("patch/apply", &json!({"session_id": session, "patch": text}));
    let question = talk.told("approval/request");
    assert!(question.pointer("/params/request/subject/patch/changes/0/add").is_some(), "{question}");
    talk.answer(&question, &json!({"decision": "approved"}));
    let path = home.path("ws/one.txt");
    assert_eq!(talk.response(&id).unwrap(), json!({"applied": {"paths": [path]}}));
    assert_eq!(home.read("ws/one.txt"), "one\n");

    let changes = json!([{"add": {"path": home.path("ws/two.txt"), "content": "two\n"}}]);
    let id = talk.send("patch/apply", &json!({"session_id": session, "changes": changes}));
    let question = talk.told("approval/request");
    talk.answer(&question, &json!({"decision": {"denied": {"rejection": "not now"}}}));
    let refused = talk.response(&id).unwrap();
    assert_eq!(refused.pointer("/refused/by").unwrap(), "reviewer");
    assert!(!home.exists("ws/two.txt"));
    let both = talk.refused("patch/apply", &json!({"session_id": session, "changes": [], "patch": ""}));
    assert_eq!(both.get("code").unwrap(), -32602);
    let recorded = records(&mut talk, &session);
    assert!(recorded.contains(&String::from("patched")) && recorded.contains(&String::from("refused")), "{recorded:?}");
}

#[test]
fn a_tool_call_is_reviewed_and_remembered_and_forgotten() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({"ask": "on-request"}));
    let call = json!({"server": "mail", "tool": "send", "arguments": {"to": "a@example.com"}});
    let params = json!({"session_id": session, "call": call, "requires_approval": true});
    let id = talk.send("tool/review", &params);
    let question = talk.told("approval/request");
    // What is not offered is no answer, and the question stays open.
    talk.answer(&question, &json!({"decision": "maybe"}));
    let unusable = talk.told("approval/unusable");
    let open = question.pointer("/params/question_id").unwrap();
    assert_eq!(unusable.pointer("/params/question_id").unwrap(), open);
    let wrong = json!({"session_id": session, "question_id": "question-0", "decision": "approved"});
    assert_eq!(talk.refused("approval/answer", &wrong).get("code").unwrap(), -32006);
    let answer = json!({"session_id": session, "question_id": open, "decision": "approved_for_session"});
    assert_eq!(talk.call("approval/answer", &answer), json!({}));
    assert_eq!(talk.response(&id).unwrap(), json!({"approved": {}}));
    // The same again is not asked.
    assert_eq!(talk.call("tool/review", &params), json!({"approved": {}}));
    let remembered = talk.call("approval/remembered", &json!({"session_id": session}));
    assert_eq!(remembered.get("approvals").unwrap().as_array().unwrap().len(), 1);
    let key = remembered.pointer("/approvals/0/key").unwrap();
    let forgotten = talk.call("approval/forget", &json!({"session_id": session, "key": key}));
    assert_eq!(forgotten, json!({"forgotten": 1}));
    let id = talk.send("tool/review", &params);
    let question = talk.told("approval/request");
    talk.answer(&question, &json!({"decision": "denied"}));
    assert_eq!(talk.response(&id).unwrap().pointer("/refused/by").unwrap(), "reviewer");
}

#[test]
fn permissions_that_are_granted_for_the_session_are_used() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({"ask": "on-request"}));
    let outside = home.path("outside");
    let write = json!({"session_id": session, "command": ["sh", "-c", "echo x > ../outside/x"], "stream": false});
    assert!(talk.call("command/run", &write).pointer("/outcome/denied").is_some());
    let permissions = json!({"files": [{"target": {"path": outside}, "access": "write"}]});
    let params = json!({"session_id": session, "permissions": permissions, "justification": "the build needs it"});
    let id = talk.send("permissions/request", &params);
    let question = talk.told("approval/request");
    let asked = question.pointer("/params/request/subject/permissions").unwrap();
    assert_eq!(asked.get("justification").unwrap(), "the build needs it");
    talk.answer(&question, &json!({"decision": "approved_for_session"}));
    let granted = talk.response(&id).unwrap();
    assert_eq!(granted.pointer("/granted/scope").unwrap(), "session", "{granted}");
    assert!(talk.call("command/run", &write).pointer("/outcome/exited").is_some());
    assert!(home.exists("outside/x"));
    // Stockade's own files are out of reach whatever a person says.
    let own = json!({"files": [{"target": {"path": home.path("state/stockade")}, "access": "write"}]});
    let refused = talk.call("permissions/request", &json!({"session_id": session, "permissions": own}));
    assert!(refused.get("refused").is_some(), "{refused}");
}

#[test]
fn a_question_of_an_mcp_server_is_passed_on() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({"ask": "on-request"}));
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let params = json!({"session_id": session, "server": "db", "message": "Which?", "requested_schema": schema});
    let id = talk.send("elicitation/request", &params);
    let question = talk.told("approval/request");
    assert_eq!(question.pointer("/params/request/subject/elicitation/message").unwrap(), "Which?");
    talk.answer(&question, &json!({"decision": "approved", "content": {"name": "main"}}));
    assert_eq!(talk.response(&id).unwrap(), json!({"accept": {"content": {"name": "main"}}}));
    let id = talk.send("elicitation/request", &params);
    let question = talk.told("approval/request");
    talk.answer(&question, &json!({"decision": "denied"}));
    assert!(talk.response(&id).unwrap().get("decline").is_some());
}

#[test]
fn a_command_is_explained_and_the_rules_of_the_session_are_asked() {
    let home = Home::new();
    let rule = "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\")\n";
    home.write("config/stockade/rules/a.rules", rule);
    let (mut talk, session) = session(&home, &json!({}));
    let explained = talk.call("command/explain", &json!({"session_id": session, "command": ["git", "push"]}));
    assert!(explained.pointer("/requirement/forbidden").is_some(), "{explained}");
    let checked = talk.call("rules/check", &json!({"session_id": session, "command": ["git", "push"]}));
    assert_eq!(checked.get("decision").unwrap(), "forbidden");
    // Rules that change count from the next request on.
    home.write("config/stockade/rules/a.rules", "");
    let explained = talk.call("command/explain", &json!({"session_id": session, "command": ["git", "push"]}));
    assert!(explained.pointer("/requirement/forbidden").is_none(), "{explained}");
    home.write("config/stockade/config.toml", "nonsense = [");
    let failed = talk.refused("command/run", &json!({"session_id": session, "command": ["true"]}));
    assert_eq!(failed.get("code").unwrap(), -32005);
}

#[test]
fn another_connection_needs_the_capability() {
    let home = Home::new();
    let server = super::connections::SocketServer::start(&home, &[]);
    let mut owner = Talk::at(&server.path).initialize(true);
    let missing = owner.refused("session/open", &json!({}));
    assert_eq!(missing.get("code").unwrap(), -32602, "{missing}");
    let opened = owner.call("session/open", &json!({"workspace": [home.path("ws")], "ask": "on-failure"}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let mut other = Talk::at(&server.path).initialize(true);
    let run = json!({"session_id": session, "command": ["true"]});
    assert_eq!(other.refused("command/run", &run).get("code").unwrap(), -32002);
    let answer = json!({"session_id": session, "question_id": "question-1", "decision": "approved"});
    for (method, params) in [
        ("approval/answer", answer),
        ("session/update", json!({"session_id": session, "ask": "never"})),
        ("session/close", json!({"session_id": session})),
        ("approval/remembered", json!({"session_id": session})),
        ("audit/list", json!({"session_id": session})),
    ] {
        assert_eq!(other.refused(method, &params).get("code").unwrap(), -32002, "{method}");
    }
    let guessed = json!({"session_id": session, "capability": "0".repeat(64)});
    assert_eq!(other.refused("session/attach", &guessed).get("code").unwrap(), -32002);
    other.call("session/attach", &json!({"session_id": session, "capability": capability}));
    assert!(other.call("command/run", &run).pointer("/outcome/exited").is_some());
    // A command does not see it.
    let look = json!({"session_id": session, "command": ["sh", "-c", "env; cat /proc/self/cmdline"]});
    let seen = owner.call("command/run", &look).to_string();
    assert!(!seen.contains(capability.as_str().unwrap()));
}
