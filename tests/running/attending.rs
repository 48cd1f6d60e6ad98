//! `stockade session attend`: each kind of question is answered at a terminal that runs no command.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::sessions::Sessions;
use crate::serving::talk::Talk;

/// A program that is a client of the session `s`, and does not answer.
fn client(sessions: &Sessions) -> (Talk, Value) {
    let ticket: Value = serde_json::from_str(&sessions.home.read("run/stockade/s.session")).unwrap();
    let mut talk = Talk::at(&sessions.home.path("run/stockade/serve.sock")).initialize(false);
    let session = ticket.get("session_id").unwrap().clone();
    talk.call("session/attach", &json!({ "session_id": session, "capability": ticket.get("capability") }));
    (talk, session)
}

fn opened() -> Sessions {
    let sessions = Sessions::new();
    sessions.says(&["run", "--session", "s", "--ask", "on-failure", "--", "true"], 0);
    sessions
}

#[test]
fn every_kind_of_question_is_answered_at_the_terminal() {
    let sessions = opened();
    let mut screen = sessions.screen(&["session", "attend", "s"]);
    screen.sees("attending `s` in");
    let (mut talk, session) = client(&sessions);

    // A command of a program without a terminal.
    let line = "mkdir -p ../new && echo x > ../new/x";
    let run = talk.send("command/run", &json!({ "session_id": session, "command": ["bash", "-c", line] }));
    screen.sees("started: bash -c");
    let asked = screen.sees("]? ");
    assert!(asked.contains("mkdir wants to create") && asked.contains("for the rest of this session"), "{asked}");
    screen.types("s");
    let ended = talk.response(&run).unwrap();
    assert_eq!(ended.pointer("/outcome/exited/exit_code"), Some(&json!(0)), "{ended}");
    screen.sees("ended with 0: bash -c");
    let again = talk.call("command/run", &json!({ "session_id": session, "command": ["bash", "-c", line] }));
    assert_eq!(again.pointer("/outcome/exited/exit_code"), Some(&json!(0)), "{again}");

    // A patch outside of the workspace.
    let path = sessions.home.path("outside/new.txt");
    talk.call("session/update", &json!({ "session_id": session, "ask": "on-request" }));
    screen.sees("it asks on-request");
    let changes = json!([{ "add": { "path": path.to_str().unwrap(), "content": "hello\n" } }]);
    let patch = talk.send("patch/apply", &json!({ "session_id": session, "changes": changes }));
    let asked = screen.sees("]? ");
    assert!(asked.contains("new.txt") && asked.contains("hello"), "{asked}");
    screen.types("y");
    assert!(talk.response(&patch).unwrap().get("applied").is_some());
    assert_eq!(sessions.home.read("outside/new.txt"), "hello\n");

    // A tool call, which is refused with a reason.
    let call = json!({ "server": "mail", "tool": "send", "arguments": { "to": "you" } });
    let review = json!({ "session_id": session, "call": call, "requires_approval": true });
    let tool = talk.send("tool/review", &review);
    assert!(screen.sees("]? ").contains("mail"));
    screen.types("n");
    screen.sees("Why not?");
    screen.types("not today\r");
    let refused = talk.response(&tool).unwrap();
    assert!(refused.to_string().contains("not today"), "{refused}");

    // Permissions in advance.
    let rule = json!({ "target": { "path": sessions.home.path("outside").to_str().unwrap() }, "access": "write" });
    let permissions = json!({ "files": [rule] });
    let request = json!({ "session_id": session, "permissions": permissions, "justification": "for the tests" });
    let wanted = talk.send("permissions/request", &request);
    assert!(screen.sees("]? ").contains("for the tests"));
    screen.types("s");
    let granted = talk.response(&wanted).unwrap();
    assert_eq!(granted.pointer("/granted/scope"), Some(&json!("session")), "{granted}");

    // A form of an MCP server.
    let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let form =
        json!({ "session_id": session, "server": "mail", "message": "Who are you?", "requested_schema": schema });
    let form = talk.send("elicitation/request", &form);
    assert!(screen.sees("]? ").contains("Who are you?"));
    screen.types("y");
    screen.sees("name");
    screen.types("Ada\r");
    screen.sees("]? ");
    screen.types("y");
    let accepted = talk.response(&form).unwrap();
    assert_eq!(accepted.pointer("/accept/content/name"), Some(&json!("Ada")), "{accepted}");

    // `q` stops the session: nothing is asked or run in it any more.
    let tool = talk.send("tool/review", &review);
    screen.sees("]? ");
    screen.types("q");
    assert!(talk.response(&tool).unwrap().get("refused").is_some());
    let stopped = talk.call("tool/review", &review);
    assert!(stopped.get("refused").is_some(), "{stopped}");

    sessions.says(&["session", "end", "s"], 0);
    screen.sees("the session was ended");
    assert_eq!(screen.ends().0, 0);
}

/// A question that waits is asked first; Ctrl-C is no answer, and another person gives it.
#[test]
fn ctrl_c_leaves_a_question_open_for_the_next() {
    let sessions = opened();
    let (mut talk, session) = client(&sessions);
    let review =
        json!({ "session_id": session, "call": { "server": "mail", "tool": "send" }, "requires_approval": true });
    let tool = talk.send("tool/review", &review);
    for _ in 0..2 {
        let mut screen = sessions.screen(&["session", "attend", "s"]);
        screen.sees("]? ");
        screen.types("\u{3}");
        let (code, rest) = screen.ends();
        assert!(code == 0 && rest.contains("left open"), "{code}: {rest}");
    }
    let mut screen = sessions.screen(&["session", "attend", "s"]);
    screen.sees("]? ");
    screen.types("y");
    assert!(talk.response(&tool).unwrap().get("approved").is_some());
    // Without a question, too.
    screen.types("\u{3}");
    assert_eq!(screen.ends().0, 0);
    let begun = Instant::now();
    while sessions.list()[0]["clients"] != json!(1) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", sessions.list());
    }
}

/// A question that another client answers disappears, and who answered is said.
#[test]
fn an_answer_from_elsewhere_takes_the_question_away() {
    let sessions = opened();
    let mut screen = sessions.screen(&["session", "attend", "s"]);
    screen.sees("attending");
    let mut own = sessions.screen(&["run", "--session", "s", "-c", "echo x > ../outside/x"]);
    own.sees("]? ");
    screen.sees("]? ");
    own.types("y");
    assert_eq!(own.ends().0, 0);
    screen.sees("The question was called off.");
    screen.sees("answered by `stockade run`: yes");
    // The other way round: a command without a terminal is answered by the person who attends.
    let mut command = sessions.stockade(&["run", "--session", "s", "-c", "echo y > ../outside/y"]);
    let mut running = command.spawn().unwrap();
    screen.sees("]? ");
    screen.types("y");
    assert!(running.wait().unwrap().success());
    assert_eq!(sessions.home.read("outside/y"), "y\n");
    screen.types("\u{3}");
    assert_eq!(screen.ends().0, 0);
}

/// The session of another program is attended with the capability that the program passes on.
#[test]
fn a_session_of_another_program_needs_its_capability() {
    let sessions = opened();
    let mut talk = Talk::at(&sessions.home.path("run/stockade/serve.sock")).initialize(false);
    let workspace = sessions.home.path("ws");
    let open = json!({ "workspace": [workspace.to_str().unwrap()], "name": "agent", "ask": "on-failure" });
    let opened = talk.call("session/open", &open);
    let session = opened.get("session_id").unwrap().clone();
    sessions.home.write("capability", &format!("{}\n", opened.get("capability").unwrap().as_str().unwrap()));
    let wrong = "0".repeat(64);
    sessions.home.write("wrong", &wrong);
    sessions.home.write("none", "what?");
    let file = |name: &str| sessions.home.path(name).to_str().unwrap().to_owned();
    for (name, told, code) in
        [("wrong", "is not that of", 125), ("none", "has no capability", 125), ("gone", "can't read", 125)]
    {
        let mut screen = sessions.screen(&["session", "attend", "agent", "--capability-file", &file(name)]);
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == code && rest.contains(told) && !rest.contains(&wrong), "{name}: {rest}");
    }
    for name in ["agent", session.as_str().unwrap()] {
        let socket = file("run/stockade/serve.sock");
        let file = file("capability");
        let words = ["session", "attend", name, "--capability-file", &file, "--socket", &socket];
        let mut screen = sessions.screen(&words);
        screen.sees("attending");
        let review =
            json!({ "session_id": session, "call": { "server": "a", "tool": name }, "requires_approval": true });
        let tool = talk.send("tool/review", &review);
        screen.sees("]? ");
        screen.types("y");
        assert!(talk.response(&tool).unwrap().get("approved").is_some());
        screen.types("\u{3}");
        assert_eq!(screen.ends().0, 0);
    }
}

#[test]
fn what_can_not_be_attended_is_said() {
    let sessions = opened();
    let told = sessions.says(&["session", "attend", "s"], 125).stderr;
    assert!(told.contains("there is no terminal to ask at"), "{told}");
    let mut screen = sessions.screen(&["session", "attend", "none"]);
    let (code, rest) = screen.ends();
    assert!(code == 1 && rest.contains("there is no session `none`"), "{code}: {rest}");
    sessions.says(&["session", "attend", "s", "--socket", "/none"], 125);
    let told = sessions.says(&["session", "attend", "--help"], 0).stdout;
    assert!(told.contains("stockade session attend build"), "{told}");
}
