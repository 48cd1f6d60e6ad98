//! Who decides on a connection while a command runs.
//!
//! A backend that sees a command's connections as they are made asks here, one destination at a time,
//! and connects to nothing but what it gets back. The answer may take as long as a person does, so it
//! is given later, through [`Answer`]; meanwhile only the thread that wants to connect waits.

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
    /// The host, by the name that the command looked up where there was one.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// What goes over the connection, where that is known.
    pub protocol: Option<NetworkProtocol>,
    /// The process that tries.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
}

/// What becomes of an attempt.
#[derive(Debug)]
pub enum Verdict {
    /// Connect to the first of these that answers, and to nothing else. Names have been resolved and
    /// the addresses checked: whoever looked the name up once more could get another address.
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
    /// Decides on one attempt. Returns at once, and answers when the decision is there.
    fn decide(&self, attempt: Attempt, answer: Answer);

    /// Hears of a connection that the sandbox has refused by itself.
    fn refused(&self, violation: Violation) {
        drop(violation);
    }
}

/// Takes one verdict. Dropped without one, it refuses.
pub struct Answer {
    give: Option<Box<dyn FnOnce(Verdict) + Send>>,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Answer {
    /// Passes the verdict on to the caller that waits for it.
    pub fn new(give: impl FnOnce(Verdict) + Send + 'static) -> Self {
        Self { give: Some(Box::new(give)), is_wanted: Arc::new(|| true) }
    }

    /// Tells whether the caller still waits: its process may have ended meanwhile.
    #[must_use]
    pub fn wanted_while(mut self, is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.is_wanted = Arc::new(is_wanted);
        self
    }

    /// Tells, whenever it is called, whether the caller still waits. If not, what is done for it can be broken off.
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
