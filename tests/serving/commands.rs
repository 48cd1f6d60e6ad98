use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::connections::SocketServer;
use super::talk::Talk;
use crate::running::home::{Home, User};
use crate::support::program;

/// A server on standard input and output as a user, and a session in the workspace.
pub(super) fn session(home: &Home, params: &Value) -> (Talk, Value) {
    let words = home.words();
    let (first, rest) = words.split_first().unwrap();
    let mut command = program(first);
    command.args(rest).arg("serve");
    home.surround(&mut command);
    let mut talk = Talk::with(&mut command).initialize(true);
    let opened = talk.call("session/open", params);
    (talk, opened.get("session_id").unwrap().clone())
}

/// The chunks of a command's output that came, as numbers, streams and texts.
fn output(talk: &mut Talk, until: u64) -> Vec<(u64, String, String)> {
    let mut chunks = Vec::new();
    while chunks.last().map_or(0, |(seq, _, _)| *seq) < until {
        let chunk = talk.told("command/output");
        let field = |name: &str| chunk.pointer(&format!("/params/{name}")).unwrap().clone();
        let text = field("data").as_str().unwrap().to_owned();
        chunks.push((field("seq").as_u64().unwrap(), field("stream").as_str().unwrap().to_owned(), text));
    }
    chunks
}

fn all(chunks: &[(u64, String, String)], stream: &str) -> String {
    chunks.iter().filter(|(_, own, _)| own == stream).map(|(_, _, text)| text.as_str()).collect()
}

fn exit_code(result: &Value) -> i64 {
    result.pointer("/outcome/exited/exit_code").unwrap_or_else(|| panic!("{result}")).as_i64().unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn output_is_numbered_and_comes_before_the_response() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        let (mut talk, session) = session(&home, &json!({}));
        let line = "for i in 1 2 3; do echo out$i; echo err$i >&2; sleep 0.05; done; printf '\\303'; sleep 0.1; printf '\\251'; exit 3";
        let ran = talk.call("command/run", &json!({"session_id": session, "command": ["sh", "-c", line]}));
        assert_eq!(exit_code(&ran), 3);
        assert_eq!(talk.told("command/started").pointer("/params/command_id"), ran.get("command_id"));
        let last = ran.get("last_seq").unwrap().as_u64().unwrap();
        let chunks = output(&mut talk, last);
        assert!(chunks.iter().map(|(seq, _, _)| *seq).eq(1..=last));
        assert_eq!(all(&chunks, "stdout"), "out1\nout2\nout3\né");
        assert_eq!(all(&chunks, "stderr"), "err1\nerr2\nerr3\n");
        let quiet = json!({"session_id": session, "command_id": "q", "command": ["echo", "hi"], "stream": false});
        let ran = talk.call("command/run", &quiet);
        assert_eq!(ran.pointer("/outcome/exited/execution/stdout/head").unwrap(), "hi\n");
        let again = talk.refused("command/run", &quiet);
        assert_eq!(again.get("code").unwrap(), -32602, "its name is taken: {again}");
        assert!(talk.end().success());
    }
}

#[test]
fn the_callers_surroundings_are_the_commands() {
    let home = Home::of(User::Ordinary);
    std::fs::create_dir(home.path("ws/below")).unwrap();
    let (mut talk, session) = session(&home, &json!({}));
    let params = json!({
        "session_id": session, "cwd": home.path("ws/below"), "umask": 0o27, "stream": false,
        "environment": {"PATH": "/usr/bin:/bin", "COLOUR": "green"}, "rlimits": {"nofile": {"soft": 50, "hard": 60}},
        "command": ["sh", "-c", "pwd; echo $COLOUR $HOME; umask; ulimit -Sn; ulimit -Hn"],
    });
    let ran = talk.call("command/run", &params);
    let expected = format!("{}\ngreen\n0027\n50\n60\n", home.path("ws/below").display());
    assert_eq!(ran.pointer("/outcome/exited/execution/stdout/head").unwrap(), &json!(expected));
    let named = json!({
        "session_id": session, "environment": {"PATH": "/usr/bin:/bin", "KUBECONFIG": home.path("outside/kube")},
        "command": ["true"],
    });
    let refused = talk.refused("command/run", &named).to_string();
    assert!(refused.contains("open another session"), "{refused}");
}

/// A command that prints 16 MiB in pieces of 64 KiB and says in a file how far it is.
const PRINTS_MUCH: &str =
    "i=0; while [ $i -lt 256 ]; do head -c 65536 /dev/zero | tr '\\0' a; i=$((i+1)); echo $i > progress; done";

fn progress(home: &Home) -> u64 {
    std::fs::read_to_string(home.path("ws/progress")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Waits until a command does not get any further, and says how far it is.
fn stuck_at(home: &Home) -> u64 {
    let mut before = 0;
    until("it does not get stuck", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = progress(home);
        let is_stuck = now > 0 && now == before;
        before = now;
        is_stuck
    });
    before
}

#[test]
fn a_client_that_does_not_read_slows_its_own_command_and_nothing_else() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut deaf = UnixStream::connect(&server.path).unwrap();
    let mut lines = BufReader::new(deaf.try_clone().unwrap());
    let mut say = |method: &str, params: Value| {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        deaf.write_all(format!("{line}\n").as_bytes()).unwrap();
    };
    let mut hear = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()
    };
    say("initialize", json!({"protocol_version": 1, "client": {"name": "deaf"}}));
    hear();
    say("session/open", json!({"workspace": [home.path("ws")]}));
    let opened = hear();
    let (session, capability) =
        (opened.pointer("/result/session_id").unwrap(), opened.pointer("/result/capability").unwrap());
    say("command/run", json!({"session_id": session, "command_id": "much", "command": ["sh", "-c", PRINTS_MUCH]}));
    // What the server keeps for it, and what the system keeps of a pipe and of a socket.
    assert!(stuck_at(&home) < 32, "{}", progress(&home));
    let mut other = Talk::at(&server.path).initialize(false);
    other.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let begun = Instant::now();
    for _ in 0..20 {
        let params = json!({"session_id": session, "command": ["echo", "x"], "stream": false});
        assert_eq!(exit_code(&other.call("command/run", &params)), 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(progress(&home) < 32);
    // Once it is gone it paces nothing, and the command goes on without it.
    drop((lines, deaf));
    until("the command goes on", || progress(&home) == 256);
    let ended = other.told("command/ended");
    assert_eq!(ended.pointer("/params/outcome/exited/exit_code").unwrap(), 0);
}

#[test]
fn a_client_that_acknowledges_is_waited_for() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({}));
    let params = json!({
        "session_id": session, "command_id": "much", "command": ["sh", "-c", PRINTS_MUCH], "acknowledge": true,
    });
    let id = talk.send("command/run", &params);
    assert!(stuck_at(&home) < 16, "{}", progress(&home));
    let (mut bytes, mut hash) = (0, true);
    while bytes < 16 << 20 {
        let chunk = talk.told("command/output");
        let text = chunk.pointer("/params/data").unwrap().as_str().unwrap();
        (bytes, hash) = (bytes + text.len(), hash && text.bytes().all(|byte| byte == b'a'));
        let seq = chunk.pointer("/params/seq").unwrap();
        let ack = json!({"session_id": session, "command_id": "much", "seq": seq});
        talk.line(&json!({"jsonrpc": "2.0", "method": "command/ack", "params": ack}).to_string());
    }
    assert!(hash);
    assert_eq!(exit_code(&talk.response(&id).unwrap()), 0);
}

#[test]
fn input_is_written_and_ends() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({}));
    let on = |more: Value| {
        let mut params = json!({"session_id": session, "command_id": "cat"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let id = talk.send("command/run", &on(json!({"command": ["cat"], "stdin": "pipe"})));
    talk.call("command/write", &on(json!({"data": "one\n"})));
    assert_eq!(all(&output(&mut talk, 1), "stdout"), "one\n");
    talk.call("command/write", &on(json!({"data": {"hex": "ff0a"}, "close": true})));
    let late = talk.refused("command/write", &on(json!({"data": "x"})));
    assert_eq!(late.get("code").unwrap(), -32005);
    let ran = talk.response(&id).unwrap();
    assert_eq!(ran.pointer("/outcome/exited/execution/stdout/head").unwrap(), &json!({"hex": "6f6e650aff0a"}));
    let none = talk.refused("command/resize", &on(json!({"size": {"rows": 1, "columns": 1}})));
    assert!(none.get("message").unwrap().as_str().unwrap().contains("no terminal"), "{none}");
}

#[test]
fn a_terminal_has_a_size_keys_and_signals() {
    let home = Home::of(User::Ordinary);
    let (mut talk, session) = session(&home, &json!({}));
    let on = |more: Value| {
        let mut params = json!({"session_id": session, "command_id": "t"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    // It may be interrupted between two programs.
    let line = "trap 'echo interrupted; over=1' INT; stty size; read word; echo got $word; stty size; \
                until [ \"$over\" ]; do sleep 0.1; done; read more; echo $more";
    // A signal that the tests' caller ignores can't be trapped.
    let command = ["env", "--default-signal", "bash", "-c", line];
    let run = on(json!({"command": command, "terminal": {"rows": 11, "columns": 22}}));
    let id = talk.send("command/run", &run);
    let mut seen = String::new();
    let mut wait_for = |talk: &mut Talk, text: &str| {
        while !seen.contains(text) {
            let chunk = talk.told("command/output");
            seen.push_str(chunk.pointer("/params/data").unwrap().as_str().unwrap());
        }
    };
    wait_for(&mut talk, "11 22");
    talk.call("command/resize", &on(json!({"size": {"rows": 33, "columns": 44}})));
    talk.call("command/write", &on(json!({"data": "word\n"})));
    wait_for(&mut talk, "got word");
    wait_for(&mut talk, "33 44");
    // The key interrupts what is in the foreground.
    talk.call("command/write", &on(json!({"data": "\u{3}"})));
    wait_for(&mut talk, "interrupted");
    talk.call("command/write", &on(json!({"data": "end\n"})));
    let ran = talk.response(&id).unwrap();
    assert_eq!(exit_code(&ran), 0);
}

#[test]
fn signals_and_cancelling_end_a_command_with_all_it_started() {
    let home = Home::new();
    let (mut talk, session) = session(&home, &json!({}));
    let line = "trap 'echo usr1' USR1; (while :; do sleep 0.05; date +%N > beat; done) & while :; do sleep 0.05; done";
    for (end, outcome) in [("kill", "/outcome/signaled"), ("cancel", "/outcome/cancelled")] {
        let id = talk
            .send("command/run", &json!({"session_id": session, "command_id": end, "command": ["bash", "-c", line]}));
        until("it beats", || home.exists("ws/beat"));
        let on = json!({"session_id": session, "command_id": end});
        let signal = |name: &str| json!({"session_id": session, "command_id": end, "signal": name});
        talk.call("command/signal", &signal("usr1"));
        assert_eq!(all(&output(&mut talk, 1), "stdout"), "usr1\n");
        match end {
            "cancel" => assert_eq!(talk.call("command/cancel", &on).get("was_running").unwrap(), true),
            name => drop(talk.call("command/signal", &signal(name))),
        }
        let ran = talk.response(&id).unwrap();
        assert!(ran.pointer(outcome).is_some(), "{ran}");
        assert_eq!(talk.call("command/cancel", &on).get("was_running").unwrap(), false);
        let beat = home.read("ws/beat");
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(home.read("ws/beat"), beat, "something of it lives on");
        std::fs::remove_file(home.path("ws/beat")).unwrap();
    }
}

#[test]
fn a_client_that_comes_back_has_lost_nothing() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut first = Talk::at(&server.path).initialize(false);
    let opened = first.call("session/open", &json!({"workspace": [home.path("ws")]}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let line = "for i in $(seq 1 300); do echo line$i; sleep 0.01; done";
    first.send("command/run", &json!({"session_id": session, "command_id": "long", "command": ["bash", "-c", line]}));
    let mut seen = output(&mut first, 20);
    drop(first);
    std::thread::sleep(Duration::from_millis(300));
    for end in [60, u64::MAX] {
        let mut next = Talk::at(&server.path).initialize(false);
        let refused = next.refused("command/attach", &json!({"session_id": session, "command_id": "long"}));
        assert_eq!(refused.get("code").unwrap(), -32002);
        next.call("session/attach", &json!({"session_id": session, "capability": capability}));
        let after = seen.last().unwrap().0;
        let on = json!({"session_id": session, "command_id": "long", "after_seq": after});
        let attached = next.call("command/attach", &on);
        assert_eq!(attached.get("state").unwrap(), "running");
        let last = if end == u64::MAX {
            let ended = next.told("command/ended");
            assert_eq!(ended.pointer("/params/outcome/exited/exit_code").unwrap(), 0);
            ended.pointer("/params/last_seq").unwrap().as_u64().unwrap()
        } else {
            end
        };
        let more = output(&mut next, last);
        assert_eq!(more.first().unwrap().0, after + 1);
        seen.extend(more);
    }
    let expected: String = (1..=300).map(|number| format!("line{number}\n")).collect();
    assert_eq!(all(&seen, "stdout"), expected);
    // What has ended can be had again.
    let mut late = Talk::at(&server.path).initialize(false);
    late.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let attached = late.call("command/attach", &json!({"session_id": session, "command_id": "long"}));
    assert_eq!(attached.get("state").unwrap(), "ended");
    let last = attached.get("last_seq").unwrap().as_u64().unwrap();
    assert_eq!(all(&output(&mut late, last), "stdout"), expected);
    late.told("command/ended");
}

/// Clients that only look on are told how commands ended, and not sent output that they did not ask for.
#[test]
fn onlookers_are_not_cut_off_by_the_output_of_others() {
    const COUNT: usize = 24;
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut runner = Talk::at(&server.path).initialize(false);
    let opened = runner.call("session/open", &json!({"workspace": [home.path("ws")]}));
    let (session, capability) = (opened.get("session_id").unwrap(), opened.get("capability").unwrap());
    let mut onlooker = Talk::at(&server.path).initialize(false);
    onlooker.call("session/attach", &json!({"session_id": session, "capability": capability}));
    let ids: Vec<Value> = (0..COUNT)
        .map(|number| {
            let line = format!("head -c 1500000 /dev/zero | tr '\\0' x; touch printed{number}; exec sleep 60");
            let params = json!({"session_id": session, "command": ["sh", "-c", line], "stream": false});
            runner.send("command/run", &params)
        })
        .collect();
    until("all have printed", || (0..COUNT).all(|number| home.exists(&format!("ws/printed{number}"))));
    let closing = runner.send("session/close", &json!({"session_id": session}));
    for _ in 0..COUNT {
        let ended = onlooker.told("command/ended");
        let printed = ended.pointer("/params/outcome/cancelled/execution/stdout").unwrap();
        assert_eq!(printed, &json!({"head": "", "omitted_bytes": 1_500_000}));
    }
    onlooker.told("session/closed");
    runner.response(&closing).unwrap();
    let ran = runner.response(ids.first().unwrap()).unwrap();
    let printed = ran.pointer("/outcome/cancelled/execution/stdout/head").and_then(Value::as_str);
    assert!(printed.unwrap().len() > 100_000);
}

/// Whatever the session grants and a client approves, a command does no more than its request says it may.
#[test]
fn a_command_does_at_most_what_its_request_allows() {
    let home = Home::of(User::Ordinary);
    let bound = json!({"files": [
        {"target": {"path": "/"}, "access": "read"},
        {"target": {"path": home.path("ws/mine")}, "access": "write"},
    ]});
    home.write("ws/mine/there", "");
    home.give_to_user();
    for sandbox in ["workspace-write", "danger-full-access"] {
        let (mut talk, session) = session(&home, &json!({"sandbox": sandbox, "ask": "on-failure"}));
        let line = "echo x > mine/x; echo y > y; echo z > ../outside/z; cat mine/x";
        for escalation in ["turn_default", "unsandboxed"] {
            let id = talk.send(
                "command/run",
                &json!({"session_id": session, "command": ["sh", "-c", line], "at_most": bound, "escalation": escalation}),
            );
            if escalation == "unsandboxed" && sandbox == "workspace-write" {
                let question = talk.told("approval/request");
                talk.answer(&question, &json!({"decision": "approved"}));
            }
            talk.response(&id).unwrap();
            assert_eq!(home.read("ws/mine/x"), "x\n", "{sandbox} {escalation}");
            assert!(!home.exists("ws/y") && !home.exists("outside/z"), "{sandbox} {escalation}");
            std::fs::remove_file(home.path("ws/mine/x")).unwrap();
        }
    }
}
