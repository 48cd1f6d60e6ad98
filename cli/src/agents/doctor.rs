//! Finds agents that use Stockade, and checks their hooks.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde::Serialize;
use serde_json::{Value, json};

use super::install::{Obstacle, Wired, wired};
use crate::args::AgentName;

/// An agent with Stockade's hook in its settings.
#[derive(Debug, Serialize)]
pub(crate) struct AgentWiring {
    agent: &'static str,
    /// The settings file.
    file: String,
    /// Whether it answers correctly, and is used.
    works: bool,
    #[serde(skip)]
    mark: &'static str,
    /// What was seen, if it does.
    #[serde(skip)]
    does: &'static str,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

/// Reads the settings of the user and of the project in this directory, and tests each hook found.
pub(crate) fn agents() -> Vec<AgentWiring> {
    let tried = |wired: Wired| {
        let is_environment = wired.path.ends_with("environments.toml");
        let (result, does) = match (&wired.obstacle, wired.agent) {
            (Some(Obstacle::Off(problem)), _) => (Err(problem.clone()), ""),
            (Some(Obstacle::Unknown(why)), _) => (Err(format!("can't tell whether its hook is used: {why}")), ""),
            (None, AgentName::Codex) if is_environment => (try_exec_server(), "`stockade exec-server` answers"),
            (None, AgentName::Opencode) => (try_shell(&wired), "its shell runs a line"),
            (None, AgentName::ClaudeCode | AgentName::Codex | AgentName::Gemini) => {
                (try_hook(wired.agent), "its hook answers")
            }
        };
        let problem = result.err();
        let file = wired.path.display().to_string();
        let mark = match (&problem, &wired.obstacle) {
            (None, _) => "yes",
            (Some(_), Some(Obstacle::Unknown(_))) => "?",
            (Some(_), Some(Obstacle::Off(_)) | None) => "no",
        };
        AgentWiring { agent: wired.agent.as_str(), file, works: problem.is_none(), mark, does, problem }
    };
    wired().into_iter().map(tried).collect()
}

/// The section of the report; empty if no agent is wired.
pub(crate) fn text(agents: &[AgentWiring]) -> String {
    let mut text = String::new();
    for agent in agents {
        let detail = match &agent.problem {
            None => format!("{}; {}", agent.file, agent.does),
            Some(problem) => format!("{}: {problem}", agent.file),
        };
        text += &format!("  {:<5}{:<18}{detail}\n", agent.mark, agent.agent);
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
    let mut hook = own(&["hook", agent.as_str()])?;
    let output = fed(hook.env(variable, here), &document.to_string())?;
    end(&format!("{}-{session}", agent.as_str()));
    succeeded(&output)?;
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

/// Opens a session as codex does.
fn try_exec_server() -> Result<(), String> {
    let initialize = json!({ "id": 1, "method": "initialize", "params": { "clientName": "stockade-doctor" } });
    let output = fed(&mut own(&["exec-server"])?, &format!("{initialize}\n"))?;
    succeeded(&output)?;
    let answer = output.stdout.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    match (answer.pointer("/result/sessionId"), answer.pointer("/error/message").and_then(Value::as_str)) {
        (Some(_), _) => Ok(()),
        (None, error) => Err(error.unwrap_or("it gave no answer").to_owned()),
    }
}

/// Runs a line as opencode does.
#[expect(clippy::disallowed_methods, reason = "the link leads to this program, which was checked before")]
fn try_shell(wired: &Wired) -> Result<(), String> {
    let output = fed(Command::new(&wired.command).args(["-c", "true"]), "")?;
    if let Ok(name) = super::opencode::session_of(std::process::id()) {
        end(name.as_str());
    }
    succeeded(&output)
}

fn succeeded(output: &Output) -> Result<(), String> {
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()) }
}

/// Ends a session. There may be none.
fn end(session: &str) {
    own(&["session", "end", session]).and_then(|mut command| fed(&mut command, "")).ok();
}

#[expect(clippy::disallowed_methods, reason = "this program starts itself, by the file that it is")]
fn own(arguments: &[&str]) -> Result<Command, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}

fn fed(command: &mut Command, input: &str) -> Result<Output, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    if let Some(mut stdin) = child.stdin.take() {
        // A hook that has ended already reports why.
        stdin.write_all(input.as_bytes()).ok();
    }
    child.wait_with_output().map_err(|error| error.to_string())
}
