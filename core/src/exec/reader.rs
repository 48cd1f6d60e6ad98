//! Reading a command's output: on a thread, from the first of it on.
//!
//! Most commands say nothing on one of their streams, and some nothing at all. Until there is something
//! to read, the event loop waits for that, and no thread has to be started.

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

/// What a thread does with a stream.
pub(super) struct Orders {
    name: StreamName,
    sink: Option<Arc<dyn OutputSink>>,
    capture: Arc<Capture>,
}

/// A stream that is captured.
pub(super) enum Reader {
    /// Nothing has come yet.
    #[cfg(unix)]
    Waiting { pipe: Receiver, orders: Orders },
    /// A thread reads it.
    Reading(Arc<Capture>),
}

impl Orders {
    pub(super) fn new(name: StreamName, limit: OutputLimit, sink: Option<Arc<dyn OutputSink>>) -> Self {
        Self { name, sink, capture: Arc::new(Capture::new(limit)) }
    }

    /// For a pipe, which is read when there is something in it.
    #[cfg(unix)]
    pub(super) fn await_output(self, pipe: PipeReader) -> io::Result<Reader> {
        Ok(Reader::Waiting { pipe: Receiver::from_owned_fd(pipe.into())?, orders: self })
    }

    /// Where a pipe can't be waited for, it is read from the beginning.
    #[cfg(not(unix))]
    pub(super) fn await_output(self, pipe: PipeReader) -> io::Result<Reader> {
        self.follow(pipe)
    }
}

impl Reader {
    /// Waits for the first output, and starts to read then. Never ends for a stream that is being read,
    /// or that there is none of.
    #[cfg(unix)]
    pub(super) async fn first_output(stream: &mut Option<Self>) -> io::Result<()> {
        let Some(Self::Waiting { pipe, .. }) = stream else { return std::future::pending().await };
        let found = until_readable(pipe).await?;
        if let Some(Self::Waiting { pipe, orders }) = stream.take() {
            *stream = Some(orders.follow_if(found, pipe)?);
        }
        Ok(())
    }

    /// What was kept, once the stream has ended or is not worth waiting for.
    pub(super) async fn finish(self, patience: &Patience<'_>) -> CapturedOutput {
        match self {
            #[cfg(unix)]
            Self::Waiting { pipe, orders } => orders.finish(pipe, patience).await,
            Self::Reading(capture) => capture.finish(patience).await,
        }
    }
}

impl Orders {
    /// Reads a stream to its end, beginning now.
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
                // A terminal whose other end is closed says so with an error.
                Err(_) => break,
            }
        }
    }

    /// Whatever takes the output may block for as long as it likes; nothing that ends a run waits for it.
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

    /// The command has ended and has said nothing so far. If there is something now, it is read as if it
    /// had come earlier.
    #[cfg(unix)]
    async fn finish(self, pipe: Receiver, patience: &Patience<'_>) -> CapturedOutput {
        let found = tokio::time::timeout(LAST_OUTPUT, until_readable(&pipe)).await;
        // What another process may still write, after the command, is not waited for.
        let found = if let Ok(Ok(found)) = found { found } else { Found::End };
        let capture = Arc::clone(&self.capture);
        match self.follow_if(found, pipe) {
            Ok(_) => capture.finish(patience).await,
            // Without a thread nothing can be read any more, and the rest is lost.
            Err(_) => capture.take(),
        }
    }
}

/// What a pipe is readable for.
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
