//! The `seatbelt` engine: permissions become a profile, and `sandbox-exec` starts a command under it.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;

use stockade_protocol::{AbsPath, NetworkPolicy, Permissions};
#[cfg(any(target_os = "macos", all(test, unix)))]
use stockade_protocol::{Enforcement, LayerReport, LayerStatus};
use stockade_sandboxing::{
    Backend, CommandSpec, HostFiles, Plan, Proxied, Running, SeenOnce, SpawnError, Stdio, Support, Unenforceable,
    protect_repositories, resolve_links,
};

use crate::limits::{self, Limit};
use crate::network::{Certificates, ProxyPorts};
use crate::profile::{Profile, Setting};
use crate::{doctor, managed};

/// The name in an [`Enforcement`].
pub(crate) const ENGINE: &str = "seatbelt";

/// Something that a caller can accept to lose, by name. Without that it is not given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Loss {
    /// Under a network policy by host: the system's service that judges certificates can be reached, and
    /// fetches from the network what a certificate names, past the proxy. Programs in Go can't check
    /// certificates without it.
    CertificateFetches,
}

impl Loss {
    /// Its name, as in an `Enforcement`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CertificateFetches => "certificate_fetches",
        }
    }
}

/// Seatbelt, by `/usr/bin/sandbox-exec`.
///
/// ```
/// use stockade_protocol::{Access, Argv, FileRule, FileRules, Permissions};
/// use stockade_sandbox_macos::Seatbelt;
/// use stockade_sandboxing::CommandSpec;
///
/// let (argv, cwd) = (Argv::parse(["make"])?, "/".parse()?);
/// let command = CommandSpec { argv, cwd, environment: Default::default(), process: Default::default() };
/// let files = FileRules::new([FileRule::path("/".parse()?, Access::Read)])?;
/// let plan = Seatbelt::new().plan(&command, &Permissions { files, ..Permissions::default() }, None)?;
/// assert!(plan.profile().text().contains("(deny default)"));
/// assert_eq!(plan.profile().parameters()[0].value, "/");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Seatbelt {
    support: OnceLock<Support>,
    maximum: OnceLock<Result<Option<Permissions>, Unenforceable>>,
    accepted: BTreeSet<Loss>,
}

impl Seatbelt {
    /// For this host. Nothing is tried yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives something up, for policies that go with it.
    #[must_use]
    pub fn accepting(mut self, loss: Loss) -> Self {
        self.accepted.insert(loss);
        self
    }

    /// What has to be done, as plain data. An administrator's maximum is part of it. A network policy by host is
    /// refused without a proxy that enforces it.
    pub fn plan(
        &self,
        command: &CommandSpec,
        permissions: &Permissions,
        proxy: Option<&ProxyPorts>,
    ) -> Result<SeatbeltPlan, Unenforceable> {
        let permissions = match self.maximum.get_or_init(managed::maximum) {
            Ok(None) => permissions.clone(),
            Ok(Some(maximum)) => permissions.intersect(maximum),
            Err(error) => return Err(error.clone()),
        };
        let files = SeenOnce::default();
        let resolved = protect_repositories(&resolve_links(&permissions, &files)?)?;
        self.plan_on(command, &resolved, proxy, &files)
    }

    /// The same for permissions whose links have been resolved, on a host with these files: nothing of
    /// this host is looked at.
    pub fn plan_on(
        &self,
        command: &CommandSpec,
        permissions: &Permissions,
        proxy: Option<&ProxyPorts>,
        files: &dyn HostFiles,
    ) -> Result<SeatbeltPlan, Unenforceable> {
        command.process.check()?;
        let accepted = self.accepted.contains(&Loss::CertificateFetches);
        let certificates = if accepted { Certificates::BySystem } else { Certificates::OutOfReach };
        let setting = Setting { files, proxy, certificates };
        let compiled = Profile::compile(command, permissions, setting)?;
        let by_host = matches!(permissions.network, NetworkPolicy::Hosts(_));
        Ok(SeatbeltPlan {
            command: command.clone(),
            profile: compiled.profile,
            permissions: permissions.clone(),
            limits: limits::limits(&permissions.limits)?,
            private: compiled.private,
            warnings: compiled.warnings,
            losses: if by_host { self.accepted.clone() } else { BTreeSet::new() },
        })
    }
}

impl Backend for Seatbelt {
    fn support(&self) -> &Support {
        self.support.get_or_init(|| doctor::support(self))
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        Ok(Box::new(self.plan(command, permissions, None)?))
    }

    fn proxied(&self) -> Option<&dyn Proxied> {
        Some(self)
    }
}

impl Proxied for Seatbelt {
    fn compile_through(
        &self,
        proxy: SocketAddr,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        // A profile names ports of this machine alone.
        let ports = ProxyPorts::new(proxy.ip().is_loopback().then_some(proxy.port()));
        Ok(Box::new(self.plan(command, permissions, Some(&ports))?))
    }
}

/// What has to be done to run one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeatbeltPlan {
    pub(crate) command: CommandSpec,
    pub(crate) profile: Profile,
    permissions: Permissions,
    pub(crate) limits: Vec<Limit>,
    pub(crate) private: Vec<AbsPath>,
    warnings: Vec<String>,
    losses: BTreeSet<Loss>,
}

impl SeatbeltPlan {
    /// The profile that the command runs under.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The layers around a command, Seatbelt itself as it was found.
    #[cfg(any(target_os = "macos", all(test, unix)))]
    pub(crate) fn enforcement(&self, seatbelt: LayerReport) -> Enforcement {
        let mut layers = vec![seatbelt];
        let mut report = |layer: &str, status, detail: String| {
            layers.push(LayerReport { layer: layer.to_owned(), status, detail: Some(detail) });
        };
        if !self.private.is_empty() {
            let places: Vec<String> = self.private.iter().map(|path| format!("`{path}`")).collect();
            let detail = format!(
                "{} can't be used: `TMPDIR` names a private directory in their place, since nothing can be mounted",
                places.join(", ")
            );
            report("private_directories", LayerStatus::PartlyEnforced, detail);
        }
        if self.losses.contains(&Loss::CertificateFetches) {
            let detail = String::from("accepted: the system fetches what a certificate names, past the proxy");
            report("certificates", LayerStatus::NotEnforced, detail);
        }
        Enforcement { engine: ENGINE.to_owned(), layers }
    }
}

impl Plan for SeatbeltPlan {
    #[cfg(target_os = "macos")]
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        crate::launch::start(self, stdio)
    }

    #[cfg(not(target_os = "macos"))]
    fn spawn(&self, _: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        Err(SpawnError::Unenforceable(Unenforceable {
            what: String::from("a sandbox by Seatbelt"),
            why: String::from("this system is not macOS"),
            remedy: String::from("use this system's own sandbox; `stockade doctor` names it"),
        }))
    }

    fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The profile, then the command's limits.
impl fmt::Display for SeatbeltPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.profile)?;
        for limit in &self.limits {
            writeln!(f, "limit {limit:?}")?;
        }
        Ok(())
    }
}
