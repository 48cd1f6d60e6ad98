//! Resolves a profile's lines in the caller's environment. None may grant a secret, a file of Stockade's own, or
//! metadata that lets a command take over later.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_protocol::{
    AGENT_STATES as STATES, AbsPath, Access, EnvironmentPolicy, FileRule, FileRules, HostRules, NetworkPolicy,
    Permissions, VariableName,
};

use super::{LineGrant, NoValue, PermissionProfile, Template, expand};
use crate::{ConfigError, Settings};

/// Files in masked directories that contain no secret.
const PUBLIC_PARTS: &[&str] = &[
    ".ssh/known_hosts",
    ".gnupg/common.conf",
    ".gnupg/gpg.conf",
    ".gnupg/public-keys.d",
    ".gnupg/pubring.gpg",
    ".gnupg/pubring.kbx",
    ".gnupg/trustdb.gpg",
];
/// The same below `GNUPGHOME`.
const PUBLIC_OF_GNUPG: &[&str] =
    &["common.conf", "gpg.conf", "public-keys.d", "pubring.gpg", "pubring.kbx", "trustdb.gpg"];
const DEVICE_TREES: &[&str] = &["/dev", "/proc", "/sys"];

/// The caller for whom a profile is resolved.
pub struct ProfileContext<'a> {
    /// The caller's variables.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The caller's home directories: that of `HOME` and that of the user database.
    pub homes: Vec<PathBuf>,
    /// Directories writable without a profile: commands may change links there.
    pub writable: Vec<PathBuf>,
    /// The settings, with the masked and protected paths.
    pub settings: &'a Settings,
}

/// The permissions of one or more profiles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfileGrant {
    /// The permissions, on top of a session's own.
    pub permissions: Permissions,
    /// Writable directories to be created for a command.
    pub directories: BTreeSet<AbsPath>,
    /// Directories among the writable paths in which a tool keeps its state, and its login.
    pub states: BTreeSet<AbsPath>,
    /// Directories whose programs are asked about as scripts of a skill.
    pub skills: BTreeSet<AbsPath>,
    /// Whether git may write the workspace's repository.
    pub repository: bool,
}

impl ProfileGrant {
    /// Combines two grants.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            permissions: together(&self.permissions, &other.permissions),
            directories: self.directories.union(&other.directories).cloned().collect(),
            states: self.states.union(&other.states).cloned().collect(),
            skills: self.skills.union(&other.skills).cloned().collect(),
            repository: self.repository || other.repository,
        }
    }

    /// The grant without missing directories.
    pub fn without_missing(&self) -> Result<Self, ConfigError> {
        let is_missing =
            |path: &AbsPath| path.to_host_path().is_none_or(|path| std::fs::symlink_metadata(path).is_err());
        let missing: BTreeSet<&AbsPath> = self.directories.iter().filter(|path| is_missing(path)).collect();
        let rules = self.permissions.files.iter();
        let kept = rules.filter(
            |rule| !matches!(&rule.target, stockade_protocol::FileTarget::Path(path) if missing.contains(path)),
        );
        let files = FileRules::new(kept.cloned())?;
        let permissions = Permissions { files, ..self.permissions.clone() };
        Ok(Self { permissions, directories: BTreeSet::new(), ..self.clone() })
    }
}

/// Merges two grants with the higher limits; `merge` would drop those that only one of them has.
fn together(one: &Permissions, other: &Permissions) -> Permissions {
    let mut all = one.merge(other);
    let limits = &mut all.limits;
    for (slot, more) in [
        (&mut limits.cpu_seconds, other.limits.cpu_seconds),
        (&mut limits.memory_bytes, other.limits.memory_bytes),
        (&mut limits.processes, other.limits.processes),
        (&mut limits.file_size_bytes, other.limits.file_size_bytes),
        (&mut limits.open_files, other.limits.open_files),
    ] {
        *slot = (*slot).max(more);
    }
    all.environment.include_only.extend(other.environment.include_only.clone());
    all
}

impl PermissionProfile {
    /// Resolves the profile for this caller. A line that grants a forbidden path is an error, and so is one that
    /// leaves a directory through a link if a profile makes that directory writable (`by_profiles`).
    pub(super) fn resolve(
        &self,
        context: &ProfileContext<'_>,
        by_profiles: &[PathBuf],
    ) -> Result<ProfileGrant, ConfigError> {
        let refuse = |line: &dyn std::fmt::Display, why: String| ConfigError::ProfileLine {
            profile: self.name.clone(),
            line: line.to_string(),
            why,
        };
        let (mut rules, mut hosts, mut sockets) = (Vec::new(), Vec::new(), BTreeSet::new());
        let mut found = ProfileGrant::default();
        let mut no_socket = None;
        let links = (by_profiles, !self.used_for.is_empty());
        for line in &self.lines {
            let grants = &line.grants;
            match grants {
                LineGrant::Write(template) => {
                    for path in context.places(template, Access::Write, links).map_err(|why| refuse(grants, why))? {
                        found.directories.insert(path.clone());
                        rules.push(FileRule::path(path, Access::Write));
                    }
                }
                LineGrant::Read(template) => {
                    for path in context.places(template, Access::Read, links).map_err(|why| refuse(grants, why))? {
                        rules.push(FileRule::path(path, Access::Read));
                    }
                }
                LineGrant::Connect(template) => {
                    let text = template.expand(context.variable).map_err(|why| refuse(grants, why.to_string()))?;
                    hosts.extend(expand::hosts(&text).map_err(|why| refuse(grants, why))?);
                }
                LineGrant::Socket(template) => match context.socket(template) {
                    Ok(path) => drop(sockets.insert(path)),
                    Err(NoSocket::Absent(why)) => {
                        let (profile, line) = (self.name.clone(), grants.to_string());
                        no_socket = Some(ConfigError::NoAgent { profile, line, why });
                    }
                    Err(NoSocket::Refused(why)) => return Err(refuse(grants, why)),
                },
                LineGrant::Skill(template) => {
                    let places = context.places(template, Access::Read, links);
                    found.skills.extend(places.map_err(|why| refuse(grants, why))?);
                }
                LineGrant::Repository => found.repository = true,
                LineGrant::Variable(name) => {
                    let pattern = name.as_str().parse()?;
                    found.permissions.environment.include_only.insert(pattern);
                }
                LineGrant::Set(name, value) => context.set(&mut found, name, value.clone()),
                LineGrant::State { variable, below } => {
                    let root = context.state(&self.name).map_err(|why| refuse(grants, why))?;
                    let place = match below {
                        Some(below) => root.join(below.as_str())?,
                        None => root.clone(),
                    };
                    context.set(&mut found, variable, place.to_string());
                    rules.push(FileRule::path(root.clone(), Access::Write));
                    found.directories.extend([root.clone(), place]);
                    found.states.insert(root);
                }
                LineGrant::Limits(limits) => {
                    let more = Permissions { limits: *limits, ..Permissions::default() };
                    found.permissions = together(&found.permissions, &more);
                }
            }
        }
        // One existing socket of several is enough.
        if let Some(error) = no_socket.filter(|_| sockets.is_empty()) {
            return Err(error);
        }
        let network = match hosts.is_empty() {
            true => NetworkPolicy::Off,
            false => NetworkPolicy::Hosts(HostRules { rules: hosts, ..HostRules::default() }),
        };
        let EnvironmentPolicy { include_only, set, .. } = found.permissions.environment;
        found.permissions = Permissions {
            files: FileRules::new(rules)?,
            network,
            unix_sockets: sockets,
            limits: found.permissions.limits,
            environment: EnvironmentPolicy { include_only, set, ..EnvironmentPolicy::default() },
        };
        Ok(found)
    }
}

enum NoSocket {
    /// It does not exist.
    Absent(String),
    /// It can't be granted.
    Refused(String),
}

impl ProfileContext<'_> {
    /// The directory that `~` stands for.
    fn home(&self) -> Option<PathBuf> {
        let named = (self.variable)("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        named.or_else(|| self.homes.first().cloned())
    }

    /// The directory of a profile's own, which is masked in every run without the profile. Nothing but this user, and
    /// no command inside, puts a link in its place.
    fn state(&self, profile: &str) -> Result<AbsPath, String> {
        let home = self.home().ok_or_else(|| String::from("there is no home directory"))?;
        let named = home.join(STATES).join(profile);
        let real = expand::real(&named);
        if real != expand::real(&home).join(STATES).join(profile) {
            let (named, real) = (named.display(), real.display());
            return Err(format!("`{named}` leads to `{real}` by a link: put a directory in its place"));
        }
        self.check_own(&real, Access::Write)?;
        let text = real.to_str().ok_or_else(|| format!("`{}` is not UTF-8", real.display()))?;
        text.parse().map_err(|error: stockade_protocol::Invalid| error.to_string())
    }

    /// Sets a variable, unless the user set it by name.
    fn set(&self, grant: &mut ProfileGrant, name: &VariableName, value: String) {
        if !self.settings.environment.set.contains_key(name) {
            grant.permissions.environment.set.insert(name.clone(), value);
        }
    }

    /// The writable directories of a profile, unresolved.
    pub(crate) fn named_writable(&self, profile: &PermissionProfile) -> Vec<PathBuf> {
        let templates = profile.lines.iter().filter_map(|line| match &line.grants {
            LineGrant::Write(template) => Some(template),
            LineGrant::Read(_)
            | LineGrant::Connect(_)
            | LineGrant::Socket(_)
            | LineGrant::Skill(_)
            | LineGrant::Repository
            | LineGrant::Variable(_)
            | LineGrant::Set(..)
            | LineGrant::State { .. }
            | LineGrant::Limits(_) => None,
        });
        // A line without a path in this environment grants nothing.
        let named = templates.filter_map(|template| {
            let text = template.expand(self.variable).ok()?;
            expand::path(&text, self.home().as_deref()).ok()?.to_host_path()
        });
        let has_state = profile.lines.iter().any(|line| matches!(line.grants, LineGrant::State { .. }));
        let state = self.home().filter(|_| has_state).map(|home| home.join(STATES).join(&profile.name));
        named.chain(state).collect()
    }

    /// The resolved paths of a line, if it may be granted. A saved answer is for the directory that was shown: it does
    /// not follow a link.
    fn places(
        &self,
        template: &Template,
        access: Access,
        (by_profiles, is_saved): (&[PathBuf], bool),
    ) -> Result<BTreeSet<AbsPath>, String> {
        let text = template.expand(self.variable).map_err(|why| why.to_string())?;
        let named = expand::path(&text, self.home().as_deref())?;
        let host = named.to_host_path().unwrap_or_default();
        let real = expand::real(&host);
        for place in [&host, &real] {
            self.check(place, access)?;
        }
        if is_saved && real != host {
            let real = real.display();
            return Err(format!("`{named}` leads to `{real}` by a link that was put there since the answer was saved"));
        }
        let below = by_profiles.iter().filter(|root| host.starts_with(root) && host != **root);
        let mut holding = self.writable.iter().filter(|root| host.starts_with(root)).chain(below);
        if let Some(root) = holding.find(|root| !real.starts_with(root) && !real.starts_with(expand::real(root))) {
            let root = root.display();
            return Err(format!("`{named}` leads out of `{root}` by a link that commands may change"));
        }
        let real = AbsPath::from_path(&real).map_err(|error| error.to_string())?;
        // The link's target is granted; a link needs no rule.
        Ok(BTreeSet::from([real]))
    }

    fn socket(&self, template: &Template) -> Result<AbsPath, NoSocket> {
        let text = template.expand(self.variable).map_err(|why| match why {
            NoValue::NotSet(_) => NoSocket::Absent(format!("{why}: is the agent running?")),
            NoValue::NotText(_) => NoSocket::Refused(why.to_string()),
        })?;
        let path = expand::path(&text, self.home().as_deref()).map_err(NoSocket::Refused)?;
        let host = path.to_host_path().unwrap_or_default();
        let real = expand::real(&host);
        for place in [&host, &real] {
            self.check_own(place, Access::Read).map_err(NoSocket::Refused)?;
        }
        if !is_socket(&real) {
            return Err(NoSocket::Absent(format!("`{path}` is no socket: is the agent running?")));
        }
        Ok(path)
    }

    /// Whether a path may be part of a profile.
    fn check(&self, path: &Path, access: Access) -> Result<(), String> {
        let shown = path.display();
        let depth = path.components().count();
        if depth < 2 || (access == Access::Write && depth < 3) {
            return Err(format!("`{shown}` is the root, or lies directly in it: name a directory of the tool's own"));
        }
        if self.homes.iter().any(|home| home.starts_with(path) || expand::real(home).starts_with(path)) {
            return Err(format!("`{shown}` holds a home directory: name a directory of the tool's own"));
        }
        if DEVICE_TREES.iter().any(|tree| path.starts_with(tree)) {
            return Err(format!("`{shown}` is among the kernel's files"));
        }
        let protected = |part: &std::ffi::OsStr| self.settings.protected_names.iter().any(|name| part == name.as_str());
        if access == Access::Write && path.iter().any(protected) {
            return Err(format!("`{shown}` is protected metadata, by which a command could take over later"));
        }
        let masked = self.settings.credentials.iter().filter_map(AbsPath::to_host_path);
        let masked = masked.flat_map(|mask| [expand::real(&mask), mask]).find(|mask| path.starts_with(mask));
        if let Some(mask) = masked.filter(|_| access == Access::Write || !self.is_public(path)) {
            return Err(format!("`{shown}` is a masked credential (`{}`), and no profile opens one", mask.display()));
        }
        self.check_own(path, access)
    }

    /// Refuses Stockade's own files.
    fn check_own(&self, path: &Path, access: Access) -> Result<(), String> {
        let own = self.settings.own_files.iter().chain(&self.settings.hidden_files).filter_map(AbsPath::to_host_path);
        let own = own.flat_map(|own| [expand::real(&own), own]);
        let is_touched = |own: &PathBuf| path.starts_with(own) || (access == Access::Write && own.starts_with(path));
        match own.into_iter().find(is_touched) {
            Some(own) => Err(format!("`{}` holds or is Stockade's own `{}`", path.display(), own.display())),
            None => Ok(()),
        }
    }

    /// Whether a file in a masked directory contains no secret.
    fn is_public(&self, path: &Path) -> bool {
        let gnupg = (self.variable)("GNUPGHOME").map(PathBuf::from);
        let in_homes = self.homes.iter().flat_map(|home| PUBLIC_PARTS.iter().map(move |part| home.join(part)));
        let in_gnupg = gnupg.iter().flat_map(|gnupg| PUBLIC_OF_GNUPG.iter().map(move |part| gnupg.join(part)));
        // A link in its place could lead to a secret.
        let is_it = |public: PathBuf| {
            let real = public.parent().zip(public.file_name()).map(|(above, name)| expand::real(above).join(name));
            path == public || Some(path) == real.as_deref()
        };
        in_homes.chain(in_gnupg).any(is_it)
    }
}

#[cfg(unix)]
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_socket(path: &Path) -> bool {
    path.exists()
}
