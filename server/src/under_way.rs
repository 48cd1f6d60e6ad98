//! The requests of one connection that have no response yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::wire::{ErrorKind, RpcError, RpcId, ServerLimits};

/// `command/run` requests of one connection at a time.
const MOST_RUNS: usize = ServerLimits::STANDARD.runs as usize;
/// Requests of at most this many bytes don't count: a client whose large requests fill its limit can still cancel
/// them.
const SMALL: usize = 8 << 10;
/// Bytes of the larger requests of one connection.
const BYTES: usize = ServerLimits::STANDARD.request_bytes as usize;
/// Bytes of the larger requests of all connections.
const BYTES_OF_ALL: usize = ServerLimits::STANDARD.request_bytes_of_all_connections as usize;

/// The kind of a request, for its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `command/run`, without a time limit.
    Run,
    /// Any other.
    Other,
}

/// The limit on bytes of the requests of all connections. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RoomOfAll(Arc<Semaphore>);

impl Default for RoomOfAll {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BYTES_OF_ALL)))
    }
}

/// The requests in flight.
#[derive(Debug)]
pub(crate) struct UnderWay {
    requests: Mutex<HashMap<RpcId, Kind>>,
    fewer: Notify,
    room: Arc<Semaphore>,
    room_of_all: RoomOfAll,
}

/// A request in flight, until dropped.
#[derive(Debug)]
pub(crate) struct Started {
    of: Arc<UnderWay>,
    id: RpcId,
    _room: Option<[OwnedSemaphorePermit; 2]>,
}

impl UnderWay {
    pub(crate) fn new(room_of_all: RoomOfAll) -> Self {
        let room = Arc::new(Semaphore::new(BYTES));
        Self { requests: Mutex::default(), fewer: Notify::new(), room, room_of_all }
    }

    /// Admits a request of this many bytes, unless its id is in use or a limit is reached.
    pub(crate) fn start(self: &Arc<Self>, id: &RpcId, kind: Kind, bytes: usize) -> Result<Started, RpcError> {
        let mut requests = self.requests();
        if requests.contains_key(id) {
            let message = format!("the id {id} is in use: wait for its response, or take another id");
            return Err(RpcError::new(ErrorKind::InvalidRequest, message));
        }
        let (most, of) = match kind {
            Kind::Run => (MOST_RUNS, "`command/run` requests"),
            Kind::Other => (usize::try_from(ServerLimits::STANDARD.requests).unwrap_or(usize::MAX), "requests"),
        };
        if requests.values().filter(|other| **other == kind).count() >= most {
            let message = format!("this connection has {most} {of} under way: wait for a response");
            return Err(RpcError::new(ErrorKind::Busy, message));
        }
        let room = self.room_for(bytes)?;
        requests.insert(id.clone(), kind);
        Ok(Started { of: Arc::clone(self), id: id.clone(), _room: room })
    }

    /// Room for a request of this many bytes, in this connection's limit and the total; `None` for a small one.
    fn room_for(&self, bytes: usize) -> Result<Option<[OwnedSemaphorePermit; 2]>, RpcError> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let within = |room: &Arc<Semaphore>, most: usize, of: &str| {
            let count = u32::try_from(bytes).unwrap_or(u32::MAX);
            Arc::clone(room).try_acquire_many_owned(count).map_err(|_| {
                let message = format!(
                    "the requests of {of} that are under way have no room for {bytes} more bytes ({most} are the most): \
                     wait for a response, or send less at once"
                );
                RpcError::new(ErrorKind::Busy, message)
            })
        };
        let own = within(&self.room, BYTES, "this connection")?;
        Ok(Some([own, within(&self.room_of_all.0, BYTES_OF_ALL, "all connections")?]))
    }

    /// Returns once no request is in flight.
    pub(crate) async fn none_left(&self) {
        loop {
            let fewer = self.fewer.notified();
            tokio::pin!(fewer);
            // Registered before the check, so that the last end is not missed.
            fewer.as_mut().enable();
            if self.requests().is_empty() {
                return;
            }
            fewer.await;
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RpcId, Kind>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.of.requests().remove(&self.id);
        self.of.fewer.notify_waiters();
    }
}
