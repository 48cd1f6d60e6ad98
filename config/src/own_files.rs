//! Stockade's own files: settings, rules, trust, state, audit trail, and a server's socket. No sandboxed command may
//! write them or connect to the socket, since they control the next command.
//!
//! The locations are those of this environment and the default ones below each home directory, since the next run may
//! have another environment. Settings and rules may be links to files elsewhere, as dotfile managers create them: the
//! targets are protected as well. Links are resolved when a sandbox is built.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, OWN_PATHS};

use crate::settings::Settings;
use crate::{ConfigError, ConfigLoader};

/// Limit on scanned entries; more is an error, since an unscanned entry could be a link.
const MOST_ENTRIES: usize = 4096;
const DEEPEST: usize = 8;

/// Where, in the state directory, empty directories wait that stand in for missing names of a workspace. Nothing there is
/// followed, and nothing in it decides over a command.
pub const HELD_NAMES: &str = "held";
/// The state directory below a home directory: one of [`OWN_PATHS`].
const USUAL_STATE: &str = ".local/state/stockade";

/// The directory of a server's socket: `$XDG_RUNTIME_DIR/stockade`, else `run` in the state directory.
pub fn socket_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = || absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    match absolute("XDG_RUNTIME_DIR") {
        Some(runtime) => Some(runtime.join("stockade")),
        None => Some(state()?.join("stockade/run")),
    }
}

/// The socket directory of a server that was started with another environment.
#[cfg(target_os = "linux")]
pub(crate) fn usual_socket_directory() -> Option<PathBuf> {
    let runtime = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    runtime.is_dir().then(|| runtime.join("stockade"))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn usual_socket_directory() -> Option<PathBuf> {
    None
}

impl ConfigLoader {
    /// Stockade's own files, unresolved; a file or directory need not exist.
    pub(crate) fn own_files(&self, settings: &Settings) -> Result<Vec<AbsPath>, ConfigError> {
        let mut own: BTreeSet<PathBuf> =
            [&self.system, &self.user, &self.state].into_iter().flatten().cloned().collect();
        own.extend(self.socket.clone());
        own.extend(usual_socket_directory());
        for home in self.homes() {
            own.extend(OWN_PATHS.iter().map(|path| home.join(path)));
        }
        let mut found = BTreeSet::new();
        let states = self.homes().into_iter().map(|home| home.join(USUAL_STATE)).chain(self.state.clone());
        let held: Vec<PathBuf> = states.map(|state| state.join(HELD_NAMES)).collect();
        for directory in &own {
            found.extend(links_in(directory, &held)?);
        }
        found.extend(own);
        found.extend(settings.audit_directory.clone());
        found.extend(
            settings
                .hook
                .iter()
                .map(|hook| &hook.command)
                .chain(&settings.risk_hook)
                .flat_map(|hook| hook.words())
                .filter_map(|word| {
                    let path = word.to_os_string().map(PathBuf::from)?;
                    (path.is_absolute() && path.is_file()).then_some(path)
                }),
        );
        found.iter().map(|path| place(path)).collect()
    }
}

/// A path from the environment, with `..` resolved as the kernel does.
pub(crate) fn place(path: &Path) -> Result<AbsPath, ConfigError> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain = fs::canonicalize(&plain).unwrap_or(plain);
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    Ok(AbsPath::from_path(&plain)?)
}

/// The links in one of Stockade's directories, other than those in the directories of held names: each workspace leaves some
/// directories there. An incomplete scan is an error: a command could write the target of a missed link.
fn links_in(directory: &Path, held: &[PathBuf]) -> Result<Vec<PathBuf>, ConfigError> {
    let mut links = Vec::new();
    let mut seen = 0;
    let mut waiting = vec![(directory.to_owned(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => continue,
            // The administrator's directory may be unreadable for this user, who can't change it either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_own(&directory) => continue,
            Err(error) => return Err(ConfigError::io("list", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(ConfigError::io("list", &directory))?;
            let kind = entry.file_type().map_err(ConfigError::io("look at", &entry.path()))?;
            seen += 1;
            if kind.is_symlink() {
                links.push(entry.path());
            } else if kind.is_dir() {
                let path = entry.path();
                waiting.extend((!held.contains(&path)).then_some((path, depth + 1)));
            }
        }
        if seen > MOST_ENTRIES || depth > DEEPEST {
            let why = "holds more than settings, rules and state are: move the rest elsewhere";
            return Err(ConfigError::Unsafe { path: directory, why });
        }
    }
    Ok(links)
}

#[cfg(unix)]
pub(crate) fn is_own(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(directory).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
pub(crate) fn is_own(_: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_places_of_every_environment_and_what_links_in_them_name() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path();
        for directory in ["home/.config/stockade/rules", "config/stockade", "dots"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        fs::write(base.join("hook"), "").unwrap();
        fs::write(base.join("risk"), "").unwrap();
        std::os::unix::fs::symlink("../../dots/config.toml", base.join("config/stockade/config.toml")).unwrap();
        std::os::unix::fs::symlink("/x", base.join("home/.config/stockade/rules/a.rules")).unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(base.join("home").into()),
            "XDG_CONFIG_HOME" => Some(base.join("config").into()),
            _ => None,
        };
        let mut settings = Settings::new(Vec::new());
        settings.audit_directory = Some(base.join("trail"));
        let command = [base.join("hook").into_os_string(), "--flag".into(), base.join("missing").into_os_string()];
        settings.hook =
            Some(crate::Hook { command: stockade_protocol::Argv::from_os(command).unwrap(), timeout: None });
        settings.risk_hook = Some(stockade_protocol::Argv::from_os([base.join("risk").into_os_string()]).unwrap());
        let found = ConfigLoader::from_variables(variable).unwrap().own_files(&settings).unwrap();
        let found: Vec<String> =
            found.iter().map(|path| path.to_string().replace(base.to_str().unwrap(), "")).collect();
        assert_eq!(
            found,
            [
                "/config/stockade",
                "/config/stockade/config.toml",
                "/home/.config/stockade",
                "/home/.config/stockade/rules/a.rules",
                "/home/.local/state/stockade",
                "/hook",
                "/risk",
                "/trail",
            ]
        );
    }

    /// Every workspace leaves some directories there, which every run would open.
    #[test]
    fn the_places_of_held_names_are_not_searched() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join("home");
        let (held, other) = (home.join(".local/state/stockade/held"), home.join(".config/stockade/held"));
        for directory in [&held, &other] {
            fs::create_dir_all(directory.join("1-2-.git")).unwrap();
            std::os::unix::fs::symlink("/x", directory.join("1-2-.git/link")).unwrap();
        }
        let variable = |name: &str| (name == "HOME").then(|| home.clone().into());
        let found = ConfigLoader::from_variables(variable).unwrap().own_files(&Settings::new(Vec::new())).unwrap();
        let has = |path: &Path| found.contains(&AbsPath::from_path(&path.join("1-2-.git/link")).unwrap());
        assert!(has(&other), "only what holds names is passed over: {found:?}");
        assert!(!has(&held), "{found:?}");
    }

    #[test]
    fn a_directory_that_cannot_be_searched_to_its_end_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        for number in 0..=MOST_ENTRIES {
            fs::write(base.path().join(number.to_string()), "").unwrap();
        }
        assert!(links_in(base.path(), &[]).unwrap_err().to_string().contains("holds more than"));
    }
}
