//! The administrator's maximum, which no file, flag, rule or approval exceeds.

mod enforce;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, AskForApproval, Decision, FileRule, FileRules, FileTarget, HostPaths, HostPattern, HostRule,
    HostRules, HttpMethods, Invalid, NetworkPolicy, NetworkProtocol, PermissionAmendment, Permissions, RejectConfig,
    ResourceLimits, RuleSource, VariableName,
};

use crate::ConfigError;
use crate::form::{AskWord, MaximumForm, NetworkMode, SandboxMode};
use crate::layer::Layer;
use crate::loss::LossName;
use crate::origin::Origin;
use crate::settings::Settings;
use crate::source::Source;
use crate::values::parse_duration;

/// An upper bound on settings. Absent keys are not bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct Maximum {
    file: PathBuf,
    ask: Option<Vec<AskWord>>,
    timeout: Option<Duration>,
    mode: Option<SandboxMode>,
    network: Option<NetworkMode>,
    losses: Vec<LossName>,
    audit_required: bool,
    /// The settings whose permissions are the bound.
    bound: Box<Settings>,
}

impl Maximum {
    pub(crate) fn read(form: &MaximumForm, source: &Source<'_>) -> Result<Self, ConfigError> {
        let mut layer = Layer { limits: form.limits.read(source)?, ..Layer::default() };
        layer.read_sandbox(&form.sandbox, source)?;
        layer.read_env(&form.env, source)?;
        let named = layer.allow_hosts.as_ref().map(|_| NetworkMode::Hosts);
        let (mode, network) = (layer.mode, layer.network.or(named));
        // A maximum whose parts may be given up bounds nothing, so here an absent list allows no losses.
        let losses = layer.accept_losses.clone().unwrap_or_default();
        let timeout =
            form.timeout.as_ref().map(|text| source.value(text, "maximum.timeout", parse_duration)).transpose()?;
        // Absent keys are not bounded.
        let mut bound = Settings::new(Vec::new());
        bound.mode = SandboxMode::DangerFullAccess;
        bound.network = NetworkMode::Full;
        bound.environment.ignore_default_excludes = true;
        bound.protected_names.clear();
        bound.apply(layer, &Origin::Maximum(source.file.to_owned()));
        bound.network = network.unwrap_or(NetworkMode::Full);
        Ok(Self {
            file: source.file.to_owned(),
            ask: form.ask.clone().filter(|words| !words.is_empty()),
            timeout,
            mode,
            network,
            losses,
            audit_required: form.audit_required,
            bound: Box::new(bound),
        })
    }

    /// The file that contains it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The permissions, restricted to the maximum. Escalations are restricted here, too.
    pub fn limit(&self, host: &HostPaths, wanted: &Permissions) -> Result<Permissions, Invalid> {
        let host = HostPaths { credentials: Vec::new(), protected_names: Vec::new(), ..host.clone() };
        let mut bound = self.bound.unbounded(&host, RuleSource::Administrator)?;
        if self.bound.mode == SandboxMode::DangerFullAccess {
            // Full access by mode would lift a bound that only the network has.
            bound.network = match self.network {
                Some(NetworkMode::Off) => NetworkPolicy::Off,
                Some(NetworkMode::Hosts) => self.host_bound(HttpMethods::Any),
                Some(NetworkMode::Limited) => self.host_bound(HttpMethods::ReadOnly),
                Some(NetworkMode::Full) | None => NetworkPolicy::Full,
            };
        }
        bound.unix_sockets.clone_from(&wanted.unix_sockets);
        Ok(wanted.intersect(&bound))
    }

    fn host_bound(&self, methods: HttpMethods) -> NetworkPolicy {
        NetworkPolicy::Hosts(HostRules { rules: self.bound.hosts.clone(), methods })
    }

    /// Whether a denied act could be granted within the maximum, in a session with this workspace.
    pub fn allows(&self, amendment: &PermissionAmendment, workspace: &[AbsPath]) -> bool {
        match amendment {
            PermissionAmendment::File(rule) => match &rule.target {
                FileTarget::Path(path) => self.allows_access(path, rule.access, workspace),
                FileTarget::Glob(_) => false,
            },
            PermissionAmendment::Network(rule) => self.allows_host(rule),
            PermissionAmendment::UnixSocket(_) => self.allows_sockets(),
        }
    }

    /// Whether a limit, by the name of its field, could be raised within the maximum.
    pub fn allows_raising(&self, field: &str, settings: &Settings) -> bool {
        let (own, most) = (settings.limits, self.bound.limits);
        let named = limit_fields(&own).into_iter().zip(limit_fields(&most));
        let mut named = named.filter(|((key, _), _)| key.strip_prefix("limits.") == Some(field));
        named.all(|((_, own), (_, most))| most.is_none_or(|most| own.is_some_and(|own| own < most)))
    }

    /// Whether a session with this workspace can have this access to a path.
    pub(crate) fn allows_access(&self, path: &AbsPath, access: Access, workspace: &[AbsPath]) -> bool {
        let Ok(files) = FileRules::new([FileRule::path(path.clone(), access)]) else { return false };
        let wanted = Permissions { files, ..Permissions::default() };
        let host = HostPaths::without_masks(workspace.iter().cloned());
        self.limit(&host, &wanted).is_ok_and(|limited| limited.access(path) >= access)
    }

    fn allows_host(&self, rule: &HostRule) -> bool {
        match self.network {
            None | Some(NetworkMode::Full) => match &rule.host {
                HostPattern::Exact(host) => {
                    let protocol = rule.protocol.unwrap_or(NetworkProtocol::Tcp);
                    let forbids = |own: &&HostRule| own.decision == Decision::Forbidden;
                    let mut forbidden = self.bound.hosts.iter().filter(forbids);
                    !forbidden.any(|own| own.matches(host, protocol, rule.port.unwrap_or_default()))
                }
                HostPattern::Below(_) | HostPattern::Within(_) | HostPattern::Network(_) => true,
            },
            Some(NetworkMode::Off) => false,
            Some(NetworkMode::Hosts | NetworkMode::Limited) => self.hosts_within(rule) == [rule.clone()],
        }
    }

    /// The part of an allowing host rule that the maximum's own rules allow.
    fn hosts_within(&self, rule: &HostRule) -> Vec<HostRule> {
        let alone = |rules| NetworkPolicy::Hosts(HostRules { rules, methods: HttpMethods::Any });
        match alone(vec![rule.clone()]).intersect(&alone(self.bound.hosts.clone())) {
            NetworkPolicy::Hosts(within) => {
                // A rule that forbids a part of it holds besides it.
                within.rules.into_iter().filter(|rule| rule.decision == Decision::Allow).collect()
            }
            NetworkPolicy::Off | NetworkPolicy::Full => Vec::new(),
        }
    }

    /// Whether sockets of others may be granted. A program behind a socket is held by no sandbox, so a maximum that
    /// needs one grants none.
    pub fn allows_sockets(&self) -> bool {
        self.allows_unsandboxed()
    }

    /// Whether a variable may be set: the maximum neither excludes it nor sets it to another value.
    pub(crate) fn lets_set(&self, name: &VariableName, value: &str) -> bool {
        match self.bound.environment.set.get(name) {
            Some(own) => own == value,
            None => self.bound.environment.lets_set(name),
        }
    }

    /// Whether commands may run without a sandbox at all.
    pub fn allows_unsandboxed(&self) -> bool {
        self.mode.is_none_or(|mode| mode == SandboxMode::DangerFullAccess)
            && self.network.is_none_or(|network| network == NetworkMode::Full)
            && self.bound.deny_read.is_empty()
            && self.bound.hosts.is_empty()
            && self.bound.limits.is_unlimited()
    }

    /// The policy if it is permitted, otherwise the first permitted one.
    pub fn ask_within(&self, wanted: AskForApproval) -> AskForApproval {
        match &self.ask {
            Some(words) if !words.contains(&AskWord::from(&wanted)) => {
                words.first().map_or(wanted, |word| match word {
                    AskWord::Untrusted => AskForApproval::Untrusted,
                    AskWord::OnFailure => AskForApproval::OnFailure,
                    AskWord::OnRequest => AskForApproval::OnRequest,
                    AskWord::Reject => AskForApproval::Reject(RejectConfig::default()),
                    AskWord::Never => AskForApproval::Never,
                })
            }
            Some(_) | None => wanted,
        }
    }
}

/// The limits by their keys, in one order.
fn limit_fields(limits: &ResourceLimits) -> [(&'static str, Option<NonZeroU64>); 5] {
    [
        ("limits.cpu_seconds", limits.cpu_seconds),
        ("limits.memory_bytes", limits.memory_bytes),
        ("limits.processes", limits.processes),
        ("limits.file_size_bytes", limits.file_size_bytes),
        ("limits.open_files", limits.open_files),
    ]
}
