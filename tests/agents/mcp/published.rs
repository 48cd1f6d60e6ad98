//! The published codex and Claude Code as MCP clients, with a stand-in for the model.

use std::process::Stdio;

use serde_json::json;

use super::{User, agent};
use crate::agents::anthropic;
use crate::agents::openai::{Model, Step};
use crate::support::{program, run, text};

#[test]
fn codex_runs_commands_through_the_tool_and_its_model_is_told_of_a_denial() {
    let user = User::asked();
    let outside = user.home.path("outside/x").display().to_string();
    let call = |line: String| Step::Call("mcp__stockade", "run", json!({"command": line}));
    let model = Model::new([
        call(format!("echo hi > inside; echo x > {outside}")),
        call(String::from("touch asked")),
        Step::Say("done"),
    ]);
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
    let output = run(codex.args(["exec", "--sandbox", "read-only", "do it"]), 0);
    let told = model.outputs();
    assert_eq!(told.len(), 2, "{told:#?}\n{}", text(&output.stderr));
    assert!(user.home.exists("ws/inside") && !user.home.exists("outside/x"), "{told:#?}");
    for part in ["was denied", "writable_roots = [", "would allow it", "request_permissions"] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    // `codex exec` has no person, and declines what it is asked.
    assert!(!user.home.exists("ws/asked") && told[1].contains("declined in the MCP client"), "{}", told[1]);
    run(&mut user.stockade(&["audit", "verify"]), 0);
}

#[test]
fn claude_code_runs_commands_through_the_tool_and_its_model_is_told_of_a_denial() {
    let user = User::asked();
    let outside = user.home.path("outside/x").display().to_string();
    let call = |line: &str| ("mcp__stockade__run", json!({"command": line}));
    let model = anthropic::Model::deferred(vec![
        call(&format!("echo hi > inside; echo x > {outside}")),
        call("touch asked"),
        call("seq 1 20000"),
    ]);
    let server = json!({"command": user.home.path("stockade"), "args": ["mcp"], "env": user.environment()});
    user.home.write("home/servers.json", &json!({"mcpServers": {"stockade": server}}).to_string());
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let mut claude = program(agent(&format!("@anthropic-ai/claude-code-linux-{machine}/claude")));
    user.home.surround(&mut claude);
    claude.env("ANTHROPIC_API_KEY", "sk-none").env("ANTHROPIC_BASE_URL", format!("http://{}", model.address));
    for name in ["DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] {
        claude.env(name, "1");
    }
    claude.args(["-p", "do it", "--allowedTools", "mcp__stockade__run", "--mcp-config"]);
    let output = run(claude.arg(user.home.path("home/servers.json")).stdin(Stdio::null()), 0);
    let told = model.results();
    assert_eq!(told.len(), 3, "{told:#?}\n{}", text(&output.stdout));
    assert!(user.home.exists("ws/inside") && !user.home.exists("outside/x"), "{told:#?}");
    for part in ["was denied", "writable_roots = [", "would allow it", "request_permissions"] {
        assert!(told[0].contains(part), "{part}: {}", told[0]);
    }
    // Without a person, Claude Code dismisses what it is asked.
    assert!(!user.home.exists("ws/asked") && told[1].contains("dismissed in the MCP client"), "{}", told[1]);
    assert!(told[2].contains("bytes left out") && told[2].contains("20000"), "{}", told[2]);
    run(&mut user.stockade(&["audit", "verify"]), 0);
}
