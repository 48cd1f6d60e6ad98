//! The administrator's maximum, which no file, flag, rule or approval exceeds.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stockade_protocol::{AskForApproval, HostPaths, Invalid, Permissions, RejectConfig, RuleSource};

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
                Some(NetworkMode::Off) => stockade_protocol::NetworkPolicy::Off,
                Some(mode @ (NetworkMode::Hosts | NetworkMode::Limited)) => {
                    let methods = match mode {
                        NetworkMode::Limited => stockade_protocol::HttpMethods::ReadOnly,
                        NetworkMode::Off | NetworkMode::Hosts | NetworkMode::Full => {
                            stockade_protocol::HttpMethods::Any
                        }
                    };
                    let rules = self.bound.hosts.clone();
                    stockade_protocol::NetworkPolicy::Hosts(stockade_protocol::HostRules { rules, methods })
                }
                Some(NetworkMode::Full) | None => stockade_protocol::NetworkPolicy::Full,
            };
        }
        bound.unix_sockets.clone_from(&wanted.unix_sockets);
        Ok(wanted.intersect(&bound))
    }

    /// Whether commands may run without a sandbox at all.
    pub fn allows_unsandboxed(&self) -> bool {
        self.mode.is_none_or(|mode| mode == SandboxMode::DangerFullAccess)
            && self.network.is_none_or(|network| network == NetworkMode::Full)
            && self.bound.deny_read.is_empty()
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

    /// Restricts settings to the maximum. A flag that exceeds it is an error, since the user has to notice; a file's
    /// value is lowered with a notice.
    pub(crate) fn enforce(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        let mut notices = Vec::new();
        let origin = Origin::Maximum(self.file.clone());
        let mut lower = |settings: &mut Settings, key: &'static str, wanted: String, maximum: String| {
            if *settings.origin(key) == Origin::Flag {
                return Err(ConfigError::ExceedsMaximum { key, wanted, maximum, file: self.file.clone() });
            }
            notices.push(format!(
                "`{key}` is `{maximum}`, not `{wanted}` ({}): the administrator's maximum in `{}` allows no more",
                settings.origin(key),
                self.file.display()
            ));
            settings.origins.insert(key.to_owned(), origin.clone());
            Ok(())
        };
        if let Some(mode) = self.mode.filter(|mode| settings.mode > *mode) {
            lower(settings, "sandbox.mode", word(settings.mode), word(mode))?;
            settings.mode = mode;
        }
        if let Some(network) = self.network.filter(|network| settings.network > *network) {
            lower(settings, "sandbox.network", word(settings.network), word(network))?;
            settings.network = network;
        }
        if let Some(ask) = settings.ask
            && self.ask_within(ask) != ask
        {
            let within = self.ask_within(ask);
            lower(settings, "ask", word(AskWord::from(&ask)), word(AskWord::from(&within)))?;
            settings.ask = Some(within);
        }
        match (self.timeout, settings.timeout) {
            (Some(most), Some(wanted)) if wanted > most => {
                lower(settings, "timeout", format!("{wanted:?}"), format!("{most:?}"))?;
                settings.timeout = Some(most);
            }
            (Some(most), None) => settings.timeout = Some(most),
            (Some(_), Some(_)) | (None, _) => {}
        }
        notices.extend(self.bound_losses(settings)?);
        settings.limits = settings.limits.intersect(&self.bound.limits);
        settings.audit_required |= self.audit_required;
        settings.maximum = Some(self.clone());
        Ok(notices)
    }

    /// Removes losses that may not be accepted, one by one, since each may have another origin.
    fn bound_losses(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        const KEY: &str = "sandbox.accept_losses";
        let (mut kept, mut notices) = (Vec::new(), Vec::new());
        for (index, loss) in std::mem::take(&mut settings.accept_losses).into_iter().enumerate() {
            let origin = settings.origins.remove(&format!("{KEY}[{index}]")).unwrap_or(Origin::Default);
            if self.losses.contains(&loss) {
                settings.origins.insert(format!("{KEY}[{}]", kept.len()), origin);
                kept.push(loss);
                continue;
            }
            if origin == Origin::Flag {
                let names: Vec<&str> = self.losses.iter().map(|loss| loss.name()).collect();
                let maximum = if names.is_empty() { String::from("none") } else { names.join(", ") };
                let wanted = loss.name().to_owned();
                return Err(ConfigError::ExceedsMaximum { key: KEY, wanted, maximum, file: self.file.clone() });
            }
            notices.push(format!(
                "the loss of `{loss}` is not accepted ({origin}): the administrator's maximum in `{}` does not allow it",
                self.file.display()
            ));
        }
        settings.accept_losses = kept;
        Ok(notices)
    }
}

/// A value in its serialized form.
fn word(value: impl std::fmt::Debug) -> String {
    let name = format!("{value:?}");
    name.chars().enumerate().fold(String::new(), |mut text, (index, c)| {
        if c.is_ascii_uppercase() && index > 0 {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
        text
    })
}
