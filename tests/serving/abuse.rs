use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::connections::SocketServer;
use super::talk::{Talk, ended};
use crate::running::home::Home;

fn open(talk: &mut Talk, params: &Value) -> Value {
    talk.call("session/open", params).get("session_id").unwrap().clone()
}

/// The processes that have this word on their command line. Zombies have none.
fn processes(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(word)).collect()
}

/// Waits until no process has this word among its arguments.
pub(crate) fn none_left(word: &str) {
    let begun = Instant::now();
    loop {
        let left = processes(word);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_hundred_sessions_are_open_at_once() {
    let home = Home::new();
    let mut talk = Talk::with(home.program().arg("serve")).initialize(true);
    let sessions: Vec<Value> = (0..200).map(|_| open(&mut talk, &json!({"ask": "never"}))).collect();
    let ids: Vec<Value> = sessions
        .iter()
        .map(|session| {
            let params = json!({"session_id": session, "command": ["echo", session], "stream": false});
            talk.send("command/run", &params)
        })
        .collect();
    for (id, session) in ids.iter().zip(&sessions) {
        let ran = talk.response(id).unwrap();
        let printed = ran.pointer("/outcome/exited/execution/stdout/head").and_then(Value::as_str);
        assert_eq!(printed, Some(format!("{}\n", session.as_str().unwrap()).as_str()), "{ran}");
    }
    assert_eq!(talk.call("session/list", &json!({})).get("sessions").unwrap().as_array().unwrap().len(), 200);
    for _ in 200..256 {
        open(&mut talk, &json!({"ask": "never"}));
    }
    let busy = talk.refused("session/open", &json!({}));
    assert_eq!(busy.get("code").unwrap(), -32004, "{busy}");
    talk.call("session/close", &json!({"session_id": sessions.first()}));
    open(&mut talk, &json!({}));
    assert!(talk.end().success());
    let verified = home.says(&["audit", "verify", "--json"], 0).stdout;
    assert!(verified.contains("\"whole\":true"), "{verified}");
}

/// A thousand questions wait at once, each gets its own answer, and one more is refused.
#[test]
fn a_thousand_questions_wait_for_their_answers() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut owner = Talk::at(&server.path).initialize(true);
    let opened = owner.call("session/open", &json!({"workspace": [home.path("ws")], "ask": "on-request"}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    // A connection has at most 64 requests under way.
    let mut askers: Vec<(Talk, Vec<Value>)> = (0..16)
        .map(|asker| {
            let mut talk = Talk::at(&server.path).initialize(false);
            talk.call("session/attach", &json!({"session_id": session, "capability": capability}));
            let count = if asker == 15 { 40 } else { 64 };
            let ids = (0..count).map(|number| {
                let call = json!({"server": "s", "tool": "t", "arguments": {"asker": asker, "number": number}});
                let params = json!({"session_id": session, "call": call, "requires_approval": true});
                talk.send("tool/review", &params)
            });
            let ids = ids.collect();
            (talk, ids)
        })
        .collect();
    let questions: Vec<Value> = (0..1000).map(|_| owner.told("approval/request")).collect();
    let listed = owner.call("approval/list", &json!({}));
    assert_eq!(listed.get("questions").unwrap().as_array().unwrap().len(), 1000);
    let mut late = Talk::at(&server.path).initialize(false);
    late.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let call = json!({"server": "s", "tool": "t", "arguments": {"one": "more"}});
    let params = json!({"session_id": session, "call": call, "requires_approval": true});
    let more = late.call("tool/review", &params);
    assert!(more.get("refused").is_some(), "{more}");
    // Every third is denied; the answers come in another order than the questions.
    for question in questions.iter().rev() {
        let number = question.pointer("/params/request/subject/tool_call/arguments/number").unwrap().as_u64().unwrap();
        let decision = if number % 3 == 0 { "denied" } else { "approved" };
        owner.answer(question, &json!({"decision": decision}));
    }
    for (talk, ids) in &mut askers {
        for (number, id) in ids.iter().enumerate() {
            let result = talk.response(id).unwrap();
            let expected = if number % 3 == 0 { "refused" } else { "approved" };
            assert!(result.get(expected).is_some(), "{number}: {result}");
        }
    }
}

/// A client that goes away leaves nothing that waits: its session closes when its time is over.
#[test]
fn a_client_that_dies_leaves_nothing_behind() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut watcher = Talk::at(&server.path).initialize(false);
    let mut client = Talk::at(&server.path).initialize(true);
    let params = json!({"workspace": [home.path("ws")], "ask": "untrusted", "linger_ms": 300});
    let session = open(&mut client, &params);
    let call = json!({"server": "s", "tool": "t"});
    client.send("tool/review", &json!({"session_id": session, "call": call, "requires_approval": true}));
    client.told("approval/request");
    drop(client);
    let begun = Instant::now();
    while watcher.call("session/list", &json!({})) != json!({"sessions": []}) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A client that stops reading stops its own command; the others' go on.
#[test]
fn a_client_that_does_not_read_stops_its_own_command_only() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut slow = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
        {"protocol_version": 1, "client": {"name": "slow"}}});
    let opening = json!({"jsonrpc": "2.0", "id": 2, "method": "session/open", "params":
        {"workspace": [home.path("ws")], "name": "slow"}});
    use std::io::{BufRead as _, Write as _};
    slow.write_all(format!("{hello}\n{opening}\n").as_bytes()).unwrap();
    let mut lines = std::io::BufReader::new(slow.try_clone().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let opened: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let session = opened.pointer("/result/session_id").unwrap();
    // It says how far it came, in a file.
    let line = "i=0; while [ $i -lt 4000 ]; do head -c 4096 /dev/zero | tr '\\0' x; i=$((i+1)); echo $i > far; done";
    let run = json!({"jsonrpc": "2.0", "id": 3, "method": "command/run", "params":
        {"session_id": session, "command": ["sh", "-c", line]}});
    slow.write_all(format!("{run}\n").as_bytes()).unwrap();
    let far = || {
        let text = std::fs::read_to_string(home.path("ws/far")).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(0)
    };
    let (mut before, begun) = (0, Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = far();
        if std::mem::replace(&mut before, now) == now && now > 0 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
    }
    let mut other = Talk::at(&server.path).initialize(false);
    let own = open(&mut other, &json!({"workspace": [home.path("ws")]}));
    let flood = json!({"session_id": own, "command": ["sh", "-c", "head -c 8000000 /dev/zero | tr '\\0' y"]});
    assert!(other.call("command/run", &flood).pointer("/outcome/exited").is_some());
    assert!(before > 0 && before < 1000, "{before}");
    assert_eq!(far(), before, "it went on");
}

struct Killed {
    server: Child,
    path: std::path::PathBuf,
}

fn serve(home: &Home) -> Killed {
    let started = SocketServer::start(home, &[]);
    let path = started.path.clone();
    Killed { server: started.into_process(), path }
}

/// The server is killed at any moment of a session's life: no process is left, the next server starts, and the trail
/// is whole.
#[test]
fn a_server_that_is_killed_leaves_no_process_and_a_whole_trail() {
    let home = Home::new();
    let mark = format!("stockade-abuse-{}", std::process::id());
    for round in 0..60_u64 {
        let Killed { mut server, path } = serve(&home);
        let mut talk = Talk::at(&path).initialize(true);
        let opening = json!({"workspace": [home.path("ws")], "name": "same", "ask": "on-failure"});
        let session = open(&mut talk, &opening);
        let line = format!("echo a; sleep 0.01; sleep 300 # {mark}");
        talk.send("command/run", &json!({"session_id": session, "command": ["sh", "-c", line]}));
        talk.send("command/run", &json!({"session_id": session, "command": ["sh", "-c", "echo x > ../outside/x"]}));
        // From before the first command to after the question of the second.
        std::thread::sleep(Duration::from_millis(round * 7 % 120));
        server.kill().unwrap();
        server.wait().unwrap();
        drop(talk);
        none_left(&mark);
    }
    let verified = home.says(&["audit", "verify", "--json"], 0).stdout;
    assert!(verified.contains("\"whole\":true"), "{verified}");
    // No name is held in the workspace.
    let left: Vec<_> = std::fs::read_dir(home.path("ws")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The same for clients: on a socket their sessions close after their time, on standard input at once.
#[test]
fn a_client_that_is_killed_leaves_no_process() {
    let home = Home::new();
    let mark = format!("stockade-client-{}", std::process::id());
    let server = SocketServer::start(&home, &["--linger", "0s"]);
    for round in 0..40_u64 {
        let mut talk = Talk::at(&server.path).initialize(true);
        let session = open(&mut talk, &json!({"workspace": [home.path("ws")], "name": format!("n{round}")}));
        let line = format!("sleep 300 # {mark}");
        talk.send("command/run", &json!({"session_id": session, "command": ["sh", "-c", line]}));
        std::thread::sleep(Duration::from_millis(round * 11 % 90));
        drop(talk);
    }
    none_left(&mark);
    let mut talk = Talk::with(home.program().arg("serve").stderr(Stdio::null())).initialize(true);
    let session = open(&mut talk, &json!({}));
    let line = format!("sleep 300 # {mark}");
    talk.send("command/run", &json!({"session_id": session, "command": ["sh", "-c", line]}));
    std::thread::sleep(Duration::from_millis(200));
    talk.close();
    assert!(ended(&mut talk.server.take().unwrap()).success());
    none_left(&mark);
    let verified = home.says(&["audit", "verify", "--json"], 0).stdout;
    assert!(verified.contains("\"whole\":true"), "{verified}");
}

/// A signal ends a server, and with it commands that ignore signals; its clients hear of it first.
#[test]
fn a_signal_ends_the_commands_of_the_server_too() {
    let home = Home::new();
    let mark = format!("stockade-signal-{}", std::process::id());
    let Killed { mut server, path } = serve(&home);
    let mut talk = Talk::at(&path).initialize(false);
    let session = open(&mut talk, &json!({"workspace": [home.path("ws")]}));
    let line = format!("trap '' TERM INT HUP; echo ready; sleep 300 # {mark}");
    let id = talk.send("command/run", &json!({"session_id": session, "command": ["sh", "-c", line]}));
    talk.told("command/output");
    let process = rustix::process::Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert_eq!(talk.told("session/closed").pointer("/params/why").unwrap(), "the server ends");
    talk.response(&id).ok();
    assert!(ended(&mut server).success());
    none_left(&mark);
    assert!(!path.exists());
}
