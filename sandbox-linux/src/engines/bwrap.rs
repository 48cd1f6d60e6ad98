//! The `bwrap` engine: bubblewrap builds the view and the namespaces, the launcher does the rest.
//!
//! For hosts on which bubblewrap may create user namespaces and this program may not, as with an AppArmor profile for
//! it. The launcher runs inside as the first process of the pid namespace, with the same steps for the command's
//! process as in the `native` engine, and reports directly to this program. It also handles the caller's end:
//! bubblewrap's own `--die-with-parent` would end the command with the *thread* that started it, whereas the launcher
//! sees its socket close when this program is gone.

pub(crate) mod arguments;
pub(crate) mod process;
pub(crate) mod program;

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::Pid;
use serde::Serialize;
use stockade_protocol::{AbsPath, Enforcement, FileRules, LayerReport, LayerStatus, NetworkPolicy, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, HostFiles, OwnPlace, Plan, Running, SeenOnce, SpawnError, Stdio, Support,
    Unenforceable,
};

use crate::engines::bwrap::arguments::{Argument, Proc, Rendered, render};
use crate::engines::bwrap::process::{Bubblewrap, child_pid, end_group};
use crate::engines::bwrap::program::Program;
use crate::engines::enforcement::{namespaces, read_back};
use crate::engines::native::{FACTS, resolve};
use crate::launch::cgroup::Group;
use crate::launch::starter::Starter;
use crate::launch::{Launcher, Run, Setup, SocketsFrom, StepLists};
use crate::masks::{Commands, MaskServer, Masks};
use crate::observer::{Observe, Watch};
use crate::plan::command_steps::{CommandStart, CommandSteps, confine_watched};
use crate::plan::console::Console;
use crate::plan::limits::Limits;
use crate::plan::step::Step;
use crate::supervisor::supervision::Supervision;
use crate::{
    engines::probe, launch::cgroup, launch::stdio, plan::devices, plan::landlock, plan::seccomp, plan::view, sys, wire,
};

/// Bubblewrap, and inside it the same layers as in the `native` engine.
#[derive(Debug)]
pub struct Bwrap {
    support: OnceLock<Support>,
    program: Result<Program, Unenforceable>,
    landlock_version: u32,
    user: u32,
    observe: Observe,
    kept_names: Option<PathBuf>,
    /// Set if this host does not permit mounting `/proc`.
    without_proc: Arc<AtomicBool>,
}

impl Bwrap {
    /// For this host and user. Bubblewrap is searched in its usual locations, never along `PATH`.
    pub fn new() -> Self {
        Self::with(Program::find())
    }

    pub(crate) fn with(program: Result<Program, Unenforceable>) -> Self {
        Self {
            support: OnceLock::new(),
            program,
            landlock_version: sys::landlock_version(),
            user: rustix::process::getuid().as_raw(),
            observe: Observe::default(),
            kept_names: None,
            without_proc: Arc::new(AtomicBool::new(false)),
        }
    }

    /// For a user, a kernel and a program that are the same on every machine.
    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        Self { landlock_version: 7, user: 1000, ..Self::with(Ok(Program::fixed())) }
    }

    /// With denials observed, as they are by default, or not.
    #[must_use]
    pub fn observing(self, observe: Observe) -> Self {
        Self { observe, ..self }
    }

    /// Sets the directory in which placeholders are kept for the next run; see
    /// [`Native::keeping_names_in`](crate::Native::keeping_names_in).
    #[must_use]
    pub fn keeping_names_in(self, directory: Option<PathBuf>) -> Self {
        Self { kept_names: directory, ..self }
    }

    /// The plan, as plain data.
    pub fn plan(&self, command: &CommandSpec, permissions: &Permissions) -> Result<BwrapPlan, Unenforceable> {
        let files = SeenOnce::default();
        self.plan_on(command, &resolve(permissions, &files)?, &files)
    }

    /// The plan for permissions with resolved links, on a host with these files.
    pub(crate) fn plan_on(
        &self,
        command: &CommandSpec,
        permissions: &Permissions,
        files: &dyn HostFiles,
    ) -> Result<BwrapPlan, Unenforceable> {
        let program = self.program.clone()?;
        program.stays_out_of(permissions)?;
        let supervision = Supervision::of(permissions)?;
        let own_files = supervision.as_ref().map(|_| Supervision::files(files)).unwrap_or_default();
        let view = view::compile(&permissions.files, files, &own_files)?;
        let rendered = render(&view.steps)?;
        rendered.check(files)?;
        let mut setup: Vec<Step> =
            rendered.mount_points.iter().map(|path| Step::MountPoint { path: path.clone() }).collect();
        setup.push(Step::Keyring);
        let families = seccomp::Families::of(supervision.as_ref());
        let rules = landlock::within_view(self.landlock_version, &view.grants, families);
        let limits = Limits::of(permissions, self.user)?;
        let watch = Watch::of(permissions, self.observe, command.process.starts, limits.group.as_ref());
        let steps = CommandSteps {
            confine: confine_watched(rules.always, families, supervision.as_ref(), watch.as_ref()),
            start: CommandStart::new(command, rules.with_files.as_ref(), &limits.steps)?,
        };
        let supervision_warnings = supervision.as_ref().map(Supervision::warnings).unwrap_or_default();
        Ok(BwrapPlan {
            program,
            network: if permissions.network == NetworkPolicy::Full { Network::Host } else { Network::Own },
            supervision,
            watch,
            rendered,
            placeholders: view.placeholders,
            kept_names: self.kept_names.clone(),
            masks: view.masks,
            warnings: [view.warnings, limits.warnings, supervision_warnings].concat(),
            setup,
            command: steps,
            group: limits.group,
            permissions: permissions.clone(),
            without_proc: Arc::clone(&self.without_proc),
        })
    }
}

impl Default for Bwrap {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for Bwrap {
    fn support(&self) -> &Support {
        self.support.get_or_init(|| probe::bwrap(self, self.program.as_ref(), self.landlock_version))
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Network {
    /// A network with only loopback.
    Own,
    Host,
}

/// The plan of one command.
#[derive(Clone, Debug)]
pub struct BwrapPlan {
    program: Program,
    network: Network,
    /// The supervision of connections, if needed.
    supervision: Option<Supervision>,
    /// The observation of the command.
    watch: Option<Watch>,
    rendered: Rendered,
    placeholders: Vec<AbsPath>,
    kept_names: Option<PathBuf>,
    /// The masks that can report denied reads.
    masks: Masks,
    warnings: Vec<String>,
    setup: Vec<Step>,
    command: CommandSteps,
    group: Option<Group>,
    /// The permissions of the view.
    permissions: Permissions,
    without_proc: Arc<AtomicBool>,
}

/// A bubblewrap that failed before the launcher.
struct Failed {
    error: SpawnError,
    /// Its error output.
    words: String,
}

impl From<SpawnError> for Failed {
    fn from(error: SpawnError) -> Self {
        Self { error, words: String::new() }
    }
}

impl Plan for BwrapPlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, &Deciders::default())
    }

    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, &deciders)
    }

    fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

impl BwrapPlan {
    /// The facts required beyond the namespaces, which are visible from outside.
    const FACTS: u64 = FACTS & !wire::FACT_OWN_PIDS | wire::FACT_CONTAINED;

    /// Starts the command, and determines whether this host permits mounting `/proc`.
    fn start(&self, stdio: Stdio, deciders: &Deciders) -> Result<Box<dyn Running>, SpawnError> {
        if self.without_proc.load(Ordering::Relaxed) {
            return self.start_with(stdio, deciders, Proc::Empty).map_err(|failed| failed.error);
        }
        let again = stdio::duplicate(&stdio)
            .map_err(|source| SpawnError::Launcher { doing: "copying the standard streams", source })?;
        match self.start_with(stdio, deciders, Proc::Own) {
            Ok(running) => Ok(running),
            Err(failed) if failed.words.contains("mount proc") => {
                let running = self.start_with(again, deciders, Proc::Empty).map_err(|failed| failed.error)?;
                self.without_proc.store(true, Ordering::Relaxed);
                Ok(running)
            }
            Err(failed) => Err(failed.error),
        }
    }

    fn start_with(&self, stdio: Stdio, deciders: &Deciders, proc: Proc) -> Result<Box<dyn Running>, Failed> {
        if self.supervision.is_some() {
            Supervision::check(deciders.connections.as_ref()).map_err(SpawnError::from)?;
        }
        let supervisor = self.supervision.as_ref().map(Supervision::start).transpose()?;
        // Cleanup happens outside, since inside the names are covered.
        let covers = BTreeSet::new();
        let names = Setup {
            steps: &[],
            parking: None,
            placeholders: &self.placeholders,
            kept_names: self.kept_names.as_deref(),
            covers: &covers,
            group: None,
            masks: None,
        };
        let keeper = (!self.placeholders.is_empty()).then(|| Launcher::start(&names)).transpose();
        let keeper = keeper.map_err(|failure| failure.told(&StepLists::default()))?;
        let control = keeper.as_ref().and_then(Launcher::control);
        let console = Console::of(&stdio);
        let bubblewrap = Bubblewrap::start(&self.program, &self.arguments(proc, console.as_ref()), control)?;
        let Bubblewrap { control, pid, words, info } = bubblewrap;
        let started = Launcher::inside(control, pid, &self.setup, keeper).and_then(|mut launcher| {
            let inside = child_pid(&info).inspect_err(|_| end_group(pid))?;
            let starter = Starter::new(pid, inside).inspect_err(|_| end_group(pid));
            let watching = |source| SpawnError::Launcher { doing: "watching bubblewrap", source };
            launcher.starter = Some(starter.map_err(watching)?);
            let layers = self.look(inside)?;
            launcher.join(self.group.as_ref(), inside)?;
            let masks = self.answer_for_masks(&launcher, inside);
            let sockets = self.supervision.as_ref().map(Supervision::sockets);
            let network = sockets.map(|steps| Launcher::sockets_of(inside, steps)).transpose()?;
            let sockets = network.as_ref().map_or(SocketsFrom::Nobody, |(sockets, _)| SocketsFrom::Given(sockets));
            let (init, facts, supervisor) = ([Step::AdoptOrphans], Self::FACTS, supervisor.as_ref());
            let (engine, files) = ("bwrap", Some(&self.permissions.files));
            let (command, watch) = (&self.command, self.watch.as_ref());
            let (masks, deciders) = (masks.as_ref(), deciders.clone());
            let flags = 0;
            let run =
                Run { engine, flags, init: &init, command, files, facts, supervisor, sockets, watch, deciders, masks };
            let (confine, start) = (&self.command.confine, &self.command.start.steps(&stdio));
            let lists = StepLists { setup: &self.setup, init: &init, confine, start };
            let mut child = launcher.run_only(&run, &stdio).map_err(|failure| failure.told(&lists))?;
            child.network = network.map(|(_, launcher)| launcher);
            Ok((child, layers))
        });
        let (mut child, mut layers) = started.map_err(|error| failure(error, &words))?;
        child.supervisor = supervisor;
        layers.extend(read_back(child.facts).filter(|layer| layer.layer != "pid_namespace"));
        layers.extend(child.enforcement().layers.iter().filter(|layer| layer.layer == cgroup::LAYER).cloned());
        layers.push(proc_report(proc));
        child.enforcement = Some(Enforcement { engine: String::from("bwrap"), layers });
        Ok(Box::new(child))
    }

    /// Covers bubblewrap's masks with FUSE masks, if commands are observed and this host permits it. Errors of the
    /// launcher are reported when it gets the command.
    fn answer_for_masks(&self, launcher: &Launcher, inside: Pid) -> Option<Arc<MaskServer>> {
        let watch = self.watch.as_ref().filter(|watch| watch.observes_denials());
        let (mut server, socket) = watch.and_then(|_| MaskServer::start(&self.masks, Commands::One))?;
        let covered = launcher.await_built();
        let covered = covered.and_then(|()| Launcher::cover_masks(inside, &self.masks.entries, socket.as_fd()));
        if covered.is_err() {
            // Existing masks still have to be served.
            server.sees_some_only();
        }
        Some(Arc::new(server))
    }

    /// Bubblewrap's arguments, without the file that contains them.
    fn arguments(&self, proc: Proc, console: Option<&Console>) -> Vec<Argument> {
        let text = |text: &str| Argument::Text(text.into());
        let mut all: Vec<Argument> = [
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-uts",
            "--unshare-cgroup",
            "--hostname",
            "stockade",
            "--cap-drop",
            "ALL",
            "--clearenv",
            "--new-session",
            // Otherwise bubblewrap's own process stays there and outlives the launcher.
            "--as-pid-1",
            "--chdir",
            "/",
        ]
        .map(text)
        .into();
        all.extend((self.network == Network::Own).then(|| text("--unshare-net")));
        all.extend(self.rendered.arguments(proc, console));
        all
    }

    /// Checks bubblewrap's namespaces from outside, before anything runs in them.
    fn look(&self, inside: Pid) -> Result<Vec<LayerReport>, SpawnError> {
        let found = namespaces(&["user", "mnt", "net", "ipc", "uts", "cgroup", "pid"], inside);
        let is_needed = |layer: &str| layer != "net_namespace" || self.network == Network::Own;
        let missing = found.iter().filter(|found| found.status != LayerStatus::FullyEnforced);
        let missing: Vec<&str> = missing.map(|found| found.layer.as_str()).filter(|layer| is_needed(layer)).collect();
        if missing.is_empty() { Ok(found) } else { Err(SpawnError::NotEnforced { missing: missing.join(", ") }) }
    }
}

/// One argument with its values, or one step, a line.
impl fmt::Display for BwrapPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for path in &self.placeholders {
            writeln!(f, "hold {path}")?;
        }
        write!(f, "bwrap")?;
        for argument in self.arguments(Proc::Own, None) {
            match argument {
                Argument::Text(text) if text.as_bytes().starts_with(b"--") => write!(f, "\nbwrap {text}")?,
                Argument::Text(text) => write!(f, " {text}")?,
                Argument::Open(_) | Argument::Launcher | Argument::Data(_) => write!(f, " {argument:?}")?,
            }
        }
        writeln!(f)?;
        self.setup.iter().try_for_each(|step| writeln!(f, "setup {step:?}"))?;
        self.command.all().try_for_each(|step| writeln!(f, "command {step:?}"))
    }
}

/// Bubblewrap's error, if it failed.
fn failure(error: SpawnError, words: &OwnedFd) -> Failed {
    // It has ended, so its output is complete: its end of the socket is closed.
    let mut buffer = [0; 4096];
    let length = rustix::io::pread(words, &mut buffer, 0).unwrap_or(0);
    let words = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).trim().to_owned();
    let error = if matches!(error, SpawnError::Launcher { .. }) && !words.is_empty() {
        let source = io::Error::other(words.trim_start_matches("bwrap: ").to_owned());
        SpawnError::Setup { step: String::from("start bubblewrap"), source }
    } else {
        error
    };
    Failed { error, words }
}

fn proc_report(proc: Proc) -> LayerReport {
    let (status, detail) = match proc {
        Proc::Own => (LayerStatus::FullyEnforced, None),
        Proc::Empty => {
            (LayerStatus::PartlyEnforced, Some("this host forbids to mount one: `/proc` is an empty directory"))
        }
    };
    LayerReport { layer: String::from("proc"), status, detail: detail.map(String::from) }
}
