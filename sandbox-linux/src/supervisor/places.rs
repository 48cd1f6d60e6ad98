//! Limits concurrent connections on separate threads.
//!
//! A connection inside the sandbox, or to a unix socket, may block on a busy server, even after its process is gone.
//! So the number of threads is bounded, regardless of what a command starts and kills.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Limit on these threads per supervisor.
pub(super) const MOST: usize = 64;

/// The number in use.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<AtomicUsize>);

/// A permit, released on drop.
#[derive(Debug)]
pub(super) struct Taken(Arc<AtomicUsize>);

impl Places {
    /// Takes one, if one is free.
    pub(super) fn take(&self) -> Option<Taken> {
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used < MOST).then_some(used + 1));
        taken.ok().map(|_| Taken(Arc::clone(&self.0)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_left() {
        let places = Places::default();
        let mut taken: Vec<Taken> = (0..MOST).filter_map(|_| places.take()).collect();
        assert!(taken.len() == MOST && places.take().is_none());
        taken.pop();
        assert!(places.take().is_some());
    }
}
