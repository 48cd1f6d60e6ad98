//! The published codex and Claude Code as MCP clients, with a stand-in for the model.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::sdk::{runs, wait_until};
use super::{McpUser, agent};
use crate::agents::anthropic;
use crate::agents::openai::{Model, Step};
use crate::serving::talk::Talk;
use crate::support::{program, run, text};

/// What is told to a model whose command was denied a write outside.
const DENIAL: [&str; 4] = ["was denied", "writable_roots = [", "would allow it", "request_permissions"];

/// codex with the server, set up as docs/agents.md says.
fn codex(user: &McpUser, lines: &[String]) -> (Model, Command) {
    let calls = lines.iter().map(|line| Step::Call("mcp__stockade", "run", json!({"command": line})));
    let model = Model::new(calls.chain([Step::Say("done")]));
    let server = format!(
        "{}[mcp_servers.stockade]\ncommand = {:?}\nargs = [\"mcp\"]\ndefault_tools_approval_mode = \"approve\"\n\
         [mcp_servers.stockade.env]\n",
        model.settings(),
        user.home.path("stockade").to_str().unwrap()
    );
    let variables = user.environment();
    let variables = variables.as_object().unwrap().iter().map(|(name, value)| format!("{name} = {value}\n"));
    user.home.write("home/.codex/config.toml", &(server + &variables.collect::<String>()));
    run(program("git").args(["init", "--quiet"]).arg(user.home.path("ws")), 0);
    let mut codex = program(agent(".bin/codex"));
    user.home.surround(&mut codex);
    codex.env("PATH", std::env::var("PATH").unwrap_or_default()).env("STAND_IN_KEY", "none");
    codex.env("CODEX_HOME", user.home.path("home/.codex")).stdin(Stdio::null());
    (model, codex)
}

#[test]
fn codex_runs_commands_through_the_tool_and_its_model_is_told_of_a_denial() {
    let user = McpUser::asked();
    let outside = user.home.path("outside/x").display().to_string();
    let lines = [format!("echo hi > inside; echo x > {outside}"), String::from("touch asked")];
    let (model, mut codex) = codex(&user, &lines);
    let output = run(codex.args(["exec", "--sandbox", "read-only", "do it"]), 0);
    let told = model.outputs();
    assert_eq!(told.len(), 2, "{told:#?}\n{}", text(&output.stderr));
    assert!(user.home.exists("ws/inside") && !user.home.exists("outside/x"), "{told:#?}");
    for part in DENIAL {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    // `codex exec` has no person, and declines what it is asked.
    assert!(!user.home.exists("ws/asked") && told[1].contains("declined in the MCP client"), "{}", told[1]);
    run(&mut user.stockade(&["audit", "verify"]), 0);
}

#[test]
fn codex_puts_questions_to_its_person_and_an_interrupt_ends_the_command() {
    let user = McpUser::asked();
    let seconds = format!("86411.{}", std::process::id());
    let mut lines = ["yes", "no", "dismissed"].map(|name| format!("touch {name}")).to_vec();
    lines.extend([String::from("seq 1 20000"), format!("sleep {seconds}")]);
    let (model, mut codex) = codex(&user, &lines);
    let mut talk = Talk::with(codex.arg("app-server"));
    talk.call("initialize", &json!({"clientInfo": {"name": "test", "version": "1"}}));
    talk.line(r#"{"method":"initialized"}"#);
    let params = json!({"approvalPolicy": "on-request", "sandbox": "read-only", "cwd": user.home.path("ws")});
    let thread = talk.call("thread/start", &params)["thread"]["id"].clone();
    let input = json!([{"type": "text", "text": "go"}]);
    let turn = talk.call("turn/start", &json!({"threadId": thread, "input": input}))["turn"]["id"].clone();
    for answer in [
        json!({"action": "accept", "content": {"decision": "allow-once"}}),
        json!({"action": "decline", "content": null}),
        json!({"action": "cancel", "content": null}),
    ] {
        let question = talk.told("mcpServer/elicitation/request");
        assert!(question["params"]["message"].as_str().unwrap().contains("files are made by hand"), "{question}");
        talk.answer(&question, &answer);
    }
    wait_until("the last command does not start", || runs(&seconds));
    let told = model.outputs();
    let made = ["yes", "no", "dismissed"].map(|name| user.home.exists(&format!("ws/{name}")));
    assert_eq!(made, [true, false, false], "{told:#?}");
    assert!(told[3].contains("output was left out: `read_output`"), "{}", told[3]);
    talk.call("turn/interrupt", &json!({"threadId": thread, "turnId": turn}));
    wait_until("the command goes on", || !runs(&seconds));
    run(&mut user.stockade(&["audit", "verify"]), 0);
}

/// Claude Code with the server, and what its model has it call.
fn claude(user: &McpUser, lines: &[String]) -> (anthropic::Model, Command) {
    let calls = lines.iter().map(|line| ("mcp__stockade__run", json!({"command": line})));
    let model = anthropic::Model::deferred(calls.collect());
    let server = json!({"command": user.home.path("stockade"), "args": ["mcp"], "env": user.environment()});
    user.home.write("home/servers.json", &json!({"mcpServers": {"stockade": server}}).to_string());
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let mut claude = program(agent(&format!("@anthropic-ai/claude-code-linux-{machine}/claude")));
    user.home.surround(&mut claude);
    claude.env("ANTHROPIC_API_KEY", "sk-none").env("ANTHROPIC_BASE_URL", format!("http://{}", model.address));
    for name in ["DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] {
        claude.env(name, "1");
    }
    claude
        .args(["-p", "--allowedTools", "mcp__stockade__run", "--mcp-config"])
        .arg(user.home.path("home/servers.json"));
    (model, claude)
}

#[test]
fn claude_code_runs_commands_through_the_tool_and_its_model_is_told_of_a_denial() {
    let user = McpUser::asked();
    let outside = user.home.path("outside/x").display().to_string();
    let lines =
        [format!("echo hi > inside; echo x > {outside}"), String::from("touch asked"), String::from("seq 1 20000")];
    let (model, mut claude) = claude(&user, &lines);
    let output = run(claude.args(["--", "do it"]).stdin(Stdio::null()), 0);
    let told = model.results();
    assert_eq!(told.len(), 3, "{told:#?}\n{}", text(&output.stdout));
    assert!(user.home.exists("ws/inside") && !user.home.exists("outside/x"), "{told:#?}");
    for part in DENIAL {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    // Without a person, Claude Code dismisses what it is asked.
    assert!(!user.home.exists("ws/asked") && told[1].contains("dismissed in the MCP client"), "{}", told[1]);
    assert!(told[2].contains("bytes left out") && told[2].contains("20000"), "{}", told[2]);
    run(&mut user.stockade(&["audit", "verify"]), 0);
}

#[test]
fn claude_code_puts_questions_to_its_person_and_an_interrupt_ends_the_command() {
    let user = McpUser::asked();
    let seconds = format!("86412.{}", std::process::id());
    let mut lines = ["yes", "no", "dismissed"].map(|name| format!("touch {name}")).to_vec();
    lines.push(format!("sleep {seconds}"));
    let (model, mut claude) = claude(&user, &lines);
    // How programs that drive Claude Code are asked in the place of its dialogs.
    claude.args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
    claude.args(["--permission-prompt-tool", "stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = claude.stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut told = |message: Value| writeln!(stdin, "{message}").unwrap();
    told(json!({"type": "control_request", "request_id": "r1", "request": {"subtype": "initialize", "hooks": null}}));
    let message = json!({"role": "user", "content": "do it"});
    told(json!({"type": "user", "message": message, "parent_tool_use_id": null, "session_id": ""}));
    let mut answers = vec![
        json!({"action": "cancel"}),
        json!({"action": "decline"}),
        json!({"action": "accept", "content": {"decision": "allow-once"}}),
    ];
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(answer) = answers.pop() {
        let asked = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        let asked = asked.into_iter().find(|message| message["request"]["subtype"] == "elicitation").unwrap();
        assert!(asked["request"]["message"].as_str().unwrap().contains("files are made by hand"), "{asked}");
        let response = json!({"subtype": "success", "request_id": asked["request_id"], "response": answer});
        told(json!({"type": "control_response", "response": response}));
    }
    wait_until("the last command does not start", || runs(&seconds));
    let made = ["yes", "no", "dismissed"].map(|name| user.home.exists(&format!("ws/{name}")));
    assert_eq!(made, [true, false, false], "{:#?}", model.results());
    told(json!({"type": "control_request", "request_id": "r2", "request": {"subtype": "interrupt"}}));
    wait_until("the command goes on", || !runs(&seconds));
    drop(stdin);
    // What it says at its end is not waited for.
    child.kill().ok();
    child.wait().unwrap();
    run(&mut user.stockade(&["audit", "verify"]), 0);
}
