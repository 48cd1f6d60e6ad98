//! The projects that the user trusts.
//!
//! A project may have settings and rules in `.stockade`. They count only while every file below it is as it was at
//! `stockade trust`: the list of trusted projects has the canonical path and the hash of each file. A command in the
//! sandbox can't write `.stockade`, and every other change has to be reviewed again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stockade_protocol::{AbsPath, RawText};

use crate::ConfigError;
use crate::project::ProjectFiles;
use crate::review::ProjectReview;
use crate::store::{Lock, read_private, replace_private};

pub(crate) const STORE: &str = "trust.toml";
const LOCK: &str = "trust.lock";
/// Limit on the size of the list, which is read at every start.
const MAX_STORE_BYTES: u64 = 16 * 1024 * 1024;

/// Whether a project's own settings and rules count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectTrust {
    /// The project has none.
    Nothing,
    /// They count: they are unchanged since the user trusted them.
    Trusted,
    /// The user has not trusted them.
    Untrusted,
    /// They have changed since the user trusted them.
    Changed {
        /// The changed files.
        changes: Vec<FileDifference>,
    },
}

/// A change of a file below `.stockade`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileDifference {
    /// It is new.
    Added(String),
    /// It has another content.
    Changed(String),
    /// It is gone.
    Removed(String),
}

impl std::fmt::Display for FileDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Added(file) => write!(f, "`.stockade/{file}` is new"),
            Self::Changed(file) => write!(f, "`.stockade/{file}` has changed"),
            Self::Removed(file) => write!(f, "`.stockade/{file}` is gone"),
        }
    }
}

impl ProjectTrust {
    /// One line that explains why a project's settings don't count.
    pub fn advice(&self, root: &Path) -> Option<String> {
        let shown = RawText::from(root.as_os_str().as_encoded_bytes().to_vec());
        match self {
            Self::Nothing | Self::Trusted => None,
            Self::Untrusted => Some(format!(
                "the settings and rules in `{shown}/.stockade` are not used: look with `stockade trust --show {shown}`, then run `stockade trust {shown}`"
            )),
            Self::Changed { changes } => {
                let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
                Some(format!(
                    "the settings and rules in `{shown}/.stockade` are no longer used: {} since you trusted them; look with \
                     `git -C {shown} diff -- .stockade`, then run `stockade trust {shown}` again",
                    changes.join(", ")
                ))
            }
        }
    }
}

/// A trusted project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedProject {
    /// Its canonical path.
    pub path: AbsPath,
    /// The hash of each file below `.stockade`.
    pub files: BTreeMap<String, String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct StoreForm {
    projects: Vec<TrustedProject>,
}

/// The list of trusted projects.
#[derive(Clone, Debug)]
pub struct TrustStore {
    directory: PathBuf,
}

impl TrustStore {
    /// The list in a state directory, which is created on the first write.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// Every project on the list.
    pub fn projects(&self) -> Result<Vec<TrustedProject>, ConfigError> {
        Ok(self.load()?.projects)
    }

    /// Whether a project's own files count.
    pub fn check(&self, root: &Path) -> Result<ProjectTrust, ConfigError> {
        self.check_files(root).map(|(trust, _)| trust)
    }

    /// Like `check`, but also returns the compared files.
    pub(crate) fn check_files(&self, root: &Path) -> Result<(ProjectTrust, ProjectFiles), ConfigError> {
        let root = canonical(root)?;
        let files = ProjectFiles::read(&host_path(&root)?)?;
        if files.is_empty() {
            return Ok((ProjectTrust::Nothing, files));
        }
        let known = self.load()?.projects.into_iter().find(|project| project.path == root);
        let trust = match known {
            None => ProjectTrust::Untrusted,
            Some(project) => match differences(&project.files, &files.hashes()) {
                changes if changes.is_empty() => ProjectTrust::Trusted,
                changes => ProjectTrust::Changed { changes },
            },
        };
        Ok((trust, files))
    }

    /// A project's own files, for review before it is trusted.
    pub fn review(&self, root: &Path) -> Result<ProjectReview, ConfigError> {
        let path = canonical(root)?;
        let files = ProjectFiles::read(&host_path(&path)?)?;
        Ok(ProjectReview { path, files })
    }

    /// Trusts a project as reviewed.
    pub fn trust(&self, review: &ProjectReview) -> Result<TrustedProject, ConfigError> {
        let project = TrustedProject { path: review.path.clone(), files: review.files.hashes() };
        self.change(|projects| {
            projects.retain(|known| known.path != project.path);
            projects.push(project.clone());
        })?;
        Ok(project)
    }

    /// Removes a project from the list, even if it no longer exists. Returns whether it was on it.
    pub fn revoke(&self, root: &Path) -> Result<bool, ConfigError> {
        let given = std::path::absolute(root).map_err(ConfigError::io("find", root))?;
        let root = canonical(root).or_else(|_| AbsPath::from_path(&given).map_err(ConfigError::from))?;
        let mut found = false;
        self.change(|projects| {
            let before = projects.len();
            projects.retain(|known| known.path != root);
            found = projects.len() < before;
        })?;
        Ok(found)
    }

    fn load(&self) -> Result<StoreForm, ConfigError> {
        let path = self.directory.join(STORE);
        let Some(text) = read_private(&self.directory, STORE, MAX_STORE_BYTES)? else {
            return Ok(StoreForm::default());
        };
        toml::from_str(&text).map_err(|error| ConfigError::Invalid {
            file: path,
            line: text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default().matches('\n').count() + 1,
            column: 1,
            problem: format!("this is not a list of trusted projects ({}): move it away", error.message()),
        })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<TrustedProject>)) -> Result<(), ConfigError> {
        let _turn = Lock::take(&self.directory, LOCK)?;
        let mut store = self.load()?;
        change(&mut store.projects);
        store.projects.sort_by(|a, b| a.path.cmp(&b.path));
        let text = toml::to_string(&store)
            .map_err(|error| ConfigError::io("write", &self.directory.join(STORE))(std::io::Error::other(error)))?;
        replace_private(&self.directory, STORE, &text)
    }
}

fn canonical(root: &Path) -> Result<AbsPath, ConfigError> {
    let path = fs::canonicalize(root).map_err(ConfigError::io("find", root))?;
    if !path.is_dir() {
        return Err(ConfigError::Unsafe { path, why: "is not a directory: name the project's directory" });
    }
    Ok(AbsPath::from_path(&path)?)
}

fn host_path(root: &AbsPath) -> Result<PathBuf, ConfigError> {
    root.to_host_path().ok_or_else(|| ConfigError::Unsafe { path: PathBuf::new(), why: "is a path of another system" })
}

fn differences(before: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<FileDifference> {
    let gone = before.keys().filter(|file| !now.contains_key(*file)).cloned().map(FileDifference::Removed);
    let here = now.iter().filter_map(|(file, hash)| match before.get(file) {
        None => Some(FileDifference::Added(file.clone())),
        Some(known) if known != hash => Some(FileDifference::Changed(file.clone())),
        Some(_) => None,
    });
    here.chain(gone).collect()
}
