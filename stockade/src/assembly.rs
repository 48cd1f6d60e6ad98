//! Assembles a session from settings, rules and a caller.
//!
//! Nothing here reads the environment, the working directory or the standard streams of this process: the caller is
//! explicit, so that a server can open a session for each of its clients.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stockade_config::{
    AllowedCommands, AuditDurability, ConfigLoader, HELD_NAMES, Layer, Loaded, NetworkMode, Origin, PermissionProfiles,
    SandboxMode, Settings, Watched, variable_of_user,
};
use stockade_core::{
    Approver, AuditDemand, AuditError, AuditSink, AuditTrail, Durability, Hook, NoAudit, OffNetwork, OutputLimit,
    RiskAssessor, RuleStore, RulesOutside, Session, TrailOptions, state_directory,
};
use stockade_protocol::{
    AbsPath, Access, Argv, AskForApproval, Decision, FileRule, FileRules, FileTarget, HostPaths, HostRule, Permissions,
    RawText, SandboxPolicy, ThreadId,
};
use stockade_sandboxing::{Backend, Listings, leads_to, permits, written_path};

pub use crate::answers::Answers;
use crate::error::with_causes;
use crate::fingerprint::Fingerprint;
use crate::profiles::Setting;
use crate::registries::Registries;
use crate::rules::RuleFiles;
use crate::saved_profiles::SavedProfiles;
use crate::workspace::Workspace;
use crate::{Error, platform, profiles, registries, rules, saved_profiles};

/// The settings files to read.
#[derive(Clone, Debug, Default)]
pub enum SettingsFiles {
    /// The administrator's, the user's, and those of a trusted project.
    #[default]
    Standard,
    /// The administrator's alone.
    OnlySystem,
    /// Those of this loader. Credentials are masked below its home directories.
    Loader(Box<ConfigLoader>),
}

/// What is recorded of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// The audit trail.
    #[default]
    Trail,
    /// Nothing: for a session that only explains.
    Nothing,
}

/// Whether changes of files during the session count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// From the next request on.
    #[default]
    Counted,
    /// Not at all: for a session of one request.
    Ignored,
}

/// The parameters of a session.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The caller's working directory: the base of relative paths, and the workspace unless one is named.
    pub directory: AbsPath,
    /// The caller's environment: it locates settings and state, and commands inherit it.
    pub environment: BTreeMap<RawText, RawText>,
    /// The directories that are the workspace.
    pub workspace: Vec<PathBuf>,
    /// Overrides of the settings files.
    pub overrides: Layer,
    /// The settings files to read.
    pub settings: SettingsFiles,
    /// The rules files to read.
    pub rules: RuleFiles,
    /// The approver, unless the settings name a program.
    pub answers: Answers,
    /// What is recorded of the session.
    pub recording: Recording,
    /// Whether changes of files during the session count.
    pub changes: Changes,
    /// Files and directories that no command may read or write, besides Stockade's usual ones.
    pub own_files: Vec<PathBuf>,
    /// Programs that run in the session's sandboxes: readable in any location, and not writable.
    pub programs: Vec<PathBuf>,
    /// The lifetime of a sandbox.
    pub sandboxes: Sandboxes,
}

/// The lifetime of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sandboxes {
    /// It ends, too: commands share nothing.
    #[default]
    EndWithCommand,
    /// It is kept for the next command with the same permissions, if the engine supports that.
    Kept,
}

/// The caller for whom a session is opened.
pub(crate) struct Caller<'a> {
    pub(crate) directory: &'a AbsPath,
    pub(crate) variable: &'a dyn Fn(&str) -> Option<OsString>,
    pub(crate) homes: &'a [AbsPath],
}

/// The result of the files, the rules and the overrides at one time.
pub(crate) struct Assembled {
    pub(crate) settings: Settings,
    pub(crate) session: Session,
    pub(crate) rules: RuleStore,
    pub(crate) approver: Arc<dyn Approver>,
    pub(crate) assessor: Option<Arc<dyn RiskAssessor>>,
    /// The commands' working directory.
    pub(crate) start: AbsPath,
    /// The workspace, as far as this user may write it.
    pub(crate) workspace: Vec<AbsPath>,
    pub(crate) registries: Registries,
    pub(crate) profiles: PermissionProfiles,
    pub(crate) homes: Vec<AbsPath>,
    pub(crate) fingerprint: Fingerprint,
}

impl Assembly {
    /// Parameters for this process, with its environment, in this directory.
    pub fn new(directory: AbsPath) -> Self {
        Self {
            directory,
            environment: own_environment(),
            workspace: Vec::new(),
            overrides: Layer::default(),
            settings: SettingsFiles::default(),
            rules: RuleFiles::default(),
            answers: Answers::default(),
            recording: Recording::default(),
            changes: Changes::default(),
            own_files: Vec::new(),
            programs: Vec::new(),
            sandboxes: Sandboxes::default(),
        }
    }

    /// Creates the directory of a server's socket, so that it can be hidden from commands. Capabilities of sessions
    /// are put there later, while this session's commands run.
    fn make_socket_directory(&self) {
        #[cfg(unix)]
        // A directory below the state directory is masked with it.
        if self.variable("XDG_RUNTIME_DIR").is_some()
            && let Some(directory) = stockade_config::socket_directory(|name| self.variable(name))
        {
            use std::os::unix::fs::DirBuilderExt as _;
            // If this fails, no server can run either.
            std::fs::DirBuilder::new().mode(0o700).create(directory).ok();
        }
    }

    /// A variable of the caller's environment.
    fn variable(&self, name: &str) -> Option<OsString> {
        variable(&self.environment, name)
    }

    fn loader(&self) -> Result<ConfigLoader, Error> {
        let directory = self.directory.to_host_path().unwrap_or_default();
        let standard = || ConfigLoader::standard_for(|name| self.variable(name), &directory);
        Ok(match &self.settings {
            SettingsFiles::Standard => standard()?,
            SettingsFiles::OnlySystem => standard()?.only_system(),
            SettingsFiles::Loader(loader) => ConfigLoader::clone(loader),
        })
    }

    /// Refuses a caller whose environment names paths that this session does not protect. An unset variable names
    /// nothing.
    pub(crate) fn check_caller(
        &self,
        caller: &BTreeMap<RawText, RawText>,
        directory: &AbsPath,
        settings: &Settings,
    ) -> Result<(), Error> {
        let set = |name: &str| variable(caller, name).filter(|value| !value.is_empty());
        let is_other = Cell::new(*directory != self.directory);
        let of_caller = |name: &str| {
            let own = self.variable(name);
            let value = set(name).or_else(|| own.clone());
            is_other.set(is_other.get() || value != own);
            value
        };
        let named = ConfigLoader::standard_for(of_caller, &host(directory))?;
        // The same variables name the same paths.
        if !is_other.get() {
            return Ok(());
        }
        let own = ConfigLoader::standard_for(|name| self.variable(name), &host(&self.directory))?.places()?;
        let is_masked = |place: &AbsPath| {
            let real = leads_to(place);
            settings.credentials.iter().any(|masked| real.starts_with(&leads_to(masked)))
        };
        match named.places()?.into_iter().find(|place| !own.contains(place) && !is_masked(place)) {
            Some(place) => Err(Error::NotProtected { place }),
            None => Ok(()),
        }
    }

    /// Reads settings and rules, and assembles a session. Notices for the user are added to `notices`, also before an
    /// error.
    pub(crate) fn assemble(&self, thread_id: ThreadId, notices: &mut Vec<String>) -> Result<Assembled, Error> {
        let here = &self.directory;
        let loader = self.loader()?;
        if self.recording != Recording::Nothing {
            self.make_socket_directory();
        }
        let workspace = Workspace::find(&self.workspace, here, &loader, notices)?;
        let project = workspace.roots.first().unwrap_or(here).to_host_path().unwrap_or_default();
        let loader = loader.project(&project);
        let homes: Vec<AbsPath> = loader.homes().into_iter().filter_map(|home| AbsPath::from_path(home).ok()).collect();
        let variable = |name: &str| variable_of_user(name, self.variable(name));
        let caller = Caller { directory: here, variable: &variable, homes: &homes };
        // Taken first, so that a file that changes meanwhile is read again.
        let fingerprint = match self.changes {
            Changes::Counted => Fingerprint::take(self.watched(&loader, &caller)),
            Changes::Ignored => Fingerprint::of_nothing(),
        };
        let Loaded { mut settings, notices: told, project_rules, profiles, .. } =
            loader.load(self.overrides.clone())?;
        notices.extend(told);
        // A command that writes these files would control the next one.
        for file in self.rules.named() {
            settings.own_files.push(written_path(here, file)?);
        }
        for file in &self.own_files {
            let real = std::fs::canonicalize(file).unwrap_or_else(|_| file.clone());
            settings.hidden_files.push(written_path(here, &real)?);
        }
        // Settings and registries name files in the same directories.
        let listings = Listings::default();
        workspace.check(&settings, &listings)?;
        self.check_overrides(&settings)?;
        let start = workspace.roots.first().filter(|_| !self.workspace.is_empty()).unwrap_or(here).clone();
        let workspace = without_unwritable(workspace.roots, &settings, notices);
        settings.writable_roots = without_unwritable(settings.writable_roots.clone(), &settings, notices);
        let host = self.host_paths(workspace.clone(), &settings);
        let mut session = self.session(&settings, &host, thread_id)?;
        let is_inside = |directory: &AbsPath| workspace.iter().any(|root| directory.starts_with(root));
        let above: Vec<AbsPath> = start.ancestors().take_while(is_inside).collect();
        let registries = registries::keep(&session, &homes, &above, &listings);
        registries.hand_on(&mut session.environment);
        let setting =
            Setting { profiles: &profiles, host: &host, homes: &homes, project: &project, recording: self.recording };
        profiles::grant_named(&setting, &mut settings, &mut session, notices)?;
        let rules = rules::load(&self.rules, project_rules, &caller, &session)?;
        profiles::know_of_rules(&setting, &settings, &mut session, &rules.policy(), notices)?;
        session.saved = saved_profiles::saved_grants(&setting, &settings, &session, &host, notices);
        let rules = match loader.user_directory().filter(|_| rules.can_save()) {
            Some(directory) => rules.saving_profiles(Arc::new(SavedProfiles {
                directory: directory.to_owned(),
                profiles: profiles.clone(),
                settings: settings.clone(),
                homes: homes.clone(),
                workspace: host.workspace_roots.clone(),
                environment: session.environment.clone(),
            })),
            None => rules,
        };
        let assessor = settings.risk_hook.as_ref().map(|hook| program(hook, &session.permissions)).transpose()?;
        let approver = self.answers.approver(&settings, &session.permissions)?;
        if self.recording == Recording::Trail {
            notices.extend(rules::what_changed(&rules.policy(), &settings, &loader, &caller));
        }
        Ok(Assembled {
            assessor: assessor.map(|hook| Arc::new(hook) as Arc<dyn RiskAssessor>),
            settings,
            session,
            rules,
            approver,
            start,
            workspace,
            registries,
            profiles,
            homes,
            fingerprint,
        })
    }

    /// All paths that are read or looked for.
    fn watched(&self, loader: &ConfigLoader, caller: &Caller<'_>) -> Vec<Watched> {
        let mut watched = loader.watched();
        watched.extend(rules::watched(&self.rules, caller));
        let registries = registries::files(caller.homes, &self.environment).into_iter();
        watched.extend(registries.filter_map(|path| path.to_host_path()).map(Watched::File));
        watched
    }

    /// Checks that the overrides take effect.
    fn check_overrides(&self, settings: &Settings) -> Result<(), Error> {
        if self.overrides.writable_roots.is_some() && settings.mode == SandboxMode::ReadOnly {
            return Err(Error::NothingIsWritable { origin: settings.origin("sandbox.mode").clone() });
        }
        let is_open = matches!(settings.mode, SandboxMode::ExternalSandbox | SandboxMode::DangerFullAccess);
        if is_open && self.overrides.network.is_some() && settings.network != NetworkMode::Full {
            return Err(Error::NetworkIsOpen { origin: settings.origin("sandbox.mode").clone() });
        }
        Ok(())
    }

    fn host_paths(&self, workspace: Vec<AbsPath>, settings: &Settings) -> HostPaths {
        // The settings contain the list of credentials.
        let mut host = HostPaths::without_masks(workspace);
        host.protected_names.clone_from(&settings.protected_names);
        host.tmpdir = self.variable("TMPDIR").and_then(|path| AbsPath::from_path(Path::new(&path)).ok());
        // The platform defaults matter only if reading is restricted.
        if settings.readable_roots.is_some() || settings.maximum.is_some() {
            host.platform_defaults = platform::platform_defaults();
        }
        host
    }

    fn session(&self, settings: &Settings, host: &HostPaths, thread_id: ThreadId) -> Result<Session, Error> {
        let is_answered = settings.hook.is_some() || self.answers.is_given();
        let usual = if is_answered { AskForApproval::OnFailure } else { AskForApproval::Never };
        let mut session = Session::new(thread_id, settings.ask_or(usual), settings.sandbox_policy(), host)?;
        session.permissions = settings.permissions(host)?;
        session.permissions.files = self.with_programs(session.permissions.files)?;
        session.maximum = maximum(settings, host)?;
        session.default_timeout = settings.timeout;
        session.rules_outside = match settings.rules_allow {
            _ if settings.names_sandbox || settings.project_sets_variables => RulesOutside::Never,
            AllowedCommands::Inside => RulesOutside::Said,
            AllowedCommands::Outside => RulesOutside::Unsaid,
        };
        let is_unsaid = settings.network == NetworkMode::Off && *settings.origin("sandbox.network") == Origin::Default;
        session.off_network = if is_unsaid && is_answered { OffNetwork::Asks } else { OffNetwork::Denies };
        let is_forbidden = |rule: &&HostRule| rule.decision == Decision::Forbidden;
        session.forbidden_hosts = settings.hosts.iter().filter(is_forbidden).cloned().collect();
        session.environment = self.environment.clone();
        // A quarter of the limit is for the beginning; the end says more about a failure.
        let kept = usize::try_from(settings.output_cap_bytes.get()).unwrap_or(usize::MAX);
        session.output = OutputLimit { head: kept / 4, tail: kept - kept / 4 };
        Ok(session)
    }

    /// Makes the session's own programs readable and not writable. A person's denials stay.
    fn with_programs(&self, files: FileRules) -> Result<FileRules, Error> {
        if self.programs.is_empty() {
            return Ok(files);
        }
        let mut rules: Vec<FileRule> = files.iter().cloned().collect();
        for program in &self.programs {
            let path = leads_to(&written_path(&self.directory, program)?);
            if !files.deciding(&path).is_some_and(FileRule::is_hard_denial) {
                rules.push(FileRule::path(path, Access::Read));
            }
        }
        Ok(FileRules::new(rules)?)
    }

    /// The backend for these settings.
    pub(crate) fn backend(&self, settings: &Settings) -> Result<Arc<dyn Backend>, Error> {
        let kept_names = self.state_directory().map(|state| state.join(HELD_NAMES));
        let backend = platform::backend(settings, kept_names.clone())?;
        Ok(match self.sandboxes {
            Sandboxes::EndWithCommand => backend.into(),
            Sandboxes::Kept => platform::keeping(settings, backend, kept_names).into(),
        })
    }

    /// The audit trail according to the settings.
    pub(crate) fn audit(
        &self,
        settings: &Settings,
        notices: &mut Vec<String>,
    ) -> Result<(Arc<dyn AuditSink>, AuditDemand), Error> {
        if self.recording == Recording::Nothing {
            return Ok((Arc::new(NoAudit), AuditDemand::BestEffort));
        }
        let demand = if settings.audit_required { AuditDemand::Required } else { AuditDemand::BestEffort };
        let durability = match settings.audit_durability {
            AuditDurability::System => Durability::System,
            AuditDurability::EachRecord => Durability::EachRecord,
        };
        let options = TrailOptions { durability, ..TrailOptions::default() };
        let trail = self
            .trail_directory(settings)
            .ok_or(AuditError::NoPlace)
            .and_then(|directory| AuditTrail::open(&directory, options));
        match trail {
            Ok(trail) => Ok((Arc::new(trail), demand)),
            Err(error) if demand == AuditDemand::BestEffort => {
                notices.push(format!("audit trail disabled: {}", with_causes(&error)));
                Ok((Arc::new(NoAudit), demand))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The directory of the audit trail according to the settings.
    pub(crate) fn trail_directory(&self, settings: &Settings) -> Option<PathBuf> {
        settings.audit_directory.clone().or_else(|| self.state_directory())
    }

    /// The state directory.
    fn state_directory(&self) -> Option<PathBuf> {
        state_directory(|name| variable_of_user(name, self.variable(name)))
    }
}

fn host(path: &AbsPath) -> PathBuf {
    path.to_host_path().unwrap_or_default()
}

/// A variable of an environment.
pub(crate) fn variable(environment: &BTreeMap<RawText, RawText>, name: &str) -> Option<OsString> {
    let mut variables = environment.iter();
    let (_, value) = variables.find(|(own, _)| platform::is_same_variable(own.as_bytes(), name.as_bytes()))?;
    value.to_os_string()
}

/// The environment of this process.
pub fn own_environment() -> BTreeMap<RawText, RawText> {
    let bytes = |text: OsString| RawText::from(text.into_encoded_bytes());
    std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value))).collect()
}

/// The workspace without directories that this user can't write, which need no protection and can't be granted.
fn without_unwritable(workspace: Vec<AbsPath>, settings: &Settings, notices: &mut Vec<String>) -> Vec<AbsPath> {
    if settings.mode != SandboxMode::WorkspaceWrite {
        return workspace;
    }
    let (writable, rest): (Vec<AbsPath>, Vec<AbsPath>) =
        workspace.into_iter().partition(|root| permits(root, Access::Write));
    notices.extend(rest.iter().map(|root| {
        format!("`{root}` is not made writable: you lack permission to write it outside the sandbox, too")
    }));
    writable
}

/// The administrator's maximum, as permissions.
fn maximum(settings: &Settings, host: &HostPaths) -> Result<Option<Permissions>, Error> {
    let Some(maximum) = settings.maximum.as_ref().filter(|maximum| !maximum.allows_unsandboxed()) else {
        return Ok(None);
    };
    let everything = SandboxPolicy::DangerFullAccess {}.resolve(host)?;
    Ok(Some(maximum.limit(host, &everything)?))
}

/// A program named in the settings, which no command of the session may write.
pub(crate) fn program(command: &Argv, permissions: &Permissions) -> Result<Hook, Error> {
    let (program, arguments) = command.words().split_first().ok_or(Error::NoHook)?;
    let writable: Vec<AbsPath> = permissions
        .files
        .iter()
        .filter(|rule| rule.access == Access::Write)
        .filter_map(|rule| match &rule.target {
            FileTarget::Path(path) if path.parent().is_some() => Some(path.clone()),
            FileTarget::Path(_) | FileTarget::Glob(_) => None,
        })
        .collect();
    let hook = Hook::new(AbsPath::parse(program.clone())?)?;
    Ok(hook.with_arguments(arguments.iter().filter_map(RawText::to_os_string)).outside(&writable)?)
}
