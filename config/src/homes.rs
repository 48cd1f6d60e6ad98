//! The home directories whose credentials are masked: the one that the environment names, and the one in the user
//! database. A service without `HOME`, or an agent that sets another one for its commands, would otherwise leave the
//! real ones exposed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, CREDENTIAL_PATHS, CREDENTIAL_VARIABLES, RawText};

use crate::ConfigError;
use crate::own_files::place;

/// The variables that name the directories of settings, state and credentials.
const DIRECTORIES: &[&str] = &["HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"];

/// A variable of this process. `HOME` defaults to the home directory in the user database.
pub fn user_variable(name: &str) -> Option<OsString> {
    variable_of_user(name, std::env::var_os(name))
}

/// A variable with this value in the user's environment. An empty one counts as not set; `HOME` defaults to the home
/// directory in the user database.
pub fn variable_of_user(name: &str, value: Option<OsString>) -> Option<OsString> {
    let set = value.filter(|value| !value.is_empty());
    if name == "HOME" { set.or_else(|| recorded_home().map(PathBuf::into_os_string)) } else { set }
}

/// Refuses a directory that depends on the working directory, or on links that a command could change: `link/..` is
/// the parent of the link's target. An empty variable counts as not set.
pub(crate) fn check_variables(variable: &impl Fn(&str) -> Option<OsString>) -> Result<(), ConfigError> {
    for name in DIRECTORIES.iter().copied() {
        let Some(value) = variable(name).filter(|value| !value.is_empty()).map(PathBuf::from) else { continue };
        let why = if !value.is_absolute() {
            "is relative"
        } else if value.components().any(|part| part == Component::ParentDir) {
            "has `..` in it"
        } else {
            continue;
        };
        return Err(ConfigError::Variable {
            name,
            value: RawText::from(value.into_os_string().into_encoded_bytes()),
            why,
        });
    }
    Ok(())
}

/// The credentials that variables name or relocate. Devices, home directories and their ancestors do not count.
pub(crate) fn named_credentials(
    variable: &impl Fn(&str) -> Option<OsString>,
    directory: &Path,
    home: Option<&Path>,
) -> Vec<AbsPath> {
    let mut named = Vec::new();
    for (name, below) in CREDENTIAL_VARIABLES {
        let Some(value) = variable(name) else { continue };
        for path in std::env::split_paths(&value).flat_map(|path| spellings(&path, directory, home)) {
            let path = if below.is_empty() { path } else { path.join(below) };
            let is_above = path.parent().is_none() || home.is_some_and(|home| home.starts_with(&path));
            if !is_device(&path) && !is_above {
                named.extend(AbsPath::from_path(&path));
            }
        }
    }
    for (name, usual) in
        [("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share"), ("XDG_CACHE_HOME", ".cache")]
    {
        let Some(directory) = variable(name).map(PathBuf::from).filter(|path| path.is_absolute()) else { continue };
        let moved = CREDENTIAL_PATHS.iter().filter_map(|path| path.strip_prefix(usual)?.strip_prefix('/'));
        named.extend(moved.filter_map(|path| AbsPath::from_path(&directory.join(path)).ok()));
    }
    named
}

/// Whether a path is in a kernel file system, which stores no files.
pub(crate) fn is_device(path: &Path) -> bool {
    ["/dev", "/proc", "/sys"].iter().any(|place| path.starts_with(place))
}

/// The possible meanings of a path in the environment: resolved by the kernel from the working directory, with `..`
/// removed textually as some programs do, and below the home directory if it begins with `~`.
fn spellings(path: &Path, directory: &Path, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    // `absolute` fails for an empty path, which names nothing.
    let Ok(whole) = std::path::absolute(path).map(|_| directory.join(path)) else { return found };
    let below_home = path.strip_prefix("~").ok().and_then(|rest| Some(home?.join(rest)));
    for path in std::iter::once(whole).chain(below_home) {
        found.extend(place(&path).ok().and_then(|path| path.to_host_path()));
        found.insert(shortened(&path));
    }
    found
}

/// A path with `..` removed textually.
fn shortened(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// The home directory of this process's user in the user database.
///
/// `/etc/passwd` is parsed here: the C library might load NSS modules into the supervisor. Users of other databases
/// have `HOME`.
#[cfg(unix)]
pub(crate) fn recorded_home() -> Option<PathBuf> {
    home_of(&std::fs::read("/etc/passwd").ok()?, rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
pub(crate) fn recorded_home() -> Option<PathBuf> {
    std::env::home_dir()
}

/// The home directory of a user in a list of `name:password:user:group:comment:home:shell`.
#[cfg(unix)]
fn home_of(users: &[u8], user: u32) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;

    let home = users.split(|byte| *byte == b'\n').find_map(|line| {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
        let [_, _, number, _, _, home, ..] = fields.as_slice() else { return None };
        let same = std::str::from_utf8(number).ok()?.parse() == Ok(user);
        same.then(|| PathBuf::from(std::ffi::OsStr::from_bytes(home)))
    });
    home.filter(|home| home.is_absolute())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn the_home_on_record_is_that_of_the_user() {
        let users = b"root:x:0:0:root:/root:/bin/sh\nbad\nme:x:1000:1000::/home/me:/bin/sh\nno:x:7:7::relative:\n";
        for (user, home) in [(0, Some("/root")), (1000, Some("/home/me")), (7, None), (8, None)] {
            assert_eq!(home_of(users, user), home.map(PathBuf::from), "{user}");
        }
    }
}
