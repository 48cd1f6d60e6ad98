//! What the job object holds the whole process tree to, as data.

use std::num::NonZeroU64;

use serde::Serialize;
use stockade_protocol::ResourceLimits;
use stockade_sandboxing::Unenforceable;

/// The flags of a job object's limits.
/// <https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-jobobject_basic_limit_information>
pub(crate) mod limit {
    pub(crate) const PROCESS_TIME: u32 = 0x2;
    pub(crate) const ACTIVE_PROCESSES: u32 = 0x8;
    pub(crate) const JOB_MEMORY: u32 = 0x200;
    pub(crate) const DIE_ON_UNHANDLED_EXCEPTION: u32 = 0x400;
    pub(crate) const BREAKAWAY_OK: u32 = 0x800;
    pub(crate) const SILENT_BREAKAWAY_OK: u32 = 0x1000;
    pub(crate) const KILL_ON_CLOSE: u32 = 0x2000;
}

/// Every limit on windows: handles of others, the clipboard both ways, the system's parameters and
/// display, atoms of others, other desktops, ending the session.
pub(crate) const ALL_UI_LIMITS: u32 = 0xff;

/// Whether a job object limits windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowLimits {
    All,
    /// Windows refuses to nest a job with such limits in another one, as terminals, editors and build services have.
    LeftOut,
}

impl WindowLimits {
    /// What to try after a start that failed: the same without them, if this program is in a job itself. A program that
    /// is not there is not there with other limits either.
    pub(crate) fn after(self, failed: &std::io::Error, in_another_job: bool) -> Option<Self> {
        let may_be_the_job = failed.kind() != std::io::ErrorKind::NotFound;
        (self == Self::All && in_another_job && may_be_the_job).then_some(Self::LeftOut)
    }
}

/// The limits of the job object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct JobPlan {
    /// How many processes there may be at once.
    pub(crate) processes: Option<u32>,
    /// How much memory all of them may commit together.
    pub(crate) memory_bytes: Option<NonZeroU64>,
    /// How long each may run in user mode.
    pub(crate) cpu_seconds: Option<NonZeroU64>,
}

impl JobPlan {
    /// The plan, and what it does not count.
    pub(crate) fn compile(limits: &ResourceLimits) -> Result<(Self, Vec<String>), Unenforceable> {
        let refuse = |what: &str| Unenforceable {
            what: what.to_owned(),
            why: String::from("a job object does not count it"),
            remedy: String::from("leave the limit out"),
        };
        if limits.file_size_bytes.is_some() {
            return Err(refuse("a limit on the size of files"));
        }
        if limits.open_files.is_some() {
            return Err(refuse("a limit on open files"));
        }
        let mut warnings = Vec::new();
        let processes = limits.processes.map(|count| u32::try_from(count.get()).unwrap_or(u32::MAX));
        if processes.is_some() {
            warnings.push(String::from("the limit on processes does not count threads"));
        }
        if limits.cpu_seconds.is_some() {
            warnings.push(String::from(
                "the limit on processor time counts what programs do themselves, not what the system does for them",
            ));
        }
        Ok((Self { processes, memory_bytes: limits.memory_bytes, cpu_seconds: limits.cpu_seconds }, warnings))
    }

    /// The flags: everything ends with the job, nothing leaves it, nothing waits behind a dialogue.
    pub(crate) fn flags(&self) -> u32 {
        let on = |set: bool, flag: u32| if set { flag } else { 0 };
        limit::KILL_ON_CLOSE
            | limit::DIE_ON_UNHANDLED_EXCEPTION
            | on(self.processes.is_some(), limit::ACTIVE_PROCESSES)
            | on(self.memory_bytes.is_some(), limit::JOB_MEMORY)
            | on(self.cpu_seconds.is_some(), limit::PROCESS_TIME)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::*;

    #[test]
    fn limits_on_windows_are_left_out_only_inside_another_job() {
        let denied = Error::from(ErrorKind::PermissionDenied);
        assert_eq!(WindowLimits::All.after(&denied, true), Some(WindowLimits::LeftOut));
        assert_eq!(WindowLimits::All.after(&denied, false), None);
        assert_eq!(WindowLimits::LeftOut.after(&denied, true), None);
        assert_eq!(WindowLimits::All.after(&Error::from(ErrorKind::NotFound), true), None);
    }
}
