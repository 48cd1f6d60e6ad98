//! `stockade mcp`, as MCP clients use it: the official TypeScript SDK in both of its ages, the inspector's command line, the
//! real codex and Claude Code, and clients that mean harm.

mod hostile;
mod published;
mod sdk;

use std::ops::Deref;
use std::process::Command;

use serde_json::{Value, json};

use super::agent;
use super::user::User;
use crate::serving::talk::Talk;
use crate::support::{program, repository, run, text};

/// A rule that has `touch` asked about.
const ASKS: &str =
    "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n";

/// A user whose agents have Stockade as an MCP server.
struct McpUser {
    user: User,
}

impl Deref for McpUser {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl McpUser {
    fn new() -> Self {
        Self { user: User::new() }
    }

    /// One whose rules ask before `touch`.
    fn asked() -> Self {
        let user = Self::new();
        user.home.write("config/stockade/rules/mine.rules", ASKS);
        user
    }

    /// The variables that the server has.
    fn environment(&self) -> Value {
        let path = |below: &str| self.home.path(below).display().to_string();
        json!({
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": path("home"),
            "XDG_CONFIG_HOME": path("config"),
            "XDG_STATE_HOME": path("state"),
            "XDG_RUNTIME_DIR": path("run"),
        })
    }

    fn node(&self) -> Command {
        let mut node = program("node");
        self.surround(&mut node);
        node
    }

    /// The server, spoken to line by line.
    fn talk(&self, arguments: &[&str]) -> Talk {
        let mut command = self.home.program();
        command.env("XDG_RUNTIME_DIR", self.home.path("run")).arg("mcp").args(arguments);
        Talk::with(&mut command)
    }

    /// The same, for a client of 2025-11-25 that has said who it is.
    fn initialized(&self, arguments: &[&str], capabilities: &Value) -> Talk {
        let mut talk = self.talk(arguments);
        let info = json!({"name": "test", "version": "1"});
        talk.call(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info}),
        );
        talk.line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        talk
    }

    /// What a client made of the official SDK gets.
    fn sdk(&self, age: &str, arguments: &[&str], answers: Option<Value>, calls: &[Value]) -> Value {
        let words = [&["mcp"], arguments].concat();
        let mut plan = json!({
            "sdk": age,
            "server": {
                "command": self.home.path("stockade"),
                "args": words,
                "cwd": self.home.path("ws"),
                "env": self.environment(),
            },
            "calls": calls,
        });
        if let Some(answers) = answers {
            plan["answers"] = answers;
        }
        let clients = agent("@modelcontextprotocol/sdk/package.json");
        let clients = clients.ancestors().nth(4).unwrap();
        let script = repository().join("tests/agents/mcp/client.mjs");
        let output = run(self.node().arg(script).arg(clients).arg(plan.to_string()), 0);
        let heard: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(text(&output.stderr), "", "{heard}");
        heard
    }
}

/// A call of the tool `run`.
fn shell(line: &str) -> Value {
    json!({"name": "run", "arguments": {"command": line}})
}

/// The text of a result.
fn said(result: &Value) -> String {
    let parts = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    parts.iter().filter_map(|part| part["text"].as_str()).collect()
}
