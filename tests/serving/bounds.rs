use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::commands::session;
use super::talk::Talk;
use crate::running::home::{Home, User};
use crate::support::program;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The processor time that a process has used, in ticks of 10 ms.
fn ticks(process: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// A server, ended with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Says `initialize`; a connection that is closed at once may have an answer all the same.
fn greeted(path: &Path) -> (UnixStream, Value) {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let params = json!({"protocol_version": 1, "client": {"name": "test"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    stream.write_all(format!("{hello}\n").as_bytes()).ok();
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).unwrap();
    (stream, serde_json::from_str(&line).unwrap())
}

/// A server that has no descriptor left tells clients so, does not spin, and serves again when it has one.
#[test]
fn clients_are_told_that_no_descriptor_is_left() {
    let home = Home::new();
    let log = home.path("serve.log");
    let mut command = program("prlimit");
    command.args(["--nofile=40", "--"]).args(home.words()).args(["serve", "--socket"]);
    home.surround(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
    let server = Served(command.spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap();
    until("it does not serve", || said().contains("serving on ") && said().ends_with('\n'));
    let path = said().lines().find_map(|line| Some(PathBuf::from(line.split_once("serving on ")?.1))).unwrap();
    let mut served = Vec::new();
    let refusal = loop {
        let (stream, answer) = greeted(&path);
        if let Some(error) = answer.get("error") {
            break error.clone();
        }
        served.push(stream);
        assert!(served.len() < 64, "all were served");
    };
    assert_eq!(refusal.pointer("/data/kind").unwrap(), "busy", "{refusal}");
    assert!(refusal.get("message").unwrap().as_str().unwrap().contains("open files"), "{refusal}");
    assert!(served.len() > 8, "{}", served.len());
    // Many that wait cost next to nothing.
    let waiting: Vec<_> = (0..30).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let (begun, before) = (Instant::now(), ticks(&server.0));
    std::thread::sleep(Duration::from_secs(1));
    let (used, passed) = (ticks(&server.0) - before, begun.elapsed());
    assert!(u128::from(used) * 10 < passed.as_millis() / 2, "{used} ticks in {passed:?}");
    drop(waiting);
    served.truncate(served.len() / 2);
    until("it does not recover", || greeted(&path).1.get("result").is_some());
    let said = said();
    assert_eq!(said.matches("can't take connections").count(), 1, "{said}");
    assert_eq!(said.matches("connections are taken again").count(), 1, "{said}");
}

/// The output that all sessions keep is bounded: the oldest ended commands go first, whichever session they are of.
#[test]
fn kept_output_of_all_sessions_is_bounded() {
    let home = Home::new();
    let mut talk = Talk::with(home.program().arg("serve"));
    let hello = json!({"protocol_version": 1, "client": {"name": "test"}});
    let limits = talk.call("initialize", &hello).get("limits").unwrap().clone();
    let limit = |name: &str| limits.get(name).unwrap().as_u64().unwrap();
    let (of_session, of_all) = (limit("output_kept_bytes_of_session"), limit("output_kept_bytes_of_all_sessions"));
    // Each command leaves a megabyte, and at most as much again in its outcome.
    let line = "head -c 1000000 /dev/zero | tr '\\0' x";
    let (sessions, commands) = (of_all / of_session + 3, of_session / 2_100_000);
    let mut kept: Vec<(Value, Value)> = Vec::new();
    for _ in 0..sessions {
        let opened = talk.call("session/open", &json!({"ask": "never"}));
        let session = opened.get("session_id").unwrap().clone();
        let run = json!({"session_id": session, "command": ["sh", "-c", line], "stream": false});
        let ids: Vec<Value> = (0..commands).map(|_| talk.send("command/run", &run)).collect();
        for id in ids {
            let ran = talk.response(&id).unwrap();
            kept.push((session.clone(), ran.get("command_id").unwrap().clone()));
        }
    }
    let is_kept = |talk: &mut Talk, (session, command): &(Value, Value)| {
        let listed = talk.call("session/list", &json!({}));
        let sessions = listed.get("sessions").unwrap().as_array().unwrap();
        let own = sessions.iter().find(|listed| listed.get("session_id") == Some(session)).unwrap();
        let commands = own.get("commands").unwrap().as_array().unwrap();
        commands.iter().any(|listed| listed.get("command_id") == Some(command))
    };
    let (first, last) = (kept.first().unwrap().clone(), kept.last().unwrap().clone());
    assert!(!is_kept(&mut talk, &first) && is_kept(&mut talk, &last));
    let count = kept.iter().filter(|command| is_kept(&mut talk, command)).count() as u64;
    assert!(count * 1_000_000 <= of_all && (count + commands) * 2_100_000 >= of_all, "{count} commands are kept");
    let (session, command) = &first;
    let gone = talk.refused("command/attach", &json!({"session_id": session, "command_id": command}));
    assert_eq!(gone.pointer("/data/kind").unwrap(), "unknown_command", "{gone}");
    assert!(talk.end().success());
}

#[test]
fn streams_on_standard_input_are_refused_with_the_reason() {
    let home = Home::of(User::Own);
    let (mut talk, session) = session(&home, &json!({}));
    let params = json!({"session_id": session, "command": ["true"], "streams": {"stdout": 0}});
    let refused = talk.refused("command/run", &params);
    let message = refused.get("message").and_then(Value::as_str).unwrap();
    assert!(message.starts_with("`params.streams`: ") && message.contains("socket"), "{message}");
}
