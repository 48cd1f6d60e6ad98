//! Decides on denied writes while the calling thread waits.
//!
//! A backend that can make such a call itself, outside of the sandbox, asks here first. It gets permissions back, and
//! judges the call by them once more, on the files it actually finds, before it acts.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, Permissions, RawText};

use crate::{DeniedAct, Gatekeeper, Repository, StartKeeper};

/// A write that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAttempt {
    /// The act.
    pub act: DeniedAct,
    /// Every path that the act needs to be writable: both ends of a move, and the source of a hard link.
    pub paths: Vec<AbsPath>,
    /// The process that tries, by its host pid.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
}

/// The decision on an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It is denied, as without a question.
    Refused,
    /// Only this call may be made, with these permissions of the run.
    Once(Box<Permissions>),
    /// This call and later ones of the run may be made with these permissions.
    Granted(Box<Permissions>),
}

/// Decides on writes.
pub trait WriteKeeper: Send + Sync {
    /// Whether an act may be asked about at all. Called for each denied act, so it has to be fast.
    fn is_asked(&self, act: &DeniedAct, paths: &[AbsPath]) -> bool;

    /// Decides on one attempt. Returns at once, and answers when the decision is made.
    fn decide(&self, attempt: WriteAttempt, answer: WriteAnswer);

    /// Reports a path that was written outside for the command.
    fn done(&self, path: &AbsPath);

    /// The repositories in which git's own calls are made outside, without a question.
    fn repositories(&self) -> &[Repository] {
        &[]
    }
}

/// A channel for one verdict. Dropped without one, it refuses.
pub struct WriteAnswer {
    give: Option<Box<dyn FnOnce(WriteVerdict) + Send>>,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl WriteAnswer {
    /// An answer that passes the verdict to the waiting call. `is_wanted` checks whether it still waits: its process
    /// may have ended.
    pub fn new(
        give: impl FnOnce(WriteVerdict) + Send + 'static,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { give: Some(Box::new(give)), is_wanted: Arc::new(is_wanted) }
    }

    /// A check whether the call still waits.
    pub fn is_wanted(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.is_wanted)
    }

    /// Gives the verdict.
    pub fn give(mut self, verdict: WriteVerdict) {
        if let Some(give) = self.give.take() {
            give(verdict);
        }
    }
}

impl Drop for WriteAnswer {
    fn drop(&mut self) {
        if let Some(give) = self.give.take() {
            give(WriteVerdict::Refused);
        }
    }
}

impl fmt::Debug for WriteAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WriteAnswer")
    }
}

/// The deciders of a running command.
#[derive(Clone, Default)]
pub struct Deciders {
    /// Decides on connections. Permissions with host rules need it, unless the backend is [`Proxied`](crate::Proxied).
    pub connections: Option<Arc<dyn Gatekeeper>>,
    /// Decides on writes that the policy denies. Without it, or with a backend that can't make calls for a command,
    /// they fail.
    pub writes: Option<Arc<dyn WriteKeeper>>,
    /// On programs that the command starts, if it was compiled with [`Starts::Judged`](crate::Starts::Judged).
    pub starts: Option<Arc<dyn StartKeeper>>,
}

impl<G: Gatekeeper + 'static> From<Arc<G>> for Deciders {
    fn from(gatekeeper: Arc<G>) -> Self {
        Self { connections: Some(gatekeeper), ..Self::default() }
    }
}

impl fmt::Debug for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deciders")
            .field("connections", &self.connections.is_some())
            .field("writes", &self.writes.is_some())
            .field("starts", &self.starts.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn silence_is_a_refusal_and_a_verdict_is_given_once() {
        let (sender, receiver) = channel();
        let (first, second) = (sender.clone(), sender);
        drop(WriteAnswer::new(move |verdict| first.send(verdict).unwrap(), || true));
        assert_eq!(receiver.try_recv(), Ok(WriteVerdict::Refused));
        let granted = WriteVerdict::Granted(Box::default());
        WriteAnswer::new(move |verdict| second.send(verdict).unwrap(), || true).give(granted.clone());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [granted]);
    }
}
