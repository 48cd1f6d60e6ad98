//! What a server does without sessions: the trail and the rules can be read.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade_execpolicy::CheckReport;
use tokio::sync::watch;

use crate::peer::{Caller, Transport};
use crate::requests;
use crate::wire::{
    AuditListParams, AuditListResult, AuditVerifyResult, Empty, ErrorKind, Methods, RpcError, RulesCheckParams,
    SessionListResult,
};

/// What holds for every session of a server.
#[derive(Clone, Debug, Default)]
pub struct SessionsOptions {
    /// How long a session lives on without a client, unless the client says.
    pub linger: Option<Duration>,
    /// Files and directories that no command may reach, besides Stockade's usual ones.
    pub own_files: Vec<PathBuf>,
}

/// The sessions of a server.
#[derive(Debug)]
pub struct Sessions {
    open: watch::Sender<usize>,
    shutdown: watch::Sender<bool>,
}

impl Sessions {
    /// No session yet.
    pub fn new(_: SessionsOptions) -> Arc<Self> {
        Arc::new(Self { open: watch::Sender::new(0), shutdown: watch::Sender::new(false) })
    }

    /// How many sessions are open, and a way to hear of changes.
    pub fn open_sessions(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Returns once a client has asked for the end of the server.
    pub async fn shutdown_asked(&self) {
        self.shutdown.subscribe().wait_for(|asked| *asked).await.ok();
    }

    /// Closes every session.
    #[expect(clippy::unused_async, reason = "there is nothing to wait for without sessions")]
    pub async fn close_all(&self, _why: &str) {}
}

impl Methods for Sessions {
    async fn session_list(&self, _: Caller, _: Empty) -> Result<SessionListResult, RpcError> {
        Ok(SessionListResult { sessions: Vec::new() })
    }

    async fn audit_list(&self, _: Caller, params: AuditListParams) -> Result<AuditListResult, RpcError> {
        requests::audit_list(requests::own_trail().await?, params).await
    }

    async fn audit_verify(&self, _: Caller, _: Empty) -> Result<AuditVerifyResult, RpcError> {
        requests::audit_verify(requests::own_trail().await?).await
    }

    async fn rules_check(&self, _: Caller, params: RulesCheckParams) -> Result<CheckReport, RpcError> {
        requests::rules_check_alone(params.command).await
    }

    async fn shutdown(&self, caller: Caller, _: Empty) -> Result<Empty, RpcError> {
        if caller.peer.transport() != Transport::Stdio {
            return Err(RpcError::new(ErrorKind::UnknownMethod, "`shutdown` is for standard input and output only"));
        }
        self.shutdown.send_replace(true);
        Ok(Empty {})
    }
}
