//! The permission profiles of a session, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{DIRECTORY, PermissionProfile, ProfileContext, ProfileGrant, ProfileOrigin, built_in};
use crate::ConfigError;
use crate::config_file::read_text;
use crate::suggest::suggest;

/// Limit on profile files in a directory.
pub(super) const MOST_FILES: usize = 256;

/// All profiles of a session: those of files and the built-in ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PermissionProfiles(BTreeMap<String, PermissionProfile>);

/// The source that names a profile, with its description for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The command line, or the user's or the administrator's settings.
    User(String),
    /// A project's settings or rules, or a file that commands may write.
    Project(String),
    /// A rule of the user's or the administrator's.
    Rule(String),
}

impl PermissionProfiles {
    /// The names of all, sorted.
    pub fn names(&self) -> BTreeSet<&str> {
        built_in::names().chain(self.0.keys().map(String::as_str)).collect()
    }

    /// The profile of this name.
    pub fn get(&self, name: &str) -> Result<Option<PermissionProfile>, ConfigError> {
        match self.0.get(name) {
            Some(profile) => Ok(Some(profile.clone())),
            None => built_in::get(name),
        }
    }

    /// The profiles that commands have without being told so, by name. No built-in one is among them, so that none has to be
    /// parsed for this.
    pub fn used(&self) -> impl Iterator<Item = &PermissionProfile> {
        self.0.values().filter(|profile| !profile.used_for().is_empty())
    }

    /// Resolves the profile of this name, if its source may grant it.
    pub fn resolve(
        &self,
        name: &str,
        named_by: &NamedBy,
        context: &ProfileContext<'_>,
    ) -> Result<ProfileGrant, ConfigError> {
        let (NamedBy::User(place) | NamedBy::Project(place) | NamedBy::Rule(place)) = named_by;
        let Some(profile) = self.get(name)? else {
            let known: Vec<&str> = self.names().into_iter().collect();
            return Err(ConfigError::UnknownPermissionProfile {
                name: name.to_owned(),
                place: place.clone(),
                suggestion: suggest(name, &known),
            });
        };
        let is_refused = match named_by {
            NamedBy::User(_) => false,
            NamedBy::Rule(_) => profile.only_when_named,
            // A service of the user's acts as the user.
            NamedBy::Project(_) => profile.only_when_named || profile.has_sockets(),
        };
        if is_refused {
            return Err(ConfigError::OnlyWhenNamed {
                name: name.to_owned(),
                place: place.clone(),
                or_rule: if profile.only_when_named { "" } else { ", or name it in a rule of your own" },
            });
        }
        self.grant(&profile, context)
    }

    /// Resolves a profile, taking into account that commands may plant links in directories that other profiles make
    /// writable.
    pub fn grant(
        &self,
        profile: &PermissionProfile,
        context: &ProfileContext<'_>,
    ) -> Result<ProfileGrant, ConfigError> {
        let mut by_profiles = context.named_writable(profile);
        for name in self.names() {
            by_profiles.extend(self.get(name)?.iter().flat_map(|known| context.named_writable(known)));
        }
        profile.resolve(context, &by_profiles)
    }

    /// Adds the profiles in a settings directory. They replace those of the same name.
    pub(crate) fn add_directory(
        &mut self,
        settings: &Path,
        origin: fn(PathBuf) -> ProfileOrigin,
    ) -> Result<(), ConfigError> {
        for path in files_in(&settings.join(DIRECTORY))? {
            if let Some(text) = read_text(&path)? {
                let profile = PermissionProfile::parse(&text, origin(path.clone()), &path)?;
                self.0.insert(profile.name.clone(), profile);
            }
        }
        Ok(())
    }

    /// Adds a project's profile. It can't redefine a name that exists without the project.
    ///
    /// Access to a user's service acts as the user, so only the user may name such a profile.
    pub(crate) fn add_of_project(&mut self, mut profile: PermissionProfile) -> Result<(), ConfigError> {
        profile.only_when_named |= profile.has_sockets();
        if let Some(known) = self.get(&profile.name)? {
            return Err(ConfigError::ProfileTaken {
                name: profile.name.clone(),
                file: profile.origin.to_string(),
                known: known.origin.to_string(),
            });
        }
        self.0.insert(profile.name.clone(), profile);
        Ok(())
    }
}

/// The profile files in a directory, by name. Hidden ones are ignored.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(ConfigError::io("list", directory)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(ConfigError::io("list", directory))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(".toml") && !name.starts_with('.') {
            files.push(path);
        }
        if files.len() > MOST_FILES {
            let why = "holds more than 256 profiles: move some elsewhere";
            return Err(ConfigError::Unsafe { path: directory.to_owned(), why });
        }
    }
    files.sort();
    Ok(files)
}
