//! Reads a command's output on a thread, from the first output on.
//!
//! Most commands write nothing to one of their streams, and some nothing at all. Until there is output, the event loop
//! waits, without a thread.

use std::io::{self, PipeReader, Read};
use std::sync::Arc;

use stockade_protocol::CapturedOutput;
#[cfg(unix)]
use tokio::net::unix::pipe::Receiver;

#[cfg(unix)]
use super::LAST_OUTPUT;
use super::capture::{Capture, Patience};
use super::streams::{OutputSink, StreamName};
use crate::session::OutputLimit;

/// The work of a reading thread.
pub(super) struct Orders {
    name: StreamName,
    sink: Option<Arc<dyn OutputSink>>,
    capture: Arc<Capture>,
}

/// A captured stream.
pub(super) enum Reader {
    /// No output yet.
    #[cfg(unix)]
    Waiting { pipe: Receiver, orders: Orders },
    /// A thread reads it.
    Reading(Arc<Capture>),
}

impl Orders {
    pub(super) fn new(name: StreamName, limit: OutputLimit, sink: Option<Arc<dyn OutputSink>>) -> Self {
        Self { name, sink, capture: Arc::new(Capture::new(limit)) }
    }

    /// A reader for a pipe, which starts at the first output.
    #[cfg(unix)]
    pub(super) fn await_output(self, pipe: PipeReader) -> io::Result<Reader> {
        Ok(Reader::Waiting { pipe: Receiver::from_owned_fd(pipe.into())?, orders: self })
    }

    /// A reader for a pipe that can't be polled: it starts at once.
    #[cfg(not(unix))]
    pub(super) fn await_output(self, pipe: PipeReader) -> io::Result<Reader> {
        self.follow(pipe)
    }
}

impl Reader {
    /// Waits for the first output, and starts the thread. Never completes for a stream that is being read, or without
    /// a stream.
    #[cfg(unix)]
    pub(super) async fn first_output(stream: &mut Option<Self>) -> io::Result<()> {
        let Some(Self::Waiting { pipe, .. }) = stream else { return std::future::pending().await };
        let found = until_readable(pipe).await?;
        if let Some(Self::Waiting { pipe, orders }) = stream.take() {
            *stream = Some(orders.follow_if(found, pipe)?);
        }
        Ok(())
    }

    /// The captured output, once the stream has ended or waiting is given up.
    pub(super) async fn finish(self, patience: &Patience<'_>) -> CapturedOutput {
        match self {
            #[cfg(unix)]
            Self::Waiting { pipe, orders } => orders.finish(pipe, patience).await,
            Self::Reading(capture) => capture.finish(patience).await,
        }
    }
}

impl Orders {
    /// Starts to read a stream to its end.
    pub(super) fn follow(self, mut from: impl Read + Send + 'static) -> io::Result<Reader> {
        let capture = Arc::clone(&self.capture);
        let read = move || {
            self.read(&mut from);
            self.end();
        };
        std::thread::Builder::new().name(String::from("stockade-output")).stack_size(128 * 1024).spawn(read)?;
        Ok(Reader::Reading(capture))
    }

    fn read(&self, from: &mut impl Read) {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    self.capture.add(bytes);
                    if self.pass_on(bytes).is_err() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal whose other end is closed returns an error.
                Err(_) => break,
            }
        }
    }

    /// Forwards output to the sink, which may block; the end of a run does not wait for it.
    fn pass_on(&self, bytes: &[u8]) -> io::Result<()> {
        let Some(sink) = &self.sink else { return Ok(()) };
        self.capture.set_busy(true);
        let taken = sink.write(self.name, bytes);
        self.capture.set_busy(false);
        taken
    }

    fn end(&self) {
        if let Some(sink) = &self.sink {
            sink.closed();
        }
        self.capture.end();
    }

    #[cfg(unix)]
    fn follow_if(self, found: Found, pipe: Receiver) -> io::Result<Reader> {
        match found {
            Found::Output => self.follow(PipeReader::from(pipe.into_blocking_fd()?)),
            Found::End => {
                self.end();
                Ok(Reader::Reading(self.capture))
            }
        }
    }

    /// The command has ended without output so far. Output that is available now is read as usual.
    #[cfg(unix)]
    async fn finish(self, pipe: Receiver, patience: &Patience<'_>) -> CapturedOutput {
        let found = tokio::time::timeout(LAST_OUTPUT, until_readable(&pipe)).await;
        // Later output of another process is not awaited.
        let found = if let Ok(Ok(found)) = found { found } else { Found::End };
        let capture = Arc::clone(&self.capture);
        match self.follow_if(found, pipe) {
            Ok(_) => capture.finish(patience).await,
            // Without a thread the rest can't be read and is lost.
            Err(_) => capture.take(),
        }
    }
}

/// Why a pipe is readable.
#[cfg(unix)]
enum Found {
    Output,
    /// There is no writer left.
    End,
}

#[cfg(unix)]
async fn until_readable(pipe: &Receiver) -> io::Result<Found> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    pipe.readable().await?;
    let mut files = [PollFd::new(pipe, PollFlags::IN)];
    poll(&mut files, Some(&Timespec::default()))?;
    let [found] = files.map(|file| file.revents());
    let has_ended = found.contains(PollFlags::HUP) && !found.contains(PollFlags::IN);
    Ok(if has_ended { Found::End } else { Found::Output })
}
