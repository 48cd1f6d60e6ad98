//! `stockade hook`, as an agent starts it: one document in, one answer out, whatever the document is.

use std::ops::Deref;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::user::User;
use crate::running::home::fed;
use crate::support::{program, run, text};

/// A user with an agent's session.
pub(super) struct Hooks {
    user: User,
}

impl Deref for Hooks {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Hooks {
    pub(super) fn new() -> Self {
        Self { user: User::new() }
    }

    fn stockade(&self, arguments: &[&str]) -> Command {
        let mut command = self.user.stockade(arguments);
        let workspace = self.home.path("ws");
        command.env("CLAUDE_PROJECT_DIR", &workspace).env("GEMINI_PROJECT_DIR", workspace);
        command
    }

    /// What the hook answers; null if it says nothing.
    pub(super) fn answer(&self, agent: &str, event: &str, tool: &str, input: &Value) -> Value {
        let document = json!({
            "session_id": "one", "cwd": self.home.path("ws"), "hook_event_name": event,
            "tool_name": tool, "tool_input": input, "permission_mode": "default",
        });
        let output = fed(&mut self.stockade(&["hook", agent]), document.to_string().as_bytes());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        if printed.is_empty() { Value::Null } else { serde_json::from_str(&printed).unwrap() }
    }

    pub(super) fn bash(&self, line: &str) -> Value {
        self.answer("claude-code", "PreToolUse", "Bash", &json!({ "command": line, "timeout": 5 }))["hookSpecificOutput"].clone()
    }

    /// Runs the line that Claude Code would run for this one, as it does, and says in which directory that ended.
    fn runs(&self, line: &str) -> (String, String, String) {
        let answer = self.bash(line);
        let replaced = answer["updatedInput"]["command"].as_str().unwrap();
        let own = format!("eval {} && pwd -P >| {}", quoted(replaced), self.home.path("at").display());
        let mut command = program("bash");
        self.home.surround(&mut command);
        command.args(["-c", &own]).env("XDG_RUNTIME_DIR", self.home.path("run"));
        std::fs::remove_file(self.home.path("at")).ok();
        let output = command.output().unwrap();
        let at = std::fs::read_to_string(self.home.path("at")).unwrap_or_default();
        (text(&output.stdout), text(&output.stderr), at.trim_end().to_owned())
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn a_command_is_put_into_the_session_as_it_is() {
    let hooks = Hooks::new();
    let answer = hooks.bash("echo hi");
    assert_eq!(answer["permissionDecision"], "allow", "{answer}");
    assert_eq!(answer["updatedInput"]["timeout"], 5, "the rest of the input stays: {answer}");
    for line in
        ["echo \"a 'b' $((1+1))\"", "cat <<'E'\n$x `y` \\\nE", "printf '%s\\n' \"cd\" '!' # cd", "echo 'é\u{1f600}'"]
    {
        let mut command = program("bash");
        let expected = text(&command.args(["-c", line]).output().unwrap().stdout);
        assert_eq!(hooks.runs(line).0, expected, "{line}");
    }
}

#[test]
fn the_directory_is_where_the_line_left_it() {
    let hooks = Hooks::new();
    let ws = hooks.home.path("ws");
    for name in ["sub", "two words", "it's"] {
        std::fs::create_dir(ws.join(name)).unwrap();
    }
    for (line, expected) in [
        ("cd sub", ws.join("sub")),
        ("cd 'two words' && true", ws.join("two words")),
        ("cd \"it's\"; pwd >&2", ws.join("it's")),
        ("(cd sub)", ws.clone()),
        ("cd /etc", "/etc".into()),
        // There is none of this name outside.
        ("mkdir /tmp/inside-only && cd /tmp/inside-only", ws.clone()),
    ] {
        let (_, told, at) = hooks.runs(line);
        assert_eq!(at, expected.display().to_string(), "{line}: {told}");
    }
    // As without Stockade, a line that fails leaves the shell where it was.
    assert_eq!(hooks.runs("cd sub && false").2, "");
    assert_eq!(hooks.runs("cd sub; exit 3").2, "");
    // What a command says of its directory is a path and nothing else.
    let (out, told, at) = hooks.runs("cd sub; echo '/; touch /var/tmp/stockade-broke-out' > /proc/$$/fd/10; true");
    assert!(!std::path::Path::new("/var/tmp/stockade-broke-out").exists(), "{out} {told} {at}");
}

#[test]
fn what_is_forbidden_or_asked_is_said_with_its_reason() {
    let hooks = Hooks::new();
    let rules = "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n\
        prefix_rule(pattern = [\"git\", \"pull\"], decision = \"prompt\", justification = \"look first\")\n";
    hooks.home.write("config/stockade/rules/mine.rules", rules);
    let refused = hooks.bash("cd . && git push");
    assert_eq!(refused["permissionDecision"], "deny", "{refused}");
    assert!(refused["permissionDecisionReason"].as_str().unwrap().contains("a person pushes"), "{refused}");
    assert!(refused.get("updatedInput").is_none(), "{refused}");
    let asked = hooks.bash("git pull");
    assert_eq!(asked["permissionDecision"], "ask", "{asked}");
    assert!(asked["permissionDecisionReason"].as_str().unwrap().contains("look first"), "{asked}");
    let replaced = asked["updatedInput"]["command"].as_str().unwrap();
    assert!(replaced.contains(" --asked "), "a yes would otherwise run it bare: {asked}");
    // The dialog is answered where it need not be shown, for the line that Claude Code knows by then.
    let dialog = |line: &str| hooks.answer("claude-code", "PermissionRequest", "Bash", &json!({ "command": line }));
    assert_eq!(dialog(replaced), Value::Null);
    let allowed = dialog(hooks.bash("echo 'x'")["updatedInput"]["command"].as_str().unwrap());
    assert_eq!(allowed["hookSpecificOutput"]["decision"], json!({ "behavior": "allow" }), "{allowed}");
    let allowed = dialog("echo 'x'");
    let decision = &allowed["hookSpecificOutput"]["decision"];
    assert_eq!(decision["behavior"], "allow", "{allowed}");
    assert!(decision["updatedInput"]["command"].as_str().unwrap().ends_with(" -c 'echo '\\''x'\\'''"), "{allowed}");
    assert_eq!(dialog("git push")["hookSpecificOutput"]["decision"]["behavior"], "deny");
    // codex takes an answer other than a refusal for a broken hook, and gemini-cli can't ask without a screen.
    let input = json!({ "command": "git push" });
    assert_eq!(hooks.answer("codex", "PreToolUse", "Bash", &input)["hookSpecificOutput"]["permissionDecision"], "deny");
    let pull = hooks.answer("codex", "PreToolUse", "Bash", &json!({ "command": "git pull" }));
    assert_eq!(pull["hookSpecificOutput"]["permissionDecision"], "deny", "{pull}");
    assert_eq!(hooks.answer("codex", "PreToolUse", "Bash", &json!({ "command": "ls" })), Value::Null);
    // There, codex asks its person next.
    assert_eq!(hooks.answer("codex", "PermissionRequest", "Bash", &json!({ "command": "git pull" })), Value::Null);
    assert_eq!(hooks.answer("gemini", "BeforeTool", "run_shell_command", &input)["decision"], "deny");
    let pull = hooks.answer("gemini", "BeforeTool", "run_shell_command", &json!({ "command": "git pull" }));
    assert_eq!(pull["decision"], "deny", "{pull}");
    let told = hooks.answer("gemini", "BeforeTool", "run_shell_command", &json!({ "command": "ls" }));
    assert!(
        told["hookSpecificOutput"]["tool_input"]["command"].as_str().unwrap().contains(" hook run gemini-one "),
        "{told}"
    );
    let patch = json!({ "command": format!("*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch", hooks.home.path("config/stockade/x").display()) });
    // A patch in a shell line is applied by codex itself.
    let line = json!({ "command": format!("apply_patch <<'EOF'\n{}\nEOF", patch["command"].as_str().unwrap()) });
    for (tool, input) in [("apply_patch", &patch), ("Bash", &line)] {
        let answer = hooks.answer("codex", "PreToolUse", tool, input);
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny", "{answer}");
    }
}

/// "Always" is a rule that the question shows: written down, it answers the question from then on.
#[test]
fn the_rule_that_is_offered_answers_the_question() {
    let hooks = Hooks::new();
    hooks.home.write("config/stockade/config.toml", "ask = \"untrusted\"\n");
    let line = "touch made.txt";
    let asked = hooks.bash(line);
    assert_eq!(asked["permissionDecision"], "ask", "{asked}");
    let reason = asked["permissionDecisionReason"].as_str().unwrap();
    let Some(rule) = reason.split('`').find(|part| part.starts_with("prefix_rule(")) else { panic!("{reason}") };
    hooks.home.write("config/stockade/rules/default.rules", &format!("{rule}\n"));
    assert_eq!(hooks.bash(line)["permissionDecision"], "allow", "{rule}");
    assert_eq!(hooks.bash("touch other.txt")["permissionDecision"], "ask", "{rule}");
    let dialog = hooks.answer("claude-code", "PermissionRequest", "Bash", &json!({ "command": line }));
    assert_eq!(dialog["hookSpecificOutput"]["decision"]["behavior"], "allow", "{dialog}");
}

/// What the agent does by itself is judged like what its commands do.
#[test]
fn files_and_addresses_are_judged_by_the_same_policy() {
    let hooks = Hooks::new();
    let denied = hooks.home.path("ws/**/.env").display().to_string();
    hooks.home.write(
        "config/stockade/config.toml",
        &format!("[sandbox]\nallow_hosts = [\"docs.example.com\"]\ndeny_read = [\"/etc/hostname\", {denied:?}]\n"),
    );
    std::os::unix::fs::symlink(hooks.home.path("outside"), hooks.home.path("ws/link")).unwrap();
    std::os::unix::fs::symlink(hooks.home.path("home"), hooks.home.path("ws/link-home")).unwrap();
    hooks.home.write("home/.ssh/id_ed25519", "secret");
    let path = |below: &str| json!({ "file_path": hooks.home.path(below) });
    let url = |url: &str| json!({ "url": url });
    for (tool, input, expected) in [
        ("Write", path("ws/a"), json!("allow")),
        ("Edit", json!({ "file_path": "relative" }), json!("allow")),
        ("Write", path("outside/a"), json!("ask")),
        ("MultiEdit", path("ws/link/a"), json!("ask")),
        ("Edit", path("ws/../outside/a"), json!("ask")),
        ("Edit", path("ws/.git/config"), json!("ask")),
        ("NotebookEdit", json!({ "notebook_path": hooks.home.path("config/stockade/config.toml") }), json!("deny")),
        ("Read", json!({ "file_path": "/etc/hostname" }), json!("deny")),
        ("Read", path("home/.aws/credentials"), json!("deny")),
        ("Grep", json!({ "pattern": "x", "path": hooks.home.path("home/.ssh") }), json!("deny")),
        ("Read", json!({ "file_path": "/proc/self/root/etc/hostname" }), json!("deny")),
        ("Grep", json!({ "pattern": "x", "path": "/proc/thread-self/root/etc/hostname" }), json!("deny")),
        ("Read", json!({ "file_path": "/proc/1/environ" }), json!("deny")),
        ("Read", path("ws/a"), Value::Null),
        // `~` is the home directory to the agent.
        ("Read", json!({ "file_path": "~/.aws/credentials" }), json!("deny")),
        ("Write", json!({ "file_path": "~/x" }), json!("ask")),
        ("Grep", json!({ "pattern": "x", "path": "~/.ssh" }), json!("deny")),
        ("Grep", json!({ "pattern": "x", "path": "~", "glob": ".ssh/*" }), json!("ask")),
        ("Grep", json!({ "pattern": "x", "path": "~" }), json!("ask")),
        ("Grep", json!({ "pattern": "x", "path": "~", "glob": "*.rs" }), json!("ask")),
        ("Grep", json!({ "pattern": "x" }), Value::Null),
        ("Grep", json!({ "pattern": "x", "path": "/etc" }), json!("deny")),
        // Patterns that name what is masked, that pass by it, and that do not.
        ("Glob", json!({ "pattern": "~/.ssh/*" }), json!("deny")),
        ("Glob", json!({ "pattern": hooks.home.path("home/.ssh/**/*") }), json!("deny")),
        ("Glob", json!({ "pattern": "../home/.ssh/*" }), json!("deny")),
        ("Glob", json!({ "pattern": "link-home/.ssh/*" }), json!("deny")),
        ("Glob", json!({ "pattern": ".s?h/*", "path": "~" }), json!("ask")),
        ("Glob", json!({ "pattern": "../home/{src,.ssh}/id*" }), json!("deny")),
        ("Glob", json!({ "pattern": "/proc/*/environ" }), json!("deny")),
        ("Glob", json!({ "pattern": "*/../../x" }), json!("deny")),
        ("Glob", json!({ "pattern": "/etc/hostn*" }), json!("deny")),
        ("Glob", json!({ "pattern": "**/*.rs" }), Value::Null),
        ("Glob", json!({ "pattern": "**/.env*" }), json!("deny")),
        ("Read", path("ws/.env"), json!("deny")),
        ("Glob", json!({ "pattern": "**/*", "path": hooks.home.path("ws") }), Value::Null),
        ("WebFetch", url("https://docs.example.com/a"), json!("allow")),
        ("WebFetch", url("https://example.com/"), json!("ask")),
        ("WebFetch", url("https://docs.example.com@example.com/"), json!("deny")),
    ] {
        let answer = hooks.answer("claude-code", "PreToolUse", tool, &input);
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], expected, "{tool} {input} {answer}");
    }
}

/// Tools trim their paths, and normalize them: what they open then is judged.
#[test]
fn paths_are_judged_as_the_agent_reads_them() {
    let hooks = Hooks::new();
    hooks.home.write("home/.ssh/id_ed25519", "secret");
    let (ssh, outside) = (hooks.home.path("home/.ssh"), hooks.home.path("outside"));
    let (ssh, outside) = (ssh.display(), outside.display());
    let denied = ["jos\u{e9}", "\u{9cb}", "K"].map(|name| {
        hooks.home.write(&format!("ws/{name}"), "secret");
        hooks.home.path("ws").join(name)
    });
    hooks.home.write("config/stockade/config.toml", &format!("[sandbox]\ndeny_read = {}\n", json!(denied)));
    for (tool, input, expected) in [
        ("Grep", json!({ "pattern": "x", "path": format!(" {ssh}") }), json!("deny")),
        ("Grep", json!({ "pattern": "x", "path": format!("{ssh} ") }), json!("deny")),
        ("Grep", json!({ "pattern": "x", "path": "\t~/.ssh" }), json!("deny")),
        ("Glob", json!({ "pattern": "*", "path": format!("\u{feff}{ssh}\u{a0}") }), json!("deny")),
        ("Glob", json!({ "pattern": format!(" {ssh}/*") }), json!("deny")),
        ("Glob", json!({ "pattern": "id*", "path": " ~/.ssh " }), json!("deny")),
        ("Read", json!({ "file_path": format!("\n{ssh}/id_ed25519") }), json!("deny")),
        ("Read", json!({ "file_path": format!("{ssh}/id_ed25519\u{2003}") }), json!("deny")),
        ("Write", json!({ "file_path": format!(" {outside}/a") }), json!("ask")),
        ("Write", json!({ "file_path": " a " }), json!("allow")),
        // Claude Code makes one letter of an accent and the letter before it; other programs make two of one.
        ("Read", json!({ "file_path": "jos\u{e9}" }), json!("deny")),
        ("Read", json!({ "file_path": "jose\u{301}" }), json!("deny")),
        ("Glob", json!({ "pattern": "*", "path": "jose\u{301}" }), json!("deny")),
        ("Glob", json!({ "pattern": "**/jose\u{301}" }), json!("deny")),
        ("Read", json!({ "file_path": "\u{9c7}\u{9be}" }), json!("deny")),
        ("Read", json!({ "file_path": "\u{9cb}" }), json!("deny")),
        // The Kelvin sign becomes a `K`.
        ("Read", json!({ "file_path": "\u{212a}" }), json!("deny")),
        ("Read", json!({ "file_path": "z\u{e9}" }), Value::Null),
        ("Write", json!({ "file_path": "ze\u{301}" }), json!("allow")),
    ] {
        let answer = hooks.answer("claude-code", "PreToolUse", tool, &input);
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], expected, "{tool} {input} {answer}");
    }
    let list = hooks.answer("gemini", "BeforeTool", "list_directory", &json!({ "dir_path": format!(" {ssh}") }));
    assert_eq!(list["decision"], "deny", "{list}");
}

/// A shell by another name, a WebSocket, and tools that are not known but are given a command.
#[test]
fn other_tools_that_run_commands_are_judged() {
    let hooks = Hooks::new();
    let rules =
        "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n";
    hooks.home.write("config/stockade/rules/mine.rules", rules);
    let settings = "[sandbox]\nallow_hosts = [\"docs.example.com\"]\n";
    hooks.home.write("config/stockade/config.toml", settings);
    let claude = |tool: &str, input: Value| {
        hooks.answer("claude-code", "PreToolUse", tool, &input)["hookSpecificOutput"].clone()
    };
    let watched = claude("Monitor", json!({ "command": "cd . && tail log", "timeout_ms": 5000 }));
    assert_eq!(watched["permissionDecision"], "allow", "{watched}");
    let line = watched["updatedInput"]["command"].as_str().unwrap();
    assert!(line.contains(" hook run claude-code-one -c 'cd . && tail log'"), "{line}");
    assert_eq!(watched["updatedInput"]["timeout_ms"], 5000, "{watched}");
    let dialog = hooks.answer("claude-code", "PermissionRequest", "Monitor", &json!({ "command": line }));
    assert_eq!(dialog["hookSpecificOutput"]["decision"]["behavior"], "allow", "{dialog}");
    for (tool, input, expected) in [
        ("Monitor", json!({ "command": "git push" }), json!("deny")),
        ("Monitor", json!({ "ws": { "url": "wss://docs.example.com/x" } }), json!("allow")),
        ("Monitor", json!({ "ws": { "url": "wss://example.com/x" } }), json!("ask")),
        ("PowerShell", json!({ "command": "ls" }), json!("ask")),
        ("mcp__other__exec", json!({ "cmd": ["ls"] }), json!("ask")),
        ("mcp__other__exec", json!({ "command": "git push" }), json!("deny")),
        ("Workflow", json!({ "script": "x" }), json!("ask")),
        // However the field is named and wherever it stands.
        ("mcp__other__exec", json!({ "args": { "cmd": "rm -rf x" } }), json!("ask")),
        ("mcp__other__exec", json!({ "steps": [{ "shellCommand": ["git", "push"] }] }), json!("deny")),
        ("mcp__other__exec", json!({ "args": ["push"], "program": "git" }), json!("deny")),
        ("New", json!("git push"), json!("deny")),
        ("New", json!({ "q": "ls -l && git push" }), json!("deny")),
        ("New", json!({ "q": "find the test that fails" }), Value::Null),
        ("Skill", json!({ "skill": "x" }), json!("ask")),
        // `stockade mcp` judges by itself.
        ("mcp__stockade__run", json!({ "command": "ls" }), Value::Null),
        ("Task", json!({ "prompt": "run the command ls" }), Value::Null),
    ] {
        let answer = claude(tool, input.clone());
        assert_eq!(answer["permissionDecision"], expected, "{tool} {input} {answer}");
    }
    let unknown = json!({ "command": "ls" });
    let refused = hooks.answer("gemini", "BeforeTool", "new_shell", &unknown);
    assert_eq!(refused["decision"], "deny", "{refused}");
    assert!(refused["reason"].as_str().unwrap().contains("`run_shell_command` runs it inside"), "{refused}");
    let refused = hooks.answer("codex", "PreToolUse", "new_shell", &unknown);
    assert_eq!(refused["hookSpecificOutput"]["permissionDecision"], "deny", "{refused}");
    hooks.home.write("config/stockade/config.toml", &format!("ask = \"never\"\n{settings}"));
    assert_eq!(claude("PowerShell", unknown)["permissionDecision"], "deny");
}

/// gemini-cli fetches every address in its prompt, which it cuts at JavaScript's whitespace.
#[test]
fn every_address_of_gemini_is_judged() {
    let hooks = Hooks::new();
    hooks.home.write("config/stockade/config.toml", "[sandbox]\nallow_hosts = [\"docs.example.com\"]\n");
    let (good, bad) = ("https://docs.example.com/", "https://example.com/");
    let fetch = |input: Value| hooks.answer("gemini", "BeforeTool", "web_fetch", &input)["decision"].clone();
    assert_eq!(fetch(json!({ "prompt": format!("see {good} and {good}x") })), Value::Null);
    assert_eq!(fetch(json!({ "url": good })), Value::Null);
    for input in [
        json!({ "url": good, "prompt": format!("see {bad}") }),
        json!({ "url": bad, "prompt": format!("see {good}") }),
        json!({ "prompt": format!("see {good}\u{feff}{bad}") }),
        json!({ "prompt": format!("see {good}\u{2028}{bad}") }),
    ] {
        assert_eq!(fetch(input.clone()), "deny", "{input}");
    }
    let document = json!({
        "session_id": "one", "cwd": hooks.home.path("ws"), "hook_event_name": "BeforeTool", "tool_name": "web_fetch",
        "tool_input": { "prompt": format!("see {good}{bad}") },
    });
    let output = fed(&mut hooks.stockade(&["hook", "gemini"]), document.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
}

/// What an answer advises is tried here: it has to work.
#[test]
fn advice_about_files_and_sandboxes_is_true() {
    let hooks = Hooks::new();
    std::fs::create_dir(hooks.home.path("ws/.git")).unwrap();
    for name in [".git/config", ".claude/settings.json"] {
        let file = json!({ "file_path": hooks.home.path("ws").join(name) });
        let write = || hooks.answer("claude-code", "PreToolUse", "Write", &file)["hookSpecificOutput"].clone();
        let asked = write();
        assert_eq!(asked["permissionDecision"], "ask", "{asked}");
        let reason = asked["permissionDecisionReason"].as_str().unwrap();
        if let Some(made) = reason.split("after `mkdir -p ").nth(1) {
            std::fs::create_dir(made.split('`').next().unwrap()).unwrap();
        }
        let line = reason.split('`').find(|part| part.starts_with("writable_roots = ")).unwrap();
        hooks.home.write("config/stockade/config.toml", &format!("[sandbox]\n{line}\n"));
        assert_eq!(write()["permissionDecision"], "allow", "{reason}");
        hooks.home.write("config/stockade/config.toml", "");
    }
    hooks.home.write("config/stockade/config.toml", "sandbox.mode = \"danger-full-access\"\n");
    let bare = hooks.bash("ls");
    assert!(bare["permissionDecisionReason"].as_str().unwrap().contains("settings turn it off"), "{bare}");
    // A line that no shell takes as an argument.
    let long = hooks.bash(&format!("true {}", "'x' ".repeat(40_000)));
    assert_eq!(long["permissionDecision"], "deny");
    assert!(long["permissionDecisionReason"].as_str().unwrap().contains("write it into a file"), "{long}");
}

/// A person's yes is for the question that was put, and a session can't be had by its name alone.
#[test]
fn a_line_runs_only_in_a_session_that_a_hook_has_opened() {
    let hooks = Hooks::new();
    let output = hooks.stockade(&["hook", "run", "none", "-c", "echo x > made"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(
        text(&output.stderr).contains("there is no session `none`: an agent's hook opens it")
            && !hooks.home.exists("ws/made"),
        "{}",
        text(&output.stderr)
    );
    // Inside of a session neither the server nor its tickets are there.
    let inner = format!("{} hook run claude-code-one --asked -c 'echo x > made'", hooks.home.words()[0].display());
    let (_, told, _) = hooks.runs(&inner);
    assert!(!hooks.home.exists("ws/made"), "{told}");
}

/// Agents go on without a hook that dies by a signal: whatever becomes of the judging, there is an answer.
#[test]
fn a_crash_is_a_refusal() {
    let hooks = Hooks::new();
    for (agent, signal) in [("claude-code", "ABRT"), ("codex", "ILL"), ("gemini", "KILL")] {
        let mut command = hooks.stockade(&["hook", agent]);
        let hook = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(run(program("kill").args([&format!("-{signal}"), &judging(hook.id())]), 0).stdout.is_empty());
        let output = hook.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(
            output.stdout.is_empty() && text(&output.stderr).contains("ended by signal"),
            "{}",
            text(&output.stderr)
        );
    }
    // Too little memory for the document ends the judging process itself.
    let document = json!({
        "session_id": "one", "cwd": "/", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": { "command": "x".repeat(48 << 20) },
    });
    let mut limited = program("bash");
    hooks.home.surround(&mut limited);
    limited
        .args(["-c", "ulimit -c 0; ulimit -v 150000; exec \"$@\" hook claude-code", "bash"])
        .args(hooks.home.words());
    let output = fed(&mut limited, document.to_string().as_bytes());
    assert_eq!(output.status.code(), Some(2), "{:?} {}", output.status, text(&output.stderr));
    assert!(output.stdout.is_empty());
}

/// An agent goes on without a hook that ends with another code than that of a refusal.
#[test]
fn arguments_that_are_not_understood_refuse() {
    let hooks = Hooks::new();
    for arguments in [&["--limit", "5"][..], &["--bogus"]] {
        let output = hooks.stockade(&[&["hook", "claude-code"], arguments].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {}", text(&output.stderr));
    }
}

/// A judging process that does nothing any more is not waited for; one whose parent is gone does not stay.
#[test]
fn a_judgement_that_hangs_ends() {
    let hooks = Hooks::new();
    let started = Instant::now();
    let mut command = hooks.stockade(&["hook", "claude-code", "--limit", "1s"]);
    let hook = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    run(program("kill").args(["-STOP", &judging(hook.id())]), 0);
    let output = hook.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("took more than 3 seconds"), "{}", text(&output.stderr));
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());

    let mut command = hooks.stockade(&["hook", "claude-code"]);
    let mut hook = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let child = judging(hook.id());
    hook.kill().unwrap();
    hook.wait().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while std::fs::read_to_string(format!("/proc/{child}/stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < end, "{child} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The process that judges for a hook.
fn judging(hook: u32) -> String {
    let end = Instant::now() + Duration::from_secs(5);
    loop {
        let children = std::fs::read_to_string(format!("/proc/{hook}/task/{hook}/children")).unwrap_or_default();
        if let Some(child) = children.split_whitespace().next() {
            return child.to_owned();
        }
        assert!(Instant::now() < end, "the hook judges by itself");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_no_document_of_an_agent_blocks() {
    let hooks = Hooks::new();
    let long = format!("{{\"session_id\":\"{}\"}}", "x".repeat(1 << 20));
    for input in [
        "",
        "{",
        "null",
        "[]",
        "{}",
        "\u{0}",
        &long,
        r#"{"session_id":"a","cwd":"/","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{}}"#,
        r#"{"session_id":"a","cwd":"/","hook_event_name":"PreToolUse","tool_input":{"command":"ls"}}"#,
        r#"{"session_id":"a","cwd":"/","hook_event_name":"PreToolUse","tool_name":7,"tool_input":{"command":"ls"}}"#,
    ] {
        for agent in ["claude-code", "codex", "gemini"] {
            if agent == "gemini" && input.contains("PreToolUse") {
                continue;
            }
            let output = fed(&mut hooks.stockade(&["hook", agent]), input.as_bytes());
            assert_eq!(output.status.code(), Some(2), "{agent} {}", text(&output.stdout));
            assert!(output.stdout.is_empty() && text(&output.stderr).starts_with("stockade: "), "{agent}");
        }
    }
    for (session, cwd) in [("", "/"), ("../x", "/"), ("a b", "/"), ("a", "relative"), ("a", "/a\u{0}b")] {
        let input = json!({ "session_id": session, "cwd": cwd, "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "ls" } });
        let output = fed(&mut hooks.stockade(&["hook", "claude-code"]), input.to_string().as_bytes());
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["hookSpecificOutput"]["permissionDecision"], "deny", "{answer}");
    }
    // What is not judged here is not spoken of.
    assert_eq!(hooks.answer("claude-code", "PreToolUse", "Task", &json!({})), Value::Null);
    assert_eq!(hooks.answer("claude-code", "PostToolUse", "Bash", &json!({})), Value::Null);
}

/// A hook that can't decide in time has the person asked, about a line that runs in the sandbox all the same.
#[test]
fn an_answer_is_never_late() {
    let hooks = Hooks::new();
    hooks.bash("true");
    // Another client holds what is needed to open the session, and does not let go.
    run(&mut hooks.stockade(&["session", "end", "--all"]), 0);
    let lock = hooks.home.path("run/stockade/.open-claude-code-one.lock");
    let file = std::fs::File::create(lock).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let document = json!({ "session_id": "one", "cwd": hooks.home.path("ws"), "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": { "command": "ls" } });
    let start = Instant::now();
    let output = fed(&mut hooks.stockade(&["hook", "claude-code", "--limit", "1s"]), document.to_string().as_bytes());
    assert!(start.elapsed() < Duration::from_secs(10));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "ask", "{answer}");
    let replaced = answer["updatedInput"]["command"].as_str().unwrap();
    assert!(replaced.contains(" hook run ") && !replaced.contains("--asked"), "{answer}");
}

/// Inside a sandbox of Stockade no other one is built, which is said: what holds there, and what to type.
#[test]
fn inside_a_sandbox_it_is_said_what_holds() {
    let hooks = Hooks::new();
    let program = hooks.home.path("stockade").display().to_string();
    let document = json!({
        "session_id": "one", "cwd": hooks.home.path("ws"), "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": { "command": "ls" },
    });
    hooks.home.write("ws/document.json", &document.to_string());
    for line in
        ["run -- touch made", "explain -- true", "exec-server", "hook run one -c true", "run --session x -- touch made"]
    {
        let output = hooks.stockade(&["run", "-c", &format!("'{program}' {line} </dev/null")]).output().unwrap();
        let told = text(&output.stderr);
        assert!(told.contains("inside a sandbox of Stockade already"), "{line}: {told}");
        assert_eq!((output.status.code(), hooks.home.exists("ws/made")), (Some(125), false), "{line}: {told}");
    }
    let line = format!("CLAUDE_PROJECT_DIR=\"$PWD\" '{program}' hook claude-code < document.json");
    let output = hooks.stockade(&["run", "-c", &line]).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let answer = &answer["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "ask", "{answer}");
    assert!(
        answer["permissionDecisionReason"].as_str().unwrap().contains("the whole agent runs in a sandbox"),
        "{answer}"
    );
}
