//! The hook entries for each agent's settings file.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::environment::OwnEnvironment;
use super::file::SettingsFile;
use super::hooks_off::Obstacle;
use super::json_text::{self, TextError};
use super::switch::Switch;
use super::{InstallError, Scope, environment, hooks_off, places, shell_setting, switch};
use crate::args::AgentName;

/// The format of the settings file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SettingsForm {
    /// JSON with hooks.
    Hooks,
    /// codex's list of environments.
    Environments,
    /// JSON with the setting `shell` of opencode.
    Shell,
}

type Events = &'static [(&'static str, &'static str)];

/// Claude Code's events. Every tool comes to the hook, which knows those that it does not judge: a pattern of names leaves
/// out the tools that a later version adds.
const CLAUDE_CODE: Events = &[("PreToolUse", "*"), ("PermissionRequest", "Bash|Monitor")];
const EARLIER_CLAUDE_CODE: &[Events] = &[&[
    ("PreToolUse", "Bash|Write|Edit|MultiEdit|NotebookEdit|Read|Grep|Glob|WebFetch"),
    ("PermissionRequest", "Bash"),
]];
const CODEX: Events = &[("PreToolUse", "*"), ("PermissionRequest", "Bash|apply_patch")];
const EARLIER_CODEX: &[Events] = &[&[("PreToolUse", "Bash|apply_patch"), ("PermissionRequest", "Bash|apply_patch")]];
const GEMINI: Events = &[("BeforeTool", "*")];
const EARLIER_GEMINI: &[Events] = &[&[(
    "BeforeTool",
    "run_shell_command|write_file|replace|read_file|read_many_files|list_directory|glob|grep_search|\
     search_file_content|web_fetch",
)]];

/// The configuration that makes an agent use Stockade.
pub(super) struct Wiring {
    agent: AgentName,
    form: SettingsForm,
    /// The command line of the hook; for a list of environments, the program; for opencode, its shell.
    pub(super) command: String,
    /// The tested versions.
    pub(super) tested: &'static str,
    /// The events, each with a pattern of tools.
    events: Events,
    /// The events of earlier versions.
    earlier: &'static [Events],
    /// The hook's time limit, in the agent's unit. The hook itself answers earlier.
    limit: u64,
}

impl Wiring {
    pub(super) fn of(agent: AgentName, scope: Scope) -> Result<Self, InstallError> {
        let program = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
        let program = program.ok_or(InstallError::Unnamed)?;
        if (agent, scope) == (AgentName::Codex, Scope::User) {
            let tested = "Tested with codex 0.169.0.";
            return Ok(Self {
                agent,
                form: SettingsForm::Environments,
                command: program,
                tested,
                events: &[],
                earlier: &[],
                limit: 0,
            });
        }
        if agent == AgentName::Opencode {
            let shell = shell_setting::user_directory()?.join(crate::agents::opencode::NAME);
            let command = shell.into_os_string().into_string().map_err(|_| InstallError::Unnamed)?;
            let tested = "Tested with opencode 1.18.33.";
            return Ok(Self { agent, form: SettingsForm::Shell, command, tested, events: &[], earlier: &[], limit: 0 });
        }
        let command = format!("'{}' hook {}", program.replace('\'', r"'\''"), agent.as_str());
        let (events, earlier, limit, tested): (Events, &[Events], _, _) = match agent {
            AgentName::ClaudeCode => (CLAUDE_CODE, EARLIER_CLAUDE_CODE, 30, "Tested with Claude Code 2.1.325."),
            AgentName::Codex => (CODEX, EARLIER_CODEX, 30, "Tested with codex 0.169.0."),
            AgentName::Gemini => (GEMINI, EARLIER_GEMINI, 30_000, "Tested with gemini-cli 0.61.0."),
            AgentName::Opencode => (&[], &[], 0, ""),
        };
        Ok(Self { agent, form: SettingsForm::Hooks, command, tested, events, earlier, limit })
    }

    /// The settings file.
    pub(super) fn place(&self, scope: Scope) -> Result<PathBuf, InstallError> {
        if (self.form, scope) == (SettingsForm::Shell, Scope::User) {
            return Ok(shell_setting::file_in(&shell_setting::user_directory()?));
        }
        let directory = agent_directory(self.agent, scope)?;
        Ok(match (self.form, self.agent) {
            (SettingsForm::Shell, _) => shell_setting::file_in(&directory),
            (SettingsForm::Environments, _) => directory.join("environments.toml"),
            (SettingsForm::Hooks, AgentName::Codex) => directory.join("hooks.json"),
            (SettingsForm::Hooks, _) => directory.join("settings.json"),
        })
    }

    /// The entry for an event.
    fn entry(&self, matcher: &str, command: &str) -> Value {
        let hook = json!({ "type": "command", "command": command, "timeout": self.limit });
        json!({ "matcher": matcher, "hooks": [hook] })
    }

    /// The text with the hook.
    pub(super) fn added(&self, file: &SettingsFile, text: &str, command: &str) -> Result<String, InstallError> {
        self.added_for((self.events, switch::of(self.agent)), file, text, command)
    }

    /// Whether the text is this one with the hook of this version or of an earlier one, and nothing else.
    pub(super) fn is_all_that_was_added(&self, file: &SettingsFile, before: &str, text: &str, command: &str) -> bool {
        let all = std::iter::once(self.events).chain(self.earlier.iter().copied());
        let mut all = all.flat_map(|events| [(events, switch::of(self.agent)), (events, None)]);
        all.any(|form| self.added_for(form, file, before, command).is_ok_and(|made| made == text))
    }

    fn added_for(
        &self,
        (events, switch): (Events, Option<Switch>),
        file: &SettingsFile,
        text: &str,
        command: &str,
    ) -> Result<String, InstallError> {
        if self.form == SettingsForm::Environments {
            return environment::added(text, &OwnEnvironment::new(command))
                .map_err(|source| file.environment_error(source));
        }
        let mut changed = text.to_owned();
        let mut expected = if text.trim().is_empty() { json!({}) } else { meaning(file, text)? };
        if self.form == SettingsForm::Shell {
            changed = shell_setting::added(text, command).map_err(|source| file.text_error(source))?;
            expected =
                shell_setting::with_shell(expected, command).ok_or_else(|| InstallError::Meaning(file.path.clone()))?;
        }
        for (event, matcher) in events {
            let entry = self.entry(matcher, command);
            changed =
                json_text::append(&changed, &["hooks", event], &entry).map_err(|source| file.text_error(source))?;
            push(&mut expected, event, entry).ok_or_else(|| InstallError::Meaning(file.path.clone()))?;
        }
        if let Some(switch) = switch {
            changed = switch.added(&changed).map_err(|source| file.text_error(source))?;
            expected = switch.with(expected).ok_or_else(|| InstallError::Meaning(file.path.clone()))?;
        }
        if meaning(file, &changed)? != expected {
            return Err(InstallError::Meaning(file.path.clone()));
        }
        Ok(changed)
    }

    /// The text with the hook of another version, or of a moved program, replaced.
    pub(super) fn renewed(&self, file: &SettingsFile, text: &str) -> Result<String, InstallError> {
        if self.form == SettingsForm::Environments {
            return environment::renewed(text, &self.command).map_err(|source| file.environment_error(source));
        }
        self.added(file, &self.without_entries(file, text)?, &self.command)
    }

    /// The text without any hook of this program, and without the lists that are empty then: they were made for it. Where
    /// there are comments, those lists stay, since a comment may be about them.
    pub(super) fn removed(&self, file: &SettingsFile, text: &str) -> Result<String, InstallError> {
        let mut changed = self.without_entries(file, text)?;
        let has_comments = || json_text::without_comments(text).is_ok_and(|plain| plain != text);
        if self.form != SettingsForm::Hooks || changed == text || has_comments() {
            return Ok(changed);
        }
        for (event, _) in self.events {
            let emptied = json_text::take_out_empty(&changed, &["hooks", event]);
            changed = emptied.map_err(|source| file.text_error(source))?;
        }
        Ok(changed)
    }

    fn without_entries(&self, file: &SettingsFile, text: &str) -> Result<String, InstallError> {
        if self.form == SettingsForm::Environments {
            return environment::removed(text).map_err(|source| file.environment_error(source));
        }
        let mut changed = text.to_owned();
        if text.trim().is_empty() {
            return Ok(changed);
        }
        if self.form == SettingsForm::Shell {
            changed = shell_setting::removed(text).map_err(|source| file.text_error(source))?;
        }
        for (event, _) in self.events {
            let removed = json_text::remove(&changed, &["hooks", event], |entry| self.is_ours(entry));
            changed = removed.map_err(|source| file.text_error(source))?;
        }
        meaning(file, &changed)?;
        Ok(changed)
    }

    /// Checks that a hook in this file would be used, and could be removed.
    pub(super) fn check(&self, file: &SettingsFile) -> Result<(), InstallError> {
        let settings = file.text.as_deref().and_then(value);
        let key = settings.and_then(|settings| hooks_off::key_in(self.agent, &settings, &self.command));
        if let Some(key) = key.filter(|_| self.form == SettingsForm::Hooks) {
            return Err(InstallError::HooksOff { path: file.path.clone(), key });
        }
        self.check_entries(file)
    }

    /// Checks that this program's hooks have entries of their own.
    pub(super) fn check_entries(&self, file: &SettingsFile) -> Result<(), InstallError> {
        let Some(text) = file.text.as_deref().filter(|text| !text.trim().is_empty()) else { return Ok(()) };
        if self.form == SettingsForm::Environments {
            return Ok(());
        }
        let ending = format!(" hook {}", self.agent.as_str());
        let is_shared = |entry: &&str| {
            let hooks = value(entry).and_then(|entry| entry.get("hooks")?.as_array().cloned()).unwrap_or_default();
            let is_own =
                |hook: &Value| hook.get("command").and_then(Value::as_str).is_some_and(|line| line.ends_with(&ending));
            hooks.len() > 1 && hooks.iter().any(is_own)
        };
        for (event, _) in self.events {
            let found = json_text::elements(text, &["hooks", event]).map_err(|source| file.text_error(source))?;
            if found.iter().any(is_shared) {
                return Err(InstallError::Shared(file.path.clone()));
            }
        }
        Ok(())
    }

    /// Whether the file contains the hook as it would be installed.
    pub(super) fn is_in(&self, file: &SettingsFile, command: &str) -> Result<bool, InstallError> {
        let Some(text) = file.text.as_deref().filter(|text| !text.trim().is_empty()) else { return Ok(false) };
        if self.form == SettingsForm::Environments {
            return Ok(environment::is_default(text) && self.command_in(file)?.as_deref() == Some(command));
        }
        if self.form == SettingsForm::Shell {
            return Ok(self.command_in(file)?.as_deref() == Some(command));
        }
        for (event, matcher) in self.events {
            let wanted = self.entry(matcher, command);
            let found = json_text::elements(text, &["hooks", event]).map_err(|source| file.text_error(source))?;
            let ours: Vec<_> = found.into_iter().filter(|entry| self.is_ours(entry)).collect();
            if ours.len() != 1 || !ours.iter().all(|entry| value(entry).as_ref() == Some(&wanted)) {
                return Ok(false);
            }
        }
        switch::of(self.agent)
            .map_or(Ok(true), |switch| switch.is_settled_in(text).map_err(|source| file.text_error(source)))
    }

    /// The command line of the hook in the file.
    pub(super) fn command_in(&self, file: &SettingsFile) -> Result<Option<String>, InstallError> {
        let Some(text) = file.text.as_deref().filter(|text| !text.trim().is_empty()) else { return Ok(None) };
        if self.form == SettingsForm::Environments {
            let own = environment::found_in(text).map_err(|source| file.environment_error(source))?;
            return Ok(own.map(|own| own.program));
        }
        if self.form == SettingsForm::Shell {
            return shell_setting::found_in(text).map_err(|source| file.text_error(source));
        }
        for (event, _) in self.events {
            let found = json_text::elements(text, &["hooks", event]).map_err(|source| file.text_error(source))?;
            if let Some(command) = found.iter().find_map(|entry| self.command_of(entry)) {
                return Ok(Some(command));
            }
        }
        Ok(None)
    }

    /// The pattern of tools in the file's hook, if it is another one than would be installed.
    fn other_pattern_in(&self, file: &SettingsFile) -> Option<String> {
        let text = file.text.as_deref()?;
        self.events.iter().find_map(|(event, matcher)| {
            let entries = json_text::elements(text, &["hooks", event]).ok()?;
            let own = value(entries.into_iter().find(|entry| self.is_ours(entry))?)?;
            let found = own.get("matcher").and_then(Value::as_str).unwrap_or_default();
            (found != *matcher && !found.is_empty()).then(|| found.to_owned())
        })
    }

    fn command_of(&self, entry: &str) -> Option<String> {
        let value = value(entry)?;
        let [hook] = value.get("hooks")?.as_array()?.as_slice() else { return None };
        let command = hook.get("command")?.as_str()?;
        command.ends_with(&format!(" hook {}", self.agent.as_str())).then(|| command.to_owned())
    }

    fn is_ours(&self, entry: &str) -> bool {
        self.command_of(entry).is_some()
    }

    /// What the agent does then.
    pub(super) fn effect(&self) -> &'static str {
        match (self.agent, self.form) {
            (AgentName::Codex, SettingsForm::Hooks) => "asks Stockade before it runs a command or applies a patch,",
            _ => "runs its commands in Stockade",
        }
    }

    /// Notes for the user after the installation.
    pub(super) fn notes(&self, file: &SettingsFile) -> Vec<String> {
        match self.agent {
            AgentName::ClaudeCode => {
                let skills = "Claude Code runs no commands in the text of skills any more (`disableSkillShellExecution`), since no \
                     hook sees them; the setting stays after `--undo` of a changed file";
                lost_rules(file).into_iter().chain([skills.to_owned()]).collect()
            }
            AgentName::Codex if self.form == SettingsForm::Environments => Vec::new(),
            AgentName::Codex => vec![
                String::from("codex uses a new hook only after you have reviewed it there, with `/hooks`"),
                String::from(
                    "the hook refuses what the rules forbid or ask about; it puts no command into Stockade's sandbox",
                ),
            ],
            AgentName::Gemini => vec![String::from(
                "gemini-cli takes no variables from the `.env` of a project any more (`advanced.ignoreLocalEnv`), since \
                 commands may write it: put a key into `~/.gemini/.env`; the setting stays after `--undo` of a changed file",
            )],
            AgentName::Opencode => vec![String::from(
                "opencode takes settings from the project that it is started in, which may name another shell: `stockade \
                 doctor` says so there; commands can't write `.opencode`, but can write `opencode.json`",
            )],
        }
    }

    /// Makes what the settings name, if it is missing.
    pub(super) fn prepare(&self) -> Result<(), InstallError> {
        match self.form {
            SettingsForm::Shell => shell_setting::make_link(Path::new(&self.command)),
            SettingsForm::Hooks | SettingsForm::Environments => Ok(()),
        }
    }

    /// Why settings that are as they should be have no effect.
    pub(super) fn obstacle(&self, scope: Scope) -> Option<Obstacle> {
        match self.form {
            SettingsForm::Hooks => return hooks_off::found(self.agent, scope, &self.command),
            SettingsForm::Environments => return None,
            SettingsForm::Shell => {}
        }
        if !shell_setting::leads_here(Path::new(&self.command)) {
            let again = "run `stockade install opencode` again: opencode takes `bash` meanwhile";
            return Some(Obstacle::Off(format!("`{}` does not lead to this program: {again}", self.command)));
        }
        let (file, shell) = shell_setting::overruled_by().filter(|_| scope == Scope::User)?;
        Some(Obstacle::Off(format!("`{}` names another shell for this project, `{shell}`", file.display())))
    }
}

/// The directory of an agent's settings.
pub(super) fn agent_directory(agent: AgentName, scope: Scope) -> Result<PathBuf, InstallError> {
    let (variable, name) = match agent {
        AgentName::ClaudeCode => ("CLAUDE_CONFIG_DIR", ".claude"),
        AgentName::Codex => ("CODEX_HOME", ".codex"),
        // It takes the place of the home directory.
        AgentName::Gemini => ("GEMINI_CLI_HOME", ".gemini"),
        AgentName::Opencode => ("", ".opencode"),
    };
    if scope == Scope::Project {
        let here = std::env::current_dir();
        let here = here.map_err(|source| InstallError::System { act: "found", path: PathBuf::from("."), source })?;
        return Ok(here.join(name));
    }
    let named = (!variable.is_empty()).then(|| std::env::var_os(variable)).flatten().filter(|path| !path.is_empty());
    match (named.map(PathBuf::from), agent) {
        (Some(home), AgentName::Gemini) => Ok(home.join(name)),
        (Some(directory), _) => Ok(directory),
        (None, _) => Ok(std::env::home_dir().ok_or(InstallError::NoHome { variable: "HOME" })?.join(name)),
    }
}

/// Command rules that no longer match in Claude Code: it compares them with the replaced line, which is Stockade's.
fn lost_rules(file: &SettingsFile) -> Option<String> {
    let text = json_text::without_comments(file.text.as_deref()?).ok()?;
    let settings: Value = serde_json::from_str(&text).ok()?;
    let rules = |kind: &str| {
        let listed = settings.pointer(&format!("/permissions/{kind}")).and_then(Value::as_array).cloned();
        listed.unwrap_or_default().into_iter().filter_map(|rule| rule.as_str().map(String::from))
    };
    let lost: Vec<String> =
        ["deny", "ask"].into_iter().flat_map(rules).filter(|rule| rule.starts_with("Bash")).collect();
    (!lost.is_empty()).then(|| {
        format!(
            "Claude Code's own rules for commands do not count any more, since it runs `stockade hook run …` in their \
             place: write rules of Stockade for `{}`",
            lost.join("`, `")
        )
    })
}

fn meaning(file: &SettingsFile, text: &str) -> Result<Value, InstallError> {
    let plain = json_text::without_comments(text).map_err(|source| file.text_error(source))?;
    serde_json::from_str(&plain)
        .map_err(|_| file.text_error(TextError::NoJson { at: 0, expected: "a document that can be read" }))
}

fn value(text: &str) -> Option<Value> {
    serde_json::from_str(&json_text::without_comments(text).ok()?).ok()
}

fn push(settings: &mut Value, event: &str, entry: Value) -> Option<()> {
    let hooks = settings.as_object_mut()?.entry("hooks").or_insert_with(|| json!({}));
    let list = hooks.as_object_mut()?.entry(event).or_insert_with(|| json!([]));
    list.as_array_mut()?.push(entry);
    Some(())
}

/// An installed hook.
#[derive(Debug)]
pub(crate) struct Wired {
    pub(crate) agent: AgentName,
    pub(crate) path: PathBuf,
    /// What the settings are to name.
    pub(crate) command: String,
    /// Why it is not used, or may not be.
    pub(crate) obstacle: Option<Obstacle>,
}

/// Every hook of this program in the settings of the user and of the project in this directory.
pub(crate) fn wired() -> Vec<Wired> {
    let found = |(agent, scope, path): (AgentName, Scope, PathBuf)| {
        let wiring = Wiring::of(agent, scope).ok()?;
        let file = match SettingsFile::read(&path, scope) {
            Ok(file) => file,
            Err(error) => {
                let obstacle = Some(Obstacle::Off(stockade::with_causes(&error)));
                return Some(Wired { agent, path, command: wiring.command, obstacle });
            }
        };
        let obstacle = match (wiring.is_in(&file, &wiring.command), wiring.command_in(&file)) {
            (Err(error), _) | (_, Err(error)) => Some(Obstacle::Off(stockade::with_causes(&error))),
            (Ok(true), _) => {
                let refused = wiring.check(&file).err().map(|error| Obstacle::Off(stockade::with_causes(&error)));
                refused.or_else(|| wiring.obstacle(scope))
            }
            (Ok(false), Ok(None)) => return None,
            (Ok(false), Ok(Some(command))) => {
                let project = if scope == Scope::Project { " --project" } else { "" };
                let again = format!("run `stockade install {}{project}` again", agent.as_str());
                Some(Obstacle::Off(match wiring.other_pattern_in(&file) {
                    Some(pattern) if command == wiring.command => format!(
                        "its hook is for the tools `{pattern}` alone, so that others run commands unjudged: {again}"
                    ),
                    _ => format!("it is not as this program would write it (`{command}`): {again}"),
                }))
            }
        };
        Some(Wired { agent, path, command: wiring.command, obstacle })
    };
    places().into_iter().filter_map(found).collect()
}
