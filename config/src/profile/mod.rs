//! Permission profiles: named sets of additional permissions, each line with its reason.
//!
//! Settings have profiles of their own (`[profiles.NAME]`), which choose among settings. A permission profile only
//! adds: the caches and registries of a tool, a socket, a variable. The administrator's and the user's profiles
//! replace built-in ones of the same name; those of a trusted project need names of their own.

mod built_in;
mod expand;
mod form;
mod grant;
mod saved;
mod set;
mod template;

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::Schema;
use schemars::generate::SchemaSettings;
use stockade_protocol::{EnvironmentPolicy, RawText, ResourceLimits, VariableName};

use self::form::{PathForm, ProfileForm};
use crate::ConfigError;
use crate::source::Source;
use crate::values::check_profile_host;
use crate::written::Written;

pub use self::grant::{ProfileContext, ProfileGrant};
pub use self::saved::{ProfileUse, proposed_profile, save_profile};
pub use self::set::{NamedBy, PermissionProfiles};
pub use self::template::{NoValue, Template};

/// The name of the schema.
pub const PROFILE_SCHEMA_NAME: &str = "PermissionProfile";

/// The directory of profiles, below a directory of settings.
pub(crate) const DIRECTORY: &str = "profiles";

/// A named set of additional permissions.
#[derive(Clone, Debug, PartialEq)]
pub struct PermissionProfile {
    name: String,
    about: String,
    tools: Vec<String>,
    only_when_named: bool,
    lines: Vec<ProfileLine>,
    used_for: Vec<ProfileUse>,
    origin: ProfileOrigin,
}

/// Where a profile comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfileOrigin {
    /// It is built in.
    BuiltIn,
    /// A file of the administrator's.
    System(PathBuf),
    /// A file of the user's.
    User(PathBuf),
    /// A file of a trusted project.
    Project(PathBuf),
}

/// One permission, and why it is needed.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileLine {
    /// The permission.
    pub grants: LineGrant,
    /// Why.
    pub reason: String,
}

/// The permission of a profile's line.
#[derive(Clone, Debug, PartialEq)]
pub enum LineGrant {
    /// Writing below a path.
    Write(Template),
    /// Reading below a path.
    Read(Template),
    /// Connections to a host, or to the hosts of URLs.
    Connect(Template),
    /// Connections to a unix socket.
    Socket(Template),
    /// Programs below a directory, which are asked about as scripts of a skill.
    Skill(Template),
    /// An inherited variable, if only some are kept.
    Variable(VariableName),
    /// A variable with a value.
    Set(VariableName, String),
    /// A directory of the profile's own, named by a variable.
    State {
        /// The variable by which the tool finds it.
        variable: VariableName,
        /// The directory in the profile's own, if the tool has several.
        below: Option<String>,
    },
    /// What git writes in the metadata of the workspace's repository.
    Repository,
    /// Limits that are at least this high.
    Limits(ResourceLimits),
}

impl PermissionProfile {
    /// Reads the text of a profile's file. Its name is that of the file, without `.toml`.
    pub fn parse(text: &str, origin: ProfileOrigin, file: &Path) -> Result<Self, ConfigError> {
        let source = Source { file, text, base: Path::new("/"), home: None };
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        check_name(name).map_err(|problem| source.invalid(0..0, problem))?;
        let form: ProfileForm = source.parse()?;
        let mut lines = Vec::new();
        for (key, forms, grant) in [
            ("write", &form.write, LineGrant::Write as fn(Template) -> LineGrant),
            ("read", &form.read, LineGrant::Read),
            ("socket", &form.socket, LineGrant::Socket),
            ("skill", &form.skill, LineGrant::Skill),
        ] {
            for (index, line) in forms.iter().enumerate() {
                lines.push(path_line(&source, &format!("{key}[{index}]"), line, grant)?);
            }
        }
        for (index, line) in form.connect.iter().enumerate() {
            let key = format!("connect[{index}]");
            let host = source.value(&line.host, &format!("{key}.host"), |text| {
                let template = Template::parse(text)?;
                if !text.contains('$') {
                    check_profile_host(text)?;
                }
                Ok(template)
            })?;
            lines.push(ProfileLine {
                grants: LineGrant::Connect(host),
                reason: sentence(&source, &line.reason, &format!("{key}.reason"))?,
            });
        }
        if let Some(line) = &form.repository {
            let reason = sentence(&source, &line.reason, "repository.reason")?;
            lines.push(ProfileLine { grants: LineGrant::Repository, reason });
        }
        lines.extend(variable_lines(&source, &form, &origin)?);
        for (index, line) in form.limit.iter().enumerate() {
            let reason = sentence(&source, &line.reason, &format!("limit[{index}].reason"))?;
            lines.push(ProfileLine { grants: LineGrant::Limits(line.at_least), reason });
        }
        let used_for = saved::uses(&source, &form.used_for)?;
        if !used_for.is_empty() {
            not_of_project(&origin, "has `used_for`, by which commands would have it without being told so")
                .map_err(|problem| source.invalid(0..0, problem))?;
        }
        Ok(Self {
            name: name.to_owned(),
            about: sentence(&source, &form.about, "about")?,
            tools: source.list(&form.tools, "tools", tool_name)?,
            only_when_named: form.only_when_named || form.repository.is_some(),
            lines,
            used_for,
            origin,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its purpose.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The programs that need it.
    pub fn tools(&self) -> &[String] {
        &self.tools
    }

    /// Whether neither rules nor a project grant it.
    pub fn only_when_named(&self) -> bool {
        self.only_when_named
    }

    /// Whether it grants sockets, whose services act as the user: no project grants it, and no advice names it.
    pub fn has_sockets(&self) -> bool {
        self.lines.iter().any(|line| matches!(line.grants, LineGrant::Socket(_)))
    }

    /// Its lines.
    pub fn lines(&self) -> &[ProfileLine] {
        &self.lines
    }

    /// The commands that have it without being told so.
    pub fn used_for(&self) -> &[ProfileUse] {
        &self.used_for
    }

    /// Where it comes from.
    pub fn origin(&self) -> &ProfileOrigin {
        &self.origin
    }
}

/// The JSON Schema (draft 2020-12) of a profile's file.
pub fn profile_schema() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<ProfileForm>()
}

/// Checks the name of a profile.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(is_plain) && !name.starts_with('-') {
        return Ok(());
    }
    let shown = RawText::from(name);
    Err(format!("`{shown}` is no name of a profile: use at most 64 lower-case letters, digits and `-`"))
}

/// The lines that pass on and set variables.
fn variable_lines(
    source: &Source<'_>,
    form: &ProfileForm,
    origin: &ProfileOrigin,
) -> Result<Vec<ProfileLine>, ConfigError> {
    let mut lines = Vec::new();
    for (index, line) in form.env.iter().enumerate() {
        let key = format!("env[{index}]");
        let name = source.value(&line.name, &format!("{key}.name"), variable_name)?;
        let value =
            line.value.as_ref().map(|value| source.value(value, &format!("{key}.value"), |text| set_to(text, origin)));
        let grants = match value.transpose()? {
            Some(value) => LineGrant::Set(name, value),
            None => LineGrant::Variable(name),
        };
        lines.push(ProfileLine { grants, reason: sentence(source, &line.reason, &format!("{key}.reason"))? });
    }
    for (index, line) in form.state.iter().enumerate() {
        let key = format!("state[{index}]");
        let variable = source.value(&line.variable, &format!("{key}.variable"), |text| {
            not_of_project(origin, "has no state of its own")?;
            variable_name(text)
        })?;
        let below = line.below.as_ref().map(|below| source.value(below, &format!("{key}.below"), directory_name));
        let grants = LineGrant::State { variable, below: below.transpose()? };
        lines.push(ProfileLine { grants, reason: sentence(source, &line.reason, &format!("{key}.reason"))? });
    }
    Ok(lines)
}

fn set_to(text: &str, origin: &ProfileOrigin) -> Result<String, String> {
    not_of_project(origin, "sets no variable")?;
    match text.contains(char::is_control) {
        true => Err(String::from("a control character has no meaning here: leave it out")),
        false => Ok(text.to_owned()),
    }
}

fn not_of_project(origin: &ProfileOrigin, what: &str) -> Result<(), String> {
    match origin {
        ProfileOrigin::BuiltIn | ProfileOrigin::System(_) | ProfileOrigin::User(_) => Ok(()),
        ProfileOrigin::Project(_) => {
            Err(format!("a project's profile {what}: move the profile to `~/.config/stockade/profiles`"))
        }
    }
}

fn directory_name(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(String::from("write the name of one directory: at most 64 letters, digits, `-` and `_`")),
    }
}

fn path_line(
    source: &Source<'_>,
    key: &str,
    form: &PathForm,
    grant: fn(Template) -> LineGrant,
) -> Result<ProfileLine, ConfigError> {
    let path = source.value(&form.path, &format!("{key}.path"), |text| {
        let template = Template::parse(text)?;
        if !text.starts_with(['/', '$']) && !text.starts_with("~/") {
            return Err(format!("`{text}` is not absolute: begin with `/`, `~/` or a variable"));
        }
        if text.contains(['*', '?', '[']) {
            return Err(format!("`{text}` is a pattern: name a file or directory"));
        }
        if text.split('/').any(|part| part == "..") {
            return Err(format!("`{text}` has `..` in it: write the path that it leads to"));
        }
        Ok(template)
    })?;
    Ok(ProfileLine { grants: grant(path), reason: sentence(source, &form.reason, &format!("{key}.reason"))? })
}

/// A text for a person.
fn sentence(source: &Source<'_>, text: &Written<String>, key: &str) -> Result<String, ConfigError> {
    source.value(text, key, |text| match text.trim() {
        "" => Err(String::from("say what it is for")),
        words => Ok(words.to_owned()),
    })
}

fn tool_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(String::from("write the bare name of a program"));
    }
    Ok(text.to_owned())
}

/// A variable that holds no secret and loads no code.
fn variable_name(text: &str) -> Result<VariableName, String> {
    if !EnvironmentPolicy::default().inherits(text) {
        return Err(format!(
            "`{text}` usually holds a secret, or makes programs load code, and no profile passes it on: pass \
             `--env {text}` to the command that needs it"
        ));
    }
    text.parse().map_err(|error: stockade_protocol::Invalid| error.to_string())
}

impl fmt::Display for ProfileOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::System(file) | Self::User(file) | Self::Project(file) => write!(f, "{}", file.display()),
        }
    }
}

impl fmt::Display for LineGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(path) => write!(f, "write {path}"),
            Self::Read(path) => write!(f, "read {path}"),
            Self::Connect(host) => write!(f, "connect {host}"),
            Self::Socket(path) => write!(f, "socket {path}"),
            Self::Skill(path) => write!(f, "skills {path}"),
            Self::Repository => f.write_str("repository of the workspace"),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Set(name, value) => write!(f, "set {name}={value}"),
            Self::State { variable, below: None } => write!(f, "state {variable}"),
            Self::State { variable, below: Some(below) } => write!(f, "state {variable} ({below})"),
            Self::Limits(limits) => {
                f.write_str("limits")?;
                let each = [
                    ("cpu_seconds", limits.cpu_seconds),
                    ("memory_bytes", limits.memory_bytes),
                    ("processes", limits.processes),
                    ("file_size_bytes", limits.file_size_bytes),
                    ("open_files", limits.open_files),
                ];
                each.iter()
                    .filter_map(|(name, limit)| Some((name, (*limit)?)))
                    .try_for_each(|(name, limit)| write!(f, " {name}={limit}"))
            }
        }
    }
}
