//! Who takes a command's calls: one thread at a time, and another one if that is stuck.
//!
//! Judging a call looks at files, and a file system that does not answer holds up the thread that looks. That thread says
//! when it begins and ends a call, which costs nothing. A second one, started with the first call, looks now and then
//! whether the first has been at the same call for too long, and if so takes its place. There is a most of threads that
//! may be stuck: beyond it calls are no longer looked at, and the kernel goes on with them.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a call may take before another thread takes the next ones.
const PATIENCE: Duration = Duration::from_millis(50);
/// The most threads that may be stuck.
const MOST_STUCK: usize = 8;
/// The number of the thread whose turn it is stands above this, its calls below: odd while it is at one.
const TURN: u64 = 1 << 32;

/// Shared by the threads of one command.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: AtomicU64,
    stuck: AtomicUsize,
    /// Whether the second thread looks.
    is_watched: AtomicBool,
    has_ended: Mutex<bool>,
    bell: Condvar,
}

/// What the second thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Take calls, in the turn with this number.
    TakeOver(u64),
    /// Nothing more: the command has ended.
    End,
}

/// Whether a thread goes on to take calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Call,
    /// Another thread has taken over.
    Replaced,
}

impl Turns {
    /// A call is looked at from here on.
    pub(super) fn begin(&self) {
        self.state.fetch_add(1, SeqCst);
        if !self.is_watched.swap(true, SeqCst) {
            drop(self.has_ended.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
    }

    /// It is answered, or waits for an answer that comes from elsewhere.
    pub(super) fn end(&self, own: u64) -> Next {
        let ended = self.state.fetch_update(SeqCst, SeqCst, |state| (state / TURN == own).then(|| next_call(state)));
        if ended.is_ok() {
            return Next::Call;
        }
        self.stuck.fetch_sub(1, SeqCst);
        Next::Replaced
    }

    /// Whether so many threads are stuck that calls are no longer looked at.
    pub(super) fn is_blind(&self) -> bool {
        self.stuck.load(SeqCst) >= MOST_STUCK
    }

    /// The command has ended.
    pub(super) fn finish(&self) {
        *self.has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }

    /// Waits until there is something to do for the second thread.
    pub(super) fn watch(&self) -> Duty {
        let mut ended = self.has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waits = |ended: &mut bool| !*ended && !self.is_watched.load(SeqCst);
            ended = self.bell.wait_while(ended, waits).unwrap_or_else(PoisonError::into_inner);
            let before = self.state.load(SeqCst);
            let waited = self.bell.wait_timeout_while(ended, PATIENCE, |ended| !*ended);
            ended = waited.unwrap_or_else(PoisonError::into_inner).0;
            if *ended {
                return Duty::End;
            }
            self.is_watched.store(false, SeqCst);
            let now = self.state.load(SeqCst);
            if now.is_multiple_of(2) {
                continue;
            }
            self.is_watched.store(true, SeqCst);
            let taken_over = next_call(now) + TURN;
            if now == before && self.state.compare_exchange(now, taken_over, SeqCst, SeqCst).is_ok() {
                self.stuck.fetch_add(1, SeqCst);
                return Duty::TakeOver(taken_over / TURN);
            }
        }
    }
}

/// The calls are counted without ever reaching the number of the turn.
fn next_call(state: u64) -> u64 {
    if state % TURN == TURN - 1 { state - (TURN - 1) } else { state + 1 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_thread_that_is_stuck_is_replaced_and_finds_out() {
        let turns = Turns::default();
        turns.begin();
        assert_eq!(turns.watch(), Duty::TakeOver(1));
        turns.begin();
        assert_eq!(turns.end(1), Next::Call);
        assert_eq!(turns.end(0), Next::Replaced);
        assert!(!turns.is_blind());
    }

    #[test]
    fn after_so_many_nothing_is_looked_at_until_one_comes_back() {
        let turns = Turns::default();
        for own in 0..MOST_STUCK as u64 {
            assert!(!turns.is_blind());
            turns.begin();
            assert_eq!(turns.watch(), Duty::TakeOver(own + 1));
        }
        assert!(turns.is_blind());
        assert_eq!(turns.end(3), Next::Replaced);
        assert!(!turns.is_blind());
    }

    #[test]
    fn the_second_thread_ends_with_the_command() {
        let turns = Arc::new(Turns::default());
        let watching = Arc::clone(&turns);
        let second = std::thread::spawn(move || watching.watch());
        turns.begin();
        assert_eq!(turns.end(0), Next::Call);
        turns.finish();
        assert_eq!(second.join().unwrap(), Duty::End);
    }
}
