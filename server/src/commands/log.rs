//! The output of one command: numbered chunks, a bounded part of them kept, readers at their own positions.
//!
//! The writer is the thread in `core` that reads the command's pipe. It appends first and waits afterwards, until no
//! reader has too much under way, so that a client which stops reading slows its own command, and nothing
//! that ends a command can lose what was read already. A reader that is dropped paces nothing; a command that is told to
//! end waits for no reader.

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

/// How much output is kept for readers that come later, as long as all sessions together keep less than they may.
pub(crate) const KEPT: u64 = ServerLimits::STANDARD.output_kept_bytes;

/// How much a reader may leave unread before the command blocks on its next write: half of what may be under way to a
/// client. The other half is what its connection has not taken yet.
const UNREAD: u64 = ServerLimits::STANDARD.output_under_way_bytes / 2;

/// How much a reader may leave unacknowledged, in bytes alone: a client that counts bytes must not wait for chunks.
const UNUSED: u64 = ServerLimits::STANDARD.output_under_way_bytes;

/// How large a chunk can be: what the thread in `core` reads at once.
const CHUNK: usize = 32 * 1024;

/// What a chunk costs besides its bytes, so that a command which prints single bytes fills no memory with chunks.
const CHUNK_COST: u64 = 64;

/// The output of one command.
pub(crate) struct OutputLog {
    state: Mutex<State>,
    /// A reader has moved on or gone, or the command ends: the writer looks again.
    room: Condvar,
    /// There is a chunk, or there will be no more.
    news: Notify,
    /// What all sessions keep.
    kept: Arc<KeptOutput>,
}

/// Output of one stream, with its place in the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) seq: u64,
    pub(crate) stream: StreamName,
    pub(crate) data: RawText,
}

/// What a reader gets next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Chunk(Chunk),
    /// The chunks before this one are gone.
    Lost {
        first_seq: u64,
    },
    /// There will be no more.
    End {
        last_seq: u64,
    },
}

/// Which chunks there are: none if the first is after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

struct State {
    chunks: VecDeque<Kept>,
    first_seq: u64,
    /// The cost of all chunks that there ever were.
    written: u64,
    /// Their bytes.
    bytes: u64,
    /// The last chunk that a reader has had. It and those before it do not change any more.
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

/// Until when output counts as under way to a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnderWay {
    /// Until it is read.
    UntilRead,
    /// Until the reader has said that it was used.
    UntilAcknowledged,
}

#[derive(Clone, Copy)]
struct Position {
    /// All bytes up to what the reader has acknowledged, if it does.
    acknowledged: Option<u64>,
    next_seq: u64,
    /// The cost of all chunks that the reader has had, or has lost.
    offset: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// The slowest reader sets it.
    Readers,
    /// The command is told to end: what it still prints is taken at once.
    None,
    /// Nothing is taken any more.
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

    /// Takes the output of one stream.
    pub(crate) fn sink(self: &Arc<Self>, stream: StreamName) -> LogSink {
        LogSink { log: Arc::clone(self), stream }
    }

    /// Reads the chunks after this one, and paces the command until it is dropped.
    pub(crate) fn read_after(self: &Arc<Self>, seq: u64, under_way: UnderWay) -> LogReader {
        let mut state = self.state();
        let id = state.readers_ever;
        state.readers_ever += 1;
        let next_seq = seq.saturating_add(1).min(state.extent().last_seq + 1);
        let offset = state.kept(next_seq).map_or(state.written, |chunk| chunk.start);
        // A reader that is before the first chunk is told so, and paces from the first chunk on.
        let offset = if next_seq < state.first_seq { state.oldest() } else { offset };
        let bytes_before = state.kept(next_seq.max(state.first_seq)).map_or(state.bytes, |chunk| chunk.bytes_before);
        let acknowledged = (under_way == UnderWay::UntilAcknowledged).then_some(bytes_before);
        state.readers.insert(id, Position { acknowledged, next_seq, offset });
        LogReader { log: Arc::clone(self), id }
    }

    /// What the chunks that are kept take.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.state().kept_bytes()
    }

    /// Which chunks there are.
    pub(crate) fn extent(&self) -> Extent {
        self.state().extent()
    }

    /// The command is told to end: its output waits for no reader from now on.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        if state.pace == Pace::Readers {
            state.pace = Pace::None;
        }
        drop(state);
        self.room.notify_all();
    }

    /// The command has ended: what comes later, from a process that outlived it, is refused. Says the last chunk's
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

    /// Adds chunks, drops those that are not kept any longer, and counts what that makes.
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

    /// The cost of all chunks that are gone.
    fn oldest(&self) -> u64 {
        self.chunks.front().map_or(self.written, |chunk| chunk.start)
    }

    /// Whether one more chunk could be more than a reader may be behind.
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
            // No reader has had the last chunk, so it can still grow.
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

/// One stream's way into a log.
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
    /// For what the reader has used.
    pub(crate) fn acknowledger(&self) -> Acknowledger {
        Acknowledger { log: Arc::clone(&self.log), id: self.id }
    }

    /// What comes next. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Next {
        loop {
            // Asked for before the look, so that a chunk right after it is not missed.
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

/// Says what a reader has used.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledger {
    log: Arc<OutputLog>,
    id: u64,
}

impl Acknowledger {
    /// Everything up to this chunk was used. A chunk that the reader has not had yet, or that is not kept any more, says
    /// nothing.
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
