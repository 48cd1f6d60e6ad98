//! One process as the client sees it: numbered output of which a part is kept, and its end.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_server::wire::CommandId;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::forms::{OutputChunk, ReadResult, StreamName};

/// How much output of a process is kept for `process/read`.
const KEPT_BYTES: usize = 1 << 20;

/// How much of it one answer has, about; the client asks for the rest.
const READ_BYTES: usize = 256 << 10;

/// In how many chunks.
const KEPT_CHUNKS: usize = 16_384;

/// How many ids of writes are kept, so that one that is sent again is not written again.
const KEPT_WRITES: usize = 1024;

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    /// codex's name for it.
    pub(crate) id: String,
    /// The session's.
    pub(crate) command: CommandId,
    pub(crate) input: Input,
    state: Mutex<State>,
    changed: Notify,
}

/// What a process reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    None,
    Pipe,
    Terminal,
}

#[derive(Debug)]
struct State {
    chunks: VecDeque<OutputChunk>,
    kept_bytes: usize,
    next_seq: u64,
    exit: Option<Exit>,
    is_closed: bool,
    is_terminated: bool,
    writes: VecDeque<String>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    /// Whether the sandbox denied it something, so that it failed.
    pub(crate) denied: bool,
}

impl Process {
    pub(crate) fn new(id: String, command: CommandId, input: Input) -> Self {
        let state = State {
            chunks: VecDeque::new(),
            kept_bytes: 0,
            next_seq: 1,
            exit: None,
            is_closed: false,
            is_terminated: false,
            writes: VecDeque::new(),
        };
        Self { id, command, input, state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes output in, and gives it with its number.
    pub(crate) fn append(&self, stream: StreamName, bytes: Vec<u8>) -> OutputChunk {
        let mut state = self.state();
        let chunk = OutputChunk { seq: state.take_seq(), stream, chunk: bytes };
        state.kept_bytes += chunk.chunk.len();
        state.chunks.push_back(chunk.clone());
        while state.kept_bytes > KEPT_BYTES || state.chunks.len() > KEPT_CHUNKS {
            let Some(gone) = state.chunks.pop_front() else { break };
            state.kept_bytes -= gone.chunk.len();
        }
        drop(state);
        self.changed.notify_waiters();
        chunk
    }

    /// It has exited. Gives the number of that.
    pub(crate) fn exited(&self, exit: Exit) -> u64 {
        let mut state = self.state();
        state.exit = Some(exit);
        let seq = state.take_seq();
        drop(state);
        self.changed.notify_waiters();
        seq
    }

    /// No more output comes. Gives the number of that.
    pub(crate) fn closed(&self) -> u64 {
        let mut state = self.state();
        state.is_closed = true;
        let seq = state.take_seq();
        drop(state);
        self.changed.notify_waiters();
        seq
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.state().exit.is_some()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().is_closed
    }

    /// The client wants it to end.
    pub(crate) fn terminate(&self) {
        self.state().is_terminated = true;
    }

    pub(crate) fn is_terminated(&self) -> bool {
        self.state().is_terminated
    }

    /// Whether a write of this id was taken before.
    pub(crate) fn has_write(&self, id: &str) -> bool {
        self.state().writes.iter().any(|known| known == id)
    }

    /// A write of this id was taken.
    pub(crate) fn remember_write(&self, id: String) {
        let mut state = self.state();
        state.writes.push_back(id);
        if state.writes.len() > KEPT_WRITES {
            state.writes.pop_front();
        }
    }

    /// What came after a number, as soon as there is something or the time is over.
    pub(crate) async fn read(&self, after: u64, most: Option<usize>, until: Instant) -> ReadResult {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Asked for before the look, so that a change right after it is not missed.
            changed.as_mut().enable();
            let result = self.state().read(after, most);
            let has_news = !result.chunks.is_empty()
                || result.closed
                || (result.exited && after < result.next_seq.saturating_sub(1));
            if has_news || tokio::time::timeout_at(until, changed).await.is_err() {
                return result;
            }
        }
    }
}

impl State {
    fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    fn read(&self, after: u64, most: Option<usize>) -> ReadResult {
        let mut chunks: Vec<OutputChunk> = Vec::new();
        let mut bytes = 0;
        let limit = most.unwrap_or(READ_BYTES).min(READ_BYTES);
        for chunk in self.chunks.iter().filter(|chunk| chunk.seq > after) {
            if bytes >= limit || (!chunks.is_empty() && bytes + chunk.chunk.len() > limit) {
                break;
            }
            bytes += chunk.chunk.len();
            chunks.push(chunk.clone());
        }
        let is_cut = chunks.last().is_some_and(|last| self.chunks.back().is_some_and(|newest| newest.seq > last.seq));
        let next_seq = match chunks.last() {
            Some(last) if is_cut => last.seq + 1,
            _ => self.next_seq,
        };
        ReadResult {
            chunks,
            next_seq,
            exited: self.exit.is_some(),
            exit_code: self.exit.map(|exit| exit.code),
            closed: self.is_closed,
            failure: None,
            sandbox_denied: self.exit.is_some_and(|exit| exit.denied),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn process() -> Process {
        Process::new(String::from("p"), "c".parse().unwrap(), Input::None)
    }

    #[tokio::test(start_paused = true)]
    async fn output_is_read_from_any_number_on() {
        let process = process();
        for text in ["one", "two", "three"] {
            process.append(StreamName::Stdout, text.into());
        }
        let now = Instant::now();
        let seqs = |result: &ReadResult| result.chunks.iter().map(|chunk| chunk.seq).collect::<Vec<_>>();
        let all = process.read(0, None, now).await;
        assert_eq!((seqs(&all), all.next_seq, all.exited), (vec![1, 2, 3], 4, false));
        let part = process.read(1, Some(4), now).await;
        assert_eq!((seqs(&part), part.next_seq), (vec![2], 3));
        // A chunk that is larger than the limit comes whole, or nothing ever would.
        assert_eq!(seqs(&process.read(2, Some(1), now).await), [3]);
        process.exited(Exit { code: 7, denied: true });
        process.closed();
        let end = process.read(3, None, now + Duration::from_secs(9)).await;
        assert_eq!((end.exit_code, end.closed, end.sandbox_denied, end.next_seq), (Some(7), true, true, 6));
        assert_eq!(Instant::now(), now, "it did not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_for_news_and_no_longer_than_it_may() {
        let process = std::sync::Arc::new(process());
        let began = Instant::now();
        assert!(process.read(0, None, began + Duration::from_secs(5)).await.chunks.is_empty());
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let writer = std::sync::Arc::clone(&process);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            writer.append(StreamName::Pty, b"x".to_vec());
        });
        let read = process.read(0, None, Instant::now() + Duration::from_secs(60)).await;
        assert_eq!((read.chunks.len(), began.elapsed()), (1, Duration::from_secs(6)));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let process = process();
        for _ in 0..100_000 {
            process.append(StreamName::Stdout, vec![b'x'; 64]);
        }
        let state = process.state();
        assert!(state.kept_bytes <= KEPT_BYTES && state.chunks.len() <= KEPT_CHUNKS);
        assert_eq!(state.chunks.back().unwrap().seq, 100_000);
    }
}
