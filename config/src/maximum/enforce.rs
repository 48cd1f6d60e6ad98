//! Restricts settings to the administrator's maximum, value by value.

use stockade_protocol::{AbsPath, Decision, HostRule};

use super::{Maximum, limit_fields};
use crate::ConfigError;
use crate::form::{AskWord, NetworkMode, SandboxMode};
use crate::origin::Origin;
use crate::settings::Settings;

impl Maximum {
    /// Restricts settings to the maximum. A flag that exceeds it is an error, since the user has to notice; a file's
    /// value is lowered with a notice. Each lowered value originates from the maximum.
    pub(crate) fn enforce(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        let mut notices = Vec::new();
        if let Some(mode) = self.mode.filter(|mode| settings.mode > *mode) {
            notices.push(self.lower(settings, "sandbox.mode", &word(settings.mode), &word(mode))?);
            settings.mode = mode;
        }
        if self.needs_sandbox_for_hosts()
            && matches!(settings.mode, SandboxMode::ExternalSandbox | SandboxMode::DangerFullAccess)
        {
            let most = SandboxMode::WorkspaceWrite;
            notices.push(self.lower(settings, "sandbox.mode", &word(settings.mode), &word(most))?);
            settings.mode = most;
        }
        if let Some(network) = self.network.filter(|network| settings.network > *network) {
            notices.push(self.lower(settings, "sandbox.network", &word(settings.network), &word(network))?);
            settings.network = network;
        }
        if let Some(ask) = settings.ask
            && self.ask_within(ask) != ask
        {
            let within = self.ask_within(ask);
            let (wanted, most) = (word(AskWord::from(&ask)), word(AskWord::from(&within)));
            notices.push(self.lower(settings, "ask", &wanted, &most)?);
            settings.ask = Some(within);
        }
        match (self.timeout, settings.timeout) {
            (Some(most), Some(wanted)) if wanted > most => {
                notices.push(self.lower(settings, "timeout", &format!("{wanted:?}"), &format!("{most:?}"))?);
                settings.timeout = Some(most);
            }
            (Some(most), None) => {
                settings.timeout = Some(most);
                self.decides(settings, "timeout");
            }
            (Some(_), Some(_)) | (None, _) => {}
        }
        notices.extend(self.bound_losses(settings)?);
        notices.extend(self.bound_limits(settings)?);
        notices.extend(self.bound_hosts(settings)?);
        notices.extend(self.bound_sockets(settings)?);
        notices.extend(self.bound_variables(settings)?);
        settings.audit_required |= self.audit_required;
        settings.maximum = Some(self.clone());
        Ok(notices)
    }

    /// Records the maximum as the origin of a value.
    fn decides(&self, settings: &mut Settings, key: &str) {
        settings.origins.insert(key.to_owned(), Origin::Maximum(self.file.clone()));
    }

    /// The notice of a lowered value; an error if a flag set it.
    fn lower(
        &self,
        settings: &mut Settings,
        key: &'static str,
        wanted: &str,
        most: &str,
    ) -> Result<String, ConfigError> {
        let origin = settings.origin(key).clone();
        if origin == Origin::Flag {
            let (wanted, maximum) = (wanted.to_owned(), most.to_owned());
            return Err(ConfigError::ExceedsMaximum { key, wanted, maximum, file: self.file.clone() });
        }
        self.decides(settings, key);
        Ok(format!(
            "`{key}` is `{most}`, not `{wanted}` ({origin}): the administrator's maximum in `{}` allows no more",
            self.file.display()
        ))
    }

    fn bound_limits(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        let mut notices = Vec::new();
        let (own, most) = (settings.limits, self.bound.limits);
        for ((key, wanted), (_, most)) in limit_fields(&own).into_iter().zip(limit_fields(&most)) {
            match (wanted, most) {
                (Some(wanted), Some(most)) if wanted > most => {
                    notices.push(self.lower(settings, key, &wanted.to_string(), &most.to_string())?);
                }
                (None, Some(_)) => self.decides(settings, key),
                (Some(_), Some(_)) | (_, None) => {}
            }
        }
        settings.limits = settings.limits.intersect(&self.bound.limits);
        Ok(notices)
    }

    /// Restricts allowed hosts to those of the maximum, and adds the hosts that it forbids.
    fn bound_hosts(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        const KEY: &str = "sandbox.allow_hosts";
        let is_denied = |rule: &HostRule| rule.decision == Decision::Forbidden;
        let (mut denied, allowed): (Vec<_>, Vec<_>) =
            std::mem::take(&mut settings.hosts).into_iter().partition(is_denied);
        let (mut kept, mut beyond) = (Vec::new(), Vec::new());
        for (index, rule) in allowed.into_iter().enumerate() {
            let origin = settings.origins.remove(&format!("{KEY}[{index}]")).unwrap_or(Origin::Default);
            if self.network.is_none_or(|network| network == NetworkMode::Full) {
                kept.push((rule, origin));
                continue;
            }
            let within = self.hosts_within(&rule);
            if within.contains(&rule) {
                kept.push((rule, origin));
                continue;
            }
            if origin == Origin::Flag {
                let maximum = self.allowed_hosts();
                let wanted = rule.destinations();
                return Err(ConfigError::ExceedsMaximum { key: KEY, wanted, maximum, file: self.file.clone() });
            }
            beyond.push(format!("`{}`", rule.destinations()));
            kept.extend(within.into_iter().map(|rule| (rule, Origin::Maximum(self.file.clone()))));
        }
        for (index, (rule, origin)) in kept.into_iter().enumerate() {
            settings.origins.insert(format!("{KEY}[{index}]"), origin);
            settings.hosts.push(rule);
        }
        for rule in self.bound.hosts.iter().filter(|rule| is_denied(rule)) {
            if !denied.contains(rule) {
                self.decides(settings, &format!("sandbox.deny_hosts[{}]", denied.len()));
                denied.push(rule.clone());
            }
        }
        settings.hosts.extend(denied);
        let notice = (!beyond.is_empty()).then(|| {
            format!(
                "`{KEY}` is restricted to `{}`: the administrator's maximum in `{}` does not allow {}",
                self.allowed_hosts(),
                self.file.display(),
                beyond.join(", ")
            )
        });
        Ok(notice.into_iter().chain(settings.keep_denied_hosts()).collect())
    }

    /// Whether hosts are forbidden while all others are open: only a sandbox enforces that.
    fn needs_sandbox_for_hosts(&self) -> bool {
        let is_open = self.network.is_none_or(|network| network == NetworkMode::Full);
        is_open && self.bound.hosts.iter().any(|rule| rule.decision == Decision::Forbidden)
    }

    /// The hosts that may be reached, as text.
    fn allowed_hosts(&self) -> String {
        let allowed = self.bound.hosts.iter().filter(|rule| rule.decision == Decision::Allow);
        let allowed: Vec<String> = allowed.map(HostRule::destinations).collect();
        if allowed.is_empty() { String::from("none") } else { allowed.join(", ") }
    }

    fn bound_sockets(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        const KEY: &str = "sandbox.unix_sockets";
        if self.allows_sockets() {
            return Ok(Vec::new());
        }
        let mut notices = Vec::new();
        for (index, socket) in std::mem::take(&mut settings.unix_sockets).into_iter().enumerate() {
            let origin = settings.origins.remove(&format!("{KEY}[{index}]")).unwrap_or(Origin::Default);
            if origin == Origin::Flag {
                return Err(self.beyond(KEY, &socket));
            }
            notices.push(format!(
                "the socket `{socket}` is not granted ({origin}): the administrator's maximum in `{}` allows none",
                self.file.display()
            ));
        }
        Ok(notices)
    }

    /// Removes variables that the maximum excludes, and sets those that it sets.
    fn bound_variables(&self, settings: &mut Settings) -> Result<Vec<String>, ConfigError> {
        let mut notices = Vec::new();
        let set = settings.environment.set.iter();
        let refused = set.filter(|(name, value)| !self.lets_set(name, value)).map(|(name, _)| name.clone());
        for name in refused.collect::<Vec<_>>() {
            let act = if self.bound.environment.set.contains_key(&name) { "sets" } else { "excludes" };
            let origin = settings.origins.remove(&format!("env.set.{name}")).unwrap_or(Origin::Default);
            if origin == Origin::Flag {
                return Err(ConfigError::MaximumOnVariable { name: name.to_string(), act, file: self.file.clone() });
            }
            settings.environment.set.remove(&name);
            notices.push(format!(
                "the value of the variable `{name}` ({origin}) is ignored: the administrator's maximum in `{}` {act} it",
                self.file.display()
            ));
        }
        for (name, value) in &self.bound.environment.set {
            self.decides(settings, &format!("env.set.{name}"));
            settings.environment.set.insert(name.clone(), value.clone());
        }
        Ok(notices)
    }

    pub(crate) fn beyond(&self, key: &'static str, path: &AbsPath) -> ConfigError {
        ConfigError::BeyondMaximum { key, wanted: path.to_string(), file: self.file.clone() }
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
