//! Shows a command's terminal, created by the server, on this program's own.
//!
//! The server reads the output, since it needs the denials in it. It forwards the output here, together with its side
//! of the terminal: keys and sizes go straight to it.

use std::fs::File;
use std::io::{self, IoSliceMut, PipeReader, PipeWriter};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg, socketpair,
};
use stockade_core::{OutputSink as _, StreamName};

use crate::relay::Relay;

/// The longest packet.
const LONGEST: usize = (64 << 10) + 1;

/// The polling interval for signals while the last output is shown.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the server's output, until it is finished.
pub(super) struct Follower {
    stop: PipeWriter,
    done: mpsc::Receiver<()>,
}

impl Follower {
    /// Starts it. The second value is the server's end.
    pub(super) fn start(relay: Arc<Relay>) -> io::Result<(Self, OwnedFd)> {
        // Systems without this flag lack such sockets, and the call fails.
        #[cfg(target_os = "linux")]
        let flags = SocketFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = SocketFlags::empty();
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let (stopped, stop) = io::pipe()?;
        let (finished, done) = mpsc::channel::<()>();
        std::thread::Builder::new().name(String::from("terminal")).spawn(move || {
            follow(&ours, &stopped, &relay);
            drop(finished);
        })?;
        Ok((Self { stop, done }, theirs))
    }

    /// Waits until all output is shown, or until a signal comes.
    pub(super) fn finish(self, signals: &PipeReader) {
        drop(self.stop);
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        while self.done.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
            if poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0) {
                return;
            }
        }
    }
}

fn follow(socket: &OwnedFd, stopped: &PipeReader, relay: &Relay) {
    let mut is_stopped = false;
    loop {
        if !is_stopped {
            let mut files = [PollFd::new(socket, PollFlags::IN), PollFd::new(stopped, PollFlags::IN)];
            match poll(&mut files, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            is_stopped = !files[1].revents().is_empty();
        }
        match receive(socket) {
            Ok(Some(Packet::Opened(terminal))) => relay.opened(terminal),
            Ok(Some(Packet::Printed(bytes))) => {
                // A hangup ends the command by its signal, not here.
                relay.write(StreamName::Stdout, &bytes).ok();
            }
            Ok(None) => return,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !is_stopped => {}
            Err(_) => return,
        }
    }
}

enum Packet {
    Opened(File),
    Printed(Vec<u8>),
}

/// The next packet; `None` at the end.
fn receive(socket: &OwnedFd) -> Result<Option<Packet>, Errno> {
    let mut bytes = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags())?;
    let mut sent = ancillary.drain().filter_map(|message| {
        if let RecvAncillaryMessage::ScmRights(mut files) = message { files.next() } else { None }
    });
    let terminal = sent.next();
    bytes.truncate(received.bytes);
    Ok(match (bytes.first(), terminal) {
        (Some(b'o'), Some(terminal)) => Some(Packet::Opened(File::from(terminal))),
        (Some(b'd'), _) => {
            bytes.remove(0);
            Some(Packet::Printed(bytes))
        }
        _ => None,
    })
}

#[cfg(target_os = "linux")]
fn flags() -> RecvFlags {
    RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC
}

#[cfg(not(target_os = "linux"))]
fn flags() -> RecvFlags {
    RecvFlags::DONTWAIT
}
