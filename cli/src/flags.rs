//! Values of options, from text.

use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use stockade_config::{EngineName, LossName, NetworkMode, SandboxMode};
use stockade_protocol::{
    AskForApproval, Decision, Host, HostPattern, HostRule, Invalid, NetworkProtocol, RejectConfig, ResourceLimits,
    VariableName,
};

use stockade::platform;

/// `--sandbox`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Policy {
    /// Nothing can be written
    ReadOnly,
    /// The workspace can be written
    WorkspaceWrite,
    /// No sandbox
    DangerFullAccess,
    /// Another sandbox is around this process already
    ExternalSandbox,
}

impl From<Policy> for SandboxMode {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::ReadOnly => Self::ReadOnly,
            Policy::WorkspaceWrite => Self::WorkspaceWrite,
            Policy::DangerFullAccess => Self::DangerFullAccess,
            Policy::ExternalSandbox => Self::ExternalSandbox,
        }
    }
}

/// `--network`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Network {
    /// None at all
    Off,
    /// As hosts, but only reading requests of plain HTTP pass
    Limited,
    /// The hosts that are allowed; others are asked for
    Hosts,
    /// Everything that this machine can reach
    Full,
}

impl From<Network> for NetworkMode {
    fn from(network: Network) -> Self {
        match network {
            Network::Off => Self::Off,
            Network::Limited => Self::Limited,
            Network::Hosts => Self::Hosts,
            Network::Full => Self::Full,
        }
    }
}

/// `--engine`
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Engine {
    /// The strongest that works
    Auto,
    /// Stockade's own launcher
    Native,
    /// Bubblewrap
    Bwrap,
    /// Landlock alone
    Landlock,
}

impl From<Engine> for EngineName {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Auto,
            Engine::Native => Self::Native,
            Engine::Bwrap => Self::Bwrap,
            Engine::Landlock => Self::Landlock,
        }
    }
}

/// `--accept-loss`: the losses of this system, with what each of them means.
pub(crate) fn losses() -> impl TypedValueParser<Value = LossName> {
    let values = platform::LOSSES.iter().map(|loss| PossibleValue::new(loss.name()).help(loss.consequence()));
    PossibleValuesParser::new(values).try_map(|name| {
        let found = platform::LOSSES.iter().copied().find(|loss| loss.name() == name);
        found.ok_or_else(|| format!("no loss is called `{name}`"))
    })
}

/// `--ask`: `untrusted`, `on-failure`, `on-request`, `never`, `reject=sandbox_approval,rules`.
pub(crate) fn ask(text: &str) -> Result<AskForApproval, String> {
    Ok(match text {
        "untrusted" => AskForApproval::Untrusted,
        "on-failure" => AskForApproval::OnFailure,
        "on-request" => AskForApproval::OnRequest,
        "never" => AskForApproval::Never,
        other => AskForApproval::Reject(reject(other.strip_prefix("reject=").ok_or_else(|| {
            String::from("there are `untrusted`, `on-failure`, `on-request`, `never` and `reject=CATEGORY,…`")
        })?)?),
    })
}

fn reject(categories: &str) -> Result<RejectConfig, String> {
    let mut reject = RejectConfig::default();
    for category in categories.split(',') {
        let field = match category {
            "sandbox_approval" => &mut reject.sandbox_approval,
            "rules" => &mut reject.rules,
            "request_permissions" => &mut reject.request_permissions,
            "skill_approval" => &mut reject.skill_approval,
            "mcp_elicitations" => &mut reject.mcp_elicitations,
            other => {
                return Err(format!(
                    "no category is called `{other}`: there are sandbox_approval, rules, request_permissions, \
                     skill_approval and mcp_elicitations"
                ));
            }
        };
        *field = true;
    }
    Ok(reject)
}

/// `--limit`: `cpu=30,memory=2G,pids=200,fsize=100M,files=1024`.
pub(crate) fn limits(text: &str) -> Result<ResourceLimits, String> {
    let mut limits = ResourceLimits::default();
    for part in text.split(',') {
        let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=VALUE"))?;
        let slot = match name {
            "cpu" => &mut limits.cpu_seconds,
            "memory" => &mut limits.memory_bytes,
            "pids" => &mut limits.processes,
            "fsize" => &mut limits.file_size_bytes,
            "files" => &mut limits.open_files,
            other => return Err(format!("no limit is called `{other}`: there are cpu, memory, pids, fsize and files")),
        };
        let given = number(name, value)?;
        let (least, shown) = match name {
            "memory" => (ResourceLimits::LEAST_MEMORY_BYTES, "4M"),
            "files" => (ResourceLimits::FEWEST_OPEN_FILES, "4"),
            _ => (NonZeroU64::MIN, ""),
        };
        if given < least {
            return Err(format!("no command can be started with `{part}`: the least is `{name}={shown}`"));
        }
        *slot = Some(given);
    }
    Ok(limits)
}

/// A number with a unit: of bytes `K`, `KiB`, `KB` and so on, of time `s`, `m` or `h`.
fn number(name: &str, text: &str) -> Result<NonZeroU64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default();
    let factor: Option<u64> = match (name, unit) {
        (_, "") | ("cpu", "s") => Some(1),
        ("cpu", "m") => Some(60),
        ("cpu", "h") => Some(3600),
        ("memory" | "fsize", unit) => bytes_of(unit),
        _ => None,
    };
    let Some(factor) = factor else {
        let units = match name {
            "cpu" => "write seconds, or a number with s, m or h behind it",
            "memory" | "fsize" => {
                "write bytes, or a number with K, M, G or T (powers of 1024), or KB, MB, GB or TB behind it"
            }
            _ => "write a plain number",
        };
        return Err(format!("`{text}` has a unit that `{name}` does not have: {units}"));
    };
    let value = digits.parse::<u64>().ok().and_then(|value| value.checked_mul(factor)).and_then(NonZeroU64::new);
    value.ok_or_else(|| format!("`{text}` is no number above zero"))
}

/// How many bytes a unit has. As for `dd` and `head`, `K` and `KiB` are 1024, and `KB` is 1000.
fn bytes_of(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let (prefix, base) = match unit.as_str() {
        "b" => return Some(1),
        unit if unit.ends_with("ib") => (unit.strip_suffix("ib")?, 1024_u64),
        unit if unit.ends_with('b') => (unit.strip_suffix('b')?, 1000),
        unit => (unit, 1024),
    };
    let power = ["k", "m", "g", "t"].iter().position(|known| *known == prefix)?;
    base.checked_pow(u32::try_from(power).ok()? + 1)
}

/// `--timeout`: `30s`, `5m`.
pub(crate) fn timeout(text: &str) -> Result<Duration, String> {
    stockade_config::parse_duration(text)
}

/// `--allow-host`: `example.com`, `*.example.com:443`, `example.com:123/udp`.
pub(crate) fn allowed_host(text: &str) -> Result<HostRule, String> {
    stockade_config::parse_host(text, Decision::Allow)
}

/// `--host`: `example.com:443`, `example.com:123/udp`.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) host: Host,
    pub(crate) protocol: Option<NetworkProtocol>,
    pub(crate) port: u16,
}

/// A host and its port; 443 if none is given.
pub(crate) fn destination(text: &str) -> Result<Destination, String> {
    let rule = stockade_config::parse_host(text, Decision::Prompt)?;
    match rule.host {
        HostPattern::Exact(host) => Ok(Destination { host, protocol: rule.protocol, port: rule.port.unwrap_or(443) }),
        HostPattern::Below(_) | HostPattern::Within(_) | HostPattern::Network(_) => {
            Err(String::from("one host has to be named, not several"))
        }
    }
}

/// `--env`: `NAME` passes a variable on, `NAME=VALUE` sets it.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: VariableName,
    value: Option<String>,
}

impl FromStr for Variable {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Ok(Self { name: name.parse()?, value })
    }
}

impl Variable {
    pub(crate) fn value(&self) -> Option<String> {
        self.value.clone().or_else(|| std::env::var(self.name.as_str()).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_units() {
        let found = limits("cpu=2m,memory=2G,pids=20,fsize=3K,files=9").unwrap();
        let numbers = [found.cpu_seconds, found.memory_bytes, found.processes, found.file_size_bytes, found.open_files];
        assert_eq!(numbers.map(|number| number.map_or(0, NonZeroU64::get)), [120, 2 << 30, 20, 3 << 10, 9]);
        for (text, bytes) in [
            ("256MiB", 256 << 20),
            ("64KiB", 64 << 10),
            ("64k", 64 << 10),
            ("5MB", 5_000_000),
            ("2GB", 2_000_000_000),
            ("1g", 1 << 30),
            ("1T", 1 << 40),
            ("7B", 7),
        ] {
            let found = limits(&format!("fsize={text}")).unwrap().file_size_bytes;
            assert_eq!(found.map(NonZeroU64::get), Some(bytes), "{text}");
        }
        assert_eq!(limits("memory=4M").unwrap().memory_bytes.map(NonZeroU64::get), Some(4 << 20));
        assert!(limits("memory=4MB").unwrap_err().contains("the least is `memory=4M`"));
        assert_eq!(limits("cpu=30s").unwrap().cpu_seconds.map(NonZeroU64::get), Some(30));
        for wrong in ["memory=1ib", "memory=1Q", "cpu=1G", "files=1s"] {
            assert!(limits(wrong).unwrap_err().contains("write "), "{wrong}");
        }
        for wrong in ["", "cpu", "cpu=0", "cpu=x", "disk=1", "pids=1K", "memory=99999999T", "cpu=1,"] {
            assert!(limits(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ask_takes_words_and_categories() {
        assert_eq!(ask("never"), Ok(AskForApproval::Never));
        let some = RejectConfig { rules: true, sandbox_approval: true, ..RejectConfig::default() };
        assert_eq!(ask("reject=rules,sandbox_approval"), Ok(AskForApproval::Reject(some)));
        for wrong in ["", "always", "reject", "reject=", "reject=rule"] {
            assert!(ask(wrong).is_err(), "{wrong}");
        }
    }
}
