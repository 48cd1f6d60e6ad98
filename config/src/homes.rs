//! Whose credentials are masked: those below the home directory that the environment names, and those
//! below the one that the system has on record for the user. A service without `HOME`, or an agent that
//! sets another one for its commands, would otherwise leave the real ones open.

use std::path::PathBuf;

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
