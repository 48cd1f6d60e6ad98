//! Finds agents that use Stockade, and checks their hooks.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde::Serialize;
use serde_json::{Value, json};

use super::install::{Wired, wired};
use crate::args::AgentName;

/// An agent with Stockade's hook in its settings.
#[derive(Debug, Serialize)]
pub(crate) struct AgentWiring {
    agent: &'static str,
    /// The settings file.
    file: String,
    /// Whether the hook answers correctly.
    works: bool,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Reads the settings of the user and of the project in this directory, and tests each hook found.
pub(crate) fn agents() -> Vec<AgentWiring> {
    let tried = |wired: Wired| {
        // codex keeps its connection to the program that runs its commands, so there is no single answer to test.
        let problem = wired.problem.or_else(|| match wired.agent {
            AgentName::Codex => None,
            agent @ (AgentName::ClaudeCode | AgentName::Gemini | AgentName::Opencode) => try_hook(agent).err(),
        });
        let file = wired.path.display().to_string();
        AgentWiring { agent: wired.agent.as_str(), file, works: problem.is_none(), problem }
    };
    wired().into_iter().map(tried).collect()
}

/// The section of the report; empty if no agent is wired.
pub(crate) fn text(agents: &[AgentWiring]) -> String {
    let mut text = String::new();
    for agent in agents {
        let (mark, detail) = match &agent.problem {
            None => ("yes", format!("{}; its hook answers", agent.file)),
            Some(problem) => ("no", format!("{}: {problem}", agent.file)),
        };
        text += &format!("  {mark:<5}{:<18}{detail}\n", agent.agent);
    }
    if text.is_empty() { text } else { format!("\nagents\n{text}") }
}

/// Asks the hook about a harmless command, as the agent would.
fn try_hook(agent: AgentName) -> Result<(), String> {
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let session = format!("doctor-{}", std::process::id());
    let (event, tool, variable) = match agent {
        AgentName::Gemini => ("BeforeTool", "run_shell_command", "GEMINI_PROJECT_DIR"),
        AgentName::ClaudeCode | AgentName::Codex | AgentName::Opencode => ("PreToolUse", "Bash", "CLAUDE_PROJECT_DIR"),
    };
    let document = json!({
        "session_id": session, "cwd": here, "hook_event_name": event, "tool_name": tool,
        "tool_input": { "command": "true" },
    });
    let output = own(&["hook", agent.as_str()], &document.to_string(), (variable, here.as_os_str()))?;
    let name = format!("{}-{session}", agent.as_str());
    // There may be none.
    own(&["session", "end", &name], "", (variable, here.as_os_str())).ok();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let reason =
        ["/hookSpecificOutput/permissionDecisionReason", "/reason"].into_iter().find_map(|at| answer.pointer(at));
    let decision =
        ["/hookSpecificOutput/permissionDecision", "/decision"].into_iter().find_map(|at| answer.pointer(at));
    match (agent, decision.and_then(Value::as_str)) {
        (_, Some("allow")) | (AgentName::Codex, None) => Ok(()),
        _ => Err(reason.and_then(Value::as_str).unwrap_or("it gave no answer").to_owned()),
    }
}

#[expect(clippy::disallowed_methods, reason = "this program starts itself, by the file that it is")]
fn own(arguments: &[&str], input: &str, (name, value): (&str, &std::ffi::OsStr)) -> Result<Output, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments).env(name, value).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that has ended already reports why.
        stdin.write_all(input.as_bytes()).ok();
    }
    child.wait_with_output().map_err(|error| error.to_string())
}
