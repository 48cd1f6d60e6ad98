//! What the supervisor's thread is told by others.

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;

use stockade_sandboxing::Verdict;

use super::relay::Destination;
use super::sockets::Tap;
use crate::sys::notify::{self, Notification};

/// Where the supervisor's thread hears of things.
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
    /// On datagrams of a network, by its relay's number.
    DatagramVerdict(u64, Destination, Verdict),
    Stop,
}

/// What comes from one command.
#[derive(Debug)]
pub(super) struct Watched {
    /// Where its calls come out.
    pub(super) listener: Arc<OwnedFd>,
    /// The socket that its resolver asks, bound in its network.
    pub(super) resolver: OwnedFd,
    pub(super) datagrams: Option<Tap>,
    /// That network.
    pub(super) network: u64,
    pub(super) receiving: Receiving,
}

/// Who takes the calls of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiving {
    /// The supervisor itself.
    Here,
    /// The observer, which passes on what is the supervisor's.
    ByObserver,
}

/// A call that was taken from a listener and has no answer yet. Dropped without one, it fails.
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
            // A process that is gone has no call that waits.
            notify::answer(self.listener.as_fd(), call.id, libc::ENOSYS).ok();
        }
    }
}

/// Passes a command's calls on to the supervisor.
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
        // A supervisor that is gone has answered everything with its end.
        if self.sender.send(message).is_ok() {
            rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
        }
    }
}
