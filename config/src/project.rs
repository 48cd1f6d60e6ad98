//! A project's own files, read once, so that the compared bytes are the ones used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use stockade_protocol::RawText;

use crate::ConfigError;
use crate::profile::{PermissionProfile, ProfileOrigin};
use crate::store::read_bytes;

/// Their directory.
pub(crate) const DIRECTORY: &str = ".stockade";

/// The file of its settings.
pub(crate) const CONFIG: &str = "config.toml";

const MAX_FILES: usize = 256;
const MAX_DEPTH: usize = 8;
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// A rules file of a trusted project, with the bytes that were compared with the trusted hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRules {
    /// Its path.
    pub path: PathBuf,
    /// The compared bytes.
    pub content: Vec<u8>,
}

/// Every file below `.stockade`, by its path below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProjectFiles(BTreeMap<RawText, Vec<u8>>);

impl ProjectFiles {
    pub(crate) fn read(root: &Path) -> Result<Self, ConfigError> {
        let mut files = Self::default();
        let mut left = MAX_BYTES;
        let mut waiting: Vec<(PathBuf, usize)> = vec![(PathBuf::new(), 0)];
        while let Some((below, depth)) = waiting.pop() {
            // Joining an empty path would append a slash, and a link would be followed.
            let own = root.join(DIRECTORY);
            let path = if depth == 0 { own } else { own.join(&below) };
            let kind = match fs::symlink_metadata(&path) {
                Ok(found) => found.file_type(),
                Err(error) if depth == 0 && error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
                Err(error) => return Err(ConfigError::io("look at", &path)(error)),
            };
            if kind.is_symlink() {
                let why = "is a symbolic link, which could lead to what a command writes: put an ordinary file or \
                           directory in its place, or remove it";
                return Err(ConfigError::Unsafe { path, why });
            }
            if kind.is_dir() && depth < MAX_DEPTH {
                let entries = match fs::read_dir(&path) {
                    // A run's placeholder directory disappears when the run ends.
                    Err(error) if depth == 0 && error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
                    entries => entries.map_err(ConfigError::io("list", &path))?,
                };
                for entry in entries {
                    let name = entry.map_err(ConfigError::io("list", &path))?.file_name();
                    waiting.push((below.join(name), depth + 1));
                }
            } else if kind.is_file() && depth > 0 {
                let content = read_bytes(&path, left)?;
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                files.0.insert(RawText::from(below.as_os_str().as_encoded_bytes().to_vec()), content);
            } else {
                let why = if depth == 0 {
                    "is no directory: remove it"
                } else {
                    "is no ordinary file or lies too deep: remove it"
                };
                return Err(ConfigError::Unsafe { path, why });
            }
            if files.0.len() + waiting.len() > MAX_FILES {
                let why = "holds more files than settings and rules are";
                return Err(ConfigError::Unsafe { path: root.join(DIRECTORY), why });
            }
        }
        Ok(files)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each file and its content.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&RawText, &[u8])> {
        self.0.iter().map(|(name, content)| (name, content.as_slice()))
    }

    /// The content of one file.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(&RawText::from(name)).map(Vec::as_slice)
    }

    /// The files in `rules` whose names end in `.rules`, by name. Hidden ones are ignored.
    pub(crate) fn rules(&self, root: &Path) -> Vec<ProjectRules> {
        let found = self.0.iter().filter(|(name, _)| is_rules(name));
        let place = |name: &RawText| name.to_os_string().map(|name| root.join(DIRECTORY).join(name));
        found
            .filter_map(|(name, content)| Some(ProjectRules { path: place(name)?, content: content.clone() }))
            .collect()
    }

    /// The permission profiles in `profiles`. One that can't be read is an error.
    pub(crate) fn profiles(&self, root: &Path) -> Result<Vec<PermissionProfile>, ConfigError> {
        let found = self.0.iter().filter(|(name, _)| is_profile(name));
        found
            .map(|(name, content)| {
                let path = root.join(DIRECTORY).join(name.to_os_string().unwrap_or_default());
                let text = String::from_utf8(content.clone());
                let text = text.map_err(|error| ConfigError::io("read", &path)(std::io::Error::other(error)))?;
                PermissionProfile::parse(&text, ProfileOrigin::Project(path.clone()), &path)
            })
            .collect()
    }

    /// The hash of each file.
    pub(crate) fn hashes(&self) -> BTreeMap<String, String> {
        let hash = |content: &Vec<u8>| Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.iter().map(|(name, content)| (name.to_string(), hash(content))).collect()
    }
}

/// Whether a file is a permission profile, by its path below `.stockade`.
pub(crate) fn is_profile(name: &RawText) -> bool {
    let name = name.as_bytes().strip_prefix(b"profiles/").unwrap_or_default();
    name.ends_with(b".toml") && !name.starts_with(b".") && !name.contains(&b'/')
}

/// Whether a file's rules count, by its path below `.stockade`.
pub(crate) fn is_rules(name: &RawText) -> bool {
    let name = name.as_bytes().strip_prefix(b"rules/").unwrap_or_default();
    name.ends_with(b".rules") && !name.starts_with(b".") && !name.contains(&b'/')
}
