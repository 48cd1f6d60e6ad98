//! Conversations that codex 0.169.0 really had, said again line by line: the answers stay the same.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::running::home::Home;
use crate::serving::talk::Talk;
use crate::support::{program, repository, run};

/// Says every line of a transcript, and gives the answers.
fn replayed(name: &str) -> (Home, String) {
    let home = Home::new();
    run(program("git").args(["init", "--quiet"]).arg(home.path("ws")), 0);
    let (ws, up) = (home.path("ws"), home.path(""));
    let (ws, up) = (ws.to_str().unwrap(), up.to_str().unwrap().trim_end_matches('/'));
    let path = repository().join(format!("tests/agents/transcripts/{name}.jsonl"));
    let recorded = std::fs::read_to_string(path).unwrap();
    let mut talk = Talk::with(home.program().arg("exec-server"));
    let mut answers = String::new();
    for line in recorded.lines() {
        let line = line.replace("$WS", ws).replace("$UP", up);
        let said: Value = serde_json::from_str(&line).unwrap();
        talk.line(&line);
        let Some(id) = said.get("id") else { continue };
        let method = said["method"].as_str().unwrap();
        let answer = match talk.response(id) {
            Ok(result) => json!({"result": result}),
            Err(error) => json!({"error": error}),
        };
        answers.push_str(&format!("{method} {id}: {}\n", plain(answer, ws, up)));
        if method == "process/start" {
            // How a denial is known is not what this is about.
            let said = followed(&mut talk).replace(", judging by the output", "");
            answers.push_str(&said.replace(ws, "$WS").replace(up, "$UP"));
        }
    }
    assert!(talk.end().success());
    (home, answers)
}

/// An answer without what differs from run to run.
fn plain(mut answer: Value, ws: &str, up: &str) -> String {
    let changing = [
        "/result/sessionId",
        "/result/createdAtMs",
        "/result/modifiedAtMs",
        "/result/environmentInfo/userHomeDir",
        "/result/environmentInfo/executorVersion",
    ];
    for changing in changing {
        if let Some(value) = answer.pointer_mut(changing) {
            *value = json!("…");
        }
    }
    if answer.pointer("/result/isDirectory") == Some(&json!(true)) {
        answer["result"]["size"] = json!("…");
    }
    answer.to_string().replace(ws, "$WS").replace(up, "$UP")
}

/// What a process says until it is closed: each stream whole, then its end.
fn followed(talk: &mut Talk) -> String {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let message = talk.told_any();
        let params = &message["params"];
        match message["method"].as_str().unwrap() {
            "process/output" => {
                let bytes = STANDARD.decode(params["chunk"].as_str().unwrap()).unwrap();
                let stream = if params["stream"] == "stdout" { &mut stdout } else { &mut stderr };
                stream.extend(bytes);
            }
            "process/exited" => {
                let end = format!("exited {}, denied: {}", params["exitCode"], params["sandboxDenied"]);
                talk.told("process/closed");
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                return format!("--- stdout\n{}--- stderr\n{}--- {end}\n", text(stdout), text(stderr));
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_command_with_a_denied_write() {
    let (home, answers) = replayed("run");
    assert_eq!(home.read("ws/made-by-agent"), "hi\n");
    assert!(!Path::new("/usr/agent-was-here").exists());
    insta::assert_snapshot!(answers);
}

#[test]
fn a_patch() {
    let (home, answers) = replayed("patch");
    assert_eq!(home.read("ws/dir/made.txt"), "by a patch\n");
    insta::assert_snapshot!(answers);
}
