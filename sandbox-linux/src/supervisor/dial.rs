//! Connects outside, to the first of several addresses that answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::call::Call;
use super::socket;

/// A pending connection.
pub(super) struct Dial {
    pub(super) call: Call,
    rest: VecDeque<SocketAddr>,
    current: Option<OwnedFd>,
    deadline: Option<Instant>,
    /// The program's own timeout.
    limit: Option<Instant>,
    /// The first slow socket, kept for a non-blocking program.
    slow: Option<OwnedFd>,
    error: i32,
}

/// The progress of a dial.
pub(super) enum Progress {
    /// This socket replaces the command's, and the call ends with this error number.
    Done(OwnedFd, i32),
    Failed(i32),
    Waits,
}

/// How long an address may take while there is another one: for a non-blocking program (whose event loop is stalled
/// meanwhile), and for a blocking one.
const SOON: Duration = Duration::from_millis(250);
const PATIENT: Duration = Duration::from_secs(10);

impl Dial {
    pub(super) fn new(call: Call, addresses: Vec<SocketAddr>) -> Self {
        // Addresses of the command's own family first, so that its socket keeps it.
        let wants_v6 = call.nature.family == libc::AF_INET6;
        let (own, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| wants_v6 || address.is_ipv4());
        let limit = socket::send_limit(call.socket.as_fd()).filter(|_| call.nature.is_blocking);
        Self {
            call,
            rest: own.into_iter().chain(other).collect(),
            current: None,
            deadline: None,
            limit: limit.map(|limit| Instant::now() + limit),
            slow: None,
            error: libc::EHOSTUNREACH,
        }
    }

    pub(super) fn current(&self) -> Option<&OwnedFd> {
        self.current.as_ref()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Tries the next address.
    pub(super) fn advance(&mut self) -> Progress {
        while let Some(address) = self.rest.pop_front() {
            let (stream, address) = match socket::outside(self.call.nature.family, address) {
                Ok(made) => made,
                Err(error) => {
                    self.error = error.raw_os_error().unwrap_or(libc::EIO);
                    continue;
                }
            };
            socket::carry_options(self.call.socket.as_fd(), stream.as_fd());
            match rustix::net::connect(&stream, &address) {
                Ok(()) => return Progress::Done(stream, 0),
                Err(Errno::INPROGRESS) => return self.wait_for(stream),
                Err(errno) => self.error = errno.raw_os_error(),
            }
        }
        match self.slow.take() {
            Some(stream) => Progress::Done(stream, libc::EINPROGRESS),
            None => Progress::Failed(self.error),
        }
    }

    fn wait_for(&mut self, stream: OwnedFd) -> Progress {
        let is_blocking = self.call.nature.is_blocking;
        // A non-blocking program gets it unconnected, unless another address may be better.
        if !is_blocking && self.rest.is_empty() {
            return Progress::Done(self.slow.take().unwrap_or(stream), libc::EINPROGRESS);
        }
        let patience = if is_blocking { PATIENT } else { SOON };
        let next = (!self.rest.is_empty()).then(|| Instant::now() + patience);
        self.deadline = next.into_iter().chain(self.limit).min();
        self.current = Some(stream);
        Progress::Waits
    }

    /// The current one has answered, or failed.
    pub(super) fn on_event(&mut self) -> Progress {
        let Some(stream) = self.current.take() else { return self.advance() };
        match socket::pending_error(stream.as_fd()) {
            0 => Progress::Done(stream, 0),
            errno => {
                self.error = errno;
                self.advance()
            }
        }
    }

    /// The current one has not answered soon enough.
    pub(super) fn on_deadline(&mut self) -> Progress {
        let Some(stream) = self.current.take() else { return self.advance() };
        if self.limit.is_some_and(|limit| limit <= Instant::now()) {
            // The kernel's error when a blocking connect reaches the socket's own timeout.
            return Progress::Done(stream, libc::EINPROGRESS);
        }
        if !self.call.nature.is_blocking {
            self.slow.get_or_insert(stream);
        }
        self.error = libc::ETIMEDOUT;
        self.advance()
    }
}
