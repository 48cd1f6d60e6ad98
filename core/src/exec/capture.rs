//! Keeps the beginning and the end of a stream of any length.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_protocol::{CapturedOutput, RawText};
use tokio::sync::Notify;

use super::Limits;
use crate::session::OutputLimit;

/// The captured part of a stream, shared between the reading thread and the task that waits for its end.
#[derive(Debug)]
pub(crate) struct Capture {
    kept: Mutex<Kept>,
    at_end: Notify,
    /// Output is being forwarded, and the sink blocks.
    is_busy: AtomicBool,
}

/// How long to wait for the end of a stream after the command has ended.
pub(super) struct Patience<'a> {
    /// In a sandbox no process is left to write; without one, a detached process may hold the stream for ever.
    pub(super) idle: Duration,
    /// Output that is still being forwarded, to a pager for example, is awaited until the run has to end.
    pub(super) limits: &'a Limits,
}

#[derive(Debug)]
struct Kept {
    limit: OutputLimit,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Capture {
    pub(crate) fn new(limit: OutputLimit) -> Self {
        let kept = Kept { limit, head: Vec::new(), tail: VecDeque::new(), omitted: 0 };
        Self { kept: Mutex::new(kept), at_end: Notify::new(), is_busy: AtomicBool::new(false) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, bytes: &[u8]) {
        self.kept().add(bytes);
    }

    pub(crate) fn end(&self) {
        self.at_end.notify_one();
    }

    pub(super) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Release);
    }

    /// The captured output, once the stream has ended or waiting is given up.
    pub(super) async fn finish(&self, patience: &Patience<'_>) -> CapturedOutput {
        while tokio::time::timeout(patience.idle, self.at_end.notified()).await.is_err() {
            if !self.is_busy.load(Ordering::Acquire) || patience.limits.are_to_end() {
                break;
            }
        }
        self.take()
    }

    /// The captured output so far.
    pub(super) fn take(&self) -> CapturedOutput {
        let mut kept = self.kept();
        let tail = Vec::from(std::mem::take(&mut kept.tail));
        let mut head = std::mem::take(&mut kept.head);
        if kept.omitted > 0 {
            return CapturedOutput {
                head: RawText::from(head),
                omitted_bytes: kept.omitted,
                tail: RawText::from(tail),
            };
        }
        head.extend(tail);
        CapturedOutput { head: RawText::from(head), ..CapturedOutput::default() }
    }
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.limit.head.saturating_sub(self.head.len())));
        self.head.extend_from_slice(head);
        // Of a chunk longer than the tail only the end is kept.
        let (skipped, kept) = rest.split_at(rest.len().saturating_sub(self.limit.tail));
        let overflow = (self.tail.len() + kept.len()).saturating_sub(self.limit.tail);
        self.tail.drain(..overflow.min(self.tail.len()));
        self.tail.extend(kept);
        self.omitted += (skipped.len() + overflow) as u64;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn captured(limit: OutputLimit, pieces: &[Vec<u8>]) -> CapturedOutput {
        let capture = Capture::new(limit);
        for piece in pieces {
            capture.add(piece);
        }
        capture.take()
    }

    proptest! {
        #[test]
        fn head_gap_and_tail_make_up_the_whole(
            head in 0usize..20, tail in 0usize..20,
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 0..8),
        ) {
            let whole = pieces.concat();
            let found = captured(OutputLimit { head, tail }, &pieces);
            let (kept_head, kept_tail) = (found.head.as_bytes(), found.tail.as_bytes());
            prop_assert_eq!(kept_head.len() + kept_tail.len() + found.omitted_bytes as usize, whole.len());
            prop_assert!(whole.starts_with(kept_head) && whole.ends_with(kept_tail));
            prop_assert_eq!(found.omitted_bytes > 0, whole.len() > head + tail);
            if found.omitted_bytes > 0 {
                prop_assert_eq!((kept_head.len(), kept_tail.len()), (head, tail));
            }
        }
    }

    fn limits() -> Limits {
        Limits { limit: None, clock: crate::Clock::new(), cancellation: crate::Cancellation::new() }
    }

    #[tokio::test]
    async fn a_stream_that_never_ends_is_not_waited_for() {
        let capture = Capture::new(OutputLimit { head: 10, tail: 0 });
        capture.add(b"so far");
        let patience = Patience { idle: Duration::ZERO, limits: &limits() };
        assert_eq!(capture.finish(&patience).await.head, RawText::from("so far"));
    }

    /// A pager that is open for an hour loses nothing; the end of the run does not wait for it.
    #[tokio::test]
    async fn output_that_is_being_passed_on_is_waited_for_until_the_run_is_told_to_end() {
        let (capture, limits) = (Capture::new(OutputLimit { head: 10, tail: 0 }), limits());
        capture.set_busy(true);
        let patience = Patience { idle: Duration::from_millis(1), limits: &limits };
        let waited = tokio::time::timeout(Duration::from_millis(100), capture.finish(&patience)).await;
        assert!(waited.is_err());
        limits.cancellation.signal(15);
        tokio::time::timeout(Duration::from_secs(5), capture.finish(&patience)).await.unwrap();
    }
}
