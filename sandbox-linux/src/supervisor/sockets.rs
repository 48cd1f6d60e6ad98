//! Sockets of a command's own network, for the supervisor outside.

use std::io;
use std::os::fd::OwnedFd;

/// Sockets of a command's own network.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    /// The one that its resolver asks.
    pub(crate) resolver: Option<OwnedFd>,
    /// The one that its datagrams pass, where they may go anywhere.
    pub(crate) datagrams: Option<Tap>,
}

/// Where datagrams come out, and answers go in. The order in which these are closed matters: the launcher
/// keeps a copy until the lease is closed, so that it is the one who waits for the kernel to be done.
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
