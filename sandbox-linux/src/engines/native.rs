//! The `native` engine: every layer at once, by Stockade's own launcher.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use stockade_protocol::{AbsPath, FileRules, NetworkPolicy, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, Gatekeeper, HostFiles, OwnPlace, Plan, RealFiles, Running, SeenOnce, SpawnError,
    Starts, Stdio, Support, Unenforceable, protect_repositories, resolve_links,
};

use crate::launch::cgroup::Group;
use crate::launch::{Launcher, Parking, Run, Setup, SocketsFrom, StepLists};
use crate::masks::{Commands, MaskServer, Masks};
use crate::observer::{Observe, Watch};
use crate::plan::command_steps::{CommandStart, CommandSteps, confine_watched};
use crate::plan::console::Console;
use crate::plan::limits::Limits;
use crate::plan::step::{Ruleset, Step};
use crate::supervisor::supervision::Supervision;
use crate::supervisor::{Sockets, Supervisor};
use crate::{engines::probe, launch::ahead, plan::devices, plan::landlock, plan::seccomp, plan::view, wire};

const NEW_MOUNTS: u64 = 0x0002_0000;
const NEW_CGROUPS: u64 = 0x0200_0000;
const NEW_HOST_NAME: u64 = 0x0400_0000;
const NEW_IPC: u64 = 0x0800_0000;
const NEW_USERS: u64 = 0x1000_0000;
const NEW_PIDS: u64 = 0x2000_0000;
const NEW_NETWORK: u64 = 0x4000_0000;

/// Everything that the command's process has to read back before the command may start.
pub(crate) const FACTS: u64 = wire::FACT_NO_NEW_PRIVILEGES
    | wire::FACT_SECCOMP
    | wire::FACT_NO_CAPABILITIES
    | wire::FACT_NO_BOUNDING_SET
    | wire::FACT_LANDLOCK
    | wire::FACT_OWN_PIDS;

/// Namespaces, mounts, Landlock and seccomp, without any external program.
#[derive(Debug)]
pub struct Native {
    support: OnceLock<Support>,
    landlock_version: u32,
    user: u32,
    group: u32,
    observe: Observe,
    kept_names: Option<PathBuf>,
    /// Whether a sandbox is made for one command.
    commands: Commands,
}

impl Native {
    /// For this host and user. Nothing is tried yet: what does not work makes a start fail, and
    /// [`support`](Backend::support) says why.
    pub fn new() -> Self {
        Self {
            support: OnceLock::new(),
            landlock_version: crate::sys::landlock_version(),
            user: rustix::process::getuid().as_raw(),
            group: rustix::process::getgid().as_raw(),
            observe: Observe::default(),
            kept_names: None,
            commands: Commands::One,
        }
    }

    /// For a user and a kernel that are the same on every machine.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        Self { support: OnceLock::new(), landlock_version: 7, user: 1000, group: 1000, ..Self::new() }
    }

    /// With denials observed, as they are by default, or not.
    #[must_use]
    pub fn observing(self, observe: Observe) -> Self {
        Self { observe, ..self }
    }

    /// With a directory, which no command may write to, where what stands in for missing names of a workspace waits
    /// for the next run there. Moving it costs less than making it anew.
    #[must_use]
    pub fn keeping_names_in(self, directory: Option<PathBuf>) -> Self {
        Self { kept_names: directory, ..self }
    }

    /// For sandboxes that are kept for several commands: those have no datagrams to other machines.
    #[must_use]
    pub(crate) fn for_many_commands(self) -> Self {
        Self { commands: Commands::Many, ..self }
    }

    /// Has everything made that the next command needs whatever its policy is, while the caller still
    /// finds out about that. The next start in this process uses it, if that is soon and the command's network turns out to be
    /// the expected one: the host's, or one of its own. It makes nothing possible that was not before, and what fails here
    /// fails at the start, with its reason; so it may be called or not.
    ///
    /// ```
    /// # use stockade_sandbox_linux::Native;
    /// let native = Native::new();
    /// native.get_ready(&stockade_protocol::NetworkPolicy::Off);
    /// // Read settings, ask somebody, make a plan …
    /// ```
    pub fn get_ready(&self, expected: &NetworkPolicy) {
        let mut steps = self.enter(if *expected == NetworkPolicy::Full { 0 } else { NEW_NETWORK });
        // What can't be done now fails with its reason when the command starts.
        steps.extend(view::beginning(&RealFiles).unwrap_or_default());
        ahead::begin(steps).ok();
    }

    /// What has to be done, as plain data.
    pub fn plan(&self, command: &CommandSpec, permissions: &Permissions) -> Result<NativePlan, Unenforceable> {
        let files = SeenOnce::default();
        self.plan_on(command, &resolve(permissions, &files)?, &files)
    }

    /// The same for permissions whose links have been resolved, on a host with these files.
    pub(crate) fn plan_on(
        &self,
        command: &CommandSpec,
        permissions: &Permissions,
        files: &dyn HostFiles,
    ) -> Result<NativePlan, Unenforceable> {
        let sandbox = self.sandbox(permissions, files, command.process.starts)?;
        NativePlan::new(Arc::new(sandbox), Arc::new(permissions.clone()), command)
    }

    /// Whether a sandbox has the limits that permissions ask for on the host as it is now.
    pub(crate) fn has_same_limits(&self, sandbox: &Sandbox, permissions: &Permissions) -> Result<bool, Unenforceable> {
        let limits = Limits::of(permissions, self.user)?;
        Ok(limits.steps == sandbox.limits && limits.group == sandbox.group)
    }

    /// Everything that does not depend on the command.
    pub(crate) fn sandbox(
        &self,
        permissions: &Permissions,
        files: &dyn HostFiles,
        starts: Starts,
    ) -> Result<Sandbox, Unenforceable> {
        let supervision = Supervision::of(permissions)?;
        let supervision = match self.commands {
            Commands::One => supervision,
            Commands::Many => supervision.map(Supervision::without_datagrams),
        };
        let own_files = supervision.as_ref().map(|_| Supervision::files(files)).unwrap_or_default();
        let view = view::compile(&permissions.files, files, &own_files)?;
        let network = if supervision.is_some() { NEW_NETWORK } else { network_flags(permissions)? };
        let mut setup = self.enter(network);
        setup.extend(view.steps);
        setup.extend((network != 0).then_some(Step::JoinNetwork));
        // Once for all commands. With a resolver each, the kernel would bring queries to those of processes
        // that wait for a command, which nobody listens to yet.
        setup.extend(supervision.iter().flat_map(Supervision::sockets));
        let limits = Limits::of(permissions, self.user)?;
        let families = seccomp::Families::of(supervision.as_ref());
        let rules = landlock::within_view(self.landlock_version, &view.grants, families);
        let supervision_warnings = supervision.as_ref().map(Supervision::warnings).unwrap_or_default();
        let watch = Watch::of(permissions, self.observe, starts, limits.group.as_ref());
        Ok(Sandbox {
            placeholders: view.placeholders,
            kept_names: self.kept_names.clone(),
            covers: view.covers,
            masks: view.masks,
            warnings: [view.warnings, limits.warnings, supervision_warnings].concat(),
            setup,
            init: vec![Step::Proc],
            limits: limits.steps,
            group: limits.group,
            ruleset: rules.always,
            for_files: rules.with_files,
            families,
            supervision,
            watch,
            files: permissions.files.clone(),
        })
    }

    /// A sandbox that is built once and runs many commands with the same permissions. Each command
    /// has processes, `/proc`, Landlock and seccomp of its own; they share the network, System V
    /// memory, semaphores and queues, the private directories, the view of the file system as it was when
    /// the session started, and, where a control group holds them, the limits on memory and processes.
    pub fn session(&self, permissions: &Permissions) -> Result<Session, SessionError> {
        self.open(permissions, None)
    }

    /// The same, with somebody who decides on the connections of its commands. What listens on loopback
    /// in one command is reached by the next.
    pub fn guarded_session(
        &self,
        permissions: &Permissions,
        gatekeeper: Arc<dyn Gatekeeper>,
    ) -> Result<Session, SessionError> {
        self.open(permissions, Some(gatekeeper))
    }

    fn open(
        &self,
        permissions: &Permissions,
        gatekeeper: Option<Arc<dyn Gatekeeper>>,
    ) -> Result<Session, SessionError> {
        let files = SeenOnce::default();
        let sandbox = self.sandbox(&resolve(permissions, &files)?, &files, Starts::Unseen)?;
        Ok(Session::start(Arc::new(sandbox), gatekeeper).map_err(|failed| failed.error)?)
    }

    /// Namespaces, and this user under the same number in them. The network takes longest, so that is
    /// begun first, and entered when the rest is there.
    fn enter(&self, network: u64) -> Vec<Step> {
        let flags = NEW_MOUNTS | NEW_IPC | NEW_HOST_NAME | NEW_CGROUPS;
        let map = |name: &str, text: String| {
            format!("/proc/self/{name}").parse().ok().map(|path| Step::WriteFile { path, text })
        };
        let mut steps = vec![Step::Namespaces { flags: NEW_USERS }];
        steps.extend((network != 0).then_some(Step::BeginNetwork));
        steps.push(Step::Namespaces { flags });
        steps.extend(map("setgroups", String::from("deny")));
        steps.extend(map("uid_map", format!("{0} {0} 1", self.user)));
        steps.extend(map("gid_map", format!("{0} {0} 1", self.group)));
        steps.extend([Step::HostName { name: String::from("stockade") }, Step::Keyring]);
        steps
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Native {
    fn support(&self) -> &Support {
        self.support.get_or_init(|| probe::support(self, self.landlock_version))
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        landlock::require(self.landlock_version, 1)?;
        Ok(Box::new(self.plan(command, permissions)?))
    }

    fn own_place(&self, path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
        devices::own_place(path, files)
    }

    fn sees_starts(&self) -> bool {
        true
    }
}

/// A network of its own with nothing but loopback, or the host's.
pub(crate) fn network_flags(permissions: &Permissions) -> Result<u64, Unenforceable> {
    let refuse = |what: &str| {
        Err(Unenforceable {
            what: what.to_owned(),
            why: String::from("this engine can't tell one destination from another"),
            remedy: String::from("use the engine `native` or `bwrap`, or the network `off` or `full`"),
        })
    };
    match &permissions.network {
        _ if !permissions.unix_sockets.is_empty() => refuse("a grant for single unix sockets"),
        NetworkPolicy::Off => Ok(NEW_NETWORK),
        NetworkPolicy::Full => Ok(0),
        NetworkPolicy::Hosts(_) => refuse("a network policy by host"),
    }
}

/// Links followed, and the metadata of nested repositories protected.
pub(crate) fn resolve(permissions: &Permissions, files: &dyn HostFiles) -> Result<Permissions, Unenforceable> {
    Ok(protect_repositories(&resolve_links(permissions, files)?)?)
}

/// A sandbox without a command in it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Sandbox {
    placeholders: Vec<AbsPath>,
    #[serde(skip)]
    kept_names: Option<PathBuf>,
    covers: BTreeSet<AbsPath>,
    warnings: Vec<String>,
    setup: Vec<Step>,
    init: Vec<Step>,
    limits: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Group>,
    ruleset: Ruleset,
    #[serde(skip_serializing_if = "Option::is_none")]
    for_files: Option<Ruleset>,
    /// Where somebody decides on connections while the command runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    supervision: Option<Supervision>,
    /// What is watched of commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    watch: Option<Watch>,
    #[serde(skip)]
    families: seccomp::Families,
    /// What can be told of reads that are denied.
    #[serde(skip)]
    masks: Masks,
    /// What the view was made from.
    #[serde(skip)]
    files: FileRules,
}

impl Sandbox {
    /// Whether connections are decided on while a command runs in it.
    pub(crate) fn is_supervised(&self) -> bool {
        self.supervision.is_some()
    }

    fn as_setup(&self) -> Setup<'_> {
        let group = self.group.as_ref();
        let (placeholders, covers, kept_names) = (&self.placeholders, &self.covers, self.kept_names.as_deref());
        Setup { steps: &self.setup, parking: None, placeholders, kept_names, covers, group, masks: None }
    }

    /// What a command's process does to itself, whatever the command is.
    fn confine(&self) -> Vec<Step> {
        confine_watched(self.ruleset.clone(), self.families, self.supervision.as_ref(), self.watch.as_ref())
    }

    /// What comes once the command is known.
    fn start(&self, command: &CommandSpec) -> Result<CommandStart, Unenforceable> {
        CommandStart::new(command, self.for_files.as_ref(), &self.limits)
    }

    fn run<'a>(&'a self, flags: u64, command: &'a CommandSteps, supervisor: Option<&'a Supervisor>) -> Run<'a> {
        let sockets = SocketsFrom::Setup(&self.setup);
        let files = Some(&self.files);
        let (init, watch, deciders, masks) = (&self.init, self.watch.as_ref(), Deciders::default(), None);
        Run { engine: "native", flags, init, command, files, facts: FACTS, supervisor, sockets, watch, deciders, masks }
    }

    /// Starts what answers for masks, with the socket for the launcher, if commands are watched and it can be done.
    fn answer_for_masks(&self, commands: Commands) -> Option<(Arc<MaskServer>, OwnedFd)> {
        let watch = self.watch.as_ref().filter(|watch| watch.observes_denials());
        let (server, socket) = watch.and_then(|_| MaskServer::start(&self.masks, commands))?;
        Some((Arc::new(server), socket))
    }

    /// The supervisor, if connections are supervised.
    fn supervisor(&self) -> Result<Option<Supervisor>, SpawnError> {
        self.supervision.as_ref().map(Supervision::start).transpose()
    }

    /// Checks that a command's connections have a gatekeeper, if they are supervised.
    fn check_gatekeeper(&self, gatekeeper: Option<&Arc<dyn Gatekeeper>>) -> Result<(), Unenforceable> {
        self.supervision.as_ref().map_or(Ok(()), |_| Supervision::check(gatekeeper))
    }
}

/// A warm sandbox: see [`Native::session`].
pub struct Session {
    sandbox: Arc<Sandbox>,
    /// Decides on the connections of commands without a gatekeeper of their own.
    gatekeeper: Option<Arc<dyn Gatekeeper>>,
    supervisor: Option<Supervisor>,
    /// The sockets of its network that the supervisor needs.
    sockets: Option<Sockets>,
    masks: Option<Arc<MaskServer>>,
    launcher: Launcher,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("sandbox", &self.sandbox)
            .field("launcher", &self.launcher)
            .finish_non_exhaustive()
    }
}

impl Session {
    fn start(sandbox: Arc<Sandbox>, gatekeeper: Option<Arc<dyn Gatekeeper>>) -> Result<Self, NotStarted> {
        let supervisor = sandbox.supervisor();
        let supervisor = supervisor.map_err(|error| NotStarted { error, is_refused_by_host: false })?;
        let confine = sandbox.confine();
        let parking = Parking { flags: NEW_PIDS | NEW_MOUNTS, init: &sandbox.init, confine: &confine };
        let (masks, socket) = sandbox.answer_for_masks(Commands::Many).unzip();
        let setup = Setup { parking: Some(parking), masks: socket.as_ref().map(OwnedFd::as_fd), ..sandbox.as_setup() };
        let started = Launcher::start(&setup).and_then(|launcher| {
            let sockets = supervisor.as_ref().map(|_| launcher.passed_sockets(&sandbox.setup)).transpose()?;
            Ok((launcher, sockets))
        });
        let (launcher, sockets) = started.map_err(|failure| NotStarted {
            is_refused_by_host: failure.is_refused_by_host(),
            error: failure.told(&StepLists {
                setup: &sandbox.setup,
                init: &sandbox.init,
                confine: &confine,
                start: &[],
            }),
        })?;
        Ok(Self { sandbox, gatekeeper, supervisor, sockets, masks, launcher })
    }

    /// Whether the sandbox is the one that a plan would build now.
    pub(crate) fn is_as_planned(&self, plan: &NativePlan) -> bool {
        Arc::ptr_eq(&self.sandbox, &plan.sandbox) || self.sandbox == plan.sandbox
    }

    /// Starts a command in the session's sandbox. While 64 are running, the next one waits for one of them
    /// to end.
    pub fn spawn(&self, command: &CommandSpec, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        self.spawn_asking(command, stdio, Deciders::default())
    }

    /// Like [`spawn`](Self::spawn), but asks about what the policy denies to write, and about programs that are started
    /// if the session was opened for that. Without a gatekeeper of the command's own, the session's decides on its
    /// connections.
    pub fn spawn_asking(
        &self,
        command: &CommandSpec,
        stdio: Stdio,
        deciders: Deciders,
    ) -> Result<Box<dyn Running>, SpawnError> {
        let deciders = Deciders { connections: deciders.connections.or_else(|| self.gatekeeper.clone()), ..deciders };
        self.sandbox.check_gatekeeper(deciders.connections.as_ref())?;
        // The process that waits for it is confined already.
        let command = CommandSteps { confine: Vec::new(), start: self.sandbox.start(command)? };
        let mut run = self.sandbox.run(NEW_PIDS | NEW_MOUNTS, &command, self.supervisor.as_ref());
        run.masks = self.masks.as_ref();
        run.deciders = deciders;
        run.sockets = self.sockets.as_ref().map_or(SocketsFrom::Nobody, SocketsFrom::Given);
        let child = self.launcher.run(&run, &stdio).map_err(|failure| {
            let (confine, start) = (&self.sandbox.confine(), &command.start.steps(&stdio));
            failure.told(&StepLists { setup: &self.sandbox.setup, init: &self.sandbox.init, confine, start })
        })?;
        Ok(Box::new(child))
    }
}

/// Why a session was not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Its permissions can't be enforced.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// Its launcher did not start.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// What has to be done to run one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NativePlan {
    #[serde(serialize_with = "serialize_shared")]
    sandbox: Arc<Sandbox>,
    command: CommandSteps,
    #[serde(skip)]
    permissions: Arc<Permissions>,
}

fn serialize_shared<S: serde::Serializer>(sandbox: &Arc<Sandbox>, serializer: S) -> Result<S::Ok, S::Error> {
    Sandbox::serialize(sandbox, serializer)
}

impl Plan for NativePlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, Deciders::default()).map_err(|failed| failed.error)
    }

    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, deciders).map_err(|failed| failed.error)
    }

    fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    fn warnings(&self) -> &[String] {
        &self.sandbox.warnings
    }
}

/// Why a command was not started, and whether another engine may start it.
pub(crate) struct NotStarted {
    pub(crate) error: SpawnError,
    pub(crate) is_refused_by_host: bool,
}

impl NativePlan {
    /// A command in a sandbox that enforces these permissions.
    pub(crate) fn new(
        sandbox: Arc<Sandbox>,
        permissions: Arc<Permissions>,
        command: &CommandSpec,
    ) -> Result<Self, Unenforceable> {
        let command = CommandSteps { confine: sandbox.confine(), start: sandbox.start(command)? };
        Ok(Self { sandbox, command, permissions })
    }

    /// Whether the sandbox of another plan is this very one.
    #[cfg(test)]
    pub(crate) fn is_in_same_sandbox(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.sandbox, &other.sandbox)
    }

    /// Builds the sandbox alone, for this command and others. Each brings its gatekeeper, if connections are supervised.
    pub(crate) fn session(&self) -> Result<Session, NotStarted> {
        Session::start(Arc::clone(&self.sandbox), None)
    }

    /// The paths of the host that something is mounted on, or taken from.
    pub(crate) fn mounted(&self) -> impl Iterator<Item = &AbsPath> {
        self.sandbox.setup.iter().filter_map(|step| {
            if let Step::Attach { path, .. } | Step::CloneTree { path, .. } = step { Some(path) } else { None }
        })
    }

    pub(crate) fn start(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, NotStarted> {
        let checked = self.sandbox.check_gatekeeper(deciders.connections.as_ref()).map_err(SpawnError::from);
        let supervisor = checked.and_then(|()| self.sandbox.supervisor());
        let supervisor = supervisor.map_err(|error| NotStarted { error, is_refused_by_host: false })?;
        let with_console = Console::of(&stdio).and_then(|console| console.shown_by(&self.sandbox.setup));
        let steps = with_console.as_deref().unwrap_or(&self.sandbox.setup);
        let (masks, socket) = self.sandbox.answer_for_masks(Commands::One).unzip();
        let masks = masks.as_ref();
        let run = Run { masks, deciders, ..self.sandbox.run(NEW_PIDS, &self.command, supervisor.as_ref()) };
        let socket = socket.as_ref().map(OwnedFd::as_fd);
        let launcher = Launcher::start(&Setup { steps, masks: socket, ..self.sandbox.as_setup() });
        let started = launcher.and_then(|launcher| launcher.run_only(&run, &stdio));
        let mut child = started.map_err(|failure| NotStarted {
            is_refused_by_host: failure.is_refused_by_host(),
            error: failure.told(&StepLists {
                setup: steps,
                init: &self.sandbox.init,
                confine: &self.command.confine,
                start: &self.command.start.steps(&stdio),
            }),
        })?;
        child.supervisor = supervisor;
        Ok(Box::new(child))
    }
}

/// One step a line.
impl fmt::Display for NativePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.sandbox.placeholders {
            writeln!(f, "hold {path}")?;
        }
        for (part, steps) in [("setup", &self.sandbox.setup), ("init", &self.sandbox.init)] {
            steps.iter().try_for_each(|step| writeln!(f, "{part} {step:?}"))?;
        }
        self.command.all().try_for_each(|step| writeln!(f, "command {step:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sy06: a kernel without Landlock gets no sandbox that says it has it.
    #[test]
    fn without_landlock_there_is_no_plan() {
        let command = CommandSpec {
            argv: stockade_protocol::Argv::parse(["/bin/true"]).unwrap(),
            cwd: "/".parse().unwrap(),
            environment: std::collections::BTreeMap::new(),
            process: Default::default(),
        };
        let native = Native { landlock_version: 0, ..Native::new() };
        let error = native.compile(&command, &Permissions::default()).unwrap_err();
        assert_eq!(error.what, "the layer `landlock`");
        assert!(!native.support().works());
        assert!(Native::new().compile(&command, &Permissions::default()).is_ok());
    }
}
