//! The backend: this machine, plans for it, and what it can enforce.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, Invalid, NetworkPolicy, Permissions, RuleSource};
use stockade_sandboxing::{
    Backend, CommandSpec, Diagnosis, HostFiles as _, LayerSupport, Plan, Proxied, RealFiles, Running, SpawnError,
    Stdio, Support, SupportLevel, Unenforceable, protect_repositories, resolve_links,
};

use crate::journal::Journal;
use crate::marking::Checks;
use crate::network::Loss;
use crate::plan::WindowsPlan;
use crate::real_disk::RealDisk;
use crate::sys::file;
use crate::taking_off::{Before, take_off};
use crate::unmark::{self, UnmarkError, Unmarked};
use crate::{Drive, Host, apply, check};

/// How long the harmless command may take that the sandbox is tried out with.
const MOST_PATIENCE: Duration = Duration::from_secs(60);

/// A restricted token, marks on files, and a job object.
#[derive(Debug)]
pub struct Windows {
    support: OnceLock<Support>,
    machine: Result<Machine, String>,
    accepted: Vec<Loss>,
}

/// What is known of this machine, and where its runs are recorded.
#[derive(Debug)]
struct Machine {
    host: Host,
    journal: Journal,
}

impl Windows {
    /// For this machine and user. What a run that was killed has left on files is taken off. If that or
    /// anything else here fails nothing can be run, and every plan says why.
    pub fn new() -> Self {
        let local = std::env::var_os("LOCALAPPDATA").map(PathBuf::from).filter(|path| path.is_absolute());
        match local {
            Some(local) => Self::with_records(local.join("Stockade").join("sandbox")),
            None => Self::on(Err(io::Error::other("`LOCALAPPDATA` does not name a directory"))),
        }
    }

    /// The same, with its records in another directory. All runs of a user have to share one.
    pub fn with_records(directory: PathBuf) -> Self {
        Self::on(Machine::look(directory))
    }

    fn on(machine: io::Result<Machine>) -> Self {
        Self { support: OnceLock::new(), machine: machine.map_err(|error| chain(&error)), accepted: Vec::new() }
    }

    fn machine(&self) -> Result<&Machine, Unenforceable> {
        self.machine.as_ref().map_err(|why| Unenforceable {
            what: String::from("a sandbox"),
            why: why.clone(),
            remedy: String::from("see what `stockade doctor` says"),
        })
    }

    /// Runs commands although this is lost. What was lost stands in the `Enforcement` of the run.
    #[must_use]
    pub fn accepting(mut self, loss: Loss) -> Self {
        self.accepted.push(loss);
        self
    }

    /// What has to be done, as plain data.
    pub fn plan(&self, command: &CommandSpec, permissions: &Permissions) -> Result<WindowsPlan, Unenforceable> {
        self.plan_through(None, command, permissions)
    }

    /// The same, with a proxy that decides by host for programs that ask it.
    pub fn plan_through(
        &self,
        proxy: Option<SocketAddr>,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<WindowsPlan, Unenforceable> {
        let machine = self.machine()?;
        let permissions = machine.resolve(permissions).map_err(|error| Unenforceable {
            what: String::from("the policy"),
            why: error.to_string(),
            remedy: String::from("correct the path"),
        })?;
        WindowsPlan::compile_through(proxy, command, &permissions, &machine.host, &RealFiles, &self.accepted)
    }

    fn prepare(
        &self,
        proxy: Option<SocketAddr>,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        let plan = self.plan_through(proxy, command, permissions)?;
        Ok(Box::new(Prepared { plan, journal: self.machine()?.journal.clone() }))
    }

    #[cfg(test)]
    pub(crate) fn journal(&self) -> &Journal {
        &self.machine.as_ref().unwrap().journal
    }

    /// Starts a harmless command in a sandbox that writes nothing.
    fn try_out(&self) -> Result<(), String> {
        let host = &self.machine.as_ref().map_err(Clone::clone)?.host;
        let roots = host.drives.iter().map(|drive| FileRule::path(drive.root.clone(), Access::Read));
        let files = FileRules::new(roots).map_err(|error| error.to_string())?;
        let permissions = Permissions { files, network: NetworkPolicy::Full, ..Permissions::default() };
        let interpreter = host.command_interpreter.as_raw().as_str().unwrap_or_default();
        let command = CommandSpec {
            argv: Argv::parse([interpreter, "/c", "exit 0"]).map_err(|error| error.to_string())?,
            cwd: host.command_interpreter.parent().ok_or("there is no system directory")?,
            environment: std::env::var("SystemRoot")
                .map(|root| ("SystemRoot".into(), root.into()))
                .into_iter()
                .collect(),
            process: Default::default(),
        };
        let plan = self.compile(&command, &permissions).map_err(|error| error.to_string())?;
        let mut running = plan.spawn(Stdio::default()).map_err(|error| chain(&error))?;
        check::ended_well(running.wait(Some(MOST_PATIENCE)).map_err(|error| chain(&error))?)
    }

    /// The directories on which marks stay: commands could write them.
    pub fn marked(&self) -> Result<Vec<AbsPath>, UnmarkError> {
        Ok(unmark::marked(&RealDisk, self.records()?)?)
    }

    /// Takes all marks off a directory and what lies in it, and off trees that were moved out of it.
    pub fn unmark(&self, directory: &AbsPath) -> Result<Unmarked, UnmarkError> {
        unmark::unmark(&RealDisk, self.records()?, &RealFiles.canonical(directory))
    }

    fn records(&self) -> io::Result<&Journal> {
        self.machine.as_ref().map(|machine| &machine.journal).map_err(|why| io::Error::other(why.clone()))
    }
}

impl Default for Windows {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    fn look(directory: PathBuf) -> io::Result<Self> {
        let journal = Journal::open(directory)?;
        journal.lock()?.recover(|record, living| take_off(&RealDisk, record, living, Before::Run))?;
        Ok(Self { host: this_machine()?, journal })
    }

    /// Links followed, metadata of nested repositories protected, and the records of what is on files.
    fn resolve(&self, permissions: &Permissions) -> Result<Permissions, Invalid> {
        let resolved = protect_repositories(&resolve_links(permissions, &RealFiles)?)?;
        let records = AbsPath::from_path(self.journal.directory())?;
        if resolved.access(&records) != Access::Write {
            return Ok(resolved);
        }
        let own = FileRule::path(records, Access::Read).from_source(RuleSource::ProtectedMetadata);
        let files = FileRules::new(resolved.files.iter().cloned().chain([own]))?;
        Ok(Permissions { files, ..resolved })
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn this_machine() -> io::Result<Host> {
    let invalid = |error: Invalid| io::Error::new(io::ErrorKind::InvalidData, error);
    let root = |letter: char| AbsPath::parse(format!(r"{letter}:\")).map_err(invalid);
    let drives = file::drives().into_iter().map(|(letter, kind)| Ok(Drive { root: root(letter)?, kind }));
    Ok(Host {
        drives: drives.collect::<io::Result<_>>()?,
        command_interpreter: AbsPath::parse(file::system_directory()?)
            .and_then(|system| system.join("cmd.exe"))
            .map_err(invalid)?,
    })
}

impl Backend for Windows {
    fn support(&self) -> &Support {
        self.support.get_or_init(|| support(self.try_out()))
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        self.prepare(None, command, permissions)
    }

    fn proxied(&self) -> Option<&dyn Proxied> {
        Some(self)
    }
}

impl Proxied for Windows {
    fn compile_through(
        &self,
        proxy: SocketAddr,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        self.prepare(Some(proxy), command, permissions)
    }
}

/// A plan, and where its run is recorded.
#[derive(Debug)]
struct Prepared {
    plan: WindowsPlan,
    journal: Journal,
}

impl Plan for Prepared {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        Ok(Box::new(apply::start(&self.plan, &self.journal, stdio, Checks::Required)?))
    }

    fn permissions(&self) -> &Permissions {
        &self.plan.permissions
    }

    fn warnings(&self) -> &[String] {
        &self.plan.warnings
    }
}

impl std::fmt::Display for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.plan.fmt(f)
    }
}

fn support(tried: Result<(), String>) -> Support {
    let layer = |layer: &str, level, detail: String, remedy: Option<&str>| LayerSupport {
        layer: layer.to_owned(),
        level,
        detail: Some(detail),
        remedy: remedy.map(String::from),
    };
    let sandbox = match tried {
        Ok(()) => layer("sandbox", SupportLevel::Full, String::from("token, level, job and marks hold"), None),
        Err(why) => {
            layer("sandbox", SupportLevel::Missing, why, Some("run on Windows 10 or later, as an ordinary user"))
        }
    };
    let network = layer(
        "network",
        SupportLevel::Partial,
        String::from("only granted in full: without an administrator nothing keeps a program from connecting"),
        Some(
            "grant the network, or accept the loss of `direct_connections` (`--accept-loss`): then single hosts go through a \
             proxy of the run, for programs that look at `HTTPS_PROXY` and its like, and others are not held",
        ),
    );
    let reads = layer(
        "reads",
        SupportLevel::Partial,
        String::from("everything but what is denied: reads can't be limited to some directories"),
        Some("let drives be read, and deny single directories"),
    );
    Support { engine: String::from("windows"), layers: vec![sandbox, network, reads] }
}

/// Tries the sandbox out.
pub fn diagnose() -> Diagnosis {
    let support = Windows::new().support().clone();
    let chosen = support.works().then(|| support.engine.clone());
    // A network that is off can't be enforced.
    Diagnosis { chosen, complete: false, host: Vec::new(), engines: vec![support] }
}
