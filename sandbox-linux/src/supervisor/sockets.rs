//! The supervisor's sockets in a command's own network.

use std::io;
use std::os::fd::OwnedFd;

/// The supervisor's sockets in one network.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// The socket that its resolver queries.
    pub(crate) resolver: Option<OwnedFd>,
    /// The socket that captures its datagrams, if they may go anywhere.
    pub(crate) datagrams: Option<Tap>,
}

/// The socket for captured datagrams and injected replies. The order in which these are closed matters: the launcher
/// keeps a copy until the lease is closed, so that the launcher waits for the kernel.
#[derive(Debug)]
pub(crate) struct Tap {
    pub(crate) socket: OwnedFd,
    pub(crate) lease: OwnedFd,
}

impl Sockets {
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        let copy = |tap: &Tap| io::Result::Ok(Tap { socket: tap.socket.try_clone()?, lease: tap.lease.try_clone()? });
        Ok(Self {
            resolver: self.resolver.as_ref().map(OwnedFd::try_clone).transpose()?,
            datagrams: self.datagrams.as_ref().map(copy).transpose()?,
        })
    }
}
