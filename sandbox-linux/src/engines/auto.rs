//! `auto`: the strongest engine that works on this host.
//!
//! Nothing is probed. The first command is started by `native`; only if the host refuses that engine's namespaces or
//! mounts, before anything has run, the next one is tried. The working engine is remembered for the lifetime of the
//! value. Each engine enforces the whole policy or refuses it, so a command never runs with weaker restrictions.
//!
//! Inside another Stockade sandbox no namespace can be created, and only `landlock` is left. It accepts the policies
//! that it can express, in addition to the outer sandbox, and refuses the others.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use stockade_protocol::{AbsPath, FileRules, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, OwnPlace, Plan, Running, SpawnError, Starts, Stdio, Support, Unenforceable,
};

use crate::engines::bwrap::Bwrap;
use crate::engines::landlock_only::LandlockOnly;
use crate::engines::losses::Loss;
use crate::engines::native::{Native, NativePlan, NotStarted};
use crate::observer::Observe;
use crate::{doctor, launch::stdio, plan::devices};

/// Uses `native`, else `bwrap`, else `landlock`.
#[derive(Debug, Default)]
pub struct Auto {
    engines: Arc<Engines>,
}

#[derive(Debug, Default)]
struct Engines {
    native: Native,
    bwrap: OnceLock<Bwrap>,
    landlock: OnceLock<LandlockOnly>,
    /// The accepted losses if only `landlock` works.
    accepted: Vec<Loss>,
    observe: Observe,
    kept_names: Option<PathBuf>,
    /// The engine that has started a command.
    chosen: OnceLock<Choice>,
    /// Set once it was said that starts are seen: then a command whose starts are to be judged runs in no engine that
    /// does not see them.
    sees_starts: OnceLock<()>,
    support: OnceLock<Support>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Native,
    Bwrap,
    Landlock,
}

impl Auto {
    /// For this host and user.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts these losses if no engine can enforce the restrictions, with denials observed or not. Placeholders are
    /// kept in `kept_names`; see [`Native::keeping_names_in`].
    pub fn accepting(losses: impl IntoIterator<Item = Loss>, observe: Observe, kept_names: Option<PathBuf>) -> Self {
        let native = Native::new().observing(observe).keeping_names_in(kept_names.clone());
        let accepted = losses.into_iter().collect();
        Self { engines: Arc::new(Engines { accepted, native, observe, kept_names, ..Engines::default() }) }
    }
}

impl Auto {
    /// Whether only `landlock` is left.
    fn is_landlock(&self) -> bool {
        match self.engines.chosen.get() {
            Some(choice) => *choice == Choice::Landlock,
            None => self.support().engine == self.engines.landlock().support().engine,
        }
    }
}

impl Engines {
    fn bwrap(&self) -> &Bwrap {
        self.bwrap.get_or_init(|| Bwrap::new().observing(self.observe).keeping_names_in(self.kept_names.clone()))
    }

    fn landlock(&self) -> &LandlockOnly {
        self.landlock
            .get_or_init(|| self.accepted.iter().fold(LandlockOnly::new(), |engine, loss| engine.accepting(*loss)))
    }

    /// The first engine that works, according to a probe.
    fn support(&self) -> &Support {
        self.support.get_or_init(|| {
            let all: [&dyn Backend; 3] = [&self.native, self.bwrap(), self.landlock()];
            let first = all.into_iter().map(Backend::support).find(|support| support.works());
            first.unwrap_or_else(|| self.native.support()).clone()
        })
    }
}

impl Backend for Auto {
    fn support(&self) -> &Support {
        self.engines.support()
    }

    fn own_place(&self, path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
        if self.is_landlock() { None } else { devices::own_place(path, files) }
    }

    fn sees_connections(&self) -> bool {
        !self.is_landlock()
    }

    fn sees_starts(&self) -> bool {
        let sees = !self.is_landlock();
        if sees {
            self.engines.sees_starts.get_or_init(|| ());
        }
        sees
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        let engines = Arc::clone(&self.engines);
        match self.engines.chosen.get() {
            Some(Choice::Bwrap) => self.engines.bwrap().compile(command, permissions),
            Some(Choice::Landlock) => {
                self.engines.landlock().compile(command, permissions).map_err(|refused| explain(refused, &[]))
            }
            Some(Choice::Native) | None => {
                // The other engines can't enforce more than the strongest.
                crate::plan::landlock::require(crate::sys::landlock_version(), 1)?;
                let native = self.engines.native.plan(command, permissions)?;
                Ok(Box::new(AutoPlan { native, command: command.clone(), permissions: permissions.clone(), engines }))
            }
        }
    }
}

/// The plan of the strongest engine, and the inputs for the others' plans.
#[derive(Debug)]
pub struct AutoPlan {
    native: NativePlan,
    command: CommandSpec,
    permissions: Permissions,
    engines: Arc<Engines>,
}

impl fmt::Display for AutoPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.native.fmt(f)
    }
}

impl Plan for AutoPlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, Deciders::default())
    }

    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        self.start(stdio, deciders)
    }

    fn permissions(&self) -> &Permissions {
        self.native.permissions()
    }

    fn warnings(&self) -> &[String] {
        self.native.warnings()
    }
}

impl AutoPlan {
    fn start(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        if self.engines.chosen.get() == Some(&Choice::Native) {
            return self.native.start(stdio, deciders).map_err(|failed| failed.error);
        }
        let again = copy(&stdio)?;
        match self.native.start(stdio, deciders.clone()) {
            Err(NotStarted { error, is_refused_by_host: true }) => {
                let why = format!("`native`: {}", told(&error));
                self.spawn_otherwise(again, deciders, why)
            }
            Err(NotStarted { error, is_refused_by_host: false }) => Err(error),
            Ok(running) => {
                self.engines.chosen.get_or_init(|| Choice::Native);
                Ok(running)
            }
        }
    }

    /// Tries the other engines in turn.
    fn spawn_otherwise(
        &self,
        stdio: Stdio,
        deciders: Deciders,
        native: String,
    ) -> Result<Box<dyn Running>, SpawnError> {
        let again = copy(&stdio)?;
        let by_bwrap = self.engines.bwrap().compile(&self.command, &self.permissions);
        let by_bwrap = by_bwrap.map_err(SpawnError::from).and_then(|plan| plan.spawn_guarded(stdio, deciders));
        let bwrap = match by_bwrap {
            Ok(running) => {
                self.engines.chosen.get_or_init(|| Choice::Bwrap);
                return Ok(running);
            }
            Err(error) => format!("`bwrap`: {}", told(&error)),
        };
        if self.engines.sees_starts.get().is_some() && self.command.process.starts == Starts::Judged {
            return Err(explain(unseen_starts(), &[native, bwrap]).into());
        }
        let by_landlock = self.engines.landlock().compile(&self.command, &self.permissions);
        let plan = by_landlock.map_err(|refused| explain(refused, &[native, bwrap]))?;
        let running = plan.spawn(again)?;
        self.engines.chosen.get_or_init(|| Choice::Landlock);
        Ok(running)
    }
}

fn unseen_starts() -> Unenforceable {
    Unenforceable {
        what: String::from("rules for the programs that a command starts"),
        why: String::from(
            "the engines that see the starts of programs have stopped working since they were counted on",
        ),
        remedy: String::from("run the command again"),
    }
}

fn copy(stdio: &Stdio) -> Result<Stdio, SpawnError> {
    stdio::duplicate(stdio).map_err(|source| SpawnError::Launcher { doing: "copying the standard streams", source })
}

fn told(error: &SpawnError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Adds why only the last engine was left.
fn explain(refused: Unenforceable, others: &[String]) -> Unenforceable {
    let why = [&[refused.why], others].concat().join("; ");
    let remedy = if doctor::is_nested() {
        String::from(
            "this process is inside a sandbox that forbids user namespaces: run the command without a second one, \
             under the policy `external-sandbox`, or start it from outside",
        )
    } else {
        format!("{}; `stockade doctor` says what this host lacks", refused.remedy)
    };
    Unenforceable { what: refused.what, why, remedy }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules};

    use super::*;

    /// A link is followed, and a repository inside is protected, although the policy names neither.
    #[test]
    fn a_plan_tells_what_it_enforces() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("ws/inner/.git")).unwrap();
        std::os::unix::fs::symlink(root.join("ws"), root.join("link")).unwrap();
        let command = CommandSpec {
            argv: Argv::parse(["/bin/true"]).unwrap(),
            cwd: "/".parse().unwrap(),
            environment: BTreeMap::new(),
            process: Default::default(),
        };
        let at = |below: &str| AbsPath::from_path(&root.join(below)).unwrap();
        let rules = [FileRule::path("/".parse().unwrap(), Access::Read), FileRule::path(at("link"), Access::Write)];
        let permissions = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
        let engines: [Box<dyn Backend>; 3] =
            [Box::new(Auto::new()), Box::new(Bwrap::new()), Box::new(crate::Warm::new(Box::new(Auto::new())))];
        for engine in engines {
            let plan = engine.compile(&command, &permissions).unwrap();
            let enforced = plan.permissions();
            assert_eq!(enforced.access(&at("ws/file")), Access::Write);
            assert_eq!(enforced.access(&at("ws/inner/.git/config")), Access::Read);
        }
    }

    /// What no kernel can close is said whichever engine is going to run the command.
    #[test]
    fn warnings_are_passed_on() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let secret = directory.path().join("secret");
        std::fs::write(&secret, "").unwrap();
        std::fs::hard_link(&secret, directory.path().join("other name")).unwrap();
        let command = CommandSpec {
            argv: Argv::parse(["/bin/true"]).unwrap(),
            cwd: "/".parse().unwrap(),
            environment: BTreeMap::new(),
            process: Default::default(),
        };
        let denied = FileRule::path(AbsPath::from_path(&secret).unwrap(), Access::None);
        let files = FileRules::new([FileRule::path("/".parse().unwrap(), Access::Read), denied]).unwrap();
        let plan = Auto::new().compile(&command, &Permissions { files, ..Permissions::default() }).unwrap();
        assert!(plan.warnings().iter().any(|warning| warning.contains("hard links")), "{:?}", plan.warnings());
    }
}
