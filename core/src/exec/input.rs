//! A command's input, written by a caller in pieces.
//!
//! Written bytes wait in a bounded queue until the command reads them, so a caller can write before the command has
//! started, and only the writer's own future waits. Each run has its own pipe. After a denial the second run reads the
//! input from the beginning, as long as all of it is still kept.

use std::collections::VecDeque;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

/// Limit on bytes waiting for the command.
const MOST_WAITING: usize = 256 * 1024;
/// Limit on read bytes kept for a second run.
const MOST_KEPT: usize = 1024 * 1024;
/// The largest piece.
const PIECE: usize = 32 * 1024;

/// The caller's end of a command's input. Clones share it; when the last one is dropped, the input ends.
#[derive(Clone, Debug)]
pub struct InputWriter {
    shared: Arc<Shared>,
    _end: Arc<EndOfInput>,
}

/// The command's end of its input, for [`Input::Pipe`](crate::Input::Pipe). When the last clone is dropped, nothing
/// more can be written.
#[derive(Clone, Debug)]
pub struct InputPipe {
    shared: Arc<Shared>,
    _reader: Arc<EndOfReading>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The bytes kept.
    bytes: VecDeque<u8>,
    /// The number of these bytes passed to the current run.
    given: usize,
    /// Whether the beginning of the input was dropped.
    is_cut: bool,
    /// Whether the input is complete.
    is_closed: bool,
    reader: ReaderState,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReaderState {
    /// The command reads, or will.
    #[default]
    Reads,
    /// The command has closed its input. A second run would have one again.
    Closed,
    /// No run will follow.
    Gone,
}

#[derive(Debug)]
struct EndOfInput(Arc<Shared>);

impl Drop for EndOfInput {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

#[derive(Debug)]
struct EndOfReading(Arc<Shared>);

impl Drop for EndOfReading {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.changed.notify_waiters();
        changed
    }

    fn end(&self) {
        self.change(|state| {
            state.reader = ReaderState::Gone;
            state.bytes = VecDeque::new();
            state.given = 0;
        });
    }

    /// Waits until `look` returns a value.
    async fn until<T>(&self, look: impl Fn(&mut State) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = look(&mut self.state()) {
                return found;
            }
            changed.await;
        }
    }
}

impl State {
    /// Accepts as many bytes as there is room for; `None` if there is none.
    fn accept(&mut self, bytes: &[u8]) -> Option<io::Result<usize>> {
        if self.is_closed {
            return Some(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the input was closed before")));
        }
        match self.reader {
            ReaderState::Gone => return Some(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the command has ended"))),
            ReaderState::Closed => {
                return Some(Err(io::Error::new(io::ErrorKind::BrokenPipe, "the command has closed its input")));
            }
            ReaderState::Reads => {}
        }
        let room = MOST_WAITING.saturating_sub(self.bytes.len() - self.given);
        let (taken, _) = bytes.split_at(bytes.len().min(room));
        self.bytes.extend(taken);
        (!taken.is_empty() || bytes.is_empty()).then_some(Ok(taken.len()))
    }

    /// The next piece for the current run; an empty one at the end of the input.
    fn next(&self) -> Option<Vec<u8>> {
        let piece: Vec<u8> = self.bytes.iter().skip(self.given).take(PIECE).copied().collect();
        (!piece.is_empty() || self.is_closed).then_some(piece)
    }

    /// Advances the current run by this many bytes.
    fn pass(&mut self, count: usize) {
        self.given = self.bytes.len().min(self.given + count);
        if self.is_cut || self.given > MOST_KEPT {
            self.is_cut = true;
            self.bytes.drain(..self.given);
            self.given = 0;
        }
    }
}

impl InputWriter {
    /// Writes all bytes, waiting for the command to read earlier ones. The error `BrokenPipe` if the command has
    /// closed its input or has ended, or the input was closed.
    pub async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let taken = self.shared.until(|state| state.accept(bytes)).await?;
            self.shared.changed.notify_waiters();
            bytes = bytes.get(taken..).unwrap_or_default();
            if bytes.is_empty() {
                return Ok(());
            }
        }
    }

    /// Ends the input: after the written bytes the command reads end of file.
    pub fn close(&self) {
        self.shared.change(|state| state.is_closed = true);
    }
}

impl InputPipe {
    /// An input and its writing end.
    pub fn new() -> (Self, InputWriter) {
        let shared = Arc::new(Shared::default());
        let pipe = Self { shared: Arc::clone(&shared), _reader: Arc::new(EndOfReading(Arc::clone(&shared))) };
        let end = Arc::new(EndOfInput(Arc::clone(&shared)));
        (pipe, InputWriter { shared, _end: end })
    }

    /// No run will follow: writers get an error.
    pub(crate) fn end(&self) {
        self.shared.end();
    }

    /// A pipe for one run. It is filled until the value is dropped.
    pub(super) fn open(&self) -> io::Result<(PipeReader, Feeding)> {
        let (theirs, ours) = io::pipe()?;
        self.shared.change(|state| {
            state.given = 0;
            if state.reader == ReaderState::Closed {
                state.reader = ReaderState::Reads;
            }
        });
        Ok((theirs, Feeding::start(Arc::downgrade(&self.shared), ours)?))
    }
}

/// Forwards a command's input to its pipe. Ends when dropped.
#[derive(Debug)]
pub(super) struct Feeding(tokio::task::JoinHandle<()>);

impl Drop for Feeding {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Feeding {
    fn start(shared: Weak<Shared>, pipe: PipeWriter) -> io::Result<Self> {
        let mut pipe = Pipe::new(pipe)?;
        Ok(Self(tokio::spawn(async move {
            let Some(shared) = shared.upgrade() else { return };
            loop {
                let piece = tokio::select! {
                    piece = shared.until(|state| state.next()) => piece,
                    () = pipe.closed() => break,
                };
                if piece.is_empty() {
                    return;
                }
                match pipe.write(piece).await {
                    Ok(count) => shared.change(|state| state.pass(count)),
                    Err(_) => break,
                }
            }
            shared.change(|state| {
                if state.reader == ReaderState::Reads {
                    state.reader = ReaderState::Closed;
                }
            });
        })))
    }
}

/// A pipe that the event loop writes to.
#[cfg(unix)]
struct Pipe(tokio::net::unix::pipe::Sender);

#[cfg(unix)]
impl Pipe {
    fn new(pipe: PipeWriter) -> io::Result<Self> {
        Ok(Self(tokio::net::unix::pipe::Sender::from_owned_fd(pipe.into())?))
    }

    async fn write(&mut self, piece: Vec<u8>) -> io::Result<usize> {
        use tokio::io::AsyncWriteExt as _;
        self.0.write(&piece).await
    }

    /// Waits until the reading end is closed.
    async fn closed(&self) {
        // A pipe with room is always writable; a closed one signals an error.
        while let Ok(ready) = self.0.ready(tokio::io::Interest::ERROR).await {
            if ready.is_error() || ready.is_write_closed() {
                return;
            }
        }
    }
}

/// On systems whose event loop can't write to a pipe, a thread writes each piece.
#[cfg(not(unix))]
struct Pipe(Arc<PipeWriter>);

#[cfg(not(unix))]
impl Pipe {
    fn new(pipe: PipeWriter) -> io::Result<Self> {
        Ok(Self(Arc::new(pipe)))
    }

    async fn write(&mut self, piece: Vec<u8>) -> io::Result<usize> {
        use std::io::Write as _;
        let pipe = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || (&*pipe).write(&piece)).await.map_err(io::Error::other)?
    }

    async fn closed(&self) {
        std::future::pending().await
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Read as _;
    use std::time::Duration;

    use super::*;

    async fn read(mut pipe: PipeReader, most: usize) -> Vec<u8> {
        let read = move || {
            let mut bytes = vec![0; most];
            let count = pipe.read(&mut bytes).unwrap();
            bytes.truncate(count);
            bytes
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    async fn read_all(mut pipe: PipeReader) -> Vec<u8> {
        let read = move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).unwrap();
            bytes
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }

    #[tokio::test]
    async fn what_was_written_before_the_start_is_read_and_then_the_end() {
        let (input, writer) = InputPipe::new();
        writer.write(b"one ").await.unwrap();
        let (pipe, _feeding) = input.open().unwrap();
        writer.write(b"two").await.unwrap();
        writer.close();
        assert_eq!(read_all(pipe).await, b"one two");
        assert_eq!(writer.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn a_second_run_reads_it_from_the_beginning() {
        let (input, writer) = InputPipe::new();
        writer.write(b"all of it").await.unwrap();
        let (pipe, feeding) = input.open().unwrap();
        assert_eq!(read(pipe, 3).await, b"all");
        drop(feeding);
        let (pipe, _feeding) = input.open().unwrap();
        drop(writer);
        assert_eq!(read_all(pipe).await, b"all of it", "a writer that is dropped ends the input");
    }

    #[tokio::test]
    async fn a_writer_waits_for_a_command_that_does_not_read() {
        let (input, writer) = InputPipe::new();
        let (pipe, _feeding) = input.open().unwrap();
        let much = vec![b'x'; 2 * MOST_KEPT];
        let (waits, length) = (writer.clone(), much.len());
        let writing = tokio::spawn(async move { waits.write(&much).await });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!writing.is_finished());
        assert!(writer.shared.state().bytes.len() <= MOST_WAITING + MOST_KEPT);
        drop(writer);
        let reading = tokio::spawn(read_all(pipe));
        writing.await.unwrap().unwrap();
        assert_eq!(reading.await.unwrap().len(), length);
    }

    #[tokio::test]
    async fn writing_fails_once_the_command_has_closed_its_input_or_has_ended() {
        let (input, writer) = InputPipe::new();
        let (pipe, feeding) = input.open().unwrap();
        drop(pipe);
        let closed = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                match writer.write(b"x").await {
                    Ok(()) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(error) => return error,
                }
            }
        });
        assert_eq!(closed.await.unwrap().kind(), io::ErrorKind::BrokenPipe);
        drop(feeding);

        let much = vec![b'x'; 2 * MOST_WAITING];
        let (input, writer) = InputPipe::new();
        let writing = tokio::spawn(async move { writer.write(&much).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!writing.is_finished());
        drop(input);
        assert_eq!(writing.await.unwrap().unwrap_err().to_string(), "the command has ended");
    }
}
