//! Finds bubblewrap, and not an impostor.
//!
//! `PATH` is not searched: a command that may write one of its directories could plant a program there, which would
//! run outside of every sandbox. A few fixed locations are, and only root may be able to write the program.

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use stockade_protocol::{AbsPath, Access, Permissions};
use stockade_sandboxing::Unenforceable;

/// The locations used by packages.
const PLACES: &[&str] = &["/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap"];

const INSTALL: &str = "install it: `apt-get install bubblewrap`";

/// The program, by its canonical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    path: PathBuf,
}

impl Program {
    /// The first one found, if it can be trusted.
    pub(crate) fn find() -> Result<Self, Unenforceable> {
        Self::find_in(PLACES.iter().map(Path::new))
    }

    pub(crate) fn find_in<'a>(places: impl IntoIterator<Item = &'a Path>) -> Result<Self, Unenforceable> {
        let found = places.into_iter().find_map(|place| place.canonicalize().ok());
        let path = found.ok_or_else(|| refuse("it is not installed", INSTALL))?;
        let program = Self { path };
        program.check()?;
        Ok(program)
    }

    #[cfg(test)]
    pub(crate) fn fixed() -> Self {
        Self { path: PathBuf::from("/usr/bin/bwrap") }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a set-user-id program, and one that others could have written.
    fn check(&self) -> Result<(), Unenforceable> {
        let told = |error: io::Error| refuse(&format!("`{}`: {error}", self.path.display()), INSTALL);
        let own = self.path.metadata().map_err(told)?;
        if own.mode() & 0o6000 != 0 {
            let path = self.path.display();
            return Err(refuse(
                &format!("`{path}` is setuid, so it would run with more privileges than its caller"),
                &format!("take the bit away: `chmod ug-s {path}`"),
            ));
        }
        let mut space = [0; 64];
        if rustix::fs::getxattr(&self.path, "security.capability", &mut space).is_ok() {
            let path = self.path.display();
            return Err(refuse(
                &format!("`{path}` has capabilities of its own, so it would run with more privileges than its caller"),
                &format!("take them away: `setcap -r {path}`"),
            ));
        }
        for part in self.path.ancestors() {
            if is_writable_by_others(&part.metadata().map_err(told)?) {
                let why = format!("`{}` can be written by others than root", part.display());
                return Err(refuse(&why, "install it where only root writes"));
            }
        }
        Ok(())
    }

    /// Refuses a program that commands under these permissions could replace.
    pub(crate) fn stays_out_of(&self, permissions: &Permissions) -> Result<(), Unenforceable> {
        let refused = |why: &str| refuse(why, "install it outside the workspace");
        let path = AbsPath::from_path(&self.path).map_err(|error| refused(&error.to_string()))?;
        match permissions.access(&path) {
            // For root with a policy that grants everything, replacing it gains nothing.
            Access::Write if permissions.access(&root()?) != Access::Write => {
                Err(refused(&format!("`{path}` lies in a directory that the command may write")))
            }
            Access::None | Access::Scratch | Access::Read | Access::Write => Ok(()),
        }
    }

    /// Opens the checked file, so that no other is started in its place.
    pub(crate) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(CWD, &self.path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
    }
}

fn root() -> Result<AbsPath, Unenforceable> {
    "/".parse().map_err(|error: stockade_protocol::Invalid| refuse(&error.to_string(), "please report this"))
}

/// Whether a user other than root can change it. If root is not mapped in a container's user namespace, its files
/// belong to the overflow uid.
fn is_writable_by_others(found: &Metadata) -> bool {
    const NOBODY: u32 = 65534;
    const STICKY: u32 = 0o1000;
    let shared = found.mode() & 0o022 != 0 && !(found.is_dir() && found.mode() & STICKY != 0);
    shared
        || ![0, NOBODY].contains(&found.uid())
        || found.uid() == rustix::process::getuid().as_raw() && found.uid() != 0
}

fn refuse(why: &str, remedy: &str) -> Unenforceable {
    Unenforceable { what: String::from("a sandbox by bubblewrap"), why: why.to_owned(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use stockade_protocol::{FileRule, FileRules};

    use super::*;

    fn refusal(mode: u32) -> String {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("bwrap");
        fs::write(&place, "").unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
        Program::find_in([Path::new("/no/bwrap"), &place]).unwrap_err().to_string()
    }

    /// ns14: a set-user-id bubblewrap is refused.
    #[test]
    fn a_program_that_cannot_be_trusted_is_refused_with_a_remedy() {
        assert!(refusal(0o4755).contains("setuid") && refusal(0o4755).contains("chmod ug-s"));
        assert!(refusal(0o2755).contains("setuid"));
        // The directory is the user's own unless the user is root; then the file itself is world-writable.
        assert!(refusal(0o777).contains("can be written by others than root"));
        let missing = Program::find_in([Path::new("/no/bwrap")]).unwrap_err().to_string();
        assert!(missing.contains("not installed") && missing.contains("apt-get install bubblewrap"));
    }

    /// ns13: no planted bubblewrap is found.
    #[test]
    fn the_search_path_is_never_looked_at() {
        for place in PLACES {
            assert!(place.starts_with('/') && place.ends_with("/bwrap"), "{place}");
        }
    }

    #[test]
    fn a_program_that_the_command_may_write_is_refused() {
        let program = Program { path: PathBuf::from("/ws/bin/bwrap") };
        let permissions = |path: &str| Permissions {
            files: FileRules::new([FileRule::path(path.parse().unwrap(), Access::Write)]).unwrap(),
            ..Permissions::default()
        };
        let refused = program.stays_out_of(&permissions("/ws")).unwrap_err().to_string();
        assert!(refused.contains("lies in a directory that the command may write"), "{refused}");
        program.stays_out_of(&permissions("/other")).unwrap();
    }
}
