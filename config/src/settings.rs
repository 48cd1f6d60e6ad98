//! The settings of a run: the files, the profile and the flags merged, with the origin of each value.
//!
//! The nearest source wins: flags, then the profile, then the project, the user, the system. Granting lists
//! (`writable_roots`, `readable_roots`, `allow_hosts`, `unix_sockets`, `devices`, `with`, `accept_losses`, `include_only`) are
//! those of the nearest file that has them, and flags add to them. Denying lists (`deny_read`, `deny_hosts`,
//! `exclude`) add up over all sources. Limits and variables are merged one by one.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, Argv, AskForApproval, EnvironmentPolicy, FileRule, FileRules, FileTarget, HostPaths, HostRule,
    HostRules, HttpMethods, Invalid, NetworkAccess, NetworkPolicy, PROTECTED_NAMES, Permissions, ReadOnlyAccess,
    ResourceLimits, RuleSource, SandboxPolicy,
};

use crate::ConfigError;
use crate::device::DevicePath;
use crate::form::{AllowedCommands, AuditDurability, EngineName, NetworkMode, SandboxMode};
use crate::layer::Layer;
use crate::lists::{Lists, add, change, grant};
use crate::loss::LossName;
use crate::maximum::Maximum;
use crate::origin::Origin;
use crate::profile::ProfileGrant;

/// A program that answers approval requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The program and its arguments.
    pub command: Argv,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// The effective settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The profile in use.
    pub profile: Option<String>,
    /// When a person is asked; `None` leaves the choice to the program, which knows if there is a terminal
    /// ([`Settings::ask_or`]).
    pub ask: Option<AskForApproval>,
    /// The sandbox engine.
    pub engine: EngineName,
    /// Whether denials are observed, instead of inferred from the output.
    pub observe: bool,
    /// The timeout of a command; `None` for no timeout.
    pub timeout: Option<Duration>,
    /// Limit on the output kept, per stream.
    pub output_cap_bytes: NonZeroU64,
    /// How much a command is trusted with.
    pub mode: SandboxMode,
    /// Directories that may be written besides the workspace.
    pub writable_roots: Vec<AbsPath>,
    /// The only directories that may be read; everything if `None`.
    pub readable_roots: Option<Vec<AbsPath>>,
    /// Paths and globs that may never be read.
    pub deny_read: Vec<FileTarget>,
    /// The network.
    pub network: NetworkMode,
    /// Rules by host: those to be reached and those never to be reached.
    pub hosts: Vec<HostRule>,
    /// Unix sockets that may be connected to.
    pub unix_sockets: Vec<AbsPath>,
    /// Devices that may be used.
    pub devices: Vec<DevicePath>,
    /// The permission profiles that every command has.
    pub with: Vec<String>,
    /// The permissions of those profiles.
    pub granted: ProfileGrant,
    /// Restrictions that may be dropped if the sandbox can't enforce them.
    pub accept_losses: Vec<LossName>,
    /// Give the command no private directory at `$TMPDIR`.
    pub exclude_tmpdir_env_var: bool,
    /// Give the command no private `/tmp`.
    pub exclude_slash_tmp: bool,
    /// Names that are protected below every writable root.
    pub protected_names: Vec<String>,
    /// Credentials that are masked unless they are named.
    pub credentials: Vec<AbsPath>,
    /// How much of the machine a command may use.
    pub limits: ResourceLimits,
    /// Which environment variables a command sees.
    pub environment: EnvironmentPolicy,
    /// Refuse what can't be written to the trail.
    pub audit_required: bool,
    /// When a record of the trail is safe.
    pub audit_durability: AuditDurability,
    /// The directory of the trail; the user's own if `None`.
    pub audit_directory: Option<PathBuf>,
    /// A program that answers approval requests.
    pub hook: Option<Hook>,
    /// A program that says how risky a request is, and its arguments.
    pub risk_hook: Option<Argv>,
    /// Where a command runs whose rule allows it without `outside`.
    pub rules_allow: AllowedCommands,
    /// Whether the command line sets the sandbox policy, by flags or by a profile. No rule lets a command leave such a
    /// sandbox.
    pub names_sandbox: bool,
    /// Whether a project's file sets variables. They could make a program load files of the workspace, so no rule lets
    /// a command leave the sandbox then.
    pub project_sets_variables: bool,
    /// Stockade's own files and directories, and the programs and files that the settings name. No sandboxed command
    /// may write them, regardless of grants.
    pub own_files: Vec<AbsPath>,
    /// Files that no sandboxed command may read either.
    pub hidden_files: Vec<AbsPath>,
    /// The administrator's maximum.
    pub maximum: Option<Maximum>,
    pub(crate) origins: BTreeMap<String, Origin>,
}

/// The default is one mebibyte per stream.
const OUTPUT_CAP: NonZeroU64 = NonZeroU64::new(1024 * 1024).unwrap();

impl Settings {
    /// The default settings, with these credentials masked.
    pub fn new(credentials: Vec<AbsPath>) -> Self {
        Self {
            profile: None,
            ask: None,
            engine: EngineName::default(),
            observe: true,
            timeout: None,
            output_cap_bytes: OUTPUT_CAP,
            mode: SandboxMode::default(),
            writable_roots: Vec::new(),
            readable_roots: None,
            deny_read: Vec::new(),
            network: NetworkMode::default(),
            hosts: Vec::new(),
            unix_sockets: Vec::new(),
            devices: Vec::new(),
            with: Vec::new(),
            granted: ProfileGrant::default(),
            accept_losses: Vec::new(),
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
            protected_names: PROTECTED_NAMES.iter().map(|name| String::from(*name)).collect(),
            credentials,
            limits: ResourceLimits::default(),
            environment: EnvironmentPolicy::default(),
            audit_required: false,
            audit_durability: AuditDurability::default(),
            audit_directory: None,
            hook: None,
            risk_hook: None,
            rules_allow: AllowedCommands::default(),
            names_sandbox: false,
            project_sets_variables: false,
            own_files: Vec::new(),
            hidden_files: Vec::new(),
            maximum: None,
            origins: BTreeMap::new(),
        }
    }

    /// The origin of a value, by its key: `ask`, `sandbox.mode`, `limits.processes`, `sandbox.deny_read[0]`.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// The origins of all values that are set.
    pub fn origins(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.origins.iter().map(|(key, origin)| (key.as_str(), origin))
    }

    /// When a person is asked; `default` applies without a setting.
    pub fn ask_or(&self, default: AskForApproval) -> AskForApproval {
        let wanted = self.ask.unwrap_or(default);
        self.maximum.as_ref().map_or(wanted, |maximum| maximum.ask_within(wanted))
    }

    /// The policy in its wire form. It lacks denied paths and hosts, which [`Settings::permissions`] includes.
    pub fn sandbox_policy(&self) -> SandboxPolicy {
        let reads = match &self.readable_roots {
            None => ReadOnlyAccess::FullAccess {},
            Some(roots) => {
                ReadOnlyAccess::Restricted { include_platform_defaults: true, readable_roots: roots.clone() }
            }
        };
        let network_access = self.network == NetworkMode::Full;
        match self.mode {
            SandboxMode::DangerFullAccess => SandboxPolicy::DangerFullAccess {},
            SandboxMode::ExternalSandbox => SandboxPolicy::ExternalSandbox {
                network_access: if network_access { NetworkAccess::Enabled } else { NetworkAccess::Restricted },
            },
            SandboxMode::ReadOnly => SandboxPolicy::ReadOnly { access: reads, network_access },
            SandboxMode::WorkspaceWrite => SandboxPolicy::WorkspaceWrite {
                writable_roots: self.writable_roots.clone(),
                read_only_access: reads,
                network_access,
                exclude_tmpdir_env_var: self.exclude_tmpdir_env_var,
                exclude_slash_tmp: self.exclude_slash_tmp,
            },
        }
    }

    /// The permissions of a command on this host: the policy without the denials, within the maximum. The protected
    /// names and credentials of `host` are replaced by those of the settings; Stockade's own files are those of both.
    pub fn permissions(&self, host: &HostPaths) -> Result<Permissions, Invalid> {
        let host = HostPaths {
            credentials: self.credentials.clone(),
            protected_names: self.protected_names.clone(),
            own_files: host.own_files.iter().chain(&self.own_files).cloned().collect(),
            hidden_files: host.hidden_files.iter().chain(&self.hidden_files).cloned().collect(),
            ..host.clone()
        };
        let granted = self.with_profile(&self.unbounded(&host, RuleSource::Policy)?, &self.granted);
        match &self.maximum {
            Some(maximum) => maximum.limit(&host, &granted),
            None => Ok(granted),
        }
    }

    /// Adds a profile's grant to these settings' permissions. A network that a flag turns off stays off, and denials
    /// stay.
    fn with_profile(&self, own: &Permissions, grant: &ProfileGrant) -> Permissions {
        if matches!(self.mode, SandboxMode::DangerFullAccess | SandboxMode::ExternalSandbox) {
            return own.clone();
        }
        // A directory that is made for the command counts as one already.
        let is_made = |path: &AbsPath| grant.directories.contains(path);
        let is_directory =
            |path: &AbsPath| path.to_host_path().is_some_and(|host| host.is_dir() || (is_made(path) && !host.exists()));
        let mut merged = own.merge(&self.fitting(grant).permissions.protecting(&self.protected_names, is_directory));
        if let NetworkPolicy::Hosts(hosts) = &mut merged.network {
            let is_denied = |rule: &&HostRule| rule.decision == stockade_protocol::Decision::Forbidden;
            let missing = self.hosts.iter().filter(is_denied).filter(|rule| !hosts.rules.contains(rule));
            let missing: Vec<HostRule> = missing.cloned().collect();
            hosts.rules.extend(missing);
        }
        merged
    }

    /// A profile's grant in a session with these settings: no hosts if a flag turns the network off, and only
    /// read-only requests if the network is limited to those.
    /// It sets no variable that the administrator's maximum excludes.
    pub fn fitting(&self, grant: &ProfileGrant) -> ProfileGrant {
        let mut grant = grant.clone();
        if let Some(maximum) = &self.maximum {
            grant.permissions.environment.set.retain(|name, value| maximum.lets_set(name, value));
        }
        match (self.network, &mut grant.permissions.network) {
            (NetworkMode::Off, network) if *self.origin("sandbox.network") == Origin::Flag => {
                *network = NetworkPolicy::Off;
            }
            (NetworkMode::Limited, NetworkPolicy::Hosts(hosts)) => hosts.methods = HttpMethods::ReadOnly,
            (NetworkMode::Off | NetworkMode::Limited | NetworkMode::Hosts | NetworkMode::Full, _) => {}
        }
        grant
    }

    pub(crate) fn unbounded(&self, host: &HostPaths, source: RuleSource) -> Result<Permissions, Invalid> {
        let resolved = self.sandbox_policy().resolve(host)?;
        let denied = self.deny_read.iter().map(|target| match target {
            FileTarget::Path(path) => FileRule::path(path.clone(), Access::None).from_source(source),
            FileTarget::Glob(glob) => FileRule::deny_glob(glob.clone()).from_source(source),
        });
        let devices = self.devices.iter().filter(|device| device.is_there());
        let devices = devices.map(|device| FileRule::path(device.as_path().clone(), Access::Write));
        let files = match self.deny_read.is_empty() && self.devices.is_empty() {
            true => resolved.files,
            false => FileRules::new(resolved.files.iter().cloned().chain(denied).chain(devices))?,
        };
        let network = match (self.mode, self.network) {
            // Such a command runs without Stockade's sandbox.
            (SandboxMode::DangerFullAccess | SandboxMode::ExternalSandbox, _) | (_, NetworkMode::Full) => {
                NetworkPolicy::Full
            }
            (_, NetworkMode::Off) => NetworkPolicy::Off,
            (_, NetworkMode::Hosts) => {
                NetworkPolicy::Hosts(HostRules { rules: self.hosts.clone(), methods: HttpMethods::Any })
            }
            (_, NetworkMode::Limited) => {
                NetworkPolicy::Hosts(HostRules { rules: self.hosts.clone(), methods: HttpMethods::ReadOnly })
            }
        };
        Ok(Permissions {
            files,
            network,
            unix_sockets: self.unix_sockets.iter().cloned().collect(),
            limits: self.limits,
            environment: self.environment.clone(),
        })
    }

    /// Checks that the administrator's maximum lets the command line's paths be written in this workspace.
    pub fn check_flags(&self, workspace: &[AbsPath]) -> Result<(), ConfigError> {
        let Some(maximum) = &self.maximum else { return Ok(()) };
        let devices = self.devices.iter().map(DevicePath::as_path);
        let all = [
            ("sandbox.writable_roots", self.writable_roots.iter().collect::<Vec<_>>()),
            ("sandbox.devices", devices.collect()),
        ];
        for (key, paths) in all {
            for (index, path) in paths.into_iter().enumerate() {
                let is_flag = *self.origin(&format!("{key}[{index}]")) == Origin::Flag;
                let resolved = path.to_host_path().and_then(|path| std::fs::canonicalize(path).ok());
                let resolved = resolved.and_then(|path| AbsPath::from_path(&path).ok());
                let may_write = |path: &AbsPath| maximum.allows_access(path, Access::Write, workspace);
                if is_flag && !may_write(path) && !resolved.as_ref().is_some_and(may_write) {
                    return Err(maximum.beyond(key, path));
                }
            }
        }
        Ok(())
    }

    /// Overlays the settings of a nearer source.
    pub(crate) fn apply(&mut self, layer: Layer, origin: &Origin) {
        let mut origins = std::mem::take(&mut self.origins);
        let mut note = |key: &str| drop(origins.insert(key.to_owned(), origin.clone()));
        macro_rules! take {
            ($($key:literal => $field:ident = $value:expr;)*) => {$(
                if let Some(value) = $value {
                    self.$field = value;
                    note($key);
                }
            )*};
        }
        take! {
            "profile" => profile = layer.profile.map(Some);
            "ask" => ask = layer.ask.map(Some);
            "engine" => engine = layer.engine;
            "observe" => observe = layer.observe;
            "timeout" => timeout = layer.timeout.map(Some);
            "output_cap_bytes" => output_cap_bytes = layer.output_cap_bytes;
            "sandbox.mode" => mode = layer.mode;
            "sandbox.exclude_tmpdir_env_var" => exclude_tmpdir_env_var = layer.exclude_tmpdir_env_var;
            "sandbox.exclude_slash_tmp" => exclude_slash_tmp = layer.exclude_slash_tmp;
            "audit.required" => audit_required = layer.audit_required;
            "audit.durability" => audit_durability = layer.audit_durability;
            "audit.path" => audit_directory = layer.audit_directory.map(Some);
            "approver.hook" => hook = layer.hook.map(Some);
            "risk.hook" => risk_hook = layer.risk_hook.map(Some);
            "rules.allow" => rules_allow = layer.rules_allow;
        }
        let network = layer.network.or_else(|| {
            let named = layer.allow_hosts.as_ref().is_some_and(|hosts| !hosts.is_empty());
            (named && self.network == NetworkMode::Off).then_some(NetworkMode::Hosts)
        });
        take! { "sandbox.network" => network = network; }
        self.origins = origins;
        self.apply_lists(
            Lists {
                writable: layer.writable_roots,
                readable: layer.readable_roots,
                deny_read: layer.deny_read,
                allow_hosts: layer.allow_hosts,
                deny_hosts: layer.deny_hosts,
                sockets: layer.unix_sockets,
                devices: layer.devices,
                losses: layer.accept_losses,
                with: layer.with,
            },
            origin,
        );
        change("protected_names", &mut self.protected_names, layer.protected_names, &mut self.origins, origin);
        change("credentials", &mut self.credentials, layer.credentials, &mut self.origins, origin);
        self.apply_limits(&layer.limits, origin);
        let mut note = |key: String| drop(self.origins.insert(key, origin.clone()));
        let environment = &mut self.environment;
        if let Some(inherit) = layer.inherit {
            environment.inherit = inherit;
            note(String::from("env.inherit"));
        }
        if let Some(ignore) = layer.ignore_default_excludes {
            environment.ignore_default_excludes = ignore;
            note(String::from("env.ignore_default_excludes"));
        }
        for pattern in layer.exclude {
            note(format!("env.exclude.{pattern}"));
            environment.exclude.insert(pattern);
        }
        for (name, value) in layer.set {
            note(format!("env.set.{name}"));
            environment.set.insert(name, value);
        }
        if let Some(only) = layer.include_only {
            environment.include_only = only;
            note(String::from("env.include_only"));
        }
    }

    /// Lowers a `full` network to `hosts` if a host is denied: `full` can't enforce per-host denials.
    pub(crate) fn keep_denied_hosts(&mut self) -> Option<String> {
        let denied = self.hosts.iter().find(|rule| rule.decision == stockade_protocol::Decision::Forbidden)?;
        let notice = format!(
            "`sandbox.network` ({}) lowered to `hosts`: `full` can't enforce per-host denials, and `deny_hosts` names `{}`",
            self.origin("sandbox.network"),
            denied.host
        );
        (self.network == NetworkMode::Full).then(|| {
            self.network = NetworkMode::Hosts;
            notice
        })
    }

    /// Says which devices of settings files are missing. The rules of a run leave them out.
    pub(crate) fn missing_devices(&self) -> impl Iterator<Item = String> {
        let missing = self.devices.iter().enumerate().filter(|(_, device)| !device.is_there());
        missing.map(|(index, device)| {
            let key = format!("sandbox.devices[{index}]");
            format!(
                "the device `{device}` is missing, and commands run without it: plug it in, or remove it from \
                 `sandbox.devices` ({})",
                self.origin(&key)
            )
        })
    }

    fn apply_limits(&mut self, limits: &ResourceLimits, origin: &Origin) {
        let own = &mut self.limits;
        for (key, slot, value) in [
            ("limits.cpu_seconds", &mut own.cpu_seconds, limits.cpu_seconds),
            ("limits.memory_bytes", &mut own.memory_bytes, limits.memory_bytes),
            ("limits.processes", &mut own.processes, limits.processes),
            ("limits.file_size_bytes", &mut own.file_size_bytes, limits.file_size_bytes),
            ("limits.open_files", &mut own.open_files, limits.open_files),
        ] {
            if value.is_some() {
                *slot = value;
                self.origins.insert(key.to_owned(), origin.clone());
            }
        }
    }

    fn apply_lists(&mut self, lists: Lists, origin: &Origin) {
        let origins = &mut self.origins;
        if let Some(roots) = lists.writable {
            grant("sandbox.writable_roots", &mut self.writable_roots, roots, origins, origin);
        }
        if let Some(roots) = lists.readable {
            let mut own = self.readable_roots.take().unwrap_or_default();
            grant("sandbox.readable_roots", &mut own, roots, origins, origin);
            self.readable_roots = Some(own);
        }
        add("sandbox.deny_read", &mut self.deny_read, lists.deny_read, origins, origin);
        let is_denied = |rule: &HostRule| rule.decision == stockade_protocol::Decision::Forbidden;
        let (mut denied, mut allowed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.hosts).into_iter().partition(is_denied);
        if let Some(hosts) = lists.allow_hosts {
            grant("sandbox.allow_hosts", &mut allowed, hosts, origins, origin);
        }
        add("sandbox.deny_hosts", &mut denied, lists.deny_hosts, origins, origin);
        if let Some(sockets) = lists.sockets {
            grant("sandbox.unix_sockets", &mut self.unix_sockets, sockets, origins, origin);
        }
        if let Some(devices) = lists.devices {
            grant("sandbox.devices", &mut self.devices, devices, origins, origin);
        }
        if let Some(losses) = lists.losses {
            grant("sandbox.accept_losses", &mut self.accept_losses, losses, origins, origin);
        }
        if let Some(names) = lists.with {
            grant("with", &mut self.with, names, origins, origin);
        }
        self.hosts = allowed.into_iter().chain(denied).collect();
    }
}
