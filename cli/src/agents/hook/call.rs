//! A tool call of an agent, independent of its wire format.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::given_command::{self, Texts};
use super::javascript;
use super::line::NextLine;
use crate::args::AgentName;

/// Limit on the size of a document.
pub(super) const LONGEST: u64 = 64 << 20;

/// A use of a tool, before it happens.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) agent: AgentName,
    pub(super) event: Event,
    /// The agent's session id.
    pub(super) session: String,
    /// The agent's working directory.
    pub(super) cwd: PathBuf,
    pub(super) tool: Tool,
    /// The tool's input.
    pub(super) input: Map<String, Value>,
}

/// The event of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Before a tool is used.
    BeforeTool,
    /// Before a permission dialog.
    Permission,
    /// An event without an answer here.
    Other,
}

/// A tool, with the part of its input that is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    /// A shell line.
    Shell { line: String, next: NextLine },
    /// Files that the agent itself writes.
    Write { paths: Vec<PathBuf> },
    /// A file or directory that the agent itself reads.
    Read { path: PathBuf },
    /// A search of the agent itself: for names or for text, in files that these patterns match.
    Search { below: Option<PathBuf>, patterns: Vec<String> },
    /// Addresses that the agent itself connects to.
    Fetch { urls: Vec<String> },
    /// A tool that is not known here, with an input that looks like commands, which the agent would run outside of the
    /// sandbox.
    Unknown { name: String, commands: Vec<String> },
    /// A skill of Claude Code, which runs commands in its text and in its hooks itself.
    Skill,
    /// Another tool.
    Other,
}

/// An invalid document.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the hook's input can't be read: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the hook's input is longer than {LONGEST} bytes")]
    TooLong,
    #[error("the hook's input says nothing of `{field}` for the tool `{tool}`")]
    Missing { tool: String, field: &'static str },
    #[error(
        "the hook's input names no tool (`tool_name`), so that there is nothing to judge: is this agent's version known?"
    )]
    NoTool,
    #[error("the input of the tool `{tool}` has both `{one}` and `{other}`, and only one of them can be judged")]
    Both { tool: String, one: &'static str, other: &'static str },
    #[error("`{}` has more than one address: put a space between them", .0.escape_debug())]
    Addresses(String),
}

/// The used part of the agents' documents. All three use the same names.
#[derive(Debug, Deserialize)]
struct Document {
    session_id: String,
    cwd: PathBuf,
    hook_event_name: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    tool_input: Value,
}

/// Parses an agent's document.
pub(super) fn read(agent: AgentName, bytes: &[u8]) -> Result<Call, CallError> {
    let document: Document = serde_json::from_slice(bytes)?;
    let event = match (agent, document.hook_event_name.as_str()) {
        (AgentName::Gemini, "BeforeTool") | (AgentName::ClaudeCode | AgentName::Codex, "PreToolUse") => {
            Event::BeforeTool
        }
        (AgentName::ClaudeCode | AgentName::Codex, "PermissionRequest") => Event::Permission,
        _ => Event::Other,
    };
    let tool = match event {
        Event::Other => Tool::Other,
        Event::BeforeTool | Event::Permission if document.tool_name.is_empty() => return Err(CallError::NoTool),
        Event::BeforeTool | Event::Permission => tool(agent, &document.tool_name, &document.tool_input)?,
    };
    let input = match document.tool_input {
        Value::Object(input) => input,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    };
    Ok(Call { agent, event, session: document.session_id, cwd: document.cwd, tool, input })
}

/// The tools, by their names in each agent.
fn tool(agent: AgentName, name: &str, given: &Value) -> Result<Tool, CallError> {
    let none = Map::new();
    let input = given.as_object().unwrap_or(&none);
    let texts = if is_of_prose(agent, name) { Texts::Prose } else { Texts::Judged };
    let text = |field: &'static str| match input.get(field) {
        Some(Value::String(text)) => Ok(text.clone()),
        _ => Err(CallError::Missing { tool: name.to_owned(), field }),
    };
    let path = |field: &'static str| text(field).map(PathBuf::from);
    // By default they search below their working directory.
    let below = |field: &'static str| match input.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(_) => path(field).map(Some),
    };
    let listed = |field: &'static str| {
        let texts = input.get(field).and_then(Value::as_array).map(|all| all.iter().map(Value::as_str));
        let texts: Option<Vec<&str>> = texts.and_then(Iterator::collect);
        let texts = texts.ok_or_else(|| CallError::Missing { tool: name.to_owned(), field })?;
        Ok::<_, CallError>(texts.into_iter().map(String::from).collect())
    };
    Ok(match (agent, name) {
        (AgentName::ClaudeCode, "Bash") => Tool::Shell { line: text("command")?, next: NextLine::Follows },
        (AgentName::Codex, "Bash") | (AgentName::Gemini, "run_shell_command") => {
            Tool::Shell { line: text("command")?, next: NextLine::StartsAnew }
        }
        (AgentName::ClaudeCode, "Monitor") => monitor(name, input)?,
        (AgentName::Codex, "apply_patch") => Tool::Write { paths: patched(&text("command")?) },
        (AgentName::ClaudeCode, "Write" | "Edit" | "MultiEdit") | (AgentName::Gemini, "write_file" | "replace") => {
            Tool::Write { paths: vec![path("file_path")?] }
        }
        (AgentName::ClaudeCode, "NotebookEdit") => Tool::Write { paths: vec![path("notebook_path")?] },
        (AgentName::ClaudeCode, "Read") | (AgentName::Gemini, "read_file") => Tool::Read { path: path("file_path")? },
        (AgentName::ClaudeCode, "Glob") => Tool::Search { below: below("path")?, patterns: vec![text("pattern")?] },
        (AgentName::ClaudeCode, "Grep") => Tool::Search { below: below("path")?, patterns: within(input.get("glob")) },
        (AgentName::Gemini, "list_directory") => Tool::Read { path: path("dir_path")? },
        (AgentName::Gemini, "glob") => Tool::Search { below: below("dir_path")?, patterns: vec![text("pattern")?] },
        (AgentName::Gemini, "grep_search" | "search_file_content") => {
            Tool::Search { below: below("dir_path")?, patterns: within(input.get("include_pattern")) }
        }
        (AgentName::Gemini, "read_many_files") => Tool::Search { below: None, patterns: listed("include")? },
        (AgentName::ClaudeCode, "WebFetch") => Tool::Fetch { urls: vec![text("url")?] },
        // A setting of gemini-cli decides which of the two it uses.
        (AgentName::Gemini, "web_fetch") => {
            let url = if input.contains_key("url") { Some(text("url")?) } else { None };
            let prompt = if url.is_none() || input.contains_key("prompt") { text("prompt")? } else { String::new() };
            Tool::Fetch { urls: with_raw_pages(url.into_iter().chain(addresses(&prompt)?).collect()) }
        }
        // Its commands come to no hook.
        (AgentName::ClaudeCode, "Skill") => Tool::Skill,
        (_, name) if is_own_server(name) => Tool::Other,
        (_, name) => {
            let commands = given_command::found(given, texts);
            if commands.is_empty() { Tool::Other } else { Tool::Unknown { name: name.to_owned(), commands } }
        }
    })
}

/// Claude Code's `Monitor`: a shell line whose output it watches, or a WebSocket.
fn monitor(name: &str, input: &Map<String, Value>) -> Result<Tool, CallError> {
    let missing = |field| CallError::Missing { tool: name.to_owned(), field };
    let given = |field: &str| input.get(field).filter(|value| !value.is_null());
    match (given("command"), given("ws"), given("url")) {
        (Some(Value::String(line)), None, None) => Ok(Tool::Shell { line: line.clone(), next: NextLine::StartsAnew }),
        (Some(_), None, None) | (None, None, None) => Err(missing("command")),
        (None, ws, url) => {
            let ws = ws.map(|ws| ws.get("url").unwrap_or(&Value::Null));
            let urls: Option<Vec<&str>> = ws.into_iter().chain(url).map(Value::as_str).collect();
            let urls = urls.ok_or_else(|| missing("ws.url"))?;
            Ok(Tool::Fetch { urls: urls.into_iter().map(String::from).collect() })
        }
        (Some(_), _, _) => Err(CallError::Both { tool: name.to_owned(), one: "command", other: "ws" }),
    }
}

/// Tools of the agents whose texts are for a model or a person, and hold no command of their own: what comes of them
/// comes to the hook again.
fn is_of_prose(agent: AgentName, name: &str) -> bool {
    match agent {
        AgentName::ClaudeCode => matches!(
            name,
            "Agent"
                | "AskUserQuestion"
                | "EnterPlanMode"
                | "ExitPlanMode"
                | "LSP"
                | "ListMcpResourcesTool"
                | "ReadMcpResourceTool"
                | "SendMessage"
                | "StructuredOutput"
                | "Task"
                | "TaskCreate"
                | "TaskGet"
                | "TaskList"
                | "TaskOutput"
                | "TaskStop"
                | "TaskUpdate"
                | "TodoWrite"
                | "ToolSearch"
                | "WebSearch"
        ),
        AgentName::Codex => matches!(
            name,
            "request_user_input"
                | "send_input"
                | "send_message"
                | "spawn_agent"
                | "update_plan"
                | "view_image"
                | "web_search"
        ),
        AgentName::Gemini => matches!(
            name,
            "activate_skill"
                | "ask_user"
                | "cli_help"
                | "codebase_investigator"
                | "complete_task"
                | "enter_plan_mode"
                | "exit_plan_mode"
                | "generalist"
                | "get_internal_docs"
                | "google_web_search"
                | "invoke_agent"
                | "save_memory"
                | "update_topic"
                | "write_todos"
        ),
        AgentName::Opencode => false,
    }
}

/// Whether a tool is one of `stockade mcp`, which judges commands itself, by the name that the manual gives the server.
/// Another server by that name is code that the agent runs already.
fn is_own_server(name: &str) -> bool {
    let tool = name.strip_prefix("mcp__stockade__").or_else(|| name.strip_prefix("mcp_stockade_"));
    matches!(tool, Some("run" | "explain" | "apply_patch" | "request_permissions" | "read_output"))
}

/// The file patterns of a text search, below its directory: every file by default. A pattern without a directory
/// matches names at any depth; several may be listed.
fn within(given: Option<&Value>) -> Vec<String> {
    let Some(Value::String(given)) = given else { return vec![String::from("**")] };
    // Exclusions (`!x`) don't restrict the search.
    let is_bound = |pattern: &&str| !pattern.is_empty() && !pattern.starts_with('!');
    let apart = given.split([' ', '\t', '\n']).chain(given.split([' ', '\t', '\n', ','])).filter(is_bound);
    let patterns: Vec<String> = apart.map(|pattern| format!("**/{}", pattern.trim_start_matches('/'))).collect();
    if patterns.is_empty() { vec![String::from("**")] } else { patterns }
}

/// The addresses in a prompt for gemini-cli's `web_fetch`: words with a scheme, as it cuts them itself. A word with two
/// is refused, since the agent and the model may read it differently.
fn addresses(prompt: &str) -> Result<Vec<String>, CallError> {
    let words = prompt.split(javascript::is_space).filter(|word| word.contains("://"));
    words
        .map(|word| match word.matches("://").count() {
            1 => Ok(word.to_owned()),
            _ => Err(CallError::Addresses(word.to_owned())),
        })
        .collect()
}

/// gemini-cli fetches pages of files on GitHub from another host.
fn with_raw_pages(mut urls: Vec<String>) -> Vec<String> {
    if urls.iter().any(|url| url.to_lowercase().contains("github.com") && url.contains("/blob/")) {
        urls.push(String::from("https://raw.githubusercontent.com/"));
    }
    urls
}

/// The files that codex's envelope of a patch names.
pub(super) fn patched(patch: &str) -> Vec<PathBuf> {
    let heads = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];
    let named = |line: &str| heads.iter().find_map(|head| line.trim().strip_prefix(head)).map(PathBuf::from);
    patch.lines().filter_map(named).collect()
}

/// Whether a line with a patch changes the directory before it: codex places the files in that one.
pub(super) fn leaves_directory(line: &str) -> bool {
    let before = line.split_once("*** Begin Patch").map_or(line, |(before, _)| before);
    before.split(|c: char| !c.is_alphanumeric()).any(|word| matches!(word, "cd" | "pushd" | "popd"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AGENTS: [AgentName; 3] = [AgentName::ClaudeCode, AgentName::Codex, AgentName::Gemini];

    fn document(event: &str, tool: &str, input: &str) -> String {
        format!(
            r#"{{"session_id":"s","cwd":"/w","hook_event_name":"{event}","tool_name":"{tool}","tool_input":{input},"new":1}}"#
        )
    }

    #[test]
    fn the_tools_of_each_agent_are_known() {
        let shell = |next| Tool::Shell { line: String::from("ls"), next };
        let (follows, anew) = (shell(NextLine::Follows), shell(NextLine::StartsAnew));
        let unknown =
            |name: &str, command: &str| Tool::Unknown { name: name.to_owned(), commands: vec![command.to_owned()] };
        let fetch = |urls: &[&str]| Tool::Fetch { urls: urls.iter().map(|url| (*url).to_owned()).collect() };
        let search = |below: Option<&str>, patterns: &[&str]| Tool::Search {
            below: below.map(PathBuf::from),
            patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        };
        let file = |path: &str| Tool::Write { paths: vec![PathBuf::from(path)] };
        for (agent, event, tool, input, expected) in [
            (AgentName::ClaudeCode, "PreToolUse", "Bash", r#"{"command":"ls"}"#, follows),
            (AgentName::Codex, "PreToolUse", "Bash", r#"{"command":"ls"}"#, anew.clone()),
            (AgentName::Gemini, "BeforeTool", "run_shell_command", r#"{"command":"ls"}"#, anew.clone()),
            (AgentName::ClaudeCode, "PreToolUse", "Monitor", r#"{"command":"ls","ws":null}"#, anew),
            (
                AgentName::ClaudeCode,
                "PreToolUse",
                "Monitor",
                r#"{"ws":{"url":"wss://a.example/"}}"#,
                fetch(&["wss://a.example/"]),
            ),
            (
                AgentName::Gemini,
                "BeforeTool",
                "web_fetch",
                r#"{"url":"https://a.example/","prompt":"see https://b.example/\ufeffhttps://c.example/ x"}"#,
                fetch(&["https://a.example/", "https://b.example/", "https://c.example/"]),
            ),
            (
                AgentName::Gemini,
                "BeforeTool",
                "web_fetch",
                r#"{"prompt":"https://github.com/a/b/blob/c"}"#,
                fetch(&["https://github.com/a/b/blob/c", "https://raw.githubusercontent.com/"]),
            ),
            (AgentName::ClaudeCode, "PreToolUse", "NotebookEdit", r#"{"notebook_path":"/n"}"#, file("/n")),
            (AgentName::Gemini, "BeforeTool", "replace", r#"{"file_path":"a"}"#, file("a")),
            (AgentName::ClaudeCode, "PreToolUse", "Grep", r#"{"pattern":"x"}"#, search(None, &["**"])),
            (
                AgentName::ClaudeCode,
                "PreToolUse",
                "Grep",
                r#"{"pattern":"x","path":"/a","glob":"*.rs"}"#,
                search(Some("/a"), &["**/*.rs", "**/*.rs"]),
            ),
            (AgentName::ClaudeCode, "PreToolUse", "Glob", r#"{"pattern":"/h/*"}"#, search(None, &["/h/*"])),
            (
                AgentName::Gemini,
                "BeforeTool",
                "read_many_files",
                r#"{"include":["a","b*"]}"#,
                search(None, &["a", "b*"]),
            ),
            // Tools that are not known: what they have to say of commands counts.
            (AgentName::ClaudeCode, "PreToolUse", "mcp__a__b", r#"{"command":"ls"}"#, unknown("mcp__a__b", "ls")),
            (AgentName::ClaudeCode, "PreToolUse", "PowerShell", r#"{"command":"ls"}"#, unknown("PowerShell", "ls")),
            (AgentName::Codex, "PreToolUse", "new", r#"{"cmd":["ls","-l"]}"#, unknown("new", "ls -l")),
            (AgentName::Gemini, "BeforeTool", "new", r#"{"Shell_Command":"ls"}"#, unknown("new", "ls")),
            (AgentName::ClaudeCode, "PreToolUse", "Workflow", r#"{"script":"x"}"#, unknown("Workflow", "x")),
            (AgentName::ClaudeCode, "PreToolUse", "Task", r#"{"prompt":"ls","shell":true}"#, Tool::Other),
            (
                AgentName::ClaudeCode,
                "PreToolUse",
                "mcp__a__b",
                r#"{"args":{"cmd":"rm -rf x"}}"#,
                unknown("mcp__a__b", "rm -rf x"),
            ),
            (AgentName::Codex, "PreToolUse", "new", r#""rm -rf x""#, unknown("new", "rm -rf x")),
            (AgentName::Gemini, "BeforeTool", "new", r#"["rm","-rf"]"#, unknown("new", "rm -rf")),
            (AgentName::Gemini, "BeforeTool", "new", r#"{"q":"ls -l"}"#, unknown("new", "ls -l")),
            (AgentName::ClaudeCode, "PreToolUse", "ExitPlanMode", r#"{"plan":"1. ls -l; rm -rf x"}"#, Tool::Other),
            (AgentName::ClaudeCode, "PreToolUse", "mcp__stockade__run", r#"{"command":"ls"}"#, Tool::Other),
            (
                AgentName::Gemini,
                "BeforeTool",
                "mcp_stockade_other_run",
                r#"{"command":"ls"}"#,
                unknown("mcp_stockade_other_run", "ls"),
            ),
            (AgentName::ClaudeCode, "PostToolUse", "Bash", "{}", Tool::Other),
        ] {
            assert_eq!(read(agent, document(event, tool, input).as_bytes()).unwrap().tool, expected, "{tool}");
        }
        let patch =
            "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** Add File: c\n+z\n*** End Patch";
        assert_eq!(patched(patch), ["a", "b", "c"].map(PathBuf::from));
        for before in ["cd sub && apply_patch <<'E'\n", "cd\t/etc;apply_patch <<E\n", "(pushd x) && apply_patch <<E\n"]
        {
            assert!(leaves_directory(&format!("{before}{patch}")), "{before}");
        }
        assert!(!leaves_directory("apply_patch <<'E'\n*** Begin Patch\n*** Add File: cd\n+cd x\n*** End Patch\nE"));
    }

    #[test]
    fn a_known_tool_without_what_is_judged_is_an_error() {
        for (tool, input) in [
            ("Bash", "{}"),
            ("Bash", r#"{"command":["ls"]}"#),
            ("Write", "null"),
            ("WebFetch", "[]"),
            ("Monitor", "{}"),
            ("Monitor", r#"{"command":["ls"]}"#),
            ("Monitor", r#"{"ws":"wss://a.example"}"#),
        ] {
            let text = document("PreToolUse", tool, input);
            assert!(matches!(read(AgentName::ClaudeCode, text.as_bytes()), Err(CallError::Missing { .. })), "{tool}");
        }
        let both = document("PreToolUse", "Monitor", r#"{"command":"ls","ws":{"url":"wss://a.example"}}"#);
        assert!(matches!(read(AgentName::ClaudeCode, both.as_bytes()), Err(CallError::Both { .. })));
        let two = document("BeforeTool", "web_fetch", r#"{"prompt":"https://a.example/https://b.example/"}"#);
        assert!(matches!(read(AgentName::Gemini, two.as_bytes()), Err(CallError::Addresses(_))));
        for text in [
            r#"{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_input":{"command":"ls"}}"#,
            r#"{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"","tool_input":{}}"#,
        ] {
            assert!(matches!(read(AgentName::ClaudeCode, text.as_bytes()), Err(CallError::NoTool)), "{text}");
        }
        for text in ["", "{", "[]", "null", "{}", r#"{"session_id":1}"#, "\u{0}"] {
            assert!(matches!(read(AgentName::ClaudeCode, text.as_bytes()), Err(CallError::Json(_))), "{text}");
        }
    }

    proptest! {
        /// Any input is parsed or refused; and a shell line is passed on unchanged.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            for agent in AGENTS {
                let _ = read(agent, &bytes);
            }
        }

        #[test]
        fn any_line_comes_through(line in any::<String>(), extra in any::<String>()) {
            let input = serde_json::json!({ "command": line, "description": extra });
            let text = document("PreToolUse", "Bash", &input.to_string());
            let call = read(AgentName::ClaudeCode, text.as_bytes()).unwrap();
            prop_assert_eq!(call.tool, Tool::Shell { line, next: NextLine::Follows });
        }

        /// A truncated or changed document is parsed or refused, never taken for a harmless one with the shell line
        /// omitted.
        #[test]
        fn damaged_documents_end_in_an_answer(at in 0usize..200, byte in any::<u8>()) {
            let mut bytes = document("PreToolUse", "Bash", r#"{"command":"rm -rf x"}"#).into_bytes();
            let at = at % bytes.len();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            for agent in AGENTS {
                let _ = read(agent, &bytes);
            }
            bytes.truncate(at);
            prop_assert!(read(AgentName::ClaudeCode, &bytes).is_err());
        }
    }
}
