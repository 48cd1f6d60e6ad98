//! The output kept by all sessions of a server, with a common bound.
//!
//! At the bound, the oldest ended command of all sessions is dropped first. If only running commands are left, each
//! keeps only the output that its readers may still need.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::Commands;

/// The kept output of all sessions of a server.
#[derive(Debug)]
pub(crate) struct KeptOutput {
    bytes: AtomicU64,
    most: u64,
    sessions: Mutex<Vec<Weak<Commands>>>,
}

impl KeptOutput {
    pub(crate) fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { bytes: AtomicU64::new(0), most, sessions: Mutex::default() })
    }

    /// Registers a session.
    pub(super) fn add_session(&self, commands: &Arc<Commands>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(Arc::downgrade(commands));
    }

    pub(super) fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether only output that readers wait for can be kept.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.most
    }

    /// Drops ended commands until this many bytes are free, the oldest first.
    pub(super) fn make_room(&self, bytes: u64) {
        while self.bytes.load(Ordering::Relaxed).saturating_add(bytes) > self.most {
            let sessions: Vec<Arc<Commands>> = {
                let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
                sessions.iter().filter_map(Weak::upgrade).collect()
            };
            let oldest = sessions.iter().filter_map(|session| Some((session.oldest_end()?, session)));
            let Some((_, session)) = oldest.min_by_key(|(at, _)| *at) else { return };
            session.forget_oldest();
        }
    }
}

#[cfg(test)]
impl KeptOutput {
    pub(super) fn unbounded() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
