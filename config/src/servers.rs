//! The recorded socket directories of servers, in the state directory.
//!
//! A run hides these directories from its commands even if its environment does not name them, as after `su` or in a
//! cron job. An entry exists as long as its directory, which the next server may use again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use stockade_protocol::AbsPath;

use crate::own_files::{is_own, place};
use crate::store::{Lock, read_private, replace_private};
use crate::{ConfigError, ConfigLoader};

const DIRECTORY: &str = "servers";
const STATE: &str = ".local/state/stockade";
const LONGEST_ENTRY: u64 = 64 * 1024;

impl ConfigLoader {
    /// Records the directory of a server's socket before the socket is created: in the state directory, and in the
    /// default one below the home directory, for runs without `XDG_STATE_HOME`.
    pub fn record_server(&self, directory: &Path) -> Result<(), ConfigError> {
        let place = place(directory)?;
        let usual = self.home.as_ref().filter(|home| is_writable(home)).map(|home| home.join(STATE));
        let states: BTreeSet<PathBuf> = self.state.iter().cloned().chain(usual).collect();
        if states.is_empty() {
            return Err(ConfigError::NoPlace);
        }
        for state in states {
            record(&state.join(DIRECTORY), &place)?;
        }
        Ok(())
    }

    /// All recorded directories of this user, as written.
    pub(crate) fn recorded_servers(&self) -> Result<BTreeSet<PathBuf>, ConfigError> {
        let usual = self.homes().into_iter().map(|home| home.join(STATE));
        let states: BTreeSet<PathBuf> = self.state.iter().cloned().chain(usual).collect();
        let mut found = BTreeSet::new();
        for state in states {
            found.extend(entries(&state.join(DIRECTORY))?.into_iter().map(|(_, directory)| directory));
        }
        Ok(found)
    }
}

fn record(records: &Path, server: &AbsPath) -> Result<(), ConfigError> {
    let _turn = Lock::take(records, ".lock")?;
    for (name, directory) in entries(records)? {
        if fs::symlink_metadata(&directory).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            // A stale entry is harmless.
            fs::remove_file(records.join(name)).ok();
        }
    }
    let text =
        serde_json::to_string(server).map_err(|error| ConfigError::io("write", records)(io::Error::other(error)))?;
    let name: String = Sha256::digest(&text).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    replace_private(records, &name, &text)
}

/// The names of the entries and their directories. An invalid entry is an error: its directory would be exposed to
/// commands.
fn entries(records: &Path) -> Result<Vec<(String, PathBuf)>, ConfigError> {
    let listed = match fs::read_dir(records) {
        Ok(listed) => listed,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        // A home directory that this user can't read has no record of this user's servers.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_own(records) => return Ok(Vec::new()),
        Err(error) => return Err(ConfigError::io("list", records)(error)),
    };
    let mut found = Vec::new();
    for entry in listed {
        let entry = entry.map_err(ConfigError::io("list", records))?;
        let broken = || ConfigError::Unsafe { path: entry.path(), why: "names no directory of a server: remove it" };
        let name = entry.file_name().into_string().map_err(|_| broken())?;
        // The lock, and incomplete files.
        if name.starts_with('.') {
            continue;
        }
        // It may be removed concurrently, with its directory.
        let Some(text) = read_private(records, &name, LONGEST_ENTRY)? else { continue };
        let directory: AbsPath = serde_json::from_str(&text).map_err(|_| broken())?;
        found.push((name, directory.to_host_path().ok_or_else(broken)?));
    }
    Ok(found)
}

#[cfg(unix)]
fn is_writable(home: &Path) -> bool {
    rustix::fs::access(home, rustix::fs::Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(home: &Path) -> bool {
    home.is_dir()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_on_record_for_other_environments_while_its_directory_is_there() {
        let base = tempfile::tempdir().unwrap();
        let at = |name: &str| base.path().join(name);
        for name in ["home", "one", "two"] {
            fs::create_dir(at(name)).unwrap();
        }
        let loader = |state: Option<PathBuf>| {
            let variable = |name: &str| match name {
                "HOME" => Some(at("home").into()),
                "XDG_STATE_HOME" => state.clone().map(Into::into),
                _ => None,
            };
            ConfigLoader::from_variables(variable).unwrap()
        };
        let (moved, usual) = (loader(Some(at("state"))), loader(None));
        assert!(usual.recorded_servers().unwrap().is_empty());
        moved.record_server(&at("one")).unwrap();
        moved.record_server(&at("one")).unwrap();
        usual.record_server(&at("two")).unwrap();
        assert_eq!(moved.recorded_servers().unwrap(), [at("one"), at("two")].into());
        assert_eq!(usual.recorded_servers().unwrap(), [at("one"), at("two")].into());
        fs::remove_dir(at("one")).unwrap();
        usual.record_server(&at("two")).unwrap();
        assert_eq!(usual.recorded_servers().unwrap(), [at("two")].into());
        fs::write(at("home").join(STATE).join("servers/x"), "no path").unwrap();
        assert!(moved.recorded_servers().unwrap_err().to_string().contains("servers/x"));
    }
}
