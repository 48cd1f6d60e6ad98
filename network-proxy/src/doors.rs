//! The places of a proxy: for connections that have shown the secret, and, fewer and for a short time, for those
//! that have not.
//!
//! Any process of this machine can connect to the proxy. One that does not know the secret is let go soon, and
//! takes no place of the command's own connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::Secret;

/// Connections with the secret; more at once wait for their turn.
const MOST_KNOWN: usize = 4096;
/// Connections that have not shown it yet.
const MOST_STRANGERS: usize = 256;
/// How long a connection may take to show the secret.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same while more than half of the places for strangers are taken.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The places of one proxy.
pub(crate) struct Doors {
    known: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// One connection and its place.
#[derive(Debug)]
pub(crate) struct Visit {
    secret: Secret,
    known: Arc<Semaphore>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    is_known: watch::Sender<bool>,
    until: Instant,
}

impl Doors {
    pub(crate) fn new() -> Self {
        Self { known: Arc::new(Semaphore::new(MOST_KNOWN)), strangers: Arc::new(Semaphore::new(MOST_STRANGERS)) }
    }

    /// Waits for a place for the next connection.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.strangers).acquire_owned().await.ok()
    }

    /// A connection that has come, and has to show this secret.
    pub(crate) fn visit(&self, place: Option<OwnedSemaphorePermit>, secret: Secret) -> Visit {
        let is_crowded = self.strangers.available_permits() < MOST_STRANGERS / 2;
        Visit {
            secret,
            known: Arc::clone(&self.known),
            place: Mutex::new(place),
            is_known: watch::Sender::new(false),
            until: Instant::now() + if is_crowded { IMPATIENCE } else { PATIENCE },
        }
    }
}

impl Visit {
    /// What it has to show.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// It has shown the secret: it stays as long as it likes, in a place for those who have.
    pub(crate) async fn welcome(&self) {
        if self.is_known.send_replace(true) {
            return;
        }
        // Never closed.
        let place = Arc::clone(&self.known).acquire_owned().await.ok();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Waits until it has taken too long to show the secret; for ever if it has shown it.
    pub(crate) async fn overstayed(&self) {
        let mut is_known = self.is_known.subscribe();
        let shown = is_known.wait_for(|is_known| *is_known);
        if tokio::time::timeout_at(self.until, shown).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}
