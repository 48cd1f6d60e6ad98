//! A user whose agents have sessions of Stockade, which end with the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::running::home::Home;

/// A home with a place for the server of sessions.
pub(super) struct User {
    pub(super) home: Home,
}

impl Drop for User {
    fn drop(&mut self) {
        self.stockade(&["session", "end", "--all"]).output().ok();
    }
}

impl User {
    pub(super) fn new() -> Self {
        Self::at(Home::new())
    }

    pub(super) fn at(home: Home) -> Self {
        std::fs::create_dir(home.path("run")).unwrap();
        std::fs::set_permissions(home.path("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        Self { home }
    }

    pub(super) fn stockade(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.stockade(arguments);
        command.env("XDG_RUNTIME_DIR", self.home.path("run"));
        command
    }

    /// Gives an agent this user's directories, and the tests' own search path for Node.
    pub(super) fn surround(&self, agent: &mut Command) {
        self.home.surround(agent);
        let node = std::env::var("PATH").unwrap_or_default();
        agent.env("PATH", format!("{node}:/usr/local/bin:/usr/bin:/bin"));
        agent.env("XDG_RUNTIME_DIR", self.home.path("run"));
    }

    /// Another client of the session that an agent opens: it makes the file `go` in the workspace once it is there, and says
    /// yes for the session to everything that it is asked. It ends with the server, a minute after the last session.
    pub(super) fn says_yes_for_the_session(&self, agent: &'static str) {
        let (tickets, go) = (self.home.path("run/stockade"), self.home.path("ws/go"));
        std::thread::spawn(move || {
            let end = Instant::now() + Duration::from_secs(60);
            let ticket = loop {
                let files = std::fs::read_dir(&tickets).into_iter().flatten().map(|entry| entry.unwrap().path());
                let mut found = files.filter(|path| path.extension().is_some_and(|end| end == "session"));
                if let Some(ticket) = found.next() {
                    break ticket;
                }
                assert!(Instant::now() < end, "there is no session");
                std::thread::sleep(Duration::from_millis(50));
            };
            let name = ticket.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with(&format!("{agent}-")), "{name}");
            let ticket: Value = serde_json::from_str(&std::fs::read_to_string(ticket).unwrap()).unwrap();
            let socket = UnixStream::connect(tickets.join("serve.sock")).unwrap();
            std::fs::write(go, "").unwrap();
            says_yes(&socket, &ticket);
        });
    }
}

fn says_yes(socket: &UnixStream, ticket: &Value) {
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    let told = |message: &Value| (&mut &*socket).write_all(format!("{message}\n").as_bytes()).unwrap();
    let capabilities = json!({ "answers": true });
    let initialize = json!({ "protocol_version": 1, "client": { "name": "test" }, "capabilities": capabilities });
    told(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize }));
    lines.next().unwrap().unwrap();
    let attach = json!({ "session_id": ticket["session_id"], "capability": ticket["capability"] });
    told(&json!({ "jsonrpc": "2.0", "id": 2, "method": "session/attach", "params": attach }));
    for line in lines.map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        if message["method"] == "approval/request" {
            told(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "decision": "approved_for_session" } }));
        }
    }
}
