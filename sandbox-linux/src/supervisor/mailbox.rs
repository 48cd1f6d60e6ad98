//! Messages to the supervisor's thread.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stockade_sandboxing::{Gatekeeper, Verdict};

use super::relay::Destination;
use super::sockets::Tap;
use crate::sys::notify::{self, Notification};

/// The queue of the supervisor's thread.
#[derive(Clone, Debug)]
pub(super) struct Mailbox {
    pub(super) sender: Sender<Message>,
    pub(super) bell: Arc<OwnedFd>,
}

pub(super) enum Message {
    Watch(Watched),
    /// A call that the observer has taken.
    Call(TakenCall),
    Verdict(u64, Verdict),
    /// A verdict on datagrams of a network, by its relay's number.
    DatagramVerdict(u64, Destination, Verdict),
    Stop,
}

/// The inputs from one command.
pub(super) struct Watched {
    /// Decides on its connections.
    pub(super) gatekeeper: Arc<dyn Gatekeeper>,
    /// Its seccomp listener.
    pub(super) listener: Arc<OwnedFd>,
    /// The socket that its resolver queries, bound in its network.
    pub(super) resolver: OwnedFd,
    pub(super) datagrams: Option<Tap>,
    /// The cookie of that network namespace.
    pub(super) network: u64,
    pub(super) receiving: Receiving,
}

/// The receiver of a command's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// The supervisor itself.
    Here,
    /// The observer, which forwards the supervisor's calls.
    ByObserver,
}

/// A call taken from a listener, without an answer yet. Dropped without one, it fails.
#[derive(Debug)]
pub(super) struct TakenCall {
    pub(super) listener: Arc<OwnedFd>,
    call: Option<Notification>,
}

impl TakenCall {
    /// Leaves the answer to the caller.
    pub(super) fn take(mut self) -> Option<Notification> {
        self.call.take()
    }
}

impl Drop for TakenCall {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            // The process may have ended.
            notify::answer(self.listener.as_fd(), call.id, libc::ENOSYS).ok();
        }
    }
}

/// Forwards a command's calls to the supervisor.
#[derive(Debug)]
pub(crate) struct Feed {
    pub(super) mailbox: Mailbox,
    pub(super) listener: Arc<OwnedFd>,
}

impl Feed {
    /// Whether the supervisor decides on this call.
    pub(crate) fn takes(call: i64) -> bool {
        matches!(call, libc::SYS_connect | libc::SYS_listen | libc::SYS_setsockopt)
    }

    pub(crate) fn pass_on(&self, call: Notification) {
        self.mailbox.send(Message::Call(TakenCall { listener: Arc::clone(&self.listener), call: Some(call) }));
    }
}

impl Mailbox {
    pub(super) fn send(&self, message: Message) {
        // A supervisor that has ended has failed all calls.
        if self.sender.send(message).is_ok() {
            rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
        }
    }
}
