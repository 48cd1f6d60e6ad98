//! The locations and the precedence of settings.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, CREDENTIAL_PATHS};

use crate::config_file::{Owner, ReadFile, project_text, read_text, refuse_foreign_keys};
use crate::form::{ConfigForm, MaximumForm};
use crate::homes::{check_variables, is_device, named_credentials, recorded_home, user_variable, variable_of_user};
use crate::layer::Layer;
use crate::maximum::Maximum;
use crate::origin::Origin;
use crate::own_files::{place, socket_directory, usual_socket_directory};
use crate::profile::{PermissionProfiles, ProfileOrigin};
use crate::project::{CONFIG, DIRECTORY, ProjectFiles, ProjectRules};
use crate::settings::Settings;
use crate::source::Source;
use crate::store::leave_mark;
use crate::suggest::suggest;
use crate::{ConfigError, ProjectTrust, TrustStore};

/// The administrator's directory.
pub const SYSTEM_DIRECTORY: &str = "/etc/stockade";

pub(crate) const MAXIMUM: &str = "maximum.toml";

/// Whether a one-time notice is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It was shown before.
    Known,
    /// It is new, and recorded now.
    Recorded,
    /// It can't be recorded, so it is new each time.
    Unrecorded,
}

/// Finds and reads the files.
///
/// ```
/// use stockade_config::{ConfigLoader, Layer, SandboxMode};
///
/// let home = tempfile::tempdir()?;
/// std::fs::create_dir_all(home.path().join(".config/stockade"))?;
/// std::fs::write(home.path().join(".config/stockade/config.toml"), "sandbox.mode = \"read-only\"")?;
///
/// let loaded = ConfigLoader::new().home(home.path()).load(Layer::default())?;
/// assert_eq!(loaded.settings.mode, SandboxMode::ReadOnly);
/// assert!(loaded.settings.origin("sandbox.mode").to_string().ends_with("config.toml"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ConfigLoader {
    pub(crate) system: Option<PathBuf>,
    pub(crate) user: Option<PathBuf>,
    /// The directory of a server's socket, unless it is below the state directory.
    pub(crate) socket: Option<PathBuf>,
    pub(crate) home: Option<PathBuf>,
    /// The home directory in the user database, whose credentials are masked as well.
    recorded_home: Option<PathBuf>,
    pub(crate) state: Option<PathBuf>,
    /// Credentials that variables name.
    named_credentials: Vec<AbsPath>,
    /// The base of relative paths in variables.
    directory: PathBuf,
    pub(crate) project: Option<PathBuf>,
    only_system: bool,
}

/// The result of loading.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The effective settings.
    pub settings: Settings,
    /// Notices for the user: lowered and ignored settings, and how to change that.
    pub notices: Vec<String>,
    /// Whether the project's own settings and rules count.
    pub trust: ProjectTrust,
    /// The project's rules files, if they count.
    pub project_rules: Vec<ProjectRules>,
    /// All permission profiles, with the project's, if they count.
    pub profiles: PermissionProfiles,
}

impl ConfigLoader {
    /// A loader without any locations.
    pub fn new() -> Self {
        Self::default()
    }

    /// The standard locations of the administrator's and the user's files for this process.
    pub fn standard() -> Result<Self, ConfigError> {
        Self::standard_for(user_variable, &working_directory()?)
    }

    /// The standard locations for a process with this environment and working directory.
    pub fn standard_for(variable: impl Fn(&str) -> Option<OsString>, directory: &Path) -> Result<Self, ConfigError> {
        let variable = |name: &str| variable_of_user(name, variable(name));
        check_variables(&variable)?;
        let loader = Self::found(variable, directory).system(SYSTEM_DIRECTORY);
        Ok(Self { recorded_home: recorded_home(), ..loader })
    }

    /// Reads the administrator's settings and no others. Credentials and Stockade's own files stay protected.
    #[must_use]
    pub fn only_system(mut self) -> Self {
        self.only_system = true;
        self
    }

    /// The user's directories from environment variables, according to the [XDG
    /// specification](https://specifications.freedesktop.org/basedir-spec/latest/). A variable that is relative or
    /// contains `..` is an error: its target could change from one command to the next.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, ConfigError> {
        check_variables(&variable)?;
        Ok(Self::found(variable, &working_directory()?))
    }

    fn found(variable: impl Fn(&str) -> Option<OsString>, directory: &Path) -> Self {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = absolute("HOME");
        let below = |name: &str, other: &str| absolute(name).or_else(|| home.as_ref().map(|home| home.join(other)));
        let (config, state) = (below("XDG_CONFIG_HOME", ".config"), below("XDG_STATE_HOME", ".local/state"));
        let own = |directory: Option<PathBuf>| directory.map(|directory| directory.join("stockade"));
        let named_credentials = named_credentials(&variable, directory, home.as_deref());
        let directory = directory.to_owned();
        let socket = absolute("XDG_RUNTIME_DIR").and_then(|_| socket_directory(&variable));
        Self { user: own(config), state: own(state), socket, home, named_credentials, directory, ..Self::default() }
    }

    /// The home directory, with the settings and state below it.
    #[must_use]
    pub fn home(self, home: impl Into<PathBuf>) -> Self {
        let home = home.into();
        let found = Self::found(|name| (name == "HOME").then(|| home.clone().into()), &home);
        Self { system: self.system, project: self.project, only_system: self.only_system, ..found }
    }

    /// The administrator's directory.
    #[must_use]
    pub fn system(mut self, directory: impl Into<PathBuf>) -> Self {
        self.system = Some(directory.into());
        self
    }

    /// The directory of a project, whose settings count if it is trusted.
    #[must_use]
    pub fn project(mut self, root: impl Into<PathBuf>) -> Self {
        self.project = Some(root.into());
        self
    }

    /// The home directories whose credentials are masked.
    pub fn homes(&self) -> BTreeSet<&Path> {
        self.home.iter().chain(&self.recorded_home).map(PathBuf::as_path).collect()
    }

    /// The directory of the user's settings, if they are read.
    pub fn user_directory(&self) -> Option<&Path> {
        self.user.as_deref().filter(|_| !self.only_system)
    }

    /// The list of trusted projects.
    pub fn trust_store(&self) -> Result<TrustStore, ConfigError> {
        self.state.as_ref().map(TrustStore::new).ok_or(ConfigError::NoPlace)
    }

    /// Whether a one-time notice is new; records it, if possible.
    pub fn news(&self, notice: &str) -> News {
        self.state.as_ref().map_or(News::Unrecorded, |directory| leave_mark(directory, notice))
    }

    /// Reads and merges all files, with the flags on top. One bad file is an error.
    pub fn load(&self, flags: Layer) -> Result<Loaded, ConfigError> {
        let mut notices = Vec::new();
        let mut files = Vec::new();
        let mut maximum = None;
        if let Some(directory) = &self.system {
            files.extend(self.read(directory, Owner::System)?);
            maximum = self.read_maximum(directory, files.first())?;
        }
        if let Some(directory) = self.user.as_ref().filter(|_| !self.only_system) {
            files.extend(self.read(directory, Owner::User)?);
        }
        let mut profiles = self.own_profiles()?;
        let (trust, content) = self.read_project(&mut files, &mut notices)?;
        let root = self.project.clone().unwrap_or_default();
        let project_rules = content.rules(&root);
        for profile in content.profiles(&root)? {
            profiles.add_of_project(profile)?;
        }
        let mut settings = Settings::new(self.credentials()?);
        let profile = chosen_profile(&files, &flags)?;
        for file in &files {
            settings.project_sets_variables |= file.owner == Owner::Project && !file.layer.set.is_empty();
            settings.apply(file.layer.clone(), &file.origin());
        }
        // The nearest file that names a profile chooses it, unless a flag does.
        let choosing = files.iter().rev().find(|file| file.layer.profile.is_some());
        let is_projects_choice = flags.profile.is_none() && choosing.is_some_and(|file| file.owner == Owner::Project);
        if let Some(name) = profile {
            for (file, layer) in files.iter().filter_map(|file| Some((file, file.profiles.get(&name)?))) {
                settings.names_sandbox |= flags.profile.is_some() && layer.describes_sandbox();
                settings.project_sets_variables |= file.owner == Owner::Project && !layer.set.is_empty();
                let mut layer = layer.clone();
                if is_projects_choice {
                    notices.extend(layer.without_own_keys(&name));
                }
                settings.apply(layer, &Origin::Profile { name: name.clone(), file: file.path.clone() });
            }
        }
        settings.names_sandbox |= flags.describes_sandbox();
        settings.apply(flags, &Origin::Flag);
        notices.extend(settings.keep_denied_hosts());
        notices.extend(settings.missing_devices());
        let is_flag = |key: &str| *settings.origin(key) == Origin::Flag;
        if settings.mode == crate::SandboxMode::ReadOnly
            && !settings.writable_roots.is_empty()
            && !is_flag("sandbox.mode")
        {
            let why = "`sandbox.writable_roots` has no effect: `sandbox.mode` is `read-only`; set `workspace-write`";
            notices.push(String::from(why));
        }
        if let Some(maximum) = maximum {
            notices.extend(maximum.enforce(&mut settings)?);
        }
        // Commands may not read the audit trail, in any location.
        let trail = settings.audit_directory.as_deref().filter(|path| !is_device(path)).map(place).transpose()?;
        settings.credentials.extend(trail);
        // A variable set for the command names credentials just as an inherited one does.
        let set = |name: &str| settings.environment.set.get(&name.parse().ok()?).map(OsString::from);
        let named = named_credentials(&set, &self.directory, self.home.as_deref());
        settings.credentials.extend(named);
        settings.own_files = self.own_files(&settings)?;
        // A missing socket can't be hidden: its path may become another program's.
        let in_state = self.state.as_ref().map(|state| state.join("run"));
        let sockets = self.socket.iter().cloned().chain(in_state).chain(usual_socket_directory());
        let sockets = sockets.chain(self.recorded_servers()?);
        // Most are missing, which one call tells, and resolving takes one for each component.
        let existing = sockets.filter(|directory| directory.metadata().is_ok());
        let sockets: BTreeSet<PathBuf> =
            existing.filter_map(|directory| std::fs::canonicalize(directory).ok()).collect();
        settings.hidden_files = sockets.iter().map(|directory| place(directory)).collect::<Result<_, _>>()?;
        Ok(Loaded { settings, notices, trust, project_rules, profiles })
    }

    /// The built-in permission profiles, the administrator's and the user's.
    fn own_profiles(&self) -> Result<PermissionProfiles, ConfigError> {
        let mut profiles = PermissionProfiles::default();
        if let Some(directory) = &self.system {
            profiles.add_directory(directory, ProfileOrigin::System)?;
        }
        if let Some(directory) = self.user.as_ref().filter(|_| !self.only_system) {
            profiles.add_directory(directory, ProfileOrigin::User)?;
        }
        Ok(profiles)
    }

    /// The credentials and Stockade's own directories that an environment names, independent of the settings.
    pub fn places(&self) -> Result<Vec<AbsPath>, ConfigError> {
        let mut places = self.credentials()?;
        for directory in [&self.user, &self.state, &self.socket].into_iter().flatten() {
            places.push(place(directory)?);
        }
        Ok(places)
    }

    fn credentials(&self) -> Result<Vec<AbsPath>, ConfigError> {
        let mut credentials = Vec::new();
        for home in self.homes() {
            // One text for all: each path is allocated once, in its final form.
            let mut text = AbsPath::from_path(home)?.as_raw().as_bytes().to_vec();
            text.push(b'/');
            let length = text.len();
            for path in CREDENTIAL_PATHS {
                text.truncate(length);
                text.extend_from_slice(path.as_bytes());
                credentials.push(AbsPath::parse(text.as_slice())?);
            }
        }
        credentials.extend(self.named_credentials.iter().cloned());
        // Commands may not read the state, which includes the audit trail.
        credentials.extend(self.state.as_deref().map(place).transpose()?);
        credentials.sort();
        credentials.dedup();
        Ok(credentials)
    }

    fn read(&self, directory: &Path, owner: Owner) -> Result<Option<ReadFile>, ConfigError> {
        let path = directory.join(CONFIG);
        let Some(text) = read_text(&path)? else { return Ok(None) };
        self.understand(path, &text, directory, owner).map(Some)
    }

    /// Reads the project's files. An unreadable one is an error: it might contain a forbidding rule.
    fn read_project(
        &self,
        files: &mut Vec<ReadFile>,
        notices: &mut Vec<String>,
    ) -> Result<(ProjectTrust, ProjectFiles), ConfigError> {
        let Some(root) = self.project.as_ref().filter(|_| !self.only_system) else {
            return Ok((ProjectTrust::Nothing, ProjectFiles::default()));
        };
        // Without a state directory no project is trusted.
        let store = self.state.clone().map_or_else(|| TrustStore::new("/nonexistent"), TrustStore::new);
        let (trust, content) = store.check_files(root)?;
        notices.extend(trust.advice(root));
        if trust != ProjectTrust::Trusted {
            return Ok((trust, ProjectFiles::default()));
        }
        if let Some(bytes) = content.get(CONFIG) {
            let path = root.join(DIRECTORY).join(CONFIG);
            let text = project_text(&path, bytes)?;
            files.push(self.understand(path, &text, root, Owner::Project)?);
        }
        Ok((trust, content))
    }

    fn understand(&self, path: PathBuf, text: &str, base: &Path, owner: Owner) -> Result<ReadFile, ConfigError> {
        let base = std::path::absolute(base).map_err(ConfigError::io("find", base))?;
        let source = Source { file: &path, text, base: &base, home: self.home.as_deref() };
        let form: ConfigForm = source.parse()?;
        refuse_foreign_keys(&form, &source, owner)?;
        let mut layer = Layer::read(&form.settings(), &source)?;
        layer.profile = form.profile.as_ref().map(|name| name.value().clone());
        let profile_position = form.profile.as_ref().map(|name| source.position(&name.span()));
        let profiles = form.profiles.iter().map(|(name, form)| Ok((name.clone(), Layer::read(form, &source)?)));
        let profiles = profiles.collect::<Result<_, ConfigError>>()?;
        let maximum = form.maximum.as_ref().map(|form| Maximum::read(form.value(), &source)).transpose()?;
        Ok(ReadFile { owner, layer, profile_position, profiles, maximum, path })
    }

    /// Reads the maximum from its own file or from the administrator's settings.
    fn read_maximum(&self, directory: &Path, system: Option<&ReadFile>) -> Result<Option<Maximum>, ConfigError> {
        let path = directory.join(MAXIMUM);
        let inside = system.and_then(|file| file.maximum.clone());
        let Some(text) = read_text(&path)? else { return Ok(inside) };
        let source = Source { file: &path, text: &text, base: directory, home: self.home.as_deref() };
        if inside.is_some() {
            let problem = format!("`{CONFIG}` has a `maximum` as well: keep one of them");
            return Err(source.invalid(0..0, problem));
        }
        Maximum::read(&source.parse::<MaximumForm>()?, &source).map(Some)
    }
}

fn working_directory() -> Result<PathBuf, ConfigError> {
    std::env::current_dir().map_err(ConfigError::io("find", Path::new(".")))
}

/// Checks a text as a user's file; for editors, and for tests of the parser.
pub fn check_config(file: &Path, text: &str) -> Result<(), ConfigError> {
    let base = file.parent().unwrap_or(Path::new("/"));
    ConfigLoader::new().home("/home/nobody").understand(file.to_owned(), text, base, Owner::User).map(drop)
}

/// Checks the text of a project's file and returns it as a TOML table.
pub(crate) fn check_project(path: &Path, bytes: &[u8], root: &Path) -> Result<toml::Table, ConfigError> {
    let text = project_text(path, bytes)?;
    let loader = ConfigLoader { home: Some(PathBuf::from("/home/nobody")), ..ConfigLoader::new() };
    loader.understand(path.to_owned(), &text, root, Owner::Project)?;
    let source = Source { file: path, text: &text, base: root, home: None };
    toml::from_str(source.text).map_err(|error| source.syntax(&error))
}

fn chosen_profile(files: &[ReadFile], flags: &Layer) -> Result<Option<String>, ConfigError> {
    let chosen = flags.profile.clone().or_else(|| files.iter().rev().find_map(|file| file.layer.profile.clone()));
    let known: BTreeSet<&str> = files.iter().flat_map(|file| file.profiles.keys().map(String::as_str)).collect();
    match chosen {
        Some(name) if !known.contains(name.as_str()) => {
            let known: Vec<&str> = known.into_iter().collect();
            let suggestion = suggest(&name, &known);
            let mut places = files.iter().rev().filter_map(|file| Some((&file.path, file.profile_position?)));
            match places.next().filter(|_| flags.profile.is_none()) {
                Some((file, (line, column))) => {
                    let problem = format!("`profile`: no profile is called `{name}`{suggestion}");
                    Err(ConfigError::Invalid { file: file.clone(), line, column, problem })
                }
                None => Err(ConfigError::UnknownProfile { suggestion, name }),
            }
        }
        other => Ok(other),
    }
}
