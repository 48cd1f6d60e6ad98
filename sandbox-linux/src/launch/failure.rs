//! Failures of a start, before they are described.

use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::SpawnError;

use crate::plan::step::Step;
use crate::wire;

/// The failure of a start.
#[derive(Debug)]
pub(crate) enum StartFailure {
    /// A step of the plan.
    Step { at: StepNumber, source: io::Error },
    /// Creating a placeholder in the workspace.
    Name { path: AbsPath, source: io::Error },
    /// Any other error.
    Other(SpawnError),
}

/// A step's number in its list, from one; zero is before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepNumber {
    Setup(usize),
    Init(usize),
    Command(usize),
}

/// The lists in which the steps of a plan are numbered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepLists<'a> {
    pub(crate) setup: &'a [Step],
    pub(crate) init: &'a [Step],
    /// The steps of the command's own process are counted through, from the first that confines it.
    pub(crate) confine: &'a [Step],
    pub(crate) start: &'a [Step],
}

impl From<SpawnError> for StartFailure {
    fn from(error: SpawnError) -> Self {
        Self::Other(error)
    }
}

impl StartFailure {
    /// As the launcher reports it.
    pub(crate) fn reported(errno: i32, phase: u64, step: u64) -> Self {
        // No plan has that many steps; such a number would be reported by its list alone.
        let step = usize::try_from(step).unwrap_or(usize::MAX);
        let at = match phase {
            wire::PHASE_SETUP => StepNumber::Setup(step),
            wire::PHASE_INIT => StepNumber::Init(step),
            _ => StepNumber::Command(step),
        };
        Self::Step { at, source: io::Error::from_raw_os_error(errno) }
    }

    /// Whether the host does not permit this kind of sandbox at all. A path that has changed, or an inaccessible
    /// working directory, is an error with every engine.
    pub(crate) fn is_refused_by_host(&self) -> bool {
        let refused = [libc::EPERM, libc::EACCES, libc::ENOSPC, libc::EUSERS, libc::ENOSYS, libc::EINVAL];
        match self {
            Self::Step { at: StepNumber::Setup(1..) | StepNumber::Init(1..), source } => {
                source.raw_os_error().is_some_and(|errno| refused.contains(&errno))
            }
            // Placeholders are created before anything is built, by a call that an outer sandbox hides.
            Self::Name { source, .. } => source.raw_os_error() == Some(libc::ENOSYS),
            Self::Step { .. } | Self::Other(_) => false,
        }
    }

    /// The error with a description of the failed step.
    pub(crate) fn told(self, lists: &StepLists<'_>) -> SpawnError {
        match self {
            Self::Step { at, source } => SpawnError::Setup { step: at.act(lists), source },
            Self::Name { path, source } => SpawnError::Setup { step: format!("hold the name `{path}`"), source },
            Self::Other(error) => error,
        }
    }
}

impl StepNumber {
    fn act(self, lists: &StepLists<'_>) -> String {
        let (list, rest, number, before): (_, &[Step], _, _) = match self {
            Self::Setup(number) => (lists.setup, &[], number, "receive the plan and the files that come with it"),
            Self::Init(number) => (lists.init, &[], number, "start the first process inside"),
            Self::Command(number) => (lists.confine, lists.start, number, "start the command's process"),
        };
        let Some(index) = number.checked_sub(1) else { return before.to_owned() };
        list.iter().chain(rest).nth(index).map_or_else(|| String::from("carry out the plan"), Step::act)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_act_that_failed_is_named() {
        let setup = [Step::Keyring, Step::JoinNetwork];
        let start = [Step::WorkingDirectory { path: "/w".parse().unwrap() }];
        let lists = StepLists { setup: &setup, init: &[Step::Proc], confine: &[Step::Session], start: &start };
        let told = |phase, step| StartFailure::reported(libc::EACCES, phase, step).told(&lists).to_string();
        let built = |act: &str| format!("the sandbox could not be built: {act}");
        assert_eq!(told(wire::PHASE_SETUP, 2), built("enter the sandbox's network"));
        assert_eq!(told(wire::PHASE_INIT, 1), built("mount `/proc`"));
        assert_eq!(told(wire::PHASE_INIT, 0), built("start the first process inside"));
        assert_eq!(told(wire::PHASE_COMMAND, 2), built("enter the working directory `/w`"));
        assert_eq!(told(wire::PHASE_COMMAND, 9), built("carry out the plan"));
    }

    /// Another engine may do better where the host refuses to build, and nowhere else.
    #[test]
    fn what_the_host_refuses_is_told_from_what_fails_anywhere() {
        let refused = |errno, phase, step| StartFailure::reported(errno, phase, step).is_refused_by_host();
        assert!(refused(libc::EPERM, wire::PHASE_SETUP, 1) && refused(libc::ENOSYS, wire::PHASE_INIT, 1));
        assert!(!refused(libc::ELOOP, wire::PHASE_SETUP, 1) && !refused(libc::EPERM, wire::PHASE_SETUP, 0));
        assert!(!refused(libc::EACCES, wire::PHASE_COMMAND, 7));
        let name = |errno| StartFailure::Name {
            path: "/w/.git".parse().unwrap(),
            source: io::Error::from_raw_os_error(errno),
        };
        assert!(name(libc::ENOSYS).is_refused_by_host() && !name(libc::EACCES).is_refused_by_host());
    }
}
