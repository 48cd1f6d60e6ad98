//! Settings that turn an agent's hooks off, wherever the agent reads them: an installed hook is not used then, without a
//! word.
//!
//! The files and keys are those of the tested versions. A file of an administrator that can't be read may say anything: it
//! can't be told then whether the hook is used.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Scope, json_text};
use crate::args::AgentName;

/// Why an installed hook may not be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// It is not.
    Off(String),
    /// It can't be told.
    Unknown(String),
}

impl Obstacle {
    fn off(key: &str, path: &Path) -> Self {
        Self::Off(format!("`{key}` in `{}` turns its hooks off: take that out", path.display()))
    }

    /// The reason, as it is shown.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Off(reason) | Self::Unknown(reason) => reason,
        }
    }
}

/// The key that turns this hook off in an agent's settings of the user or of a project.
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

/// The key of an administrator that turns off every hook but the administrator's own. A value that an agent does not know
/// counts as the strict one, as it does for the agents.
fn managed_key_in(agent: AgentName, settings: &Value) -> Option<&'static str> {
    let is_set = |key: &str| settings.get(key).is_some_and(|value| !matches!(value, Value::Bool(false) | Value::Null));
    match agent {
        AgentName::ClaudeCode if is_set("allowManagedHooksOnly") => Some("allowManagedHooksOnly"),
        AgentName::ClaudeCode => {
            let locks_hooks = match settings.get("strictPluginOnlyCustomization")? {
                Value::Bool(locks) => *locks,
                Value::Array(surfaces) => surfaces.iter().any(|surface| surface == "hooks"),
                Value::Null => false,
                Value::Number(_) | Value::String(_) | Value::Object(_) => true,
            };
            locks_hooks.then_some("strictPluginOnlyCustomization")
        }
        AgentName::Codex => is_set("allow_managed_hooks_only").then_some("allow_managed_hooks_only"),
        AgentName::Gemini | AgentName::Opencode => None,
    }
}

/// Variables that make Claude Code leave hooks out: in its environment, or in the table `env` of its settings.
const SILENCING: [&str; 2] = ["CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE"];
/// Those that leave out some of its settings.
const RESTRICTING: [&str; 2] = ["CLAUDE_CODE_RESTRICTED", "CLAUDE_CODE_RESTRICT_PERSONAL_CONFIG"];

/// As Claude Code reads a variable that is a switch.
fn is_on(value: &str) -> bool {
    matches!(value.trim().to_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// The settings that count for an agent in this directory.
pub(super) struct HookSettings<'a> {
    agent: AgentName,
    /// The directory of the host's settings, `/etc`.
    host: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The user's and the project's directory of the agent.
    own: Vec<PathBuf>,
}

/// A file of settings, and its author.
struct Source {
    path: PathBuf,
    author: Author,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Author {
    /// Others count more.
    Defaults,
    Own,
    Administrator,
}

/// The first reason why this hook is not used.
pub(super) fn found(agent: AgentName, scope: Scope, command: &str) -> Option<Obstacle> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let own = [Scope::User, Scope::Project].into_iter().filter_map(|scope| super::agent_directory(agent, scope).ok());
    let settings = HookSettings { agent, host: Path::new("/etc"), variable: &variable, own: own.collect() };
    settings.obstacle(scope, command)
}

impl HookSettings<'_> {
    fn obstacle(&self, scope: Scope, command: &str) -> Option<Obstacle> {
        let mut unknown = None;
        // gemini-cli's switch has the value of the last file that sets it.
        let mut switch = None;
        for source in self.sources(&mut unknown) {
            let settings = match self.read(&source.path) {
                Ok(Some(settings)) => settings,
                Ok(None) => continue,
                // The user's own that can't be read count as absent, as for the agents.
                Err(reason) if source.author != Author::Own => {
                    let path = source.path.display();
                    unknown.get_or_insert_with(|| {
                        Obstacle::Unknown(format!("`{path}` may turn its hooks off, and can't be read: {reason}"))
                    });
                    continue;
                }
                Err(_) => continue,
            };
            let managed = managed_key_in(self.agent, &settings).filter(|_| source.author == Author::Administrator);
            let key =
                managed.or_else(|| key_in(self.agent, &settings, command)).or_else(|| self.variable_in(&settings));
            let enabled = settings.pointer("/hooksConfig/enabled").filter(|_| self.agent == AgentName::Gemini);
            if let Some(enabled) = enabled {
                switch = (*enabled != Value::Bool(true)).then(|| source.path.clone());
            }
            if let Some(key) = key.filter(|key| *key != "hooksConfig.enabled") {
                return Some(Obstacle::off(key, &source.path));
            }
        }
        let switched = switch.map(|path| Obstacle::off("hooksConfig.enabled", &path));
        switched.or_else(|| self.variable_set(scope)).or(unknown)
    }

    /// A variable of Claude Code's in the table `env` of its settings.
    fn variable_in(&self, settings: &Value) -> Option<&'static str> {
        let variables = settings.get("env").filter(|_| self.agent == AgentName::ClaudeCode)?;
        SILENCING.into_iter().find(|name| match variables.get(name) {
            Some(Value::String(value)) => is_on(value),
            Some(Value::Bool(value)) => *value,
            Some(Value::Number(number)) => number.as_u64() == Some(1),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
        })
    }

    /// A variable in this environment, which an agent that is started here has as well.
    fn variable_set(&self, scope: Scope) -> Option<Obstacle> {
        if self.agent != AgentName::ClaudeCode {
            return None;
        }
        let is_set = |name: &&&str| (self.variable)(name).is_some_and(|value| is_on(&value.to_string_lossy()));
        if let Some(name) = SILENCING.iter().find(is_set) {
            return Some(Obstacle::Off(format!("`{name}` is set here, which turns its hooks off: unset it")));
        }
        let name = RESTRICTING.iter().find(is_set)?;
        let which = match scope {
            Scope::User => "the user's",
            Scope::Project => "a project's",
        };
        Some(Obstacle::Unknown(format!("`{name}` is set here, which may leave out {which} settings: unset it")))
    }

    /// `None` if there is no such file.
    fn read(&self, path: &Path) -> Result<Option<Value>, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error.to_string()),
        };
        if path.extension().is_some_and(|end| end == "toml") {
            let table = text.parse::<toml::Table>().map_err(|error| error.message().to_owned())?;
            return serde_json::to_value(table).map(Some).map_err(|error| error.to_string());
        }
        if text.trim().is_empty() {
            return Ok(None);
        }
        let plain = json_text::without_comments(&text).map_err(|error| error.to_string())?;
        serde_json::from_str(&plain).map(Some).map_err(|error| error.to_string())
    }

    /// The files that the agent reads; the later one counts more.
    fn sources(&self, unknown: &mut Option<Obstacle>) -> Vec<Source> {
        let below = |directory: &PathBuf, names: &[&str]| -> Vec<Source> {
            names.iter().map(|name| Source { path: directory.join(name), author: Author::Own }).collect()
        };
        let by = |author: Author, path: PathBuf| Source { path, author };
        match self.agent {
            AgentName::ClaudeCode => {
                let host = self.host.join("claude-code");
                let names = ["settings.json", "settings.local.json"];
                let mut sources: Vec<Source> = self.own.iter().flat_map(|own| below(own, &names)).collect();
                // What an organization's server has said last.
                let remote = self.own.first().map(|user| user.join("remote-settings.json"));
                sources.extend(remote.map(|path| by(Author::Administrator, path)));
                sources.push(by(Author::Administrator, host.join("managed-settings.json")));
                let dropped = drop_ins(&host.join("managed-settings.d"), unknown);
                sources.extend(dropped.into_iter().map(|path| by(Author::Administrator, path)));
                sources
            }
            AgentName::Gemini => {
                let named = |variable: &str| (self.variable)(variable).map(PathBuf::from);
                let system = named("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
                    .unwrap_or_else(|| self.host.join("gemini-cli/settings.json"));
                let defaults = named("GEMINI_CLI_SYSTEM_DEFAULTS_PATH")
                    .unwrap_or_else(|| system.with_file_name("system-defaults.json"));
                let own = self.own.iter().flat_map(|own| below(own, &["settings.json"]));
                let defaults = std::iter::once(by(Author::Defaults, defaults));
                defaults.chain(own).chain([by(Author::Administrator, system)]).collect()
            }
            AgentName::Codex => {
                let host = self.host.join("codex");
                let own = self.own.iter().flat_map(|own| below(own, &["config.toml"]));
                let defaults = std::iter::once(by(Author::Defaults, host.join("config.toml")));
                let managed = ["managed_config.toml", "requirements.toml"];
                let managed = managed.into_iter().map(|name| by(Author::Administrator, host.join(name)));
                defaults.chain(own).chain(managed).collect()
            }
            AgentName::Opencode => Vec::new(),
        }
    }
}

/// The files of Claude Code's `managed-settings.d`.
fn drop_ins(directory: &Path, unknown: &mut Option<Obstacle>) -> Vec<PathBuf> {
    let listed = fs::read_dir(directory).and_then(|entries| {
        let entries: io::Result<Vec<_>> = entries.collect();
        Ok(entries?.into_iter().map(|entry| entry.path()).collect::<Vec<_>>())
    });
    match listed {
        Ok(mut files) => {
            files.retain(|file| file.extension().is_some_and(|end| end == "json"));
            files.sort();
            files
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Vec::new(),
        Err(error) => {
            let reason = format!("`{}` may turn its hooks off, and can't be read: {error}", directory.display());
            *unknown = Some(Obstacle::Unknown(reason));
            Vec::new()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    const COMMAND: &str = "'/bin/stockade' hook gemini";

    #[test]
    fn the_switches_of_each_agent_are_known() {
        for (agent, settings, expected) in [
            (AgentName::ClaudeCode, json!({ "disableAllHooks": true }), Some("disableAllHooks")),
            (AgentName::ClaudeCode, json!({ "disableAllHooks": false }), None),
            (AgentName::ClaudeCode, json!({}), None),
            (AgentName::Gemini, json!({ "hooksConfig": { "enabled": false } }), Some("hooksConfig.enabled")),
            (AgentName::Gemini, json!({ "hooksConfig": { "enabled": true } }), None),
            (AgentName::Gemini, json!({ "hooksConfig": { "disabled": [COMMAND] } }), Some("hooksConfig.disabled")),
            (AgentName::Gemini, json!({ "hooksConfig": { "disabled": ["other"] } }), None),
            (AgentName::Codex, json!({ "features": { "hooks": false } }), Some("features.hooks")),
            (AgentName::Codex, json!({ "features": { "hooks": true } }), None),
        ] {
            assert_eq!(key_in(agent, &settings, COMMAND), expected, "{settings}");
        }
    }

    /// A host with these files, below `etc`, `user` and `project`, and these variables.
    fn obstacle(agent: AgentName, files: &[(&str, &str)], variables: &[(&str, &str)]) -> Option<Obstacle> {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let variables: BTreeMap<&str, String> =
            variables.iter().map(|(name, value)| (*name, value.replace("ROOT", root.to_str().unwrap()))).collect();
        let variable = |name: &str| variables.get(name).map(OsString::from);
        let own = vec![root.join("user"), root.join("project")];
        let settings = HookSettings { agent, host: &root.join("etc"), variable: &variable, own };
        settings.obstacle(Scope::User, COMMAND)
    }

    #[test]
    fn administrators_and_variables_turn_hooks_off() {
        use AgentName::{ClaudeCode, Codex, Gemini};
        let managed = "etc/claude-code/managed-settings.json";
        let dropped = "etc/claude-code/managed-settings.d/10-x.json";
        let off = "{ \"hooksConfig\": { \"enabled\": false } }";
        for (agent, file, text, expected) in [
            (ClaudeCode, managed, "{ \"allowManagedHooksOnly\": true }", "allowManagedHooksOnly"),
            (ClaudeCode, managed, "{ \"allowManagedHooksOnly\": \"perhaps\" }", "allowManagedHooksOnly"),
            (ClaudeCode, managed, "{ \"strictPluginOnlyCustomization\": true }", "strictPluginOnlyCustomization"),
            (
                ClaudeCode,
                dropped,
                "{ \"strictPluginOnlyCustomization\": [\"hooks\"] }",
                "strictPluginOnlyCustomization",
            ),
            (ClaudeCode, dropped, "{ \"disableAllHooks\": true }", "disableAllHooks"),
            (ClaudeCode, "user/remote-settings.json", "{ \"allowManagedHooksOnly\": true }", "allowManagedHooksOnly"),
            (
                ClaudeCode,
                "project/settings.local.json",
                "{ \"env\": { \"CLAUDE_CODE_SIMPLE\": \"1\" } }",
                "CLAUDE_CODE_SIMPLE",
            ),
            (Gemini, "etc/gemini-cli/settings.json", off, "hooksConfig.enabled"),
            (Gemini, "etc/gemini-cli/system-defaults.json", off, "hooksConfig.enabled"),
            (Codex, "etc/codex/requirements.toml", "allow_managed_hooks_only = true", "allow_managed_hooks_only"),
            (Codex, "etc/codex/requirements.toml", "[features]\nhooks = false", "features.hooks"),
            (Codex, "etc/codex/managed_config.toml", "[features]\nhooks = false", "features.hooks"),
        ] {
            let found = obstacle(agent, &[(file, text)], &[]);
            assert!(
                matches!(&found, Some(Obstacle::Off(reason)) if reason.contains(expected) && reason.contains(file)),
                "{file} {text}: {found:?}"
            );
        }
        let found = obstacle(ClaudeCode, &[], &[("CLAUDE_CODE_SIMPLE", "true")]);
        assert!(matches!(&found, Some(Obstacle::Off(reason)) if reason.contains("CLAUDE_CODE_SIMPLE")), "{found:?}");
        let found = obstacle(Gemini, &[("x/d.json", off)], &[("GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "ROOT/x/d.json")]);
        assert!(matches!(found, Some(Obstacle::Off(_))), "{found:?}");
    }

    #[test]
    fn what_an_administrator_may_say_is_unknown() {
        for (agent, file) in [
            (AgentName::ClaudeCode, "etc/claude-code/managed-settings.json"),
            (AgentName::ClaudeCode, "etc/claude-code/managed-settings.d/a.json"),
            (AgentName::Gemini, "etc/gemini-cli/system-defaults.json"),
            (AgentName::Codex, "etc/codex/requirements.toml"),
        ] {
            let found = obstacle(agent, &[(file, "{ no")], &[]);
            assert!(matches!(&found, Some(Obstacle::Unknown(reason)) if reason.contains(file)), "{found:?}");
        }
        let found = obstacle(AgentName::ClaudeCode, &[], &[("CLAUDE_CODE_RESTRICTED", "1")]);
        assert!(matches!(found, Some(Obstacle::Unknown(_))), "{found:?}");
    }

    #[test]
    fn settings_that_leave_hooks_alone_are_no_obstacle() {
        use AgentName::{ClaudeCode, Codex, Gemini};
        for (agent, file, text) in [
            (ClaudeCode, "etc/claude-code/managed-settings.json", "{ \"allowManagedHooksOnly\": false }"),
            (
                ClaudeCode,
                "etc/claude-code/managed-settings.d/a.json",
                "{ \"strictPluginOnlyCustomization\": [\"mcp\"] }",
            ),
            (ClaudeCode, "etc/claude-code/managed-settings.d/a.txt", "{ \"disableAllHooks\": true }"),
            // Only an administrator's counts.
            (ClaudeCode, "user/settings.json", "{ \"allowManagedHooksOnly\": true }"),
            (ClaudeCode, "user/settings.json", "{ \"env\": { \"CLAUDE_CODE_SIMPLE\": \"0\" } }"),
            (ClaudeCode, "user/settings.json", "{ no"),
            (Codex, "etc/codex/requirements.toml", "allowed_sandbox_modes = [\"read-only\"]"),
        ] {
            assert_eq!(obstacle(agent, &[(file, text)], &[]), None, "{file} {text}");
        }
        let on = ("user/settings.json", "{ \"hooksConfig\": { \"enabled\": true } }");
        let off = "{ \"hooksConfig\": { \"enabled\": false } }";
        assert_eq!(obstacle(Gemini, &[on, ("etc/gemini-cli/system-defaults.json", off)], &[]), None);
        assert!(obstacle(Gemini, &[on, ("etc/gemini-cli/settings.json", off)], &[]).is_some());
        assert_eq!(obstacle(ClaudeCode, &[], &[("CLAUDE_CODE_SIMPLE", "0")]), None);
    }
}
