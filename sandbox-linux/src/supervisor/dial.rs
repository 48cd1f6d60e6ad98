//! Connecting outside, to the first of several addresses that answers.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::call::Call;
use super::socket;

/// A connection that is being made.
pub(super) struct Dial {
    pub(super) call: Call,
    rest: VecDeque<SocketAddr>,
    current: Option<OwnedFd>,
    deadline: Option<Instant>,
    /// When the program itself gives up.
    limit: Option<Instant>,
    /// The first that did not answer soon, kept for a program that does not wait.
    slow: Option<OwnedFd>,
    error: i32,
}

/// How far a dial has come.
pub(super) enum Progress {
    /// This socket takes the place of the command's, and its call ends with this error number.
    Done(OwnedFd, i32),
    Failed(i32),
    Waits,
}

/// How long an address may take while there is another one to try: for a program that does not wait
/// (its event loop stands still meanwhile), and for one that does.
const SOON: Duration = Duration::from_millis(250);
const PATIENT: Duration = Duration::from_secs(10);

impl Dial {
    pub(super) fn new(call: Call, addresses: Vec<SocketAddr>) -> Self {
        // Those of the command's own family first: its socket then stays what it was.
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
        // A program that does not wait gets it as it is, unless another address may do better.
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
            // What the kernel says when a blocking connect runs into the socket's own limit.
            return Progress::Done(stream, libc::EINPROGRESS);
        }
        if !self.call.nature.is_blocking {
            self.slow.get_or_insert(stream);
        }
        self.error = libc::ETIMEDOUT;
        self.advance()
    }
}
