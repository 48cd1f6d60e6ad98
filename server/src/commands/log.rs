//! The output of one command: numbered chunks, a bounded part of them kept, readers at their own positions.
//!
//! The writer is the thread in `core` that reads the command's pipe. It appends first and waits afterwards, until no
//! reader has too much in flight, so that a client which stops reading slows its own command, and ending a command
//! loses no output that was read. A dropped reader has no effect; a command that is being ended waits for no reader.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use stockade_core::{OutputSink, StreamName};
use stockade_protocol::RawText;
use tokio::sync::Notify;

use super::kept::KeptOutput;
use super::unfinished::Unfinished;
use crate::wire::ServerLimits;

/// Limit on the output kept for later readers, as long as all sessions together are below theirs.
pub(crate) const KEPT: u64 = ServerLimits::STANDARD.output_kept_bytes;

/// Limit on unread output before the command blocks on its next write: half of the limit on output in flight to a
/// client. The other half is queued in its connection.
const UNREAD: u64 = ServerLimits::STANDARD.output_under_way_bytes / 2;

/// Limit on unacknowledged output, in bytes alone: a client that counts bytes must not wait for chunks.
const UNUSED: u64 = ServerLimits::STANDARD.output_under_way_bytes;

/// The largest chunk: the read size of the thread in `core`.
const CHUNK: usize = 32 * 1024;

/// The overhead of a chunk, so that a command which prints single bytes does not fill memory with chunks.
const CHUNK_COST: u64 = 64;

/// The output of one command.
pub(crate) struct OutputLog {
    state: Mutex<State>,
    /// Wakes the writer: a reader has advanced or gone, or the command ends.
    room: Condvar,
    /// Wakes the readers: there is a chunk, or the end.
    news: Notify,
    /// The output kept by all sessions.
    kept: Arc<KeptOutput>,
}

/// Output of one stream, with its sequence number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) seq: u64,
    pub(crate) stream: StreamName,
    pub(crate) data: RawText,
}

/// The next item for a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// The chunks before this one were dropped.
    Lost {
        first_seq: u64,
    },
    /// The end of the output.
    End {
        last_seq: u64,
    },
}

/// The range of kept chunks; empty if the first is after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

struct State {
    chunks: VecDeque<Kept>,
    first_seq: u64,
    /// The cost of all chunks ever written.
    written: u64,
    /// Their bytes.
    bytes: u64,
    /// The last chunk that a reader has taken. It and those before it are immutable.
    last_taken: u64,
    unfinished: [Unfinished; 2],
    readers: BTreeMap<u64, Position>,
    readers_ever: u64,
    pace: Pace,
}

struct Kept {
    stream: StreamName,
    data: Vec<u8>,
    /// The cost of all chunks before it.
    start: u64,
    /// Their bytes.
    bytes_before: u64,
}

impl Kept {
    /// The cost of all chunks up to and with this one.
    fn end(&self) -> u64 {
        self.start + self.data.len() as u64 + CHUNK_COST
    }
}

/// When output stops counting as in flight to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnderWay {
    /// When it is read.
    UntilRead,
    /// When the reader has acknowledged it.
    UntilAcknowledged,
}

#[derive(Clone, Copy)]
struct Position {
    /// The bytes that the reader has acknowledged, if it acknowledges.
    acknowledged: Option<u64>,
    next_seq: u64,
    /// The cost of all chunks that the reader has taken or lost.
    offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The slowest reader sets the pace.
    Readers,
    /// The command is being ended: its remaining output is accepted without waiting.
    None,
    /// Further output is refused.
    Ended,
}

impl OutputLog {
    pub(crate) fn new(kept: Arc<KeptOutput>) -> Arc<Self> {
        let state = State {
            chunks: VecDeque::new(),
            first_seq: 1,
            written: 0,
            bytes: 0,
            last_taken: 0,
            unfinished: Default::default(),
            readers: BTreeMap::new(),
            readers_ever: 0,
            pace: Pace::Readers,
        };
        Arc::new(Self { state: Mutex::new(state), room: Condvar::new(), news: Notify::new(), kept })
    }

    /// A sink for one stream.
    pub(crate) fn sink(self: &Arc<Self>, stream: StreamName) -> LogSink {
        LogSink { log: Arc::clone(self), stream }
    }

    /// A reader of the chunks after this one, which paces the command until it is dropped.
    pub(crate) fn read_after(self: &Arc<Self>, seq: u64, under_way: UnderWay) -> LogReader {
        let mut state = self.state();
        let id = state.readers_ever;
        state.readers_ever += 1;
        let next_seq = seq.saturating_add(1).min(state.extent().last_seq + 1);
        let offset = state.kept(next_seq).map_or(state.written, |chunk| chunk.start);
        // A reader before the first kept chunk is told so, and paces from the first chunk on.
        let offset = if next_seq < state.first_seq { state.oldest() } else { offset };
        let bytes_before = state.kept(next_seq.max(state.first_seq)).map_or(state.bytes, |chunk| chunk.bytes_before);
        let acknowledged = (under_way == UnderWay::UntilAcknowledged).then_some(bytes_before);
        state.readers.insert(id, Position { acknowledged, next_seq, offset });
        LogReader { log: Arc::clone(self), id }
    }

    /// The size of the kept chunks.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.state().kept_bytes()
    }

    /// The range of kept chunks.
    pub(crate) fn extent(&self) -> Extent {
        self.state().extent()
    }

    /// Stops pacing: the command is being ended, and its output waits for no reader.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        if state.pace == Pace::Readers {
            state.pace = Pace::None;
        }
        drop(state);
        self.room.notify_all();
    }

    /// Ends the log: later output, of a process that outlived the command, is refused. Returns the last chunk's
    /// number.
    pub(crate) fn end(&self) -> u64 {
        let mut state = self.state();
        if state.pace != Pace::Ended {
            self.changed(&mut state, |state| {
                state.flush(StreamName::Stdout);
                state.flush(StreamName::Stderr);
            });
            state.pace = Pace::Ended;
        }
        let last_seq = state.extent().last_seq;
        drop(state);
        self.room.notify_all();
        self.news.notify_waiters();
        last_seq
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, stream: StreamName, bytes: &[u8]) -> io::Result<()> {
        for piece in bytes.chunks(CHUNK) {
            self.kept.make_room(piece.len() as u64 + CHUNK_COST);
            let mut state = self.state();
            if state.pace == Pace::Ended {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.changed(&mut state, |state| state.append(stream, piece));
            self.news.notify_waiters();
            drop(self.room.wait_while(state, |state| state.must_wait()).unwrap_or_else(PoisonError::into_inner));
        }
        Ok(())
    }

    /// Applies a change, drops chunks beyond the limit, and updates the total.
    fn changed(&self, state: &mut State, change: impl FnOnce(&mut State)) {
        let before = state.kept_bytes();
        change(state);
        state.drop_oldest(KEPT);
        self.kept.add(state.kept_bytes());
        self.kept.remove(before);
        if self.kept.is_full() {
            let now = state.kept_bytes();
            state.drop_oldest(UNREAD);
            self.kept.remove(now - state.kept_bytes());
        }
    }

    fn close(&self, stream: StreamName) {
        let mut state = self.state();
        if state.pace != Pace::Ended {
            self.changed(&mut state, |state| state.flush(stream));
        }
        drop(state);
        self.news.notify_waiters();
    }
}

impl Drop for OutputLog {
    fn drop(&mut self) {
        self.kept.remove(self.kept_bytes());
    }
}

impl fmt::Debug for OutputLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputLog").field("extent", &self.extent()).finish_non_exhaustive()
    }
}

impl State {
    fn extent(&self) -> Extent {
        Extent { first_seq: self.first_seq, last_seq: self.first_seq + self.chunks.len() as u64 - 1 }
    }

    fn kept(&self, seq: u64) -> Option<&Kept> {
        self.chunks.get(usize::try_from(seq.checked_sub(self.first_seq)?).ok()?)
    }

    /// The cost of all dropped chunks.
    fn oldest(&self) -> u64 {
        self.chunks.front().map_or(self.written, |chunk| chunk.start)
    }

    /// Whether one more chunk could exceed a reader's limit.
    fn must_wait(&self) -> bool {
        let unread = |position: &Position| self.written.saturating_sub(position.offset);
        let unused = |position: &Position| position.acknowledged.map_or(0, |used| self.bytes.saturating_sub(used));
        let is_behind = |position: &Position| {
            unread(position) + CHUNK as u64 + CHUNK_COST > UNREAD || unused(position) + CHUNK as u64 > UNUSED
        };
        self.pace == Pace::Readers && self.readers.values().any(is_behind)
    }

    fn append(&mut self, stream: StreamName, bytes: &[u8]) {
        if let Some(whole) = self.unfinished_of(stream).whole_characters(bytes) {
            self.push(stream, whole);
        }
    }

    fn flush(&mut self, stream: StreamName) {
        if let Some(rest) = self.unfinished_of(stream).rest() {
            self.push(stream, rest);
        }
    }

    fn unfinished_of(&mut self, stream: StreamName) -> &mut Unfinished {
        let [stdout, stderr] = &mut self.unfinished;
        match stream {
            StreamName::Stdout => stdout,
            StreamName::Stderr => stderr,
        }
    }

    fn push(&mut self, stream: StreamName, data: Vec<u8>) {
        let bytes_before = self.bytes;
        self.bytes += data.len() as u64;
        let is_untaken = self.extent().last_seq > self.last_taken;
        match self.chunks.back_mut() {
            // No reader has taken the last chunk, so it can grow.
            Some(last) if is_untaken && last.stream == stream && last.data.len() + data.len() <= CHUNK => {
                last.data.extend(data);
            }
            _ => self.chunks.push_back(Kept { stream, data, start: self.written, bytes_before }),
        }
        self.written = self.chunks.back().map_or(self.written, Kept::end);
    }

    fn kept_bytes(&self) -> u64 {
        self.written - self.oldest()
    }

    fn drop_oldest(&mut self, most: u64) {
        while self.kept_bytes() > most && self.chunks.pop_front().is_some() {
            self.first_seq += 1;
        }
    }

    fn take(&mut self, reader: u64) -> Option<Next> {
        let position = *self.readers.get(&reader)?;
        let Extent { first_seq, last_seq } = self.extent();
        if position.next_seq < first_seq {
            self.readers.insert(reader, Position { next_seq: first_seq, offset: self.oldest(), ..position });
            return Some(Next::Lost { first_seq });
        }
        let Some(kept) = self.kept(position.next_seq) else {
            return (self.pace == Pace::Ended).then_some(Next::End { last_seq });
        };
        let chunk = Chunk { seq: position.next_seq, stream: kept.stream, data: kept.data.clone().into() };
        let offset = kept.end();
        self.last_taken = self.last_taken.max(chunk.seq);
        self.readers.insert(reader, Position { next_seq: chunk.seq + 1, offset, ..position });
        Some(Next::Chunk(chunk))
    }
}

/// The sink of one stream.
#[derive(Debug)]
pub(crate) struct LogSink {
    log: Arc<OutputLog>,
    stream: StreamName,
}

impl OutputSink for LogSink {
    fn write(&self, _: StreamName, bytes: &[u8]) -> io::Result<()> {
        self.log.write(self.stream, bytes)
    }

    fn closed(&self) {
        self.log.close(self.stream);
    }
}

/// One reader of a log.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<OutputLog>,
    id: u64,
}

impl LogReader {
    /// A handle for acknowledgements.
    pub(crate) fn acknowledger(&self) -> Acknowledger {
        Acknowledger { log: Arc::clone(&self.log), id: self.id }
    }

    /// The next item. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            // Registered before the check, so that no chunk is missed.
            let news = self.log.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            let taken = self.log.state().take(self.id);
            if let Some(next) = taken {
                self.log.room.notify_all();
                return next;
            }
            news.await;
        }
    }
}

/// Acknowledges output for a reader.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledger {
    log: Arc<OutputLog>,
    id: u64,
}

impl Acknowledger {
    /// Acknowledges everything up to this chunk. Chunks that the reader has not taken yet, or that are no longer kept,
    /// are ignored.
    pub(crate) fn acknowledge(&self, seq: u64) {
        let mut state = self.log.state();
        let Some(used) = state.kept(seq).map(|chunk| chunk.bytes_before + chunk.data.len() as u64) else { return };
        if let Some(position) = state.readers.get_mut(&self.id)
            && let Some(acknowledged) = position.acknowledged.filter(|_| seq < position.next_seq)
        {
            position.acknowledged = Some(acknowledged.max(used));
        }
        drop(state);
        self.log.room.notify_all();
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.state().readers.remove(&self.id);
        self.log.room.notify_all();
    }
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
