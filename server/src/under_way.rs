//! The requests of one connection that have no response yet.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::wire::{ErrorKind, RpcError, RpcId, ServerLimits};

/// `command/run` requests of one connection at a time.
const MOST_RUNS: usize = 1024;

/// What a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A `command/run`, which may take as long as it likes.
    Run,
    /// Any other.
    Other,
}

/// The requests that are under way.
#[derive(Debug, Default)]
pub(crate) struct UnderWay {
    requests: Mutex<HashMap<RpcId, Kind>>,
    fewer: Notify,
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Started {
    of: Arc<UnderWay>,
    id: RpcId,
}

impl UnderWay {
    /// Takes on a request, unless its id is in use or there are too many.
    pub(crate) fn start(self: &Arc<Self>, id: &RpcId, kind: Kind) -> Result<Started, RpcError> {
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
        requests.insert(id.clone(), kind);
        Ok(Started { of: Arc::clone(self), id: id.clone() })
    }

    /// Returns once no request is under way.
    pub(crate) async fn none_left(&self) {
        loop {
            let fewer = self.fewer.notified();
            tokio::pin!(fewer);
            // Registered before the look, so that the last end is not missed.
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
