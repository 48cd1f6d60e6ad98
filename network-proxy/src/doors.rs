//! Connection limits of a proxy: one for authenticated connections and a smaller one, with a deadline, for those that
//! have not sent the secret yet.
//!
//! Any local process can connect to the proxy. One without the secret is disconnected soon and does not count against
//! the limit for the command's own connections.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;

use crate::Secret;

/// Authenticated connections; further ones wait.
const MOST_KNOWN: usize = 4096;
/// Connections that have not authenticated yet.
const MOST_STRANGERS: usize = 256;
/// The deadline for authentication.
const PATIENCE: Duration = Duration::from_secs(10);
/// The deadline while more than half of the unauthenticated places are taken.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// The connection limits of one proxy.
pub(crate) struct Doors {
    known: Arc<Semaphore>,
    strangers: Arc<Semaphore>,
}

/// One connection and its permit.
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

    /// Waits for a permit for the next unauthenticated connection.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        // Never closed.
        Arc::clone(&self.strangers).acquire_owned().await.ok()
    }

    /// Registers an accepted connection, which has to present this secret.
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
    /// The secret that the client has to present.
    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Marks the connection as authenticated: its permit is exchanged for one without a deadline.
    pub(crate) async fn welcome(&self) {
        if self.is_known.send_replace(true) {
            return;
        }
        // Never closed.
        let place = Arc::clone(&self.known).acquire_owned().await.ok();
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }

    /// Waits for the authentication deadline; for ever once the connection is authenticated.
    pub(crate) async fn overstayed(&self) {
        let mut is_known = self.is_known.subscribe();
        let shown = is_known.wait_for(|is_known| *is_known);
        if tokio::time::timeout_at(self.until, shown).await.is_ok() {
            std::future::pending::<()>().await;
        }
    }
}
