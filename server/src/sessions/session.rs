//! One session: a [`Stockade`] with its clients, questions and commands.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade::Stockade;
use stockade::protocol::{AbsPath, AuditEvent, RawText, RequestId, VariableName};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::commands::Commands;
use crate::peer::Peer;
use crate::questions::Questions;
use crate::wire::{
    Capability, ListedSession, RpcError, ServerNotification, SessionChanged, SessionId, SessionName, SessionNotice,
    SessionState,
};

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: Option<SessionName>,
    pub(crate) capability: Capability,
    pub(crate) stockade: Stockade,
    /// The commands' working directory.
    pub(crate) cwd: AbsPath,
    pub(crate) questions: Questions,
    pub(crate) commands: Arc<Commands>,
    /// How long it survives without a client, in milliseconds.
    pub(super) linger_ms: AtomicU64,
    pub(super) opened_at: SystemTime,
    /// When a command last ended, or a client last attached or detached.
    pub(super) touched: Mutex<Instant>,
    /// The number of attachments so far.
    pub(super) attachments: AtomicU64,
    pub(super) is_closing: AtomicBool,
    /// Set when it is completely closed.
    pub(super) closed: watch::Sender<bool>,
}

impl Session {
    /// Reloads changed settings and rules, and sends the notices to the clients.
    pub(crate) fn refresh(&self) -> Result<(), RpcError> {
        self.stockade.refresh().map_err(|error| RpcError::failed(&error))?;
        self.tell_notices(self.stockade.take_notices());
        Ok(())
    }

    /// Sends notices to the clients.
    pub(crate) fn tell_notices(&self, notices: Vec<String>) {
        for text in notices {
            let notice = SessionNotice { session_id: self.id.clone(), text };
            self.questions.tell(&ServerNotification::SessionNotice(notice), &[]);
        }
    }

    /// Its current state.
    pub(crate) fn state(&self) -> SessionState {
        let session = self.stockade.orchestrator().session();
        SessionState {
            session_id: self.id.clone(),
            cwd: self.cwd.clone(),
            ask: session.ask,
            sandbox: session.sandbox.clone(),
            permissions: session.permissions.clone(),
            notices: self.stockade.take_notices(),
        }
    }

    /// Notifies the clients, except the one that changed it, of its current state.
    pub(crate) fn tell_changed(&self, state: &SessionState, changed_by: &Peer) {
        let changed = SessionChanged { session_id: self.id.clone(), ask: state.ask, sandbox: state.sandbox.clone() };
        self.questions.tell(&ServerNotification::SessionChanged(changed), &[changed_by.id()]);
    }

    /// Writes an event of the session itself to the trail.
    pub(crate) fn record(&self, event: AuditEvent) -> Result<(), RpcError> {
        let id: RequestId = self.id.as_str().parse().map_err(|error| RpcError::failed(&error))?;
        let recorded = self.stockade.orchestrator().record(&id, event);
        recorded.map_err(|refusal| RpcError::new(crate::wire::ErrorKind::Failed, refusal.reason))
    }

    /// An id for a request that is not a command.
    pub(crate) fn next_id(&self) -> Result<RequestId, RpcError> {
        self.stockade.next_id().map_err(|error| RpcError::failed(&error))
    }

    /// Restarts the idle time.
    pub(crate) fn touched(&self) {
        *self.touched.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Its entry in a client's list.
    pub(crate) fn listed(&self, peer: &Peer) -> ListedSession {
        let session = self.stockade.orchestrator().session();
        let clients = self.questions.clients().len();
        let looks_only = self.questions.is_attached(peer) && !peer.capabilities().answers;
        let is_idle = clients == usize::from(looks_only) && !self.commands.is_running();
        let idle = self.touched.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        ListedSession {
            session_id: self.id.clone(),
            name: self.name.clone(),
            workspace: self.stockade.workspace(),
            ask: session.ask,
            sandbox: session.sandbox.clone(),
            clients: u32::try_from(clients).unwrap_or(u32::MAX),
            commands: self.commands.list(self.questions.is_attached(peer)),
            questions: u32::try_from(self.questions.len()).unwrap_or(u32::MAX),
            opened_at_ms: milliseconds(self.opened_at.duration_since(UNIX_EPOCH).unwrap_or_default()),
            idle_ms: if is_idle { milliseconds(idle) } else { 0 },
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Converts a caller's environment.
pub(crate) fn environment(given: &BTreeMap<VariableName, RawText>) -> BTreeMap<RawText, RawText> {
    given.iter().map(|(name, value)| (RawText::from(name.as_str()), value.clone())).collect()
}
