//! Decides on a write that the policy denies, while the call that wants it waits.
//!
//! A backend that can make such a call itself, outside of the sandbox, asks here first. What it gets back are
//! permissions: it judges the call by them once more, on the files that it really finds, before it does anything.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, Permissions, RawText};

use crate::{DeniedAct, Gatekeeper};

/// A write that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteAttempt {
    /// What is tried.
    pub act: DeniedAct,
    /// Every path that has to become writable for it: both ends of a move, and the source of a hard link.
    pub paths: Vec<AbsPath>,
    /// The process that tries, as the host numbers it.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
}

/// What becomes of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It is denied, as it would have been without a question.
    Refused,
    /// This call may be made with these permissions of the run, and no other.
    Once(Box<Permissions>),
    /// This call and later ones of the run may be made with these permissions.
    Granted(Box<Permissions>),
}

/// Decides on writes.
pub trait WriteKeeper: Send + Sync {
    /// Whether an act may be asked about at all. Asked for each denied act, so it is quick; a no is the end of it.
    fn is_asked(&self, act: &DeniedAct, paths: &[AbsPath]) -> bool;

    /// Decides on one attempt. Returns at once, and answers when the decision is there.
    fn decide(&self, attempt: WriteAttempt, answer: WriteAnswer);

    /// Hears of a path that was written outside for the command.
    fn done(&self, path: &AbsPath);
}

/// Takes one verdict. Dropped without one, it refuses.
pub struct WriteAnswer {
    give: Option<Box<dyn FnOnce(WriteVerdict) + Send>>,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl WriteAnswer {
    /// Passes the verdict on to the call that waits for it. `is_wanted` tells whether it still does: its process may
    /// have ended meanwhile.
    pub fn new(
        give: impl FnOnce(WriteVerdict) + Send + 'static,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { give: Some(Box::new(give)), is_wanted: Arc::new(is_wanted) }
    }

    /// Tells, whenever it is called, whether the call still waits.
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

/// What decides while a command runs.
#[derive(Clone, Default)]
pub struct Deciders {
    /// On connections. Permissions that name single hosts need it, unless the backend is
    /// [`Proxied`](crate::Proxied).
    pub connections: Option<Arc<dyn Gatekeeper>>,
    /// On writes that the policy denies. Without it, and with a backend that can't make calls for a command, they
    /// fail.
    pub writes: Option<Arc<dyn WriteKeeper>>,
}

impl<G: Gatekeeper + 'static> From<Arc<G>> for Deciders {
    fn from(gatekeeper: Arc<G>) -> Self {
        Self { connections: Some(gatekeeper), writes: None }
    }
}

impl fmt::Debug for Deciders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (connections, writes) = (self.connections.is_some(), self.writes.is_some());
        f.debug_struct("Deciders").field("connections", &connections).field("writes", &writes).finish()
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
