use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::talk::{Talk, ended};
use crate::running::home::Home;
use crate::support::text;

/// A server on a socket, ended with the test.
pub(crate) struct SocketServer {
    process: Option<Child>,
    pub(crate) path: std::path::PathBuf,
}

impl SocketServer {
    pub(crate) fn start(home: &Home, arguments: &[&str]) -> Self {
        let mut process = home.program();
        let mut process = process.arg("serve").arg("--socket").args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let path = line.trim_end().strip_prefix("stockade: serving on ").unwrap_or_else(|| panic!("{line}"));
        Self { path: path.into(), process: Some(process) }
    }
}

impl SocketServer {
    /// The process, which is not ended with the test any more.
    pub(crate) fn into_process(mut self) -> Child {
        self.process.take().unwrap()
    }

    fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    fn process(&mut self) -> &mut Child {
        self.process.as_mut().unwrap()
    }
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

#[test]
fn a_line_that_a_person_types_is_answered() {
    let home = Home::new();
    let mut server = home.program().arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let line =
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocol_version":1,"client":{"name":"me"}}}"#;
    server.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    let output = server.wait_with_output().unwrap();
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer.pointer("/result/server/name").unwrap(), "stockade");
    assert_eq!(answer.pointer("/result/protocol_version").unwrap(), 1);
}

#[test]
fn shutdown_is_answered_and_ends_the_server() {
    let home = Home::new();
    let mut talk = Talk::with(home.program().args(["serve", "--stdio"])).initialize(false);
    assert_eq!(talk.call("shutdown", &json!({})), json!({}));
    assert_eq!(talk.hear(), None);
    assert!(ended(&mut talk.server.take().unwrap()).success());
}

#[test]
fn a_signal_ends_the_server() {
    let home = Home::new();
    let talk = Talk::with(home.program().args(["serve"])).initialize(false);
    let process = talk.server.as_ref().unwrap().id();
    rustix::process::kill_process(pid(process), rustix::process::Signal::TERM).unwrap();
    let mut talk = talk;
    assert!(ended(&mut talk.server.take().unwrap()).success());
}

fn pid(number: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

#[test]
fn a_socket_is_the_users_alone_and_goes_away() {
    let home = Home::new();
    let mut server = SocketServer::start(&home, &[]);
    let found = std::fs::metadata(&server.path).unwrap();
    assert!(found.file_type().is_socket());
    assert_eq!(found.mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(server.path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    let mut first = Talk::at(&server.path).initialize(false);
    let mut second = Talk::at(&server.path).initialize(false);
    assert_eq!(first.call("session/list", &json!({})), json!({"sessions": []}));
    assert_eq!(second.call("session/list", &json!({})), json!({"sessions": []}));
    let refused = first.refused("shutdown", &json!({}));
    assert_eq!(refused.get("code").unwrap(), -32601);

    let twice = home.program().args(["serve", "--socket"]).output().unwrap();
    assert_eq!(twice.status.code(), Some(125));
    assert!(text(&twice.stderr).contains("another server uses"), "{}", text(&twice.stderr));

    rustix::process::kill_process(pid(server.id()), rustix::process::Signal::TERM).unwrap();
    assert!(ended(server.process()).success());
    assert_eq!(first.hear(), None);
    assert!(!server.path.exists());
    assert_eq!(std::fs::read_dir(server.path.parent().unwrap()).unwrap().count(), 1, "the mark stays");
}

#[test]
fn a_killed_server_leaves_a_socket_that_the_next_one_replaces() {
    let home = Home::new();
    let mut server = SocketServer::start(&home, &[]);
    server.process().kill().unwrap();
    server.process().wait().unwrap();
    assert!(server.path.exists());
    let next = SocketServer::start(&home, &[]);
    assert_eq!(next.path, server.path);
    Talk::at(&next.path).initialize(false).call("session/list", &json!({}));
}

#[test]
fn a_server_without_clients_ends_itself_when_told_so() {
    let home = Home::new();
    let mut server = SocketServer::start(&home, &["--idle", "300ms"]);
    let mut talk = Talk::at(&server.path).initialize(false);
    std::thread::sleep(Duration::from_millis(600));
    talk.call("session/list", &json!({}));
    assert_eq!(server.process().try_wait().unwrap(), None);
    let closed = Instant::now();
    drop(talk);
    assert!(ended(server.process()).success());
    assert!(closed.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_directory_that_others_can_reach_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let directory = home.path("open");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    let refused = home.program().args(["serve", "--socket"]).arg(directory.join("s")).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(&refused.stderr).contains("chmod 700"), "{}", text(&refused.stderr));
}

#[test]
fn one_connection_too_many_is_told_so() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut talks: Vec<Talk> = (0..64).map(|_| Talk::at(&server.path).initialize(false)).collect();
    let mut one_more = Talk::at(&server.path);
    let busy = one_more.hear().unwrap();
    assert_eq!((busy.pointer("/error/code").unwrap(), busy.get("id")), (&json!(-32004), Some(&Value::Null)));
    assert_eq!(one_more.hear(), None);
    talks.pop().unwrap().call("session/list", &json!({}));
}

#[test]
fn the_trail_and_the_rules_can_be_read() {
    let home = Home::new();
    assert!(home.program().args(["run", "--", "true"]).status().unwrap().success());
    let mut talk = Talk::with(home.program().arg("serve")).initialize(false);
    let all = talk.call("audit/list", &json!({}));
    let records = all.get("records").unwrap().as_array().unwrap();
    assert!(records.len() >= 3 && all.get("next").is_none(), "{all}");
    let first = talk.call("audit/list", &json!({"limit": 1}));
    assert_eq!(first.get("records").unwrap().as_array().unwrap().first(), records.first());
    let rest = talk.call("audit/list", &json!({"after": first.get("next").unwrap()}));
    assert_eq!(rest.get("records").unwrap().as_array().unwrap(), records.get(1..).unwrap());
    let wrong = talk.refused("audit/list", &json!({"limit": 1001}));
    assert_eq!(wrong.get("code").unwrap(), -32602);
    let verified = talk.call("audit/verify", &json!({}));
    let printed = home.program().args(["audit", "verify", "--json"]).output().unwrap().stdout;
    assert_eq!(verified, serde_json::from_slice::<Value>(&printed).unwrap());

    home.write(
        "config/stockade/rules/a.rules",
        "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\")\n",
    );
    let checked = talk.call("rules/check", &json!({"command": ["git", "push"]}));
    let printed = home.program().args(["execpolicy", "check", "git", "push"]).output().unwrap().stdout;
    assert_eq!(checked, serde_json::from_slice::<Value>(&printed).unwrap());
    assert_eq!(checked.get("decision").unwrap(), "forbidden");
    talk.end();
}

#[test]
fn lines_that_are_no_messages_are_answered_and_bounded() {
    let home = Home::new();
    let mut talk = Talk::with(home.program().arg("serve")).initialize(false);
    talk.line(&"x".repeat((4 << 20) + 1));
    assert_eq!(talk.hear().unwrap().pointer("/error/code").unwrap(), -32600);
    talk.line("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":[]}");
    assert_eq!(talk.hear().unwrap().pointer("/error/data/kind").unwrap(), "invalid_params");
    for _ in 0..64 {
        talk.line("[1]");
        assert_eq!(talk.hear().unwrap().pointer("/error/code").unwrap(), -32600);
    }
    assert_eq!(talk.hear(), None);
    assert!(talk.end().success());
}

/// A client that sends without end and reads nothing is held back, and costs a server on a socket nothing else.
#[test]
fn a_flood_holds_back_its_own_connection_only() {
    let home = Home::new();
    let server = SocketServer::start(&home, &[]);
    let mut flood = std::os::unix::net::UnixStream::connect(&server.path).unwrap();
    flood.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let hello =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocol_version":1,"client":{"name":"f"}}}"#;
    let line = format!(
        "{hello}\n{}",
        r#"{"jsonrpc":"2.0","id":1,"method":"session/list"}
"#
        .repeat(1000)
    );
    let mut sent: usize = 0;
    while flood.write_all(line.as_bytes()).is_ok() {
        sent += line.len();
        assert!(sent < 256 << 20, "the flood is taken in");
    }
    let mut talk = Talk::at(&server.path).initialize(false);
    talk.call("session/list", &json!({}));
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let resident: u64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(resident < 200_000, "{resident} KiB");
    let mut some = [0; 100];
    flood.read_exact(&mut some).unwrap();
}
