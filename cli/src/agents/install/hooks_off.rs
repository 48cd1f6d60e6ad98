//! Settings that turn an agent's hooks off, wherever the agent reads them: an installed hook is not used then, without a
//! word.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json_text;
use crate::args::AgentName;

/// The key that turns this hook off in an agent's settings.
pub(super) fn key_in(agent: AgentName, settings: &Value, command: &str) -> Option<&'static str> {
    let is = |pointer: &str, on: bool| settings.pointer(pointer).is_some_and(|value| *value != Value::Bool(on));
    match agent {
        AgentName::ClaudeCode => is("/disableAllHooks", false).then_some("disableAllHooks"),
        AgentName::Gemini if is("/hooksConfig/enabled", true) => Some("hooksConfig.enabled"),
        // gemini-cli names a hook by its command.
        AgentName::Gemini => {
            let listed = settings.pointer("/hooksConfig/disabled").and_then(Value::as_array)?;
            let is_own =
                |name: &Value| name.as_str().is_some_and(|name| name == command || name.ends_with(" hook gemini"));
            listed.iter().any(is_own).then_some("hooksConfig.disabled")
        }
        AgentName::Codex => {
            let keys = [("/features/hooks", "features.hooks"), ("/features/codex_hooks", "features.codex_hooks")];
            keys.into_iter().find_map(|(pointer, key)| is(pointer, true).then_some(key))
        }
        AgentName::Opencode => None,
    }
}

/// The first file that turns this hook off, of those that the agent reads in this directory.
pub(super) fn found(agent: AgentName, command: &str) -> Option<(PathBuf, &'static str)> {
    files(agent).into_iter().find_map(|file| {
        // A file that can't be read counts as absent, as for the agents.
        let text = fs::read_to_string(&file).ok()?;
        let settings: Value = match agent {
            AgentName::Codex => serde_json::to_value(text.parse::<toml::Table>().ok()?).ok()?,
            AgentName::ClaudeCode | AgentName::Gemini | AgentName::Opencode => {
                serde_json::from_str(&json_text::without_comments(&text).ok()?).ok()?
            }
        };
        let key = key_in(agent, &settings, command)?;
        Some((file, key))
    })
}

/// The settings of the host, of the user, and of the project in this directory.
fn files(agent: AgentName) -> Vec<PathBuf> {
    let (host, variable, directory, names): (&str, &str, &str, &[&str]) = match agent {
        AgentName::ClaudeCode => (
            "/etc/claude-code/managed-settings.json",
            "CLAUDE_CONFIG_DIR",
            ".claude",
            &["settings.json", "settings.local.json"],
        ),
        AgentName::Gemini => ("/etc/gemini-cli/settings.json", "", ".gemini", &["settings.json"]),
        AgentName::Codex => ("/etc/codex/config.toml", "CODEX_HOME", ".codex", &["config.toml"]),
        AgentName::Opencode => return Vec::new(),
    };
    let named = (!variable.is_empty()).then(|| std::env::var_os(variable)).flatten().filter(|path| !path.is_empty());
    let user = named.map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(directory)));
    let project = std::env::current_dir().ok().map(|here| here.join(directory));
    let below = |directory: PathBuf| names.iter().map(move |name| directory.join(name));
    let own = user.into_iter().chain(project).flat_map(below);
    std::iter::once(Path::new(host).to_owned()).chain(own).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_switches_of_each_agent_are_known() {
        let command = "'/bin/stockade' hook gemini";
        for (agent, settings, expected) in [
            (AgentName::ClaudeCode, json!({ "disableAllHooks": true }), Some("disableAllHooks")),
            (AgentName::ClaudeCode, json!({ "disableAllHooks": false }), None),
            (AgentName::ClaudeCode, json!({}), None),
            (AgentName::Gemini, json!({ "hooksConfig": { "enabled": false } }), Some("hooksConfig.enabled")),
            (AgentName::Gemini, json!({ "hooksConfig": { "enabled": true } }), None),
            (AgentName::Gemini, json!({ "hooksConfig": { "disabled": [command] } }), Some("hooksConfig.disabled")),
            (AgentName::Gemini, json!({ "hooksConfig": { "disabled": ["other"] } }), None),
            (AgentName::Codex, json!({ "features": { "hooks": false } }), Some("features.hooks")),
            (AgentName::Codex, json!({ "features": { "hooks": true } }), None),
        ] {
            assert_eq!(key_in(agent, &settings, command), expected, "{settings}");
        }
    }
}
