//! The settings of one source: a file, a profile, or the command line's flags. Paths are absolute here, and every
//! value has its type.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Argv, AskForApproval, EnvironmentInherit, FileTarget, HostRule, NamePattern, ResourceLimits, VariableName,
};

use crate::device::DevicePath;
use crate::form::{
    AllowedCommands, AuditDurability, EngineName, EnvForm, NamesForm, NetworkMode, SandboxForm, SandboxMode,
    SettingsForm,
};
use crate::loss::LossName;
use crate::source::Source;
use crate::values::{no_parent_of_link, parse_duration, parse_host, resolve_path, resolve_target};
use crate::written::Written;
use crate::{ConfigError, Hook};

/// The settings of one source. Unset values are `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The profile to use.
    pub profile: Option<String>,
    /// When a person is asked.
    pub ask: Option<AskForApproval>,
    /// The sandbox engine.
    pub engine: Option<EngineName>,
    /// Whether denials are observed.
    pub observe: Option<bool>,
    /// The timeout of a command.
    pub timeout: Option<Duration>,
    /// Limit on the output kept.
    pub output_cap_bytes: Option<NonZeroU64>,
    /// How much a command is trusted with.
    pub mode: Option<SandboxMode>,
    /// Directories that may be written besides the workspace.
    pub writable_roots: Option<Vec<AbsPath>>,
    /// The only directories that may be read.
    pub readable_roots: Option<Vec<AbsPath>>,
    /// Paths and globs that may never be read.
    pub deny_read: Vec<FileTarget>,
    /// The network.
    pub network: Option<NetworkMode>,
    /// Hosts that may be reached.
    pub allow_hosts: Option<Vec<HostRule>>,
    /// Hosts that may never be reached.
    pub deny_hosts: Vec<HostRule>,
    /// Unix sockets that may be connected to.
    pub unix_sockets: Option<Vec<AbsPath>>,
    /// Devices that may be used.
    pub devices: Option<Vec<DevicePath>>,
    /// Restrictions that may be dropped if the sandbox can't enforce them.
    pub accept_losses: Option<Vec<LossName>>,
    /// Permission profiles that every command has.
    pub with: Option<Vec<String>>,
    /// Give the command no private directory at `$TMPDIR`.
    pub exclude_tmpdir_env_var: Option<bool>,
    /// Give the command no private `/tmp`.
    pub exclude_slash_tmp: Option<bool>,
    /// Changes of the list of protected names.
    pub protected_names: Changes<String>,
    /// Changes of the list of masked credentials.
    pub credentials: Changes<AbsPath>,
    /// How much of the machine a command may use.
    pub limits: ResourceLimits,
    /// What to start the environment from.
    pub inherit: Option<EnvironmentInherit>,
    /// Keep inherited variables whose names usually hold a secret.
    pub ignore_default_excludes: Option<bool>,
    /// Inherited variables to drop.
    pub exclude: BTreeSet<NamePattern>,
    /// Variables to set.
    pub set: BTreeMap<VariableName, String>,
    /// The only variables to keep.
    pub include_only: Option<BTreeSet<NamePattern>>,
    /// Refuse what can't be written to the trail.
    pub audit_required: Option<bool>,
    /// When a record is safe.
    pub audit_durability: Option<AuditDurability>,
    /// The directory of the trail.
    pub audit_directory: Option<PathBuf>,
    /// A program that answers approval requests.
    pub hook: Option<Hook>,
    /// A program that says how risky a request is, and its arguments.
    pub risk_hook: Option<Argv>,
    /// Where a command runs whose rule allows it without `outside`.
    pub rules_allow: Option<AllowedCommands>,
}

/// Changes of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes<T> {
    /// Put on it.
    pub add: Vec<T>,
    /// Taken off it.
    pub remove: Vec<T>,
}

impl<T> Default for Changes<T> {
    fn default() -> Self {
        Self { add: Vec::new(), remove: Vec::new() }
    }
}

impl Layer {
    /// Converts a file's form to typed settings.
    pub(crate) fn read(form: &SettingsForm, source: &Source<'_>) -> Result<Self, ConfigError> {
        let mut layer = Self {
            ask: form.ask,
            engine: form.engine,
            observe: form.observe,
            timeout: form.timeout.as_ref().map(|text| source.value(text, "timeout", parse_duration)).transpose()?,
            output_cap_bytes: form.output_cap_bytes,
            protected_names: names(&form.protected_names, source)?,
            credentials: Changes {
                add: source.list(&form.credentials.add, "credentials.add", |text| resolve_path(text, source))?,
                remove: source
                    .list(&form.credentials.remove, "credentials.remove", |text| resolve_path(text, source))?,
            },
            limits: form.limits.read(source)?,
            rules_allow: form.rules.as_ref().and_then(|rules| rules.value().allow),
            ..Self::default()
        };
        layer.with = form
            .with
            .as_ref()
            .map(|names| source.list(names, "with", |name| crate::profile::check_name(name).map(|()| name.to_owned())))
            .transpose()?;
        layer.read_sandbox(&form.sandbox, source)?;
        layer.read_env(&form.env, source)?;
        if let Some(audit) = form.audit.as_ref().map(Written::value) {
            layer.audit_required = audit.required;
            layer.audit_durability = audit.durability;
            let path =
                audit.path.as_ref().map(|text| source.value(text, "audit.path", |text| resolve_path(text, source)));
            layer.audit_directory = path.transpose()?.and_then(|path| path.to_host_path());
        }
        if let Some(approver) = form.approver.as_ref().map(Written::value) {
            layer.hook = Some(read_hook(approver, source)?);
        }
        if let Some(risk) = form.risk.as_ref().map(Written::value) {
            layer.risk_hook = Some(read_program(&risk.hook, "risk.hook", source)?);
        }
        Ok(layer)
    }

    /// Removes the keys that a project may not set in its own file either, and returns notices about them: a profile
    /// chosen by a project lets no command leave the sandbox and accepts no losses.
    pub(crate) fn without_own_keys(&mut self, profile: &str) -> Vec<String> {
        let outside = self.rules_allow.take_if(|allowed| *allowed == AllowedCommands::Outside).map(|_| "rules.allow");
        let losses = self.accept_losses.take().map(|_| "sandbox.accept_losses");
        let notice = |key| {
            format!(
                "`{key}` of the profile `{profile}` does not count: the project chose it; pass `--profile {profile}`"
            )
        };
        outside.into_iter().chain(losses).map(notice).collect()
    }

    /// Whether it sets the sandbox policy.
    pub(crate) fn describes_sandbox(&self) -> bool {
        self.mode.is_some()
            || self.writable_roots.is_some()
            || self.readable_roots.is_some()
            || !self.deny_read.is_empty()
            || self.network.is_some()
            || self.allow_hosts.is_some()
            || !self.deny_hosts.is_empty()
            || self.unix_sockets.is_some()
            || self.devices.is_some()
            || self.with.is_some()
    }

    pub(crate) fn read_sandbox(&mut self, form: &SandboxForm, source: &Source<'_>) -> Result<(), ConfigError> {
        let roots = |list: &Option<Vec<Written<String>>>, key: &'static str| {
            list.as_ref().map(|list| source.list(list, key, |text| resolve_path(text, source))).transpose()
        };
        self.mode = form.mode;
        self.writable_roots = roots(&form.writable_roots, "sandbox.writable_roots")?;
        self.readable_roots = roots(&form.readable_roots, "sandbox.readable_roots")?;
        self.deny_read = source.list(&form.deny_read, "sandbox.deny_read", |text| resolve_target(text, source))?;
        self.network = form.network;
        let allow = |text: &str| parse_host(text, stockade_protocol::Decision::Allow);
        let deny = |text: &str| parse_host(text, stockade_protocol::Decision::Forbidden);
        let allowed = form.allow_hosts.as_ref().map(|list| source.list(list, "sandbox.allow_hosts", allow));
        self.allow_hosts = allowed.transpose()?;
        self.deny_hosts = source.list(&form.deny_hosts, "sandbox.deny_hosts", deny)?;
        self.unix_sockets = roots(&form.unix_sockets, "sandbox.unix_sockets")?;
        let device =
            |text: &str| DevicePath::in_settings(resolve_path(text, source)?).map_err(|error| error.to_string());
        let devices = form.devices.as_ref().map(|list| source.list(list, "sandbox.devices", device));
        self.devices = devices.transpose()?;
        self.accept_losses = form.accept_losses.as_ref().map(|losses| losses.value().clone());
        self.exclude_tmpdir_env_var = form.exclude_tmpdir_env_var;
        self.exclude_slash_tmp = form.exclude_slash_tmp;
        Ok(())
    }

    pub(crate) fn read_env(&mut self, form: &EnvForm, source: &Source<'_>) -> Result<(), ConfigError> {
        if let Some((name, _)) = form.set.iter().find(|(_, value)| value.contains('\0')) {
            let at = source.text.find(name.as_str()).unwrap_or_default();
            let problem = format!("`env.set.{name}`: no variable can hold a NUL character: leave it out");
            return Err(source.invalid(at..at, problem));
        }
        self.inherit = form.inherit;
        self.ignore_default_excludes = form.ignore_default_excludes;
        self.exclude = form.exclude.clone();
        self.set = form.set.clone();
        self.include_only = form.include_only.clone();
        Ok(())
    }
}

/// Reads protected names; each is one component, not a path.
fn names(form: &NamesForm, source: &Source<'_>) -> Result<Changes<String>, ConfigError> {
    let name = |text: &str| match text {
        "" | "." | ".." => Err(String::from("a name is missing")),
        text if text.contains(['/', '\0']) => {
            Err(String::from("give one name, without `/`: it counts below every root"))
        }
        text => Ok(text.to_owned()),
    };
    Ok(Changes {
        add: source.list(&form.add, "protected_names.add", name)?,
        remove: source.list(&form.remove, "protected_names.remove", name)?,
    })
}

fn read_hook(form: &crate::form::ApproverForm, source: &Source<'_>) -> Result<Hook, ConfigError> {
    let command = read_program(&form.hook, "approver.hook", source)?;
    let timeout =
        form.timeout.as_ref().map(|text| source.value(text, "approver.timeout", parse_duration)).transpose()?;
    Ok(Hook { command, timeout })
}

/// A program by its path, and its arguments.
fn read_program(form: &[Written<String>], key: &str, source: &Source<'_>) -> Result<Argv, ConfigError> {
    let mut words: Vec<String> = form.iter().map(|word| word.value().clone()).collect();
    if let (Some(program), Some(first)) = (form.first(), words.first_mut()) {
        *first = source.value(program, key, |text| match resolve_path(text, source) {
            Ok(path) => path.as_raw().as_str().map(str::to_owned).ok_or_else(|| String::from("the path is not UTF-8")),
            Err(error) => Err(error),
        })?;
    }
    for word in form.iter().skip(1) {
        source.value(word, key, no_parent_of_link)?;
    }
    let place = form.first().map_or(0..0, Written::span);
    Argv::parse(words.iter().map(String::as_str)).map_err(|error| source.invalid(place, format!("`{key}`: {error}")))
}

impl Source<'_> {
    /// One value, read from its text.
    pub(crate) fn value<T>(
        &self,
        written: &Written<String>,
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        read(written.value()).map_err(|problem| self.invalid(written.span(), format!("`{key}`: {problem}")))
    }

    /// Each value of a list.
    pub(crate) fn list<T>(
        &self,
        list: &[Written<String>],
        key: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Vec<T>, ConfigError> {
        let entry =
            |(index, written): (usize, &Written<String>)| self.value(written, &format!("{key}[{index}]"), &read);
        list.iter().enumerate().map(entry).collect()
    }
}
