//! A client's descriptors that become a command's streams.
//!
//! Standard input and output are passed to the command directly, without copying. Standard error and terminal output
//! pass through here, since they show what a sandbox denied.

use std::fs::File;
use std::io;
use std::sync::Arc;

use stockade_core::{OutputSink, StreamName};

use crate::peer::{Peer, Transport};
use crate::transport::Descriptor;
use crate::wire::{CommandRunParams, ErrorKind, RpcError, SentStreams, StdinKind};

/// The descriptors that a client sent in place of streams.
#[derive(Debug, Default)]
pub(super) struct SentFiles {
    pub(super) stdin: Option<Arc<File>>,
    pub(super) stdout: Option<Arc<File>>,
    pub(super) stderr: Option<Arc<dyn OutputSink>>,
    /// Receives the output of a terminal that the server creates, and the server's side of it.
    pub(super) terminal: Option<Arc<dyn OutputSink>>,
    pub(super) controlling_terminal: bool,
}

impl SentFiles {
    pub(super) fn new(descriptors: Vec<Descriptor>, params: &CommandRunParams, peer: &Peer) -> Result<Self, RpcError> {
        let Some(streams) = params.streams else { return Ok(Self::default()) };
        let invalid =
            |field: &str, what: &str| Err(RpcError::new(ErrorKind::InvalidParams, format!("`params.{field}`: {what}")));
        if peer.transport() == Transport::Stdio {
            return invalid("streams", "descriptors come along on a unix socket only: leave it out, or use `--socket`");
        }
        if params.terminal.is_some() && streams.terminal.is_none() {
            return invalid("terminal", "a command has either a terminal of the server's or streams of the client's");
        }
        if streams.stdin.is_some() && params.stdin != StdinKind::None {
            return invalid("stdin", "it is a descriptor already");
        }
        Self::of(streams, descriptors, peer)
            .map_or_else(|field| invalid(field, "no descriptor of this number came along"), Ok)
    }

    #[cfg(unix)]
    fn of(streams: SentStreams, descriptors: Vec<Descriptor>, peer: &Peer) -> Result<Self, &'static str> {
        let files: Vec<Arc<File>> = descriptors.into_iter().map(|sent| Arc::new(sent.into())).collect();
        let find = |number: Option<u8>, field| match number {
            None => Ok(None),
            Some(number) => files.get(usize::from(number)).cloned().map(Some).ok_or(field),
        };
        let passed = |file: Arc<File>| Arc::new(sinks::ClientFile { file, peer: peer.clone() }) as Arc<dyn OutputSink>;
        let shown = |file: Arc<File>| {
            Arc::new(sinks::ClientTerminal { socket: file, peer: peer.clone() }) as Arc<dyn OutputSink>
        };
        Ok(Self {
            stdin: find(streams.stdin, "streams.stdin")?,
            stdout: find(streams.stdout, "streams.stdout")?,
            stderr: find(streams.stderr, "streams.stderr")?.map(passed),
            terminal: find(streams.terminal, "streams.terminal")?.map(shown),
            controlling_terminal: streams.controlling_terminal,
        })
    }

    #[cfg(not(unix))]
    fn of(_: SentStreams, _: Vec<Descriptor>, _: &Peer) -> Result<Self, &'static str> {
        Err("streams")
    }
}

#[cfg(unix)]
mod sinks {
    use std::io::IoSlice;
    use std::mem::MaybeUninit;
    use std::os::fd::AsFd as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::io::Errno;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::{Arc, File, OutputSink, Peer, StreamName, io};

    /// A writable pipe accepts this much without blocking.
    const AT_ONCE: usize = 4096;
    /// The longest packet, without its first byte.
    const LONGEST_PACKET: usize = 32 << 10;
    /// The interval for checking whether the client is still connected.
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

    /// A client's file, which may block writes for a while.
    #[derive(Debug)]
    pub(super) struct ClientFile {
        pub(super) file: Arc<File>,
        pub(super) peer: Peer,
    }

    impl OutputSink for ClientFile {
        fn write(&self, _: StreamName, bytes: &[u8]) -> io::Result<()> {
            let mut rest = bytes;
            while !rest.is_empty() {
                wait(&self.file, &self.peer)?;
                let part = rest.get(..AT_ONCE).unwrap_or(rest);
                match rustix::io::write(&self.file, part) {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    // A closed reader ends the command as it would without the server.
                    Err(Errno::PIPE) => return Err(Errno::PIPE.into()),
                    // Other errors, such as a full disk, lose output but don't stop the command.
                    Err(_) => return Ok(()),
                }
            }
            Ok(())
        }
    }

    /// A socket to a client that shows a terminal.
    #[derive(Debug)]
    pub(super) struct ClientTerminal {
        pub(super) socket: Arc<File>,
        pub(super) peer: Peer,
    }

    impl OutputSink for ClientTerminal {
        fn write(&self, _: StreamName, bytes: &[u8]) -> io::Result<()> {
            bytes.chunks(LONGEST_PACKET).try_for_each(|part| self.send(b"d", part, None))
        }

        fn opened(&self, terminal: File) {
            // A disconnected client shows nothing.
            self.send(b"o", b"", Some(&terminal)).ok();
        }
    }

    impl ClientTerminal {
        fn send(&self, kind: &[u8], bytes: &[u8], file: Option<&File>) -> io::Result<()> {
            loop {
                wait(&self.socket, &self.peer)?;
                let files = file.map(|file| [file.as_fd()]);
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if let Some(files) = &files {
                    ancillary.push(SendAncillaryMessage::ScmRights(files));
                }
                let parts = [IoSlice::new(kind), IoSlice::new(bytes)];
                match sendmsg(&self.socket, &parts, &mut ancillary, flags()) {
                    Ok(_) => return Ok(()),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    #[cfg(target_vendor = "apple")]
    fn flags() -> SendFlags {
        SendFlags::DONTWAIT
    }

    #[cfg(not(target_vendor = "apple"))]
    fn flags() -> SendFlags {
        SendFlags::DONTWAIT | SendFlags::NOSIGNAL
    }

    /// Waits until a file is writable, as long as its client is connected.
    fn wait(file: &File, peer: &Peer) -> io::Result<()> {
        loop {
            let mut files = [PollFd::new(file, PollFlags::OUT)];
            match poll(&mut files, Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) if peer.is_gone() => return Err(io::ErrorKind::BrokenPipe.into()),
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
