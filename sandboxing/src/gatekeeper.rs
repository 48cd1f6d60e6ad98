//! Decides on connections while a command runs.
//!
//! A backend that intercepts a command's connections asks here, one destination at a time, and connects only to the
//! returned addresses. The answer may take as long as a person does, so it is given asynchronously, through
//! [`Answer`]; meanwhile only the connecting thread waits.

use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::OwnedFd as Stream;
#[cfg(windows)]
use std::os::windows::io::OwnedSocket as Stream;
use std::sync::Arc;

use stockade_protocol::{Host, NetworkProtocol, RawText, Violation};

/// A connection that a command wants to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The host, by the name that the command resolved, if any.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// The protocol, if known.
    pub protocol: Option<NetworkProtocol>,
    /// The process that tries.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
}

/// The decision on an attempt.
#[derive(Debug)]
pub enum Verdict {
    /// Connect to the first of these that answers, and to nothing else. Names have been resolved and the addresses
    /// checked: another look-up could return another address.
    Connect(Vec<SocketAddr>),
    /// Use this stream, which is connected already.
    Use(Stream),
    /// It is not allowed.
    Refuse,
    /// It is allowed, but the name has no address that may be dialled.
    Unreachable,
}

/// Decides on connections.
pub trait Gatekeeper: Send + Sync {
    /// Decides on one attempt. Returns at once, and answers when the decision is made.
    fn decide(&self, attempt: Attempt, answer: Answer);

    /// Reports a connection that the sandbox itself has refused.
    fn refused(&self, violation: Violation) {
        drop(violation);
    }
}

/// A channel for one verdict. Dropped without one, it refuses.
pub struct Answer {
    give: Option<Box<dyn FnOnce(Verdict) + Send>>,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Answer {
    /// An answer that passes the verdict to the waiting caller.
    pub fn new(give: impl FnOnce(Verdict) + Send + 'static) -> Self {
        Self { give: Some(Box::new(give)), is_wanted: Arc::new(|| true) }
    }

    /// Sets a check whether the caller still waits: its process may have ended.
    #[must_use]
    pub fn wanted_while(mut self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_wanted = Arc::new(is_wanted);
        self
    }

    /// A check whether the caller still waits. If not, work for it can be cancelled.
    pub fn is_wanted(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.is_wanted)
    }

    /// Gives the verdict.
    pub fn give(mut self, verdict: Verdict) {
        if let Some(give) = self.give.take() {
            give(verdict);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(give) = self.give.take() {
            give(Verdict::Refuse);
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn silence_is_a_refusal() {
        let (sender, receiver) = channel();
        drop(Answer::new(move |verdict| sender.send(verdict).unwrap()));
        assert!(matches!(receiver.try_recv(), Ok(Verdict::Refuse)));
    }

    #[test]
    fn a_verdict_is_given_once() {
        let (sender, receiver) = channel();
        Answer::new(move |verdict| sender.send(verdict).unwrap()).give(Verdict::Unreachable);
        assert!(matches!(receiver.iter().collect::<Vec<_>>().as_slice(), [Verdict::Unreachable]));
    }
}
