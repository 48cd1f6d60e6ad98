//! What a command's process has from its caller, where that is not the process that starts it.
//!
//! A server runs commands for clients whose file mode mask and limits differ from its own. Limits can only be lowered:
//! what this process may not have, no process that it starts has.

use serde::Serialize;
use stockade_protocol::{Rlimits, Umask};

use crate::Unenforceable;

/// What the command's process starts with, in place of what this process has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProcessSettings {
    /// The permissions that new files are denied; by default as this process has it.
    pub umask: Option<Umask>,
    /// Its limits; by default as this process has them. The limits of the permissions hold besides.
    pub rlimits: Rlimits,
    /// What writing to a pipe without a reader does to it. The runtime of a Rust program ignores the signal for itself, so
    /// what this process has says nothing of its caller.
    pub broken_pipes: BrokenPipes,
}

/// What writing to a pipe that has no reader does to a command.
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

    /// For a system that has nothing of the kind.
    pub fn check_absent(&self) -> Result<(), Unenforceable> {
        if *self == Self::default() {
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
        // No limit at all is more than any.
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

    /// Sets them for this process, which is going to be the command. Limits that hold already, and are lower, stay.
    /// Only system calls: it may be used between `fork` and `exec`.
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
            // The type of a mode is not as wide everywhere.
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(rustix::fs::RawMode::from(mask.bits())));
        }
        Ok(())
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
