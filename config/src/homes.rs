//! Whose credentials are masked: those below the home directory that the environment names, and those
//! below the one that the system has on record for the user. A service without `HOME`, or an agent that
//! sets another one for its commands, would otherwise leave the real ones open.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, CREDENTIAL_PATHS, CREDENTIAL_VARIABLES};

/// The credentials that variables name, or move, in the place of well-known ones. A device, a home directory or what
/// lies above one is none.
pub(crate) fn named_credentials(variable: &impl Fn(&str) -> Option<OsString>, home: Option<&Path>) -> Vec<AbsPath> {
    let mut named = Vec::new();
    for (name, below) in CREDENTIAL_VARIABLES {
        let Some(value) = variable(name) else { continue };
        for path in std::env::split_paths(&value).filter(|path| path.is_absolute()) {
            let path = if below.is_empty() { path } else { path.join(below) };
            let is_device = ["/dev", "/proc", "/sys"].iter().any(|place| path.starts_with(place));
            let is_above = path.parent().is_none() || home.is_some_and(|home| home.starts_with(&path));
            if !is_device && !is_above {
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

/// The home directory that the system has on record for the user of this process.
///
/// The list of users is read here: the C library might load modules for it, which a guard does not want.
/// Users that are kept elsewhere have `HOME`.
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
