//! The files that a project brings along, read once, so that what is compared is what is used.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use stockade_protocol::RawText;

use crate::ConfigError;
use crate::store::read_bytes;

/// Where a project keeps them.
pub(crate) const DIRECTORY: &str = ".stockade";

const MAX_FILES: usize = 256;
const MAX_DEPTH: usize = 8;
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// Every file below `.stockade`, by its path below it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProjectFiles(BTreeMap<RawText, Vec<u8>>);

impl ProjectFiles {
    pub(crate) fn read(root: &Path) -> Result<Self, ConfigError> {
        let mut files = Self::default();
        let mut left = MAX_BYTES;
        let mut waiting: Vec<(PathBuf, usize)> = vec![(PathBuf::new(), 0)];
        while let Some((below, depth)) = waiting.pop() {
            let path = root.join(DIRECTORY).join(&below);
            let kind = match fs::symlink_metadata(&path) {
                Ok(found) => found.file_type(),
                Err(error) if depth == 0 && error.kind() == std::io::ErrorKind::NotFound => return Ok(files),
                Err(error) => return Err(ConfigError::io("look at", &path)(error)),
            };
            if kind.is_dir() && depth < MAX_DEPTH {
                for entry in fs::read_dir(&path).map_err(ConfigError::io("list", &path))? {
                    let name = entry.map_err(ConfigError::io("list", &path))?.file_name();
                    waiting.push((below.join(name), depth + 1));
                }
            } else if kind.is_file() {
                let content = read_bytes(&path, left)?;
                left = left.saturating_sub(u64::try_from(content.len()).unwrap_or(u64::MAX));
                files.0.insert(RawText::from(below.as_os_str().as_encoded_bytes().to_vec()), content);
            } else {
                let why = "is neither an ordinary file nor a directory near the top: such a project can't be trusted";
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

    /// The content of one file.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(&RawText::from(name)).map(Vec::as_slice)
    }

    /// The hash of each file.
    pub(crate) fn hashes(&self) -> BTreeMap<String, String> {
        let hash = |content: &Vec<u8>| Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.iter().map(|(name, content)| (name.to_string(), hash(content))).collect()
    }
}
