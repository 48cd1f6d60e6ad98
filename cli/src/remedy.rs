//! The flags that would have allowed a denied act, as typed; or the settings, if no flags can be given.

use std::path::Path;

use stockade::profiles::Advisable;
use stockade_config::{Maximum, SandboxMode, Settings};
use stockade_protocol::{
    AbsPath, Access, Evidence, FileRule, FileTarget, PermissionAmendment, RuleSource, Violation, ViolationTarget,
};
use stockade_sandboxing::{HostFiles as _, RealFiles};

/// The target of a remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrittenFor {
    CommandLine,
    SettingsFile,
}

/// The context of a remedy.
pub(crate) struct Remedies {
    written_for: WrittenFor,
    mode: SandboxMode,
    /// Reading is restricted to named paths.
    reads_are_named: bool,
    workspace: Vec<AbsPath>,
    /// The session that has to end before flags take effect.
    session: Option<String>,
    profiles: Advisable,
    bound: Option<Bound>,
}

/// The administrator's maximum, beyond which no remedy helps.
struct Bound {
    maximum: Maximum,
    settings: Settings,
    /// The settings are those of the command, and so is the workspace.
    is_of_command: bool,
}

impl Bound {
    fn new(settings: &Settings) -> Option<Self> {
        let maximum = settings.maximum.clone()?;
        Some(Self { maximum, settings: settings.clone(), is_of_command: true })
    }

    /// For a session of a server, whose settings are unknown here.
    #[cfg(unix)]
    fn of_system() -> Option<Self> {
        use stockade_config::{ConfigLoader, Layer};

        let loaded = ConfigLoader::standard().ok()?.only_system().load(Layer::default()).ok()?;
        Some(Self { is_of_command: false, ..Self::new(&loaded.settings)? })
    }

    fn forbids(&self, violation: &Violation, workspace: &[AbsPath]) -> bool {
        if let ViolationTarget::Limit(field) = &violation.target {
            return self.is_of_command && !self.maximum.allows_raising(field, &self.settings);
        }
        if is_refused_call(violation) {
            return !self.maximum.allows_unsandboxed();
        }
        match &violation.amendment {
            // The maximum may allow the workspace, which is unknown.
            Some(PermissionAmendment::File(_)) if !self.is_of_command => false,
            Some(amendment) => !self.maximum.allows(amendment, workspace),
            None => false,
        }
    }
}

impl Remedies {
    pub(crate) fn new(settings: &Settings, workspace: Vec<AbsPath>) -> Self {
        let (mode, reads_are_named) = (settings.mode, settings.readable_roots.is_some());
        let (profiles, bound) = (Advisable::default(), Bound::new(settings));
        Self { written_for: WrittenFor::CommandLine, mode, reads_are_named, workspace, session: None, profiles, bound }
    }

    /// With the permission profiles that fit the command.
    pub(crate) fn with_profiles(self, profiles: Advisable) -> Self {
        Self { profiles, ..self }
    }

    /// For an open session, whose settings are unknown here. Flags can't change it.
    #[cfg(unix)]
    pub(crate) fn in_session(name: &str) -> Self {
        let (written_for, mode) = (WrittenFor::CommandLine, SandboxMode::WorkspaceWrite);
        let (session, profiles, bound) = (Some(name.to_owned()), Advisable::default(), Bound::of_system());
        Self { written_for, mode, reads_are_named: false, workspace: Vec::new(), session, profiles, bound }
    }

    /// For a command without flags typed by a person.
    #[cfg(unix)]
    pub(crate) fn in_settings() -> Self {
        let (written_for, mode) = (WrittenFor::SettingsFile, SandboxMode::WorkspaceWrite);
        let (profiles, bound) = (Advisable::default(), Bound::of_system());
        Self { written_for, mode, reads_are_named: false, workspace: Vec::new(), session: None, profiles, bound }
    }

    /// With the same settings, for a caller that takes no flags: `stockade-sh`.
    pub(crate) fn without_flags(self) -> Self {
        Self { written_for: WrittenFor::SettingsFile, session: None, ..self }
    }

    /// The file of the administrator's maximum, if that forbids the denied act.
    pub(crate) fn forbidding(&self, violation: &Violation) -> Option<&Path> {
        let bound = self.bound.as_ref().filter(|bound| bound.forbids(violation, &self.workspace))?;
        Some(bound.maximum.file())
    }

    /// Whether the whole file system could be made writable.
    pub(crate) fn can_open_everything(&self) -> bool {
        let Ok(root) = "/".parse() else { return false };
        let everything = PermissionAmendment::File(FileRule::path(root, Access::Write));
        self.bound.as_ref().is_none_or(|bound| bound.maximum.allows(&everything, &self.workspace))
    }

    /// The text to type, in backticks; `None` if no flag helps.
    pub(crate) fn of(&self, violation: &Violation) -> Option<String> {
        if self.forbidding(violation).is_some() {
            return None;
        }
        if self.written_for == WrittenFor::SettingsFile {
            return self.setting(violation);
        }
        if self.session.is_none() && is_refused_call(violation) {
            return Some(String::from("nothing less than `--sandbox danger-full-access`"));
        }
        let flags = self.flags(violation)?;
        Some(match &self.session {
            None => flags,
            Some(name) => format!("`stockade session end {name}`, then {flags} with the next command,"),
        })
    }

    fn flags(&self, violation: &Violation) -> Option<String> {
        if let ViolationTarget::Limit(field) = &violation.target {
            return limit(field);
        }
        let amendment = violation.amendment.as_ref()?;
        if let Some(name) = self.profiles.covering(amendment) {
            return Some(format!("`--with {name}`"));
        }
        // Only an engine that observes can let git write its metadata, and nothing else there.
        if let (Evidence::Observed, ViolationTarget::Path(path)) = (violation.evidence, &violation.target)
            && let Some(name) = self.profiles.covering_metadata(path)
        {
            return Some(format!("`--with {name}`"));
        }
        match amendment {
            PermissionAmendment::File(rule) => {
                let FileTarget::Path(path) = &rule.target else { return None };
                let is_protected = matches!(&violation.rule, Some(stockade_protocol::DenyingRule::File(rule))
                    if rule.source == RuleSource::ProtectedMetadata);
                Some(match rule.access {
                    Access::Write => self.writing(path, is_protected),
                    Access::Read | Access::Scratch | Access::None => self.reading(path),
                })
            }
            PermissionAmendment::Network(rule) => Some(format!("`--allow-host {}`", rule.destinations())),
            PermissionAmendment::UnixSocket(path) => Some(format!("`--allow-socket {}`", word(path))),
        }
    }

    fn writing(&self, path: &AbsPath, is_protected: bool) -> String {
        let in_workspace = !is_protected && self.is_in_workspace(path);
        let mode = match self.mode {
            // A private `/tmp` comes with it.
            SandboxMode::ReadOnly if in_workspace || (!is_protected && is_temporary(path)) => {
                return String::from("`--sandbox workspace-write`");
            }
            SandboxMode::ReadOnly => "--sandbox workspace-write ",
            SandboxMode::WorkspaceWrite | SandboxMode::ExternalSandbox | SandboxMode::DangerFullAccess => "",
        };
        let path_word = word(path);
        // Only existing paths can be granted.
        let made =
            if RealFiles.kind(path).is_none() { format!("after `mkdir -p {path_word}`, ") } else { String::new() };
        format!("{made}`{mode}--writable {path_word}`")
    }

    /// The line for the user's settings.
    fn setting(&self, violation: &Violation) -> Option<String> {
        let file = settings_file();
        if let ViolationTarget::Limit(field) = &violation.target {
            return Some(format!("a higher `{field}` below `[limits]` in `{file}`"));
        }
        let amendment = violation.amendment.as_ref()?;
        if let Some(name) = self.profiles.covering(amendment) {
            return Some(format!("`with = [\"{name}\"]` in `{file}`"));
        }
        let in_sandbox = |made: &str, lines: &str| Some(format!("{made}{lines} below `[sandbox]` in `{file}`"));
        let list = |key: &str, text: String| format!("`{key} = [{}]`", serde_json::Value::String(text));
        match amendment {
            PermissionAmendment::File(rule) => {
                let FileTarget::Path(path) = &rule.target else { return None };
                match rule.access {
                    Access::Write => {
                        let missing = RealFiles.kind(path).is_none();
                        let made = if missing { format!("after `mkdir -p {}`, ", word(path)) } else { String::new() };
                        let roots = list("writable_roots", path.to_string());
                        let writable = "`mode = \"workspace-write\"`";
                        match self.mode {
                            SandboxMode::ReadOnly if self.is_in_workspace(path) => in_sandbox("", writable),
                            SandboxMode::ReadOnly => in_sandbox(&made, &format!("{writable} and {roots}")),
                            SandboxMode::WorkspaceWrite
                            | SandboxMode::ExternalSandbox
                            | SandboxMode::DangerFullAccess => in_sandbox(&made, &roots),
                        }
                    }
                    Access::Read | Access::Scratch | Access::None => {
                        let path = serde_json::Value::String(path.to_string());
                        in_sandbox("", &format!("`readable_roots = [\"/\", {path}]`"))
                    }
                }
            }
            PermissionAmendment::Network(rule) => in_sandbox("", &list("allow_hosts", rule.destinations())),
            PermissionAmendment::UnixSocket(path) => in_sandbox("", &list("unix_sockets", path.to_string())),
        }
    }

    fn is_in_workspace(&self, path: &AbsPath) -> bool {
        self.workspace.iter().any(|root| path.starts_with(root))
    }

    /// The flag for reading a path. If everything is readable, a flag that names one path would deny the rest.
    fn reading(&self, path: &AbsPath) -> String {
        let rest = if self.reads_are_named { "" } else { "--readable / " };
        format!("`{rest}--readable {}`", word(path))
    }
}

/// Whether it is a system call that no policy allows, and that was seen: no flag lifts that but the one that lifts everything.
fn is_refused_call(violation: &Violation) -> bool {
    let is_call = matches!(&violation.target, ViolationTarget::SystemCall(name) if name != "socket");
    is_call && violation.evidence == Evidence::Observed
}

/// The user's settings, as a person would name them.
pub(crate) fn settings_file() -> String {
    match stockade_config::user_variable("XDG_CONFIG_HOME").filter(|place| !place.is_empty()) {
        Some(place) => std::path::Path::new(&place).join("stockade/config.toml").display().to_string(),
        None => String::from("~/.config/stockade/config.toml"),
    }
}

fn is_temporary(path: &AbsPath) -> bool {
    "/tmp".parse().is_ok_and(|tmp| path.starts_with(&tmp))
}

fn limit(field: &str) -> Option<String> {
    let name = match field {
        "cpu_seconds" => "cpu",
        "memory_bytes" => "memory",
        "processes" => "pids",
        "file_size_bytes" => "fsize",
        "open_files" => "files",
        _ => return None,
    };
    Some(format!("a higher `--limit {name}=…`"))
}

/// A path as a shell takes it for one word.
fn word(path: &AbsPath) -> String {
    let text = path.to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%=".contains(c);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
