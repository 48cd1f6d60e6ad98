//! A project's own files, read once, so that the user trusts exactly the files shown.

use stockade_protocol::{AbsPath, RawText};

use crate::ConfigError;
use crate::load::check_project;
use crate::profile::PermissionProfile;
use crate::project::{CONFIG, DIRECTORY, ProjectFiles, is_profile, is_rules};

/// A project's own files as they are now.
#[derive(Clone, Debug)]
pub struct ProjectReview {
    pub(crate) path: AbsPath,
    pub(crate) files: ProjectFiles,
}

/// The use of a project's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectFileKind<'a> {
    /// As settings: see [`ProjectReview::settings`].
    Settings,
    /// As a permission profile: see [`ProjectReview::profiles`].
    Profile,
    /// As rules, with this content.
    Rules(&'a [u8]),
    /// Not at all.
    Unread,
}

/// One setting of a file: its dotted key and its value in TOML. Both may contain any character: escape them for
/// display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewedSetting {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

impl ProjectReview {
    /// The project's canonical path.
    pub fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Every file, by its path below `.stockade`, with its use.
    pub fn files(&self) -> impl Iterator<Item = (&RawText, ProjectFileKind<'_>)> {
        self.files.iter().map(|(name, content)| {
            let kind = match name.as_str() {
                Some(CONFIG) => ProjectFileKind::Settings,
                Some(_) | None if is_rules(name) => ProjectFileKind::Rules(content),
                Some(_) | None if is_profile(name) => ProjectFileKind::Profile,
                Some(_) | None => ProjectFileKind::Unread,
            };
            (name, kind)
        })
    }

    /// The project's permission profiles. One that could not be read is an error.
    pub fn profiles(&self) -> Result<Vec<PermissionProfile>, ConfigError> {
        self.files.profiles(&self.path.to_host_path().unwrap_or_default())
    }

    /// Every setting of the project's `config.toml`. One that could not be used is an error.
    pub fn settings(&self) -> Result<Vec<ReviewedSetting>, ConfigError> {
        let Some(bytes) = self.files.get(CONFIG) else { return Ok(Vec::new()) };
        let root = self.path.to_host_path().unwrap_or_default();
        let path = root.join(DIRECTORY).join(CONFIG);
        let table = check_project(&path, bytes, &root)?;
        let mut settings = Vec::new();
        list(None, toml::Value::Table(table), &mut settings);
        Ok(settings)
    }
}

/// Nesting is bounded by the parser of the file.
fn list(key: Option<String>, value: toml::Value, settings: &mut Vec<ReviewedSetting>) {
    match (key, value) {
        (key, toml::Value::Table(table)) => {
            for (name, value) in table {
                let key = key.as_ref().map_or_else(|| name.clone(), |above| format!("{above}.{name}"));
                list(Some(key), value, settings);
            }
        }
        (Some(key), value) => settings.push(ReviewedSetting { key, value: value.to_string() }),
        (None, _) => {}
    }
}
