//! The options of a session, each with a safe default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade_config::{ConfigLoader, EngineName, Layer, NetworkMode, SandboxMode, parse_host};
use stockade_core::Approver;
use stockade_protocol::{
    AbsPath, ApprovalRequest, AskForApproval, Decision, RawText, ResourceLimits, ReviewDecision, ThreadId,
};
use stockade_sandboxing::written_path;

use crate::answers::{Answers, Closure};
use crate::assembly::{Assembly, Changes, Recording, Sandboxes, SettingsFiles, own_environment, variable};
use crate::rules::RuleFiles;
use crate::workspace::file_target;
use crate::{Error, Stockade};

/// Starts a [`Stockade`].
///
/// By default the workspace is the working directory of this process: commands may write there and read everything
/// else, except credentials, which are masked. The network is off, the environment is passed on without secrets, the
/// strongest engine of this host is used, settings and rules are read, and the trail is written. Without an approver
/// nothing is asked, and requests that need an approval are refused.
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    directory: Option<PathBuf>,
    environment: Option<BTreeMap<RawText, RawText>>,
    workspace: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    denied: Vec<String>,
    hosts: Vec<String>,
    variables: Vec<(String, String)>,
    overrides: Layer,
    settings: SettingsFiles,
    rules: RuleFiles,
    answers: Answers,
    recording: Recording,
    changes: Changes,
    own_files: Vec<PathBuf>,
    programs: Vec<PathBuf>,
    sandboxes: Sandboxes,
    name: Option<ThreadId>,
    answer_limit: Option<Duration>,
}

impl Builder {
    /// Adds a directory to the workspace, which commands may write; may be called several times. Commands start in the
    /// first one.
    pub fn workspace(mut self, directory: impl Into<PathBuf>) -> Self {
        self.workspace.push(directory.into());
        self
    }

    /// Adds a writable directory besides the workspace.
    pub fn writable(mut self, directory: impl Into<PathBuf>) -> Self {
        self.writable.push(directory.into());
        self
    }

    /// Denies reading a path or glob, regardless of approvals.
    pub fn deny_read(mut self, target: impl Into<String>) -> Self {
        self.denied.push(target.into());
        self
    }

    /// Sets the sandbox. No rule lets a command leave a sandbox set here.
    pub fn sandbox(mut self, mode: SandboxMode) -> Self {
        self.overrides.mode = Some(mode);
        self
    }

    /// Sets when to ask. The default is `on-failure` with an approver, `never` without.
    pub fn ask(mut self, ask: AskForApproval) -> Self {
        self.overrides.ask = Some(ask);
        self
    }

    /// Sets the network.
    pub fn network(mut self, network: NetworkMode) -> Self {
        self.overrides.network = Some(network);
        self
    }

    /// Allows a host, such as `api.example.com:443` or `*.example.com`. It turns the network from `off` to `hosts`.
    pub fn allow_host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into());
        self
    }

    /// Sets an environment variable for commands.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Sets resource limits of commands.
    pub fn limits(mut self, limits: ResourceLimits) -> Self {
        self.overrides.limits = limits;
        self
    }

    /// Sets the default timeout of commands.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.overrides.timeout = Some(limit);
        self
    }

    /// Sets the engine that builds the sandbox; by default the strongest one of this host.
    pub fn engine(mut self, engine: EngineName) -> Self {
        self.overrides.engine = Some(engine);
        self
    }

    /// Selects a profile of the settings.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.overrides.profile = Some(name.into());
        self
    }

    /// Adds permission profiles for every command, such as `npm`.
    pub fn with<S: Into<String>>(mut self, profiles: impl IntoIterator<Item = S>) -> Self {
        self.overrides.with.get_or_insert_default().extend(profiles.into_iter().map(Into::into));
        self
    }

    /// Sets all overrides at once, replacing earlier ones. Later method calls change them.
    pub fn overrides(mut self, overrides: Layer) -> Self {
        self.overrides = overrides;
        self
    }

    /// Answers questions with a closure. It may take long: the clock of a command is paused meanwhile.
    pub fn on_question<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(Arc<ApprovalRequest>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ReviewDecision> + Send + 'static,
    {
        self.approver(Closure(answer))
    }

    /// Answers questions with an [`Approver`].
    pub fn approver(mut self, approver: impl Approver + 'static) -> Self {
        self.answers = Answers::By(Arc::new(approver));
        self
    }

    /// Sets the timeout of questions; ten minutes by default. A question without an answer is a refusal.
    pub fn answer_limit(mut self, limit: Duration) -> Self {
        self.answer_limit = Some(limit);
        self
    }

    /// Asks the person at the terminal of this process, if it has one.
    #[cfg(feature = "terminal")]
    pub fn ask_at_terminal(mut self) -> Self {
        self.answers = Answers::Terminal;
        self
    }

    /// Sets the caller's working directory; this process's by default.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets the caller's whole environment; this process's by default.
    pub fn environment(mut self, environment: BTreeMap<RawText, RawText>) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Reads only the administrator's settings.
    pub fn without_settings(mut self) -> Self {
        self.settings = SettingsFiles::OnlySystem;
        self
    }

    /// Reads the settings of this loader.
    pub fn settings_from(mut self, loader: ConfigLoader) -> Self {
        self.settings = SettingsFiles::Loader(Box::new(loader));
        self
    }

    /// Reads this rules file instead of the administrator's, the user's and the project's; may be called several
    /// times.
    pub fn rules(mut self, file: impl Into<PathBuf>) -> Self {
        match &mut self.rules {
            RuleFiles::Only(files) => files.push(file.into()),
            RuleFiles::Standard | RuleFiles::Nothing => self.rules = RuleFiles::Only(vec![file.into()]),
        }
        self
    }

    /// Reads no rules, and saves none.
    pub fn without_rules(mut self) -> Self {
        self.rules = RuleFiles::Nothing;
        self
    }

    /// For a session of one request: changes of files after the start are ignored.
    pub fn for_one_request(mut self) -> Self {
        self.changes = Changes::Ignored;
        self
    }

    /// Writes no trail: for a session that only explains.
    pub fn without_trail(mut self) -> Self {
        self.recording = Recording::Nothing;
        self
    }

    /// Hides a file or directory of the embedding program from commands, such as its socket.
    pub fn own_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.own_files.push(path.into());
        self
    }

    /// Adds a program that runs in the session's sandboxes: commands may read it in any location, and not write it.
    pub fn own_program(mut self, path: impl Into<PathBuf>) -> Self {
        self.programs.push(path.into());
        self
    }

    /// Keeps sandboxes for the next command with the same permissions, as long as the session lives: commands start
    /// sooner, and share their private `/tmp` and loopback. Placeholders in the workspace stay as long. On Linux, with
    /// the engine `native`, unless connections are decided one by one.
    pub fn keep_sandboxes(mut self) -> Self {
        self.sandboxes = Sandboxes::Kept;
        self
    }

    /// Sets the session's id in questions and in the trail.
    pub fn name(mut self, name: ThreadId) -> Self {
        self.name = Some(name);
        self
    }

    /// Starts the session. It fails if a settings or rules file can't be read, if the workspace is not permitted, or
    /// if the trail is required and can't be written.
    pub fn build(self) -> Result<Stockade, Error> {
        self.build_telling(&mut Vec::new())
    }

    /// Like [`build`](Self::build), but also returns the notices for the user on failure. On success they are in
    /// [`Stockade::take_notices`].
    pub fn build_telling(self, notices: &mut Vec<String>) -> Result<Stockade, Error> {
        let (name, answer_limit) = (self.name.clone(), self.answer_limit);
        Stockade::open(self.assembly()?, name, answer_limit, notices)
    }

    fn assembly(self) -> Result<Assembly, Error> {
        let directory = match self.directory {
            Some(directory) => directory,
            None => std::env::current_dir().map_err(Error::NoDirectory)?,
        };
        let directory = AbsPath::from_path(&directory)?;
        let environment = self.environment.unwrap_or_else(own_environment);
        let mut overrides = self.overrides;
        for path in &self.writable {
            overrides.writable_roots.get_or_insert_default().push(written_path(&directory, path)?);
        }
        for text in self.hosts {
            let host = parse_host(&text, Decision::Allow).map_err(|why| Error::Host { text, why })?;
            overrides.allow_hosts.get_or_insert_default().push(host);
        }
        for text in &self.denied {
            overrides.deny_read.push(file_target(text, &directory, variable(&environment, "HOME").as_deref())?);
        }
        for (name, value) in self.variables {
            overrides.set.insert(name.parse()?, value);
        }
        Ok(Assembly {
            environment,
            workspace: self.workspace,
            overrides,
            settings: self.settings,
            rules: self.rules,
            answers: self.answers,
            recording: self.recording,
            changes: self.changes,
            own_files: self.own_files,
            programs: self.programs,
            sandboxes: self.sandboxes,
            directory,
        })
    }
}
