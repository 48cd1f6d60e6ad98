//! The protocol with the launcher: frames and reports, with descriptors.

use std::collections::BTreeSet;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use stockade_protocol::AbsPath;

use super::Parking;
use crate::launch::placeholder::Name;
use crate::plan::step::{Encoder, Step, encode};
use crate::wire;

pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

/// The first message to a launcher: the placeholders and their covers, and the steps of the sandbox.
pub(super) fn set_up(
    covers: &BTreeSet<AbsPath>,
    names: &[Name],
    parking: Option<&Parking<'_>>,
    steps: &[Step],
) -> Vec<u8> {
    let (mut paths, mut texts, mut body) = (Encoder::default(), Encoder::default(), Encoder::default());
    for path in covers {
        paths.text(path.as_raw().as_bytes());
    }
    for name in names {
        texts.text(name.directory()).text(name.name()).text(name.entry());
    }
    let mut parked = Encoder::default();
    if let Some(Parking { flags, init, confine }) = parking {
        parked.number(*flags).bytes(&encode(init)).bytes(&encode(confine));
    }
    body.bytes(&paths.0).bytes(&texts.0).bytes(&parked.0);
    body.0.extend(encode(steps));
    body.0
}

/// Sends a frame, whole.
pub(super) fn send(socket: BorrowedFd<'_>, kind: u32, body: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "the plan is too long");
    if files.len() > wire::MOST_FILES {
        return Err(too_long());
    }
    let length = u32::try_from(body.len()).map_err(|_| too_long())?;
    let head = [kind.to_le_bytes(), length.to_le_bytes()].concat();
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(wire::MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(too_long());
    }
    // Small plans go in one call, with the descriptors on their first byte.
    let mut sent = sendmsg(socket, &[IoSlice::new(&head), IoSlice::new(body)], &mut ancillary, SendFlags::NOSIGNAL)?;
    let whole = [&head, body].concat();
    while let Some(rest @ [_, ..]) = whole.get(sent..) {
        sent += rustix::net::send(socket, rest, SendFlags::NOSIGNAL)?;
    }
    Ok(())
}

/// A report, and the descriptor that came with it.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> rustix::io::Result<([u8; wire::REPORT], Option<OwnedFd>)> {
    let mut bytes = [0; wire::REPORT];
    let (_, file) = rustix::io::retry_on_intr(|| receive_with(socket, &mut bytes, flags))?;
    Ok((bytes, file))
}

/// Some bytes, and the descriptor that came with them.
pub(crate) fn receive_part(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    receive_with(socket, bytes, RecvFlags::empty())
}

fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)?;
    // This program has no room for the descriptor.
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    let file = ancillary.drain().find_map(|message| {
        let RecvAncillaryMessage::ScmRights(mut files) = message else { return None };
        files.next()
    });
    Ok((received.bytes, file))
}
