//! The `landlock` engine: no namespaces at all, for hosts that forbid them.
//!
//! Landlock restricts files and signals, the system call filter the network and the rest. There is no view of the file
//! system, so a restriction inside a grant can't be enforced: such a policy is refused, unless the caller accepts the
//! [`Loss`] by name. There is no pid namespace either: Landlock domains with signal scope replace it, for the launcher
//! and its first process each, so that either can end all processes of the command at once. Only if both are killed at
//! the same moment can the command continue, still confined.
//!
//! Other processes of the host are visible (not reachable), and so are the host's own `/dev` and `/proc` as far as the
//! rules grant them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use serde::Serialize;
use stockade_protocol::{AbsPath, Access, LayerReport, LayerStatus, NetworkPolicy, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, HostFiles, Kind, Plan, Running, SeenOnce, SpawnError, Stdio, Support, Unenforceable,
};

use crate::engines::losses::{Loss, Losses};
use crate::engines::native::{network_flags, resolve};
use crate::launch::cgroup::Group;
use crate::launch::{Launcher, Run, Setup, SocketsFrom, StepLists};
use crate::plan::command_steps::{CommandStart, CommandSteps, confine};
use crate::plan::limits::Limits;
use crate::plan::seccomp::{Families, More};
use crate::plan::step::Step;
use crate::{engines::probe, plan::devices, plan::landlock, plan::seccomp, plan::shared_host, plan::view, sys, wire};

/// The first version of Landlock with signal scope.
const NEEDED_VERSION: u32 = 6;
const FACTS: u64 = wire::FACT_NO_NEW_PRIVILEGES
    | wire::FACT_SECCOMP
    | wire::FACT_NO_CAPABILITIES
    | wire::FACT_LANDLOCK
    | wire::FACT_CONTAINED;

/// Landlock and seccomp, without namespaces.
#[derive(Debug)]
pub struct LandlockOnly {
    support: OnceLock<Support>,
    accepted: BTreeSet<Loss>,
    landlock_version: u32,
    user: u32,
}

impl LandlockOnly {
    /// For this host and user. Refuses every policy that it can't enforce.
    pub fn new() -> Self {
        Self {
            support: OnceLock::new(),
            accepted: BTreeSet::new(),
            landlock_version: sys::landlock_version(),
            user: rustix::process::getuid().as_raw(),
        }
    }

    /// Accepts a loss. It is reported in the `Enforcement` of the run.
    #[must_use]
    pub fn accepting(mut self, loss: Loss) -> Self {
        self.accepted.insert(loss);
        self
    }

    /// For a user and a kernel that are the same on every machine.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        Self { landlock_version: 7, user: 1000, ..Self::new() }
    }

    /// The plan, as plain data.
    pub fn plan(&self, command: &CommandSpec, permissions: &Permissions) -> Result<LandlockPlan, Unenforceable> {
        let files = SeenOnce::default();
        self.plan_on(command, &resolve(permissions, &files)?, &files)
    }

    /// The plan for permissions with resolved links, on a host with these files.
    pub(crate) fn plan_on(
        &self,
        command: &CommandSpec,
        permissions: &Permissions,
        files: &dyn HostFiles,
    ) -> Result<LandlockPlan, Unenforceable> {
        let losses = Losses::of(&permissions.files, files)?;
        losses.check(&self.accepted)?;
        // Refuses what no engine supports.
        network_flags(permissions)?;
        let network_is_off = permissions.network == NetworkPolicy::Off;
        let grants = grants(permissions, files)?;
        let ruleset = landlock::alone(self.landlock_version, &grants);
        let ruleset = if network_is_off { landlock::without_ports(ruleset) } else { ruleset };
        let attributes = self.attributes(permissions, &losses)?;
        let families = if network_is_off { Families::None } else { Families::Internet };
        let filter = seccomp::filter_with(families, attributes.refused());
        let limits = Limits::of(permissions, self.user)?;
        let start = CommandStart::new(command, None, &limits.steps)?;
        Ok(LandlockPlan {
            setup: vec![Step::AdoptOrphans, Step::KeepSignals, Step::Keyring],
            init: vec![Step::AdoptOrphans, Step::KeepSignals],
            command: CommandSteps { confine: confine(ruleset, filter, None), start },
            permissions: permissions.clone(),
            group: limits.group,
            warnings: limits.warnings,
            // Only root may drop the bounding set; with no_new_privs it is irrelevant.
            facts: if self.user == 0 { FACTS | wire::FACT_NO_BOUNDING_SET } else { FACTS },
            losses,
            attributes,
            network_is_off,
        })
    }

    fn attributes(&self, permissions: &Permissions, losses: &Losses) -> Result<Attributes, Unenforceable> {
        let root = "/".parse().map_err(invalid)?;
        Ok(match () {
            () if permissions.access(&root) == Access::Write && losses.is_empty() => Attributes::Granted,
            () if self.accepted.contains(&Loss::FileAttributes) => Attributes::Lost,
            () => Attributes::Refused,
        })
    }
}

impl Default for LandlockOnly {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for LandlockOnly {
    fn support(&self) -> &Support {
        self.support.get_or_init(|| probe::landlock_only(self, self.landlock_version))
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        landlock::require(self.landlock_version, NEEDED_VERSION)?;
        Ok(Box::new(self.plan(command, permissions)?))
    }

    fn sees_connections(&self) -> bool {
        false
    }
}

/// Whether modes, owners and times of files can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Attributes {
    /// Everywhere, since everything may be written.
    Granted,
    /// Everywhere, as an accepted loss.
    Lost,
    Refused,
}

impl Attributes {
    fn refused(self) -> &'static [More] {
        match self {
            Self::Granted | Self::Lost => &[shared_host::OTHERS],
            Self::Refused => &[shared_host::OTHERS, shared_host::ATTRIBUTES],
        }
    }
}

/// The grants of a policy, and the devices that every program expects.
fn grants(permissions: &Permissions, files: &dyn HostFiles) -> Result<Vec<(AbsPath, landlock::Grant)>, Unenforceable> {
    let root: AbsPath = "/".parse().map_err(invalid)?;
    let mut grants = Vec::new();
    let access = permissions.access(&root);
    grants.extend((access >= Access::Read).then(|| (root, landlock::Grant::of(access, Kind::Directory))));
    for (path, access) in view::keys(&permissions.files, files)? {
        match (files.kind(&path), access) {
            // A link's target has a rule of its own.
            (Some(Kind::Symlink), _) | (_, Access::None | Access::Scratch) | (None, Access::Read) => {}
            (Some(_), Access::Write) if devices::is_granted(&path, access, files) => {
                grants.push((path, landlock::Grant::Device));
            }
            (Some(kind), Access::Read | Access::Write) => grants.push((path, landlock::Grant::of(access, kind))),
            (None, Access::Write) => {
                return Err(Unenforceable {
                    what: format!("the rule for `{path}`"),
                    why: String::from("it does not exist"),
                    remedy: String::from("create it, or take it out of the policy"),
                });
            }
        }
    }
    for name in devices::NODES {
        let node = format!("/dev/{name}").parse().map_err(invalid)?;
        if files.kind(&node).is_some() {
            grants.push((node, landlock::Grant::Device));
        }
    }
    Ok(grants)
}

fn invalid(error: stockade_protocol::Invalid) -> Unenforceable {
    Unenforceable {
        what: String::from("the policy"),
        why: error.to_string(),
        remedy: String::from("please report this"),
    }
}

/// The plan of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LandlockPlan {
    setup: Vec<Step>,
    init: Vec<Step>,
    command: CommandSteps,
    #[serde(skip)]
    permissions: Permissions,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Group>,
    facts: u64,
    losses: Losses,
    attributes: Attributes,
    network_is_off: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Plan for LandlockPlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        let group = self.group.as_ref();
        let setup = Setup {
            steps: &self.setup,
            parking: None,
            placeholders: &[],
            kept_names: None,
            covers: &BTreeSet::new(),
            group,
            masks: None,
        };
        let (confine, start) = (&self.command.confine, &self.command.start.steps(&stdio));
        let lists = StepLists { setup: &self.setup, init: &self.init, confine, start };
        let launcher = Launcher::start(&setup).map_err(|failure| failure.told(&lists))?;
        let run = Run {
            engine: "landlock",
            flags: 0,
            init: &self.init,
            masks: None,
            command: &self.command,
            // Here a stream grants no more than the file's name.
            files: None,
            facts: self.facts,
            supervisor: None,
            sockets: SocketsFrom::Nobody,
            watch: None,
            deciders: Deciders::default(),
        };
        let mut child = launcher.run_only(&run, &stdio).map_err(|failure| failure.told(&lists))?;
        let mut report = child.enforcement().clone();
        report.layers.extend(self.reports());
        child.enforcement = Some(report);
        Ok(Box::new(child))
    }

    fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl LandlockPlan {
    /// Reports beyond the facts read back.
    fn reports(&self) -> Vec<LayerReport> {
        let report = |layer: &str, status, detail: &str| LayerReport {
            layer: layer.to_owned(),
            status,
            detail: Some(detail.to_owned()),
        };
        let (full, part, none) = (LayerStatus::FullyEnforced, LayerStatus::PartlyEnforced, LayerStatus::NotEnforced);
        let mut reports = vec![report("processes", part, "others can be seen, not reached")];
        if self.network_is_off {
            reports.push(report("network", full, "off: there are no internet sockets"));
        }
        reports.push(match self.attributes {
            Attributes::Granted => report("file_attributes", full, "everything may be written"),
            Attributes::Refused => report("file_attributes", full, "can't be changed, even where files may be written"),
            Attributes::Lost => report("file_attributes", none, "accepted for every file that the user owns"),
        });
        reports.extend(self.losses.reports());
        reports
    }
}

/// One step a line.
impl fmt::Display for LandlockPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (part, steps) in [("setup", &self.setup), ("init", &self.init)] {
            steps.iter().try_for_each(|step| writeln!(f, "{part} {step:?}"))?;
        }
        self.command.all().try_for_each(|step| writeln!(f, "command {step:?}"))
    }
}
