//! Clients of `stockade exec-server` that flood, lie and send what is no message.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::exec_server::{talk, uri};
use super::flood::{fills_no_memory, peak};
use crate::running::home::Home;
use crate::serving::talk::Talk;

#[test]
fn lines_that_are_no_messages_are_answered_and_then_end_the_connection() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let bad = [
        "{",
        "[]",
        "null",
        "\u{0}",
        "{\"id\":null,\"method\":\"x\"}",
        "{\"id\":1,\"id\":2,\"method\":\"x\"}",
        "{\"id\":{}}",
    ];
    for line in bad {
        talk.line(line);
        let error = talk.response(&json!(-1)).unwrap_err();
        assert!([-32700, -32600].contains(&error["code"].as_i64().unwrap()), "{line}: {error}");
    }
    talk.line(&"[".repeat(100_000));
    talk.response(&json!(-1)).unwrap_err();
    // A good one in between counts.
    assert_eq!(talk.call("environment/status", &Value::Null), json!({"status": "ready"}));
    for method in ["", "process", "process/", "fs/", "fs/chmod", "Process/Start", "http/request", "\u{202e}x"] {
        assert_eq!(talk.refused(method, &json!({}))["code"], -32601, "{method}");
    }
    for params in [json!(null), json!([]), json!("x"), json!({}), json!({"processId": 1})] {
        assert_eq!(talk.refused("process/start", &params)["code"], -32602, "{params}");
        assert_eq!(talk.refused("fs/readFile", &params)["code"], -32602, "{params}");
    }
    for _ in 0..64 {
        talk.line("no message");
    }
    while talk.hear().is_some() {}
    assert!(talk.end().success());
}

#[test]
fn paths_are_uris_of_this_host_and_nothing_else() {
    let home = Home::new();
    home.write("outside/file", "theirs");
    let mut talk = talk(&home, &[]);
    let (ws, outside) = (uri(&home.path("ws")), uri(&home.path("outside/file")));
    let tricks = [
        format!("{ws}/../outside/file"),
        format!("{ws}/%2e%2e/outside/file"),
        format!("{ws}%2f..%2foutside%2ffile"),
        format!("{ws}/x%00"),
        format!("{ws}/x?{outside}"),
        format!("{ws}/x#{outside}"),
        outside.replace("file://", "file://evil.example"),
        outside.replace("file://", "http://localhost"),
        outside.replace("file://", ""),
        String::from("file:///%00/bad/path/L2V0Yy9wYXNzd2Q"),
        String::from("file:"),
    ];
    for path in tricks {
        let write = json!({"path": path, "dataBase64": "bWluZQ==", "sandbox": null});
        assert_eq!(talk.refused("fs/writeFile", &write)["code"], -32602, "{path}");
    }
    assert_eq!(home.read("outside/file"), "theirs");
}

#[test]
fn huge_and_broken_base64_is_refused_without_much_memory() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let pid = talk.server.as_ref().unwrap().id();
    for data in ["!", "AAA", "AA=A", "AA\nA="] {
        let write = json!({"path": uri(&home.path("ws/x")), "dataBase64": data, "sandbox": null});
        assert_eq!(talk.refused("fs/writeFile", &write)["code"], -32602, "{data}");
    }
    // A line that is too long is skipped while it comes.
    let huge = "A".repeat(48 << 20);
    talk.line(
        &json!({"id": 7, "method": "fs/writeFile", "params": {"path": "file:///x", "dataBase64": huge}}).to_string(),
    );
    assert_eq!(talk.response(&json!(-1)).unwrap_err()["code"], -32600);
    assert!(peak(pid) < 300, "{} MiB", peak(pid));
    assert_eq!(talk.call("environment/status", &Value::Null), json!({"status": "ready"}));
}

#[test]
fn a_million_requests_of_a_client_that_does_not_read_fill_no_memory() {
    let home = Home::new();
    let first =
        ["{\"id\":0,\"method\":\"initialize\",\"params\":{\"clientName\":\"flood\"}}", "{\"method\":\"initialized\"}"];
    fills_no_memory(home.program().arg("exec-server"), &first.map(String::from), |id| {
        format!("{{\"id\":{id},\"method\":\"process/read\",\"params\":{{\"processId\":\"none\"}}}}")
    });
}

#[test]
fn requests_that_wait_are_as_many_as_they_may_be() {
    let home = Home::new();
    let mut talk = talk(&home, &[]);
    let start = json!({"processId": "p", "argv": ["/bin/sleep", "600"], "cwd": uri(&home.path("ws")), "env": {}});
    talk.call("process/start", &start);
    let waiting = json!({"processId": "p", "waitMs": 60_000});
    let ids: Vec<Value> = (0..300).map(|_| talk.send("process/read", &waiting)).collect();
    let refused = talk.response(ids.last().unwrap()).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("under way"), "{refused}");
    // The first of them still wait, and end with the process.
    let full = talk.refused("process/terminate", &json!({"processId": "p"}));
    assert_eq!(full["code"], -32600);
    assert!(talk.end().success());
}

#[test]
fn processes_are_as_many_as_they_may_be() {
    let home = Home::new();
    let mut talk: Talk = talk(&home, &[]);
    let start = |number: usize| json!({"processId": format!("p{number}"), "argv": ["/bin/sleep", "600"], "cwd": uri(&home.path("ws")), "env": {}});
    for number in 0..64 {
        talk.call("process/start", &start(number));
    }
    let refused = talk.refused("process/start", &start(64));
    assert!(refused["message"].as_str().unwrap().contains("64 processes run already"), "{refused}");
    talk.call("process/terminate", &json!({"processId": "p0"}));
    talk.told("process/closed");
    talk.call("process/start", &start(64));
}

#[test]
fn large_answers_that_are_not_read_fill_no_memory() {
    let home = Home::new();
    std::fs::write(home.path("ws/large"), vec![b'x'; 8 << 20]).unwrap();
    std::fs::write(home.path("ws/larger"), vec![b'x'; (8 << 20) + 1]).unwrap();
    let mut server = home.program().arg("exec-server").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    to.write_all(b"{\"id\":0,\"method\":\"initialize\",\"params\":{\"clientName\":\"idle\"}}\n").unwrap();
    to.write_all(b"{\"method\":\"initialized\"}\n").unwrap();
    for id in 1..=200 {
        let params = json!({"path": uri(&home.path("ws/large")), "sandbox": null});
        to.write_all(format!("{}\n", json!({"id": id, "method": "fs/readFile", "params": params})).as_bytes()).unwrap();
    }
    std::thread::sleep(Duration::from_secs(6));
    assert!(peak(server.id()) < 400, "{} MiB", peak(server.id()));
    drop((to, from));
    assert!(server.wait().unwrap().success());
    let mut talk = talk(&home, &[]);
    let larger = json!({"path": uri(&home.path("ws/larger")), "sandbox": null});
    assert_eq!(talk.refused("fs/readFile", &larger)["code"], -32600);
}
