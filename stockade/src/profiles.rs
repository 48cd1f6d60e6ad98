//! The permission profiles of a session: those named by its settings and by its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use stockade_config::{
    ConfigError, NamedBy, Origin, PermissionProfile, PermissionProfiles, ProfileContext, ProfileGrant, SandboxMode,
    Settings,
};
use stockade_core::Session;
use stockade_execpolicy::{Breadth, Layer, Policy};
use stockade_protocol::{
    AbsPath, Access, FileRules, FileTarget, HostPaths, HostPattern, NetworkPolicy, NetworkProtocol,
    PermissionAmendment, Permissions, RawText,
};
use stockade_sandboxing::{Repository, permits};

use crate::assembly::{Recording, variable};
use crate::{Error, platform};

/// The context in which profiles are resolved.
pub(crate) struct Setting<'a> {
    pub(crate) profiles: &'a PermissionProfiles,
    pub(crate) host: &'a HostPaths,
    pub(crate) homes: &'a [AbsPath],
    /// The project's directory.
    pub(crate) project: &'a Path,
    pub(crate) recording: Recording,
}

impl Setting<'_> {
    pub(crate) fn resolve(
        &self,
        settings: &Settings,
        session: &Session,
        (name, by): (&str, &NamedBy),
        notices: &mut Vec<String>,
    ) -> Result<ProfileGrant, Error> {
        let own = |name: &str| variable(&session.environment, name);
        let writable = self.host.workspace_roots.iter().chain(&settings.writable_roots);
        let context = ProfileContext {
            variable: &own,
            homes: self.homes.iter().filter_map(AbsPath::to_host_path).collect(),
            writable: writable.filter_map(AbsPath::to_host_path).collect(),
            settings,
        };
        let grant = possible(self.profiles.resolve(name, by, &context)?, notices)?;
        Ok(match self.recording {
            Recording::Trail => grant,
            Recording::Nothing => grant.without_missing()?,
        })
    }
}

/// Adds the grants of the profiles that the settings name.
pub(crate) fn grant_named(
    setting: &Setting<'_>,
    settings: &mut Settings,
    session: &mut Session,
    notices: &mut Vec<String>,
) -> Result<(), Error> {
    if settings.with.is_empty() || !is_sandboxed(settings) {
        return Ok(());
    }
    let mut all = ProfileGrant::default();
    for (name, by) in &named_by_settings(settings, setting.project) {
        let grant = setting.resolve(settings, session, (name, by), notices)?;
        notices.extend(grant.states.iter().map(|state| {
            format!("`{name}` keeps its state and its login in `{state}`: every command that it starts can read and change them")
        }));
        all = all.and(&grant);
    }
    session.made_on_use.extend(all.directories.iter().cloned());
    session.skills.extend(all.skills.iter().cloned());
    if all.repository {
        session.repositories = repositories(settings, session, notices);
    }
    settings.granted = all;
    session.permissions = settings.permissions(setting.host)?;
    Ok(())
}

/// The repositories whose worktrees the workspace's directories are. Where there is none, the profile grants nothing, and a
/// notice says so.
fn repositories(settings: &Settings, session: &Session, notices: &mut Vec<String>) -> Vec<Repository> {
    let why_not = match settings.mode {
        SandboxMode::WorkspaceWrite => None,
        SandboxMode::ReadOnly | SandboxMode::DangerFullAccess | SandboxMode::ExternalSandbox => {
            Some("the workspace is not writable")
        }
    };
    if let Some(why) = why_not {
        notices.push(format!("no repository is granted: {why}"));
        return Vec::new();
    }
    let mut found = Vec::new();
    for root in session.workspace_roots().iter().filter_map(AbsPath::to_host_path) {
        match Repository::of_worktree(&root) {
            Ok(repository) => {
                let is_bounded = |maximum: &Permissions| maximum.access(&repository.common) != Access::Write;
                if session.maximum.as_ref().is_some_and(is_bounded) {
                    notices.push(format!("the administrator's maximum keeps `{}` read-only", repository.common));
                } else {
                    found.push(repository);
                }
            }
            Err(error) => notices.push(format!("no repository is granted: {error}")),
        }
    }
    found
}

/// Adds the profiles that rules name to a session.
pub(crate) fn know_of_rules(
    setting: &Setting<'_>,
    settings: &Settings,
    session: &mut Session,
    policy: &Policy,
    notices: &mut Vec<String>,
) -> Result<(), Error> {
    let by_rules = policy.rules().flat_map(|rule| {
        let place = format!("the rule at `{}`", rule.origin());
        let by = match rule.origin().layer {
            Layer::Project => NamedBy::Project(place),
            Layer::System | Layer::User | Layer::Session => NamedBy::Rule(place),
        };
        rule.profiles().iter().map(move |name| (name.clone(), by.clone()))
    });
    // A project's rule is checked, also where one of the user's names the same.
    let mut named: BTreeMap<String, NamedBy> = BTreeMap::new();
    for (name, by) in by_rules.filter(|_| is_sandboxed(settings)) {
        let known = named.entry(name).or_insert_with(|| by.clone());
        if matches!(by, NamedBy::Project(_)) {
            *known = by;
        }
    }
    if policy.rules().any(|rule| rule.breadth() == Breadth::Exact) {
        session.know_platform_defaults(platform::platform_defaults());
    }
    for (name, by) in &named {
        let granted = match setting.resolve(settings, session, (name, by), notices) {
            Ok(granted) => settings.fitting(&granted),
            // Other commands don't need it. Those that do are told.
            Err(Error::Settings(error @ ConfigError::NoAgent { .. })) => {
                session.unavailable_profiles.insert(name.clone(), error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        session.made_on_use.extend(granted.directories);
        session.profiles.insert(name.clone(), granted.permissions);
    }
    Ok(())
}

fn is_sandboxed(settings: &Settings) -> bool {
    matches!(settings.mode, SandboxMode::ReadOnly | SandboxMode::WorkspaceWrite)
}

/// The profiles that the settings name, and their origins.
fn named_by_settings(settings: &Settings, project: &Path) -> Vec<(String, NamedBy)> {
    let named = settings.with.iter().enumerate().map(|(index, name)| {
        let origin = settings.origin(&format!("with[{index}]"));
        let place = if *origin == Origin::Flag { format!("the {origin}") } else { format!("`with` of the {origin}") };
        let by = match origin {
            Origin::Project(_) => NamedBy::Project(place),
            Origin::Profile { file, .. } if file.starts_with(project) => NamedBy::Project(place),
            Origin::Default
            | Origin::System(_)
            | Origin::User(_)
            | Origin::Profile { .. }
            | Origin::Flag
            | Origin::Maximum(_) => NamedBy::User(place),
        };
        (name.clone(), by)
    });
    named.collect()
}

/// The grant without directories that this user can't write anyway.
fn possible(grant: ProfileGrant, notices: &mut Vec<String>) -> Result<ProfileGrant, Error> {
    let lacking = |path: &AbsPath| !permits(path, Access::Write);
    let lacking: BTreeSet<AbsPath> = grant.directories.iter().filter(|path| lacking(path)).cloned().collect();
    notices.extend(lacking.iter().map(|path| match dangling_target(path) {
        Some(target) => format!(
            "`{path}` of a profile is not made writable: it is a link to `{target}`, which is missing; create that directory or remove the link"
        ),
        None if grant.states.contains(path) => {
            format!("`{path}`, which holds the tool's state and login, is out of reach: type `chmod u+rwx {path}`")
        }
        None => {
            format!(
                "`{path}` of a profile is not made writable: you lack permission to write it outside the sandbox, too"
            )
        }
    }));
    let is_kept = |path: &AbsPath| !lacking.contains(path);
    let rules = grant.permissions.files.iter().filter(|rule| match &rule.target {
        FileTarget::Path(path) => is_kept(path),
        FileTarget::Glob(_) => true,
    });
    let files = FileRules::new(rules.cloned())?;
    let kept = |paths: &BTreeSet<AbsPath>| paths.iter().filter(|path| is_kept(path)).cloned().collect();
    let (directories, states) = (kept(&grant.directories), kept(&grant.states));
    Ok(ProfileGrant { permissions: Permissions { files, ..grant.permissions.clone() }, directories, states, ..grant })
}

/// The target of a link that leads to nothing.
fn dangling_target(path: &AbsPath) -> Option<RawText> {
    let path = path.to_host_path()?;
    let target = std::fs::read_link(&path).ok()?;
    let is_missing = path.metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    is_missing.then(|| RawText::from(target.into_os_string().into_encoded_bytes()))
}

/// The built-in and own profiles that a command lacks, for advice after a denial.
#[derive(Clone, Debug, Default)]
pub struct Advisable {
    profiles: Vec<(PermissionProfile, Permissions)>,
    /// The profile for git, and the repositories in which it would let git write.
    git: Option<(PermissionProfile, Vec<Repository>)>,
}

impl Advisable {
    /// The profiles that fit a command, without those that can't be granted here, or only by a person.
    pub(crate) fn new(
        profiles: &PermissionProfiles,
        settings: &Settings,
        session: &Session,
        homes: &[AbsPath],
        command: &stockade_protocol::Argv,
    ) -> Self {
        let own = |name: &str| variable(&session.environment, name);
        let homes: Vec<PathBuf> = homes.iter().filter_map(AbsPath::to_host_path).collect();
        let context = ProfileContext { variable: &own, homes, writable: Vec::new(), settings };
        let mut found = Self::default();
        for name in profiles.names() {
            let Ok(Some(profile)) = profiles.get(name) else { continue };
            let is_had = settings.with.iter().any(|own| own == name);
            if is_had || !names_tool(command, profile.tools()) {
                continue;
            }
            let Ok(grant) = profiles.grant(&profile, &context) else { continue };
            if grant.repository {
                // It writes less than `--writable .git` does, which would be advised otherwise.
                found.git = Some((profile, repositories(settings, session, &mut Vec::new())));
            } else if !profile.only_when_named() && !profile.has_sockets() {
                found.profiles.push((profile, settings.fitting(&grant).permissions));
            }
        }
        found
    }

    /// The profile that would have let git write this metadata.
    pub fn covering_metadata(&self, path: &AbsPath) -> Option<&str> {
        let (profile, repositories) = self.git.as_ref()?;
        let is_covered = repositories.iter().any(|repository| crate::platform::git_writes(repository, path));
        is_covered.then(|| profile.name())
    }

    /// The profile that would have allowed this.
    pub fn covering(&self, amendment: &PermissionAmendment) -> Option<&str> {
        let covers = |permissions: &Permissions| match amendment {
            PermissionAmendment::File(rule) => match &rule.target {
                FileTarget::Path(path) => permissions.access(path) >= rule.access,
                FileTarget::Glob(_) => false,
            },
            PermissionAmendment::Network(rule) => match (&permissions.network, &rule.host, rule.port) {
                (NetworkPolicy::Hosts(hosts), HostPattern::Exact(host), Some(port)) => {
                    let protocol = rule.protocol.unwrap_or(NetworkProtocol::Tcp);
                    hosts.decide(host, protocol, port) == stockade_protocol::Decision::Allow
                }
                (NetworkPolicy::Off | NetworkPolicy::Full | NetworkPolicy::Hosts(_), _, _) => false,
            },
            PermissionAmendment::UnixSocket(path) => permissions.unix_sockets.contains(path),
        };
        self.profiles.iter().find(|(_, permissions)| covers(permissions)).map(|(profile, _)| profile.name())
    }
}

/// Whether a command, or a shell line in it, names one of these programs.
fn names_tool(command: &stockade_protocol::Argv, tools: &[String]) -> bool {
    let words = command.words().iter().filter_map(RawText::as_str);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut names = words.flat_map(|word| word.split(move |c: char| !is_part(c)));
    names.any(|name| tools.iter().any(|tool| tool == name))
}
