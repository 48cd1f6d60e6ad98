//! A server without sessions.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::peer::{Caller, Transport};
use crate::wire::{Empty, ErrorKind, Methods, RpcError, SessionListResult};

/// What holds for every session of a server.
#[derive(Clone, Debug, Default)]
pub struct SessionsOptions {
    /// How long a session lives on without a client, unless the client says.
    pub linger: Option<Duration>,
    /// Files and directories that no command may reach, besides Stockade's usual ones.
    pub own_files: Vec<PathBuf>,
}

/// The sessions of a server.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<(watch::Sender<usize>, watch::Sender<bool>)>);

impl Sessions {
    /// No session yet.
    pub fn new(_: SessionsOptions) -> Self {
        Self(Arc::new((watch::Sender::new(0), watch::Sender::new(false))))
    }

    /// How many sessions are open, and a way to hear of changes.
    pub fn open_sessions(&self) -> watch::Receiver<usize> {
        self.0.0.subscribe()
    }

    /// Returns once a client has asked for the end of the server.
    pub async fn shutdown_requested(&self) {
        self.0.1.subscribe().wait_for(|asked| *asked).await.ok();
    }

    /// Closes every session.
    #[expect(clippy::unused_async, reason = "there is nothing to wait for without sessions")]
    pub async fn close_all(&self, _why: &str) {}
}

impl Methods for Sessions {
    async fn session_list(&self, _: Caller, _: Empty) -> Result<SessionListResult, RpcError> {
        Ok(SessionListResult { sessions: Vec::new() })
    }

    async fn shutdown(&self, caller: Caller, _: Empty) -> Result<Empty, RpcError> {
        if caller.peer.transport() != Transport::Stdio {
            return Err(RpcError::new(ErrorKind::UnknownMethod, "`shutdown` is for standard input and output only"));
        }
        self.0.1.send_replace(true);
        Ok(Empty {})
    }
}
