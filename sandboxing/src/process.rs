//! Process attributes that a command takes from its caller, if that is not the process that starts it.
//!
//! A server runs commands for clients whose file mode mask and limits differ from its own. Limits can only be lowered:
//! a child can't exceed the limits of this process.

use serde::Serialize;
use stockade_protocol::{Rlimits, Umask};

use crate::Unenforceable;

/// Attributes of the command's process that replace those of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessSettings {
    /// The file mode creation mask; this process's by default.
    pub umask: Option<Umask>,
    /// Its limits; this process's by default. The limits of the permissions apply in addition.
    pub rlimits: Rlimits,
    /// The disposition of `SIGPIPE`. The Rust runtime ignores the signal, so this process's disposition is not its
    /// caller's.
    pub broken_pipes: BrokenPipes,
    /// Whether the programs that it starts are judged while it runs.
    pub starts: Starts,
    /// The directory that its working directory has to be once it was entered by its path, which may lead elsewhere by
    /// then. If it is another one the command is not executed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<DirectoryIdentity>,
}

/// A directory, whatever leads to it. It means the same one as long as that is held open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DirectoryIdentity {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// Whether the starts of programs below a command are brought to [`Deciders::starts`](crate::Deciders::starts). A backend
/// that can't see them, such as one without system call notifications, leaves them alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Starts {
    /// They are not notified, and cost nothing.
    #[default]
    Unseen,
    /// Each is judged before it happens.
    Judged,
}

/// The effect of writing to a pipe without a reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BrokenPipes {
    /// `SIGPIPE` ends it, unless it handles the signal.
    #[default]
    EndIt,
    /// The signal is ignored: the call fails.
    AreErrors,
}

impl ProcessSettings {
    /// Whether this process can start a command with them.
    #[cfg(unix)]
    pub fn check(&self) -> Result<(), Unenforceable> {
        self.check_against(|resource| rustix::process::getrlimit(crate::sys::resource(resource)).maximum)
    }

    /// Whether this process can start a command with them.
    #[cfg(not(unix))]
    pub fn check(&self) -> Result<(), Unenforceable> {
        self.check_absent()
    }

    /// For systems without these attributes.
    pub fn check_absent(&self) -> Result<(), Unenforceable> {
        if *self == (Self { starts: self.starts, ..Self::default() }) {
            return Ok(());
        }
        Err(Unenforceable {
            what: String::from("a caller's umask or process limits"),
            why: String::from("this system has none"),
            remedy: String::from("leave them out"),
        })
    }

    #[cfg(unix)]
    fn check_against(
        &self,
        most: impl Fn(stockade_protocol::RlimitResource) -> Option<u64>,
    ) -> Result<(), Unenforceable> {
        let told = |limit: Option<u64>| limit.map_or_else(|| String::from("unlimited"), |limit| limit.to_string());
        // Unlimited exceeds every limit.
        let exceeds = |limit: Option<u64>, bound: Option<u64>| match (limit, bound) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(limit), Some(bound)) => limit > bound,
        };
        for (resource, limit) in &self.rlimits {
            let own = most(*resource);
            if exceeds(limit.hard, own) {
                return Err(Unenforceable {
                    what: format!("the caller's limit `{resource}` of {}", told(limit.hard)),
                    why: format!("the process that starts its commands may have at most {}", told(own)),
                    remedy: String::from(
                        "lower it (`ulimit -H`), or start that process, such as `stockade serve`, with a higher limit",
                    ),
                });
            }
            if exceeds(limit.soft, limit.hard) {
                return Err(Unenforceable {
                    what: format!("the caller's limit `{resource}` of {}", told(limit.soft)),
                    why: format!("its hard limit is {}", told(limit.hard)),
                    remedy: String::from("give a soft limit that is not above the hard one"),
                });
            }
        }
        Ok(())
    }

    /// Applies them to this process, which is about to exec the command. Lower limits in force stay.
    /// Async-signal-safe: it may be called between `fork` and `exec`.
    #[cfg(unix)]
    pub fn apply(&self) -> std::io::Result<()> {
        use rustix::process::Rlimit;
        let lower = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        for (resource, limit) in &self.rlimits {
            let resource = crate::sys::resource(*resource);
            let maximum = lower(limit.hard, rustix::process::getrlimit(resource).maximum);
            rustix::process::setrlimit(resource, Rlimit { current: lower(limit.soft, maximum), maximum })?;
        }
        if self.broken_pipes == BrokenPipes::AreErrors {
            crate::sys::ignore_broken_pipes();
        }
        if let Some(mask) = self.umask {
            // The width of the mode type differs between systems.
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(rustix::fs::RawMode::from(mask.bits())));
        }
        self.directory.map_or(Ok(()), DirectoryIdentity::check)
    }
}

impl DirectoryIdentity {
    /// Whether this process is in it, by a system call that may be made between `fork` and `exec`.
    #[cfg(unix)]
    fn check(self) -> std::io::Result<()> {
        let own = Self::of(rustix::fs::CWD)?;
        if own == self { Ok(()) } else { Err(rustix::io::Errno::STALE.into()) }
    }

    /// That of an open directory.
    #[cfg(unix)]
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types differ between systems")]
    pub fn of(directory: impl std::os::fd::AsFd) -> std::io::Result<Self> {
        let found = rustix::fs::statat(directory, c".", rustix::fs::AtFlags::empty())?;
        Ok(Self { device: found.st_dev as u64, inode: found.st_ino as u64 })
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use stockade_protocol::{Rlimit, RlimitResource};

    use super::*;

    fn checked(soft: Option<u64>, hard: Option<u64>, own: Option<u64>) -> Result<(), String> {
        let rlimits = [(RlimitResource::Nofile, Rlimit { soft, hard })].into();
        let settings = ProcessSettings { rlimits, ..ProcessSettings::default() };
        settings.check_against(|_| own).map_err(|error| error.to_string())
    }

    #[test]
    fn a_limit_can_be_lowered_and_not_raised() {
        assert_eq!(checked(Some(10), Some(20), Some(20)), Ok(()));
        assert_eq!(checked(None, None, None), Ok(()));
        for (soft, hard, own) in [(Some(10), Some(21), Some(20)), (Some(10), None, Some(20)), (None, None, Some(20))] {
            let error = checked(soft, hard, own).unwrap_err();
            assert!(error.contains("`nofile`") && error.contains("at most 20"), "{error}");
        }
        assert!(checked(Some(11), Some(10), None).unwrap_err().contains("its hard limit is 10"));
        assert!(checked(None, Some(10), None).unwrap_err().contains("of unlimited"));
    }
}
