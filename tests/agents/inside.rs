//! Real agents that run inside as a whole, with the profiles that Stockade has for them.

use std::process::{Command, Stdio};

use serde_json::json;

use super::{agent, anthropic, openai};
use crate::running::home::{Home, fed, said};
use crate::support::{program, text};

/// What a command of the agent's tries: a write inside and one outside, and the logins that lie around.
const LINE: &str = "echo in > inside; echo out > ../outside/x; cat ~/.codex/auth.json ~/.claude/.credentials.json \
                    ~/.local/share/stockade-agents/other/login; true";

/// A person who has used agents without Stockade, and one inside.
fn person() -> Home {
    let home = Home::new();
    for login in [".codex/auth.json", ".claude/.credentials.json", ".local/share/stockade-agents/other/login"] {
        home.write(&format!("home/{login}"), "{\"token\":\"hunter2\"}\n");
    }
    home.write("home/.claude/settings.json", "{}");
    home
}

/// `stockade run --with PROFILE -- AGENT …`, with what the agent finds its model by.
fn inside(home: &Home, options: &[&str], agent: &[&str]) -> Command {
    let mut command = home.stockade(&[&["run", "--timeout", "3m"], options, &["--"], agent].concat());
    let node = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{node}:/usr/local/bin:/usr/bin:/bin"));
    command
}

/// The program of an agent, where a sandboxed command sees it: the repository may lie below `/tmp`, which is private inside.
fn real(home: &Home, path: &str) -> String {
    let modules = std::fs::canonicalize(agent("")).unwrap();
    let file = std::fs::canonicalize(agent(path)).unwrap();
    if !file.starts_with("/tmp") {
        return file.display().to_string();
    }
    let below = file.strip_prefix(&modules).unwrap();
    let scope = below.components().next().unwrap();
    let copied = home.path("node_modules");
    std::fs::create_dir(&copied).unwrap();
    // Links take no space, where both places are on one file system.
    let copies = |option| program("cp").arg(option).arg(modules.join(scope)).arg(&copied).status().unwrap().success();
    assert!(copies("-al") || copies("-a"));
    copied.join(below).display().to_string()
}

/// The write inside happened, the other did not, and no login but the agent's own was seen.
fn held(home: &Home, told: &str) {
    assert_eq!(home.read("ws/inside"), "in\n", "{told}");
    assert!(!home.exists("outside/x"), "{told}");
    assert!(told.to_lowercase().contains("read-only file system") && !told.contains("hunter2"), "{told}");
    assert_eq!(home.read("home/.codex/auth.json"), "{\"token\":\"hunter2\"}\n");
    assert_eq!(home.read("home/.claude/settings.json"), "{}");
}

#[test]
fn codex_logs_in_and_runs_its_first_command_inside() {
    let home = person();
    let model = openai::Model::new([openai::Step::Run(LINE, json!({"login": false})), openai::Step::Say("done")]);
    let codex = real(&home, ".bin/codex");
    let login = ["--with", "codex"];
    let output =
        fed(inside(&home, &login, &[&codex, "login", "--with-api-key"]).stdin(Stdio::piped()), b"sk-own-login\n");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let notice = format!(
        "keeps its state and its login in `{}`",
        home.path("home/.local/share/stockade-agents/codex").display()
    );
    assert!(text(&output.stderr).contains(&notice), "{}", text(&output.stderr));
    // The login that codex has inside, which nothing but the profile opens.
    let own = "home/.local/share/stockade-agents/codex/auth.json";
    assert!(home.read(own).contains("sk-own-login"));
    let other = home.runs(&[], "cat ~/.local/share/stockade-agents/codex/auth.json", 1);
    assert!(!other.stdout.contains("sk-own-login"), "{}", other.stdout);
    home.write(
        "home/.local/share/stockade-agents/codex/config.toml",
        &model.settings().replace("env_key = \"STAND_IN_KEY\"", "requires_openai_auth = true"),
    );
    let words = [&codex, "exec", "--sandbox", "danger-full-access", "--skip-git-repo-check", "go"];
    let mut command = inside(&home, &login, &words);
    let told = said(command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{}", model.port)), 0);
    held(&home, &format!("{}\n{}{}", model.outputs().concat(), told.stdout, told.stderr));
    assert!(home.exists("home/.local/share/stockade-agents/codex/sessions"));
    home.says(&["audit", "verify"], 0);
}

#[test]
fn claude_code_runs_its_first_command_inside() {
    let home = person();
    let model = anthropic::Model::start(vec![("Bash", json!({ "command": LINE, "description": "does it" }))]);
    let login = json!({ "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-own-login", "refreshToken": "sk-ant-ort01-own-login", "expiresAt": 4_102_444_800_000_u64,
        "scopes": ["user:inference"], "subscriptionType": "max",
    } });
    home.write("home/.local/share/stockade-agents/claude-code/.credentials.json", &login.to_string());
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let claude = real(&home, &format!("@anthropic-ai/claude-code-linux-{machine}/claude"));
    let mut command =
        inside(&home, &["--with", "claude-code"], &[&claude, "-p", "--allowedTools", "Bash", "--", "do it"]);
    let told = said(command.env("ANTHROPIC_BASE_URL", format!("http://{}", model.address)), 0);
    held(&home, &format!("{}\n{}{}", model.results().concat(), told.stdout, told.stderr));
    assert!(home.exists("home/.local/share/stockade-agents/claude-code/projects"));
    home.says(&["audit", "verify"], 0);
}

/// What each profile of an agent sets, and that its state is its own: no other run sees it, and no other agent.
#[test]
fn the_state_of_an_agent_is_its_own() {
    let profiles = [
        ("codex", "CODEX_HOME", ""),
        ("claude-code", "CLAUDE_CONFIG_DIR", ""),
        ("gemini", "GEMINI_CLI_HOME", ""),
        ("opencode", "XDG_DATA_HOME", "/data"),
        ("opencode", "XDG_CONFIG_HOME", "/config"),
        ("opencode", "XDG_STATE_HOME", "/state"),
        ("opencode", "XDG_CACHE_HOME", "/cache"),
    ];
    for engine in ["native", "bwrap"] {
        let home = person();
        for (profile, variable, below) in profiles {
            let line = format!(
                "echo kept > \"${variable}/login\" && echo \"${variable}\"; cat ~/.local/share/stockade-agents/other/login"
            );
            let mut command = home.stockade(&["run", "--engine", engine, "--with", profile, "--", "sh", "-c", &line]);
            // Where the agent keeps its state outside makes no difference.
            let told = said(command.env("CODEX_HOME", home.path("home/.codex")), 1);
            let state = home.path(&format!("home/.local/share/stockade-agents/{profile}{below}"));
            assert_eq!(told.stdout, format!("{}\n", state.display()), "{profile} {engine}: {}", told.stderr);
            assert_eq!(std::fs::read_to_string(state.join("login")).unwrap(), "kept\n");
            let other = home.runs(&["--engine", engine], &format!("cat {}/login", state.display()), 1);
            assert_eq!(other.stdout, "", "{profile} {engine}");
        }
    }
}

/// Profiles of one's own may have a state; those of a project may not, nor set variables; and no link leads it elsewhere.
#[test]
fn only_profiles_of_the_users_have_a_state() {
    let home = person();
    let text = "about = \"x\"\n[[state]]\nvariable = \"AIDER_HOME\"\nreason = \"its state\"\n[[env]]\nname = \"AIDER_MODE\"\nvalue = \"inside\"\nreason = \"because\"\n";
    home.write("config/stockade/profiles/aider.toml", text);
    let line = "echo $AIDER_MODE > $AIDER_HOME/x";
    home.runs(&["--with", "aider"], line, 0);
    assert_eq!(home.read("home/.local/share/stockade-agents/aider/x"), "inside\n");
    // What is set by name counts more.
    home.runs(&["--with", "aider", "--env", "AIDER_MODE=mine"], line, 0);
    assert_eq!(home.read("home/.local/share/stockade-agents/aider/x"), "mine\n");
    std::fs::remove_dir_all(home.path("home/.local/share/stockade-agents/aider")).unwrap();
    std::os::unix::fs::symlink(home.path("outside"), home.path("home/.local/share/stockade-agents/aider")).unwrap();
    let told = home.runs(&["--with", "aider"], line, 125);
    assert!(told.stderr.contains("by a link: put a directory in its place"), "{}", told.stderr);
    home.write("config/stockade/profiles/aider.toml", &text.replace("AIDER_MODE", "LD_PRELOAD"));
    assert!(home.runs(&["--with", "aider"], "true", 125).stderr.contains("load code"));
    std::fs::remove_file(home.path("config/stockade/profiles/aider.toml")).unwrap();
    home.write("ws/.stockade/profiles/aider.toml", text);
    let told = home.says(&["trust"], 125);
    assert!(told.stderr.contains("a project's profile"), "{}", told.stderr);
}
