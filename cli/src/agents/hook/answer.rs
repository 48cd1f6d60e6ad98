//! Answers in each agent's wire format.

use serde_json::{Map, Value, json};

use super::call::{Call, Event};
use super::dialog::Dialog;
use crate::args::AgentName;

/// The answer to a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// None: the agent decides as it would without a hook.
    NoOpinion,
    /// Allowed; a shell runs this line instead of its own.
    Allow { reason: String, line: Option<String> },
    /// The person has to be asked.
    Ask { reason: String, line: Option<String> },
    /// Denied.
    Deny { reason: String },
}

/// The document to print; `None` without an answer. The error is a reason to refuse answers that the agent's format
/// can't express.
pub(super) fn document(call: &Call, answer: Answer, dialog: Dialog) -> Result<Option<Value>, String> {
    match (call.agent, call.event) {
        (_, Event::Other) => Ok(None),
        (AgentName::ClaudeCode, Event::BeforeTool) => Ok(claude_code(call, answer)),
        (AgentName::ClaudeCode, Event::Permission) => Ok(permission(call, answer)),
        (AgentName::Codex, Event::BeforeTool) => Ok(codex(answer)),
        (AgentName::Codex, Event::Permission) => Ok(codex_permission(answer)),
        (AgentName::Gemini, _) => Ok(gemini(call, answer, dialog)),
        (AgentName::Opencode, _) => Err(String::from("opencode has no hook here: Stockade is its shell")),
    }
}

/// The tool's input with another line.
fn with_line(input: &Map<String, Value>, line: String) -> Value {
    let mut input = input.clone();
    input.insert(String::from("command"), Value::String(line));
    Value::Object(input)
}

fn claude_code(call: &Call, answer: Answer) -> Option<Value> {
    let (decision, reason, line) = match answer {
        Answer::NoOpinion => return None,
        Answer::Allow { reason, line } => ("allow", reason, line),
        Answer::Ask { reason, line } => ("ask", reason, line),
        Answer::Deny { reason } => ("deny", reason, None),
    };
    let mut output = json!({
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    });
    if let (Some(line), Some(output)) = (line, output.as_object_mut()) {
        output.insert(String::from("updatedInput"), with_line(&call.input, line));
    }
    Some(json!({ "hookSpecificOutput": output }))
}

/// The answer before a permission dialog, which appears unless this decides. By then the line is Stockade's already: sent
/// once more, Claude Code takes it for a changed one, and shows the dialog that its own rules demand.
fn permission(call: &Call, answer: Answer) -> Option<Value> {
    let is_new = |line: &String| call.input.get("command").and_then(Value::as_str) != Some(line);
    let decision = match answer {
        Answer::NoOpinion | Answer::Ask { .. } => return None,
        Answer::Allow { line, .. } => match line.filter(is_new) {
            Some(line) => json!({ "behavior": "allow", "updatedInput": with_line(&call.input, line) }),
            None => json!({ "behavior": "allow" }),
        },
        Answer::Deny { reason } => json!({ "behavior": "deny", "message": reason }),
    };
    Some(json!({ "hookSpecificOutput": { "hookEventName": "PermissionRequest", "decision": decision } }))
}

/// codex runs a command in its own sandbox or by `stockade exec-server`, so no line is replaced. It treats `ask`, and
/// `allow` without another line, as a broken hook and continues: only refusals are sent, also for what would be asked.
fn codex(answer: Answer) -> Option<Value> {
    let reason = match answer {
        Answer::NoOpinion | Answer::Allow { .. } => return None,
        Answer::Ask { reason, .. } => format!("{reason} (codex can't ask for a hook)"),
        Answer::Deny { reason } => reason,
    };
    Some(json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    } }))
}

/// An approval lifts codex's own sandbox, which a policy for commands inside it can't decide. codex asks its person next,
/// so a question needs no answer here.
fn codex_permission(answer: Answer) -> Option<Value> {
    let Answer::Deny { reason } = answer else { return None };
    Some(json!({ "hookSpecificOutput": {
        "hookEventName": "PermissionRequest", "decision": { "behavior": "deny", "message": reason },
    } }))
}

/// gemini-cli asks for a hook on its own screen. Without one it would end in the middle of the question, with exit code
/// 0: there the use is refused, and the reason says how to allow it.
fn gemini(call: &Call, answer: Answer, dialog: Dialog) -> Option<Value> {
    match answer {
        Answer::NoOpinion | Answer::Allow { line: None, .. } => None,
        Answer::Allow { line: Some(line), .. } => Some(json!({
            "decision": "allow",
            "hookSpecificOutput": { "hookEventName": "BeforeTool", "tool_input": with_line(&call.input, line) },
        })),
        Answer::Ask { reason, line } if dialog == Dialog::Shown => {
            let mut answer = json!({ "decision": "ask", "reason": reason, "systemMessage": reason });
            if let (Some(line), Some(answer)) = (line, answer.as_object_mut()) {
                let input = with_line(&call.input, line);
                let output = json!({ "hookEventName": "BeforeTool", "tool_input": input });
                answer.insert(String::from("hookSpecificOutput"), output);
            }
            Some(answer)
        }
        Answer::Ask { reason, .. } => {
            let reason = format!("{reason} (gemini-cli can't ask here: it has no screen)");
            Some(json!({ "decision": "deny", "reason": reason }))
        }
        Answer::Deny { reason } => Some(json!({ "decision": "deny", "reason": reason })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::hook::call::read;

    fn answers(agent: AgentName, event: &str, tool: &str, answer: &Answer, dialog: Dialog) -> Option<String> {
        let text = format!(
            r#"{{"session_id":"s","cwd":"/w","hook_event_name":"{event}","tool_name":"{tool}","tool_input":{{"command":"ls","timeout":5}}}}"#
        );
        let call = read(agent, text.as_bytes()).unwrap();
        document(&call, answer.clone(), dialog).unwrap().map(|document| document.to_string())
    }

    #[test]
    fn each_agent_is_told_in_its_own_words() {
        let line = Some(String::from("LINE"));
        let all = [
            Answer::NoOpinion,
            Answer::Allow { reason: String::from("R"), line: line.clone() },
            Answer::Allow { reason: String::from("R"), line: None },
            Answer::Ask { reason: String::from("R"), line },
            Answer::Deny { reason: String::from("R") },
        ];
        let mut told = String::new();
        for (agent, event, tool, dialog) in [
            (AgentName::ClaudeCode, "PreToolUse", "Bash", Dialog::Shown),
            (AgentName::ClaudeCode, "PermissionRequest", "Bash", Dialog::Shown),
            (AgentName::Codex, "PreToolUse", "Bash", Dialog::None),
            (AgentName::Codex, "PermissionRequest", "Bash", Dialog::None),
            (AgentName::Gemini, "BeforeTool", "run_shell_command", Dialog::None),
            (AgentName::Gemini, "BeforeTool", "run_shell_command", Dialog::Shown),
        ] {
            for answer in &all {
                let document = answers(agent, event, tool, answer, dialog).unwrap_or_else(|| String::from("nothing"));
                told += &format!("{} {event} {dialog:?} {answer:?}\n  {document}\n", agent.as_str());
            }
        }
        insta::assert_snapshot!(told);
    }
}
