//! The settings for every request of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use stockade_protocol::{
    AbsPath, Access, AskForApproval, Decision, Destination, FileRules, FileTarget, HostPaths, HostRule, HostRules,
    Invalid, NetworkPolicy, Permissions, RawText, SandboxPolicy, ThreadId,
};
use stockade_sandboxing::Repository;

use crate::saved_grants::SavedGrant;

/// A session: its id, when to ask, and what its commands may do. A request changes none of it.
#[derive(Clone, Debug)]
pub struct Session {
    /// Its id.
    pub thread_id: ThreadId,
    /// When to ask.
    pub ask: AskForApproval,
    /// The chosen sandbox policy.
    pub sandbox: SandboxPolicy,
    /// The permissions of that policy, with all additions.
    pub permissions: Permissions,
    /// An administrator's upper bound. Nothing exceeds it, approved or not.
    pub maximum: Option<Permissions>,
    /// The timeout of commands without their own.
    pub default_timeout: Option<Duration>,
    /// The environment that commands start from, before the policy is applied.
    pub environment: BTreeMap<RawText, RawText>,
    /// Limit on the captured output.
    pub output: OutputLimit,
    /// Which commands that rules allow run without the sandbox.
    pub rules_outside: RulesOutside,
    /// Hosts that are forbidden with any network policy: a run without the sandbox would reach them.
    pub forbidden_hosts: Vec<HostRule>,
    /// The permissions of the profiles that rules name, by profile name.
    pub profiles: BTreeMap<String, Permissions>,
    /// Profiles that rules name and that can't be granted now, each with the reason: its agent does not run.
    pub unavailable_profiles: BTreeMap<String, String>,
    /// Missing directories to be created when a command may write them: caches of tools that have not run yet.
    pub made_on_use: BTreeSet<AbsPath>,
    /// Repositories in which commands may do what git does there.
    pub repositories: Vec<Repository>,
    /// Directories whose programs are asked about as scripts of a skill, unless commands can write them.
    pub skills: BTreeSet<AbsPath>,
    /// What happens to a connection where the network is off.
    pub off_network: OffNetwork,
    /// Grants for single commands in this workspace, which a person saved.
    pub saved: Vec<SavedGrant>,
    /// The host paths for which a policy is resolved.
    pub(crate) host: HostPaths,
}

/// Limits on each captured output stream: its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Bytes of the beginning.
    pub head: usize,
    /// Bytes of the end.
    pub tail: usize,
}

impl Default for OutputLimit {
    /// Enough for a page of errors at either end, and small enough for hundreds of concurrent runs.
    fn default() -> Self {
        Self { head: 64 * 1024, tail: 192 * 1024 }
    }
}

/// Which commands that rules allow run without the sandbox. All others run in it, without a question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RulesOutside {
    /// None: a person chose the sandbox for this session, or a project set variables, which could make a program load
    /// its files.
    Never,
    /// Those whose rules say `outside = True`.
    #[default]
    Said,
    /// Also those whose rules lack `outside`, as in codex; exact rules and those of a project need it.
    Unsaid,
}

/// The treatment of a connection if the network is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OffNetwork {
    /// It fails, and is reported: the network was turned off explicitly, or there is no reviewer.
    #[default]
    Denies,
    /// It waits while a person is asked about its destination, if the approval policy asks after a denial: the network
    /// is off only by default.
    Asks,
}

/// Whether Stockade builds a sandbox around a session's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sandboxing {
    /// It does.
    On,
    /// A person turned it off.
    Off,
    /// Another program's sandbox contains this process.
    External,
}

impl Session {
    /// A session with a policy resolved for this host, and defaults otherwise.
    pub fn new(
        thread_id: ThreadId,
        ask: AskForApproval,
        sandbox: SandboxPolicy,
        host: &HostPaths,
    ) -> Result<Self, Invalid> {
        let permissions = sandbox.resolve(host)?;
        Ok(Self {
            thread_id,
            ask,
            sandbox,
            permissions,
            maximum: None,
            default_timeout: None,
            environment: BTreeMap::new(),
            output: OutputLimit::default(),
            rules_outside: RulesOutside::default(),
            forbidden_hosts: Vec::new(),
            profiles: BTreeMap::new(),
            unavailable_profiles: BTreeMap::new(),
            made_on_use: BTreeSet::new(),
            repositories: Vec::new(),
            skills: BTreeSet::new(),
            off_network: OffNetwork::default(),
            saved: Vec::new(),
            host: host.clone(),
        })
    }

    /// Sets the paths that every program needs to start, for programs that a rule gives exactly a profile.
    pub fn know_platform_defaults(&mut self, paths: Vec<AbsPath>) {
        self.host.platform_defaults = paths;
    }

    /// A grant whose writable directories are protected as the workspace is, also those that are made for the command.
    pub(crate) fn protecting(&self, grant: &Permissions) -> Permissions {
        let is_made = |path: &AbsPath| self.directories_to_make().any(|made| made == path);
        let is_directory =
            |path: &AbsPath| path.to_host_path().is_some_and(|host| host.is_dir() || (is_made(path) && !host.exists()));
        grant.protecting(&self.host.protected_names, is_directory)
    }

    /// The directories that are made for a command that may write them, if they are missing.
    fn directories_to_make(&self) -> impl Iterator<Item = &AbsPath> {
        self.saved.iter().flat_map(|saved| &saved.directories).chain(&self.made_on_use)
    }

    /// Whether any command of the session could have written this path: by the session's permissions, by a profile that
    /// a rule gives, or by a saved grant. The bounds of one do not hold for the other.
    pub(crate) fn may_be_written(&self, path: &AbsPath) -> bool {
        let saved = self.saved.iter().map(|saved| &saved.permissions);
        let all = std::iter::once(&self.permissions).chain(self.profiles.values()).chain(saved);
        all.into_iter().any(|permissions| permissions.access(path) == Access::Write)
            || self.directories_to_make().any(|directory| path.starts_with(directory))
    }

    /// This session with another policy. Restrictions beyond the former policy stay: denials, forbidden hosts, the
    /// administrator's bound, limits and the environment. Grants beyond it stay only with the policy they were granted
    /// with.
    pub(crate) fn with_policy(&self, ask: AskForApproval, sandbox: SandboxPolicy) -> Result<Self, Invalid> {
        if sandbox == self.sandbox {
            return Ok(Self { ask, ..self.clone() });
        }
        let fresh = sandbox.resolve(&self.host)?;
        let former = self.sandbox.resolve(&self.host)?;
        let on_top = self.permissions.files.iter().filter(|rule| !former.files.iter().any(|plain| plain == *rule));
        let takes_away = on_top.filter(|rule| match &rule.target {
            FileTarget::Path(path) => {
                rule.is_hard_denial() || rule.is_bound() || rule.access < fresh.files.access(path)
            }
            FileTarget::Glob(_) => rule.access == Access::None,
        });
        let permissions = Permissions {
            files: FileRules::new(fresh.files.iter().chain(takes_away).cloned())?,
            network: self.with_own_denials(fresh.network),
            limits: self.permissions.limits,
            environment: self.permissions.environment.clone(),
            unix_sockets: fresh.unix_sockets,
        };
        // An explicit policy determines the network.
        let off_network = OffNetwork::Denies;
        let (repositories, saved) = (Vec::new(), Vec::new());
        let mut changed = Self { ask, sandbox, permissions, off_network, repositories, saved, ..self.clone() };
        changed.permissions.network = changed.with_denied_hosts(changed.permissions.network.clone());
        Ok(changed)
    }

    /// A granted network with the forbidden hosts denied. `full` can't enforce per-host denials: with a forbidden
    /// host, the others are asked for.
    pub(crate) fn with_denied_hosts(&self, network: NetworkPolicy) -> NetworkPolicy {
        if self.sandboxing() != Sandboxing::On || self.forbidden_hosts.is_empty() {
            return network;
        }
        match network {
            NetworkPolicy::Off => NetworkPolicy::Off,
            NetworkPolicy::Full => {
                NetworkPolicy::Hosts(HostRules { rules: self.forbidden_hosts.clone(), ..HostRules::default() })
            }
            NetworkPolicy::Hosts(mut hosts) => {
                let missing = self.forbidden_hosts.iter().filter(|rule| !hosts.rules.contains(rule));
                let missing: Vec<HostRule> = missing.cloned().collect();
                hosts.rules.extend(missing);
                NetworkPolicy::Hosts(hosts)
            }
        }
    }

    /// A network with this session's forbidden hosts denied.
    fn with_own_denials(&self, network: NetworkPolicy) -> NetworkPolicy {
        let NetworkPolicy::Hosts(own) = &self.permissions.network else { return network };
        let forbidden = own.rules.iter().filter(|rule| rule.decision == Decision::Forbidden).cloned().collect();
        match network {
            NetworkPolicy::Full if self.forbids_hosts() => {
                NetworkPolicy::Hosts(HostRules { rules: forbidden, methods: own.methods })
            }
            same @ (NetworkPolicy::Off | NetworkPolicy::Full | NetworkPolicy::Hosts(_)) => same,
        }
    }

    /// The directories of the workspace.
    pub fn workspace_roots(&self) -> &[AbsPath] {
        &self.host.workspace_roots
    }

    /// Whether a sandbox is built.
    pub fn sandboxing(&self) -> Sandboxing {
        match self.sandbox {
            SandboxPolicy::ReadOnly { .. } | SandboxPolicy::WorkspaceWrite { .. } => Sandboxing::On,
            SandboxPolicy::DangerFullAccess {} => Sandboxing::Off,
            SandboxPolicy::ExternalSandbox { .. } => Sandboxing::External,
        }
    }

    /// The repositories that commands may use with git while this is enforced: those of a working tree that may be written,
    /// if the administrator's bound allows writing their metadata.
    pub(crate) fn usable_repositories(&self, enforced: &Permissions) -> Vec<Repository> {
        let is_allowed =
            |path: &AbsPath| self.maximum.as_ref().is_none_or(|maximum| maximum.access(path) == Access::Write);
        let is_usable = |repository: &&Repository| {
            enforced.access(&repository.worktree) == Access::Write
                && is_allowed(&repository.own)
                && is_allowed(&repository.common)
        };
        self.repositories.iter().filter(is_usable).cloned().collect()
    }

    /// The permissions restricted to the administrator's bound.
    pub(crate) fn bounded(&self, permissions: &Permissions) -> Permissions {
        match &self.maximum {
            Some(maximum) => permissions.intersect(maximum),
            None => permissions.clone(),
        }
    }

    /// The enforced network of a run: one that is off by default is asked for, host by host, under `untrusted` and
    /// `on-failure`. An administrator's bound still applies; destinations beyond it are refused without a question, see
    /// [`NetworkBound`].
    pub(crate) fn held_network(&self, granted: &NetworkPolicy) -> NetworkPolicy {
        let asks = match self.ask {
            AskForApproval::Untrusted | AskForApproval::OnFailure => self.off_network == OffNetwork::Asks,
            AskForApproval::OnRequest | AskForApproval::Reject(_) | AskForApproval::Never => false,
        };
        if !asks || *granted != NetworkPolicy::Off || self.sandboxing() != Sandboxing::On {
            return granted.clone();
        }
        let asked = self.with_denied_hosts(NetworkPolicy::Hosts(HostRules::default()));
        match &self.maximum {
            Some(maximum) => asked.intersect(&maximum.network),
            None => asked,
        }
    }

    /// The administrator's bound on destinations.
    pub(crate) fn network_bound(&self) -> NetworkBound {
        NetworkBound(self.maximum.as_ref().map(|maximum| maximum.network.clone()))
    }

    /// A host rule restricted to the administrator's bound.
    pub(crate) fn within_maximum(&self, rule: &HostRule) -> Vec<HostRule> {
        let Some(maximum) = &self.maximum else { return vec![rule.clone()] };
        let is_its_own = |found: &HostRule| match &maximum.network {
            NetworkPolicy::Hosts(hosts) => hosts.rules.contains(found),
            NetworkPolicy::Off | NetworkPolicy::Full => false,
        };
        let alone = |rules| NetworkPolicy::Hosts(HostRules { rules, ..HostRules::default() });
        match alone(vec![rule.clone()]).intersect(&maximum.network) {
            // The session already contains its rules.
            NetworkPolicy::Hosts(within) => {
                within.rules.into_iter().filter(|found| found == rule || !is_its_own(found)).collect()
            }
            NetworkPolicy::Off | NetworkPolicy::Full => Vec::new(),
        }
    }

    /// Why a run without the sandbox is impossible: it would break a restriction that no approval lifts.
    pub(crate) fn must_confine(&self) -> Option<MustConfine<'_>> {
        if self.maximum.is_some() {
            return Some(MustConfine::Maximum);
        }
        let denial = self.permissions.hard_denials().next().map(MustConfine::HardDenial);
        let limits = (!self.permissions.limits.is_unlimited()).then_some(MustConfine::Limits);
        denial.or(self.forbids_hosts().then_some(MustConfine::ForbiddenHost)).or(limits)
    }

    /// Whether a rule may let a command run without the sandbox.
    pub(crate) fn rules_may_leave(&self) -> bool {
        self.rules_outside != RulesOutside::Never && self.must_confine().is_none()
    }

    /// Whether a host is forbidden by name, which `full` could not enforce.
    pub(crate) fn forbids_hosts(&self) -> bool {
        let among_granted = match &self.permissions.network {
            NetworkPolicy::Hosts(hosts) => hosts.rules.iter().any(|rule| rule.decision == Decision::Forbidden),
            NetworkPolicy::Off | NetworkPolicy::Full => false,
        };
        among_granted || (self.sandboxing() == Sandboxing::On && !self.forbidden_hosts.is_empty())
    }
}

/// The administrator's bound on destinations, which no answer exceeds.
///
/// In a policy, a destination that no rule names has to be asked for. In a bound it is out of reach: the intersection of
/// a policy with a bound can't express that, so it is checked before a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkBound(Option<NetworkPolicy>);

impl NetworkBound {
    /// Whether a destination is out of reach, regardless of rules and answers.
    pub(crate) fn forbids(&self, destination: &Destination) -> bool {
        let Destination { host, protocol, port } = destination;
        match &self.0 {
            None | Some(NetworkPolicy::Full) => false,
            Some(NetworkPolicy::Off) => true,
            Some(NetworkPolicy::Hosts(hosts)) => {
                let named = hosts.rules.iter().filter(|rule| rule.matches(host, *protocol, *port));
                named.map(|rule| rule.decision).max().is_none_or(|strictest| strictest == Decision::Forbidden)
            }
        }
    }
}

/// Why even an approved run stays in a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MustConfine<'a> {
    /// An administrator's bound has to be enforced.
    Maximum,
    /// A person denied this.
    HardDenial(&'a stockade_protocol::FileRule),
    /// A person forbade a host.
    ForbiddenHost,
    /// A person set resource limits.
    Limits,
}
