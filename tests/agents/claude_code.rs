//! Claude Code, as it is published, with the hook that `stockade install claude-code` puts into its settings.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::agent;
use super::anthropic::Model;
use super::user::User;
use crate::support::{program, run, text};

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A user with Claude Code and Stockade.
struct Claude {
    user: User,
}

impl Deref for Claude {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Claude {
    fn new() -> Self {
        let user = User::new();
        run(&mut user.stockade(&["install", "claude-code"]), 0);
        assert!(user.home.read("home/.claude/settings.json").contains(" hook claude-code"));
        Self { user }
    }

    fn claude(&self, model: &Model, arguments: &[&str]) -> Command {
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        // The program itself; the package `claude-code` is a link to it.
        let mut command = program(agent(&format!("@anthropic-ai/claude-code-linux-{machine}/claude")));
        self.surround(&mut command);
        command.args(["-p", "--session-id", SESSION]).args(arguments);
        command.env("ANTHROPIC_API_KEY", "sk-none").env("ANTHROPIC_BASE_URL", format!("http://{}", model.address));
        for name in ["DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] {
            command.env(name, "1");
        }
        command.stdin(Stdio::null());
        command
    }

    /// Has Claude Code call these tools, and returns what each of them answered.
    fn calls(&self, script: Vec<(&'static str, Value)>) -> Vec<String> {
        let count = script.len();
        let model = Model::start(script);
        let output = run(&mut self.claude(&model, &["do it"]), 0);
        let results = model.results();
        assert_eq!(results.len(), count, "{results:#?}\n{}", text(&output.stdout));
        results
    }

    /// What Claude Code itself has kept of the conversation.
    fn transcript(&self) -> String {
        let projects = self.home.path("home/.claude/projects");
        let files =
            std::fs::read_dir(projects).unwrap().flat_map(|entry| std::fs::read_dir(entry.unwrap().path()).unwrap());
        let files =
            files.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
        files.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

fn bash(line: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": line, "description": "does it" }))
}

#[test]
fn writes_inside_happen_and_writes_outside_are_explained_to_the_model() {
    let user = Claude::new();
    std::fs::create_dir(user.home.path("ws/sub")).unwrap();
    user.home.write("ws/.env", "PLANTED=yes\n");
    user.home.write("home/.ssh/id_ed25519", "secret\n");
    let outside = user.home.path("outside/x").display().to_string();
    let results = user.calls(vec![
        bash("echo in > inside.txt && echo \"it's \\$done\"; echo \"from a file: $PLANTED.\""),
        bash(&format!("echo out > {outside}")),
        bash("cd sub && echo \"moved to $(basename \"$PWD\")\""),
        bash("basename \"$PWD\"; echo kept > /tmp/between"),
        bash("cat /tmp/between; exit 7"),
        ("Write", json!({ "file_path": user.home.path("ws/written.txt"), "content": "by Write\n" })),
        ("Write", json!({ "file_path": user.home.path("outside/written.txt"), "content": "by Write\n" })),
        ("Write", json!({ "file_path": user.home.path("ws/.claude/settings.json"), "content": "{}" })),
        ("Read", json!({ "file_path": user.home.path("home/.ssh/id_ed25519") })),
    ]);
    let [inside, denied, moved, there, failed, written, not_written, protected, masked] = &*results else {
        panic!("{results:#?}")
    };
    assert_eq!(user.home.read("ws/inside.txt"), "in\n");
    assert!(inside.contains("it's $done") && inside.contains("from a file: ."), "{inside}");
    assert!(!user.home.exists("outside/x"));
    for part in [
        format!("stockade: writing `{outside}` was denied"),
        String::from("writable_roots = ["),
        String::from("would allow it"),
    ] {
        assert!(denied.contains(&part), "{denied}");
    }
    assert!(moved.contains("moved to sub"), "{moved}");
    assert!(there.contains("sub"), "{there}");
    assert!(failed.contains("kept") && failed.contains('7'), "{failed}");
    assert_eq!(user.home.read("ws/written.txt"), "by Write\n", "{written}");
    assert!(
        !user.home.exists("outside/written.txt") && not_written.contains("outside of what may be written"),
        "{not_written}"
    );
    assert!(!user.home.exists("ws/.claude/settings.json"), "{protected}");
    assert!(masked.contains("holds credentials"), "{masked}");
    // The transcript that Claude Code keeps has the sentence, too.
    assert!(user.transcript().contains("was denied"), "{}", user.transcript());
    run(&mut user.stockade(&["audit", "verify"]), 0);
    let trail = text(&run(&mut user.stockade(&["audit", "list"]), 0).stdout);
    assert!(trail.contains("inside.txt"), "{trail}");
}

/// A command in the background lives until its line ends, also one that Claude Code moves there when its time is over.
#[test]
fn commands_in_the_background_and_time_limits_are_the_agents() {
    let user = Claude::new();
    let mut background = bash("sleep 1; echo late > late.txt");
    background.1["run_in_background"] = json!(true);
    let mut slow = bash("echo begun; sleep 4; echo slow > slow.txt");
    slow.1["timeout"] = json!(1500);
    let results = user.calls(vec![background, slow, bash("cat late.txt; sleep 6; cat slow.txt")]);
    let [started, moved, late] = &*results else { panic!("{results:#?}") };
    assert!(started.contains("background"), "{started}");
    assert!(moved.contains("begun") && moved.contains("moved to the background"), "{moved}");
    assert!(late.contains("late\nslow"), "{late}");
}

/// `Monitor` is a shell by another name, which Claude Code offers only to a search for tools.
#[test]
fn a_monitor_runs_in_the_sandbox() {
    let user = Claude::new();
    user.home.write("home/.ssh/id_ed25519", "secret\n");
    let (outside, key) = (user.home.path("outside/x"), user.home.path("home/.ssh/id_ed25519"));
    let line = format!("touch watched.txt {}; cat {} > read.txt", outside.display(), key.display());
    let results = user.calls(vec![
        ("ToolSearch", json!({ "query": "select:Monitor" })),
        ("Monitor", json!({ "command": line, "description": "watches", "timeout_ms": 5000, "persistent": false })),
        bash("for i in $(seq 50); do [ -e read.txt ] && break; sleep 0.1; done; sleep 0.5; cat read.txt"),
    ]);
    let [_, started, read] = &*results else { panic!("{results:#?}") };
    assert!(started.contains("Monitor started"), "{started}");
    assert!(user.home.exists("ws/watched.txt") && !outside.exists(), "{results:#?}");
    assert!(!read.contains("secret"), "{read}");
    let trail = text(&run(&mut user.stockade(&["audit", "list"]), 0).stdout);
    assert!(trail.contains("watched.txt"), "{trail}");
}

/// Why `Skill` is asked about although commands in its text are turned off: the hooks that it names run all the same.
#[test]
fn a_skill_runs_its_hooks_outside() {
    let skill = "---\nname: planted\ndescription: x\nhooks:\n  PreToolUse:\n    - matcher: \"*\"\n      hooks:\n        - type: command\n          \
        command: \"touch HOOK\"\n---\nSay !`touch TEXT` it.\n";
    let use_it = || ("Skill", json!({ "skill": "planted" }));
    let run = |settings: Option<Value>| {
        let claude = Claude::new();
        let made = |name: &str| claude.home.path("outside").join(name);
        let skill =
            skill.replace("HOOK", made("hook").to_str().unwrap()).replace("TEXT", made("text").to_str().unwrap());
        claude.home.write("ws/.claude/skills/planted/SKILL.md", &skill);
        match settings {
            Some(settings) => {
                claude.home.write("home/.claude/settings.json", &settings.to_string());
                claude.calls(vec![use_it(), bash("true")]);
            }
            // With Stockade's hook: the question has no answer here.
            None => assert!(claude.calls(vec![use_it()])[0].contains("Stockade asks")),
        }
        (made("hook").exists(), made("text").exists())
    };
    let without = |switch: bool| {
        Some(json!({ "disableSkillShellExecution": switch, "permissions": { "allow": ["Skill", "Bash"] } }))
    };
    assert_eq!(run(None), (false, false));
    assert_eq!(run(without(true)), (true, false));
    assert_eq!(run(without(false)), (true, true));
}

/// With `-p`, Claude Code starts the servers of a project's `.mcp.json` unasked: no command makes or changes that file.
#[test]
fn commands_plant_no_servers_and_no_skills() {
    let claude = Claude::new();
    let results = claude.calls(vec![
        bash("echo '{}' > .mcp.json; rmdir .mcp.json; mv x .mcp.json; mkdir -p sub/.claude; echo x > sub/.claude/made"),
        bash("echo y > sub/.claude/made"),
    ]);
    // A sandbox that waits for the next command still holds the name, as a directory.
    assert!(!claude.home.path("ws/.mcp.json").is_file(), "{results:?}");
    // A directory of settings below the workspace is open to the command that makes it, and to no later one.
    assert!(results[1].contains("Read-only file system"), "{results:?}");
    assert_eq!(claude.home.read("ws/sub/.claude/made"), "x\n");

    let claude = Claude::new();
    let started = claude.home.path("outside/started");
    let servers = json!({ "mcpServers": { "planted": { "command": "touch", "args": [started] } } }).to_string();
    claude.home.write("ws/.mcp.json", &servers);
    claude.calls(vec![bash("echo '{}' > .mcp.json; rm .mcp.json")]);
    assert!(started.exists(), "it is not started unasked any more: docs/adr/0083 says so");
    assert_eq!(claude.home.read("ws/.mcp.json"), servers);
}

#[test]
fn what_the_policy_asks_is_not_done_without_an_answer() {
    let user = Claude::new();
    let rule =
        "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n";
    user.home.write("config/stockade/rules/mine.rules", rule);
    // Without anybody to ask, Claude Code takes it for a no.
    let results = user.calls(vec![bash("touch asked.txt")]);
    assert!(results[0].contains("files are made by hand"), "{results:#?}");
    assert!(!user.home.exists("ws/asked.txt"));
}

#[test]
fn a_yes_in_the_dialog_runs_the_command_in_the_sandbox() {
    let user = Claude::new();
    user.home.write("config/stockade/config.toml", "ask = \"untrusted\"\n");
    let outside = user.home.path("outside/asked.txt").display().to_string();
    let model = Model::start(vec![bash("touch asked.txt"), bash(&format!("touch {outside}"))]);
    // How programs that drive Claude Code are asked in the place of its dialog.
    let arguments = [
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
        "--permission-prompt-tool",
        "stdio",
    ];
    let mut child = user
        .claude(&model, &arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut told = |message: Value| writeln!(stdin, "{message}").unwrap();
    told(
        json!({ "type": "control_request", "request_id": "r1", "request": { "subtype": "initialize", "hooks": null } }),
    );
    told(
        json!({ "type": "user", "message": { "role": "user", "content": "do it" }, "parent_tool_use_id": null, "session_id": "" }),
    );
    let mut asked = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["type"] == "result" {
            break;
        }
        if message["type"] == "control_request" && message["request"]["subtype"] == "can_use_tool" {
            let input = message["request"]["input"].clone();
            asked.push((input["command"].as_str().unwrap().to_owned(), message["request"].clone()));
            let answer = json!({ "behavior": "allow", "updatedInput": input });
            told(json!({ "type": "control_response", "response": {
                "subtype": "success", "request_id": message["request_id"], "response": answer,
            } }));
        }
    }
    drop(stdin);
    child.wait().unwrap();
    let results = model.results();
    assert_eq!(asked.len(), 2, "{asked:#?} {results:#?}");
    assert!(asked[0].0.ends_with("--asked -c 'touch asked.txt'"), "{asked:#?}");
    // Claude Code offers no "always" for a question of a hook: the reason has the rule for it.
    for (_, question) in &asked {
        assert_eq!(question["permission_suggestions"], Value::Null, "{question}");
        let reason = question["decision_reason"].as_str().unwrap();
        assert!(reason.contains("(always: `prefix_rule(pattern = [") && reason.contains("touch "), "{reason}");
    }
    assert!(user.home.exists("ws/asked.txt"), "{results:#?}");
    // The yes was for the command, not for more than its sandbox has.
    assert!(!user.home.exists("outside/asked.txt") && results[1].contains("was denied"), "{results:#?}");
}

/// A dialog that Claude Code's own rules demand is answered by Stockade's rules: what they allow is done in the sandbox, and
/// what they forbid is refused.
#[test]
fn a_dialog_of_claude_code_is_answered_from_the_rules() {
    let user = Claude::new();
    user.home.write(
        "config/stockade/rules/mine.rules",
        "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n",
    );
    user.home.write("ws/.claude/settings.json", "{ \"permissions\": { \"ask\": [\"Bash\"] } }");
    let outside = user.home.path("outside/x").display().to_string();
    let results =
        user.calls(vec![bash("echo in > inside.txt"), bash(&format!("echo out > {outside}")), bash("git push")]);
    assert_eq!(user.home.read("ws/inside.txt"), "in\n", "{results:#?}");
    assert!(!user.home.exists("outside/x") && results[1].contains("was denied"), "{results:#?}");
    assert!(results[2].contains("a person pushes"), "{results:#?}");
}

/// A yes for the session, given by another client of it, holds for the agent's next command.
#[test]
fn a_yes_for_the_session_is_kept() {
    let user = Claude::new();
    let outside = user.home.path("outside/x");
    let line = format!("echo x >> {}", outside.display());
    let wait = "until test -e go; do sleep 0.1; done";
    user.says_yes_for_the_session("claude-code");
    let results = user.calls(vec![bash(wait), bash(&line), bash(&line)]);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "x\nx\n", "{results:#?}");
    run(&mut user.stockade(&["audit", "verify"]), 0);
    let trail = text(&run(&mut user.stockade(&["audit", "list", "--json"]), 0).stdout);
    let records = trail.lines().map(|record| serde_json::from_str::<Value>(record).unwrap());
    let asked: Vec<Value> =
        records.filter(|record| record["command"][2] == *line).map(|mut record| record["asked"].take()).collect();
    assert_eq!(asked, [1, 0], "{trail}");
}
