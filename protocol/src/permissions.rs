//! Enforced permissions: the one type that all backends, prompts and records use.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    AbsPath, Access, Decision, EnvironmentPolicy, FileRule, FileRules, Host, NetworkPolicy, NetworkProtocol,
    ResourceLimits,
};

/// Everything that a command may do. The default is nothing at all.
///
/// A [`SandboxPolicy`](crate::SandboxPolicy) is what a person writes; resolving it is the only way
/// to one of these. Additional permissions have the same type and are merged in, and an
/// administrator's maximum has the same type and is intersected with.
///
/// ```
/// use stockade_protocol::{Access, FileRule, FileRules, Permissions};
///
/// let grant = |path: &str, access| Ok::<_, stockade_protocol::Invalid>(Permissions {
///     files: FileRules::new([FileRule::path(path.parse()?, access)])?,
///     ..Permissions::default()
/// });
/// let wider = grant("/", Access::Read)?.merge(&grant("/repo", Access::Write)?);
/// assert_eq!(wider.access(&"/repo/a".parse()?), Access::Write);
///
/// let bounded = wider.intersect(&grant("/repo", Access::Read)?);
/// assert_eq!(bounded.access(&"/repo/a".parse()?), Access::Read);
/// assert_eq!(bounded.access(&"/etc/passwd".parse()?), Access::None);
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// Files, by path.
    pub files: FileRules,
    /// Destinations on the network.
    pub network: NetworkPolicy,
    /// Unix sockets that may be connected to, by resolved path.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub unix_sockets: BTreeSet<AbsPath>,
    /// How much of the machine may be used.
    #[serde(skip_serializing_if = "ResourceLimits::is_unlimited")]
    pub limits: ResourceLimits,
    /// Which environment variables are seen.
    pub environment: EnvironmentPolicy,
}

impl Permissions {
    /// The access to a path.
    pub fn access(&self, path: &AbsPath) -> Access {
        self.files.access(path)
    }

    /// Whether a destination may be reached.
    pub fn connect(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Decision {
        self.network.decide(host, protocol, port)
    }

    /// The denials that no approval, rule or escalation lifts.
    pub fn hard_denials(&self) -> impl Iterator<Item = &FileRule> {
        self.files.iter().filter(|rule| rule.is_hard_denial())
    }

    /// A grant that protects these names below each directory it makes writable. See [`HostPaths::protected_names`].
    /// Nothing is below a file. A path that does not exist counts as a directory if it is made for the command.
    ///
    /// [`HostPaths::protected_names`]: crate::HostPaths::protected_names
    #[must_use]
    pub fn protecting(&self, names: &[String], is_directory: impl Fn(&AbsPath) -> bool) -> Self {
        Self { files: self.files.protecting(names, is_directory), ..self.clone() }
    }

    /// Adds a grant. Hard denials and forbidden hosts stay.
    #[must_use]
    pub fn merge(&self, granted: &Self) -> Self {
        Self {
            files: self.files.merge(&granted.files),
            network: self.network.merge(&granted.network),
            unix_sockets: self.unix_sockets.union(&granted.unix_sockets).cloned().collect(),
            limits: self.limits.merge(&granted.limits),
            environment: self.environment.merge(&granted.environment),
        }
    }

    /// Restricts the permissions to an upper bound.
    #[must_use]
    pub fn intersect(&self, bound: &Self) -> Self {
        Self {
            files: self.files.intersect(&bound.files),
            network: self.network.intersect(&bound.network),
            unix_sockets: self.unix_sockets.intersection(&bound.unix_sockets).cloned().collect(),
            limits: self.limits.intersect(&bound.limits),
            environment: self.environment.intersect(&bound.environment),
        }
    }
}
