//! The sessions of the server: clients open, join, change and close them, and they survive for a time without clients.

mod methods;
mod open;
mod requests;
mod session;
mod trail;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade::protocol::AuditEvent;
use tokio::sync::{Semaphore, watch};

use crate::commands::{Commands, KeptOutput};
use crate::peer::Peer;
use crate::questions::Desk;
use crate::wire::{
    ErrorKind, RpcError, ServerLimits, ServerNotification, SessionClosed, SessionId, SessionName, SessionOpenParams,
};
pub(crate) use session::{Session, environment};

const ENDING: &str = "the server is about to end: connect to another one";

/// Options for all sessions of a server.
#[derive(Clone, Debug, Default)]
pub struct SessionsOptions {
    /// Files and directories of the server that no command may reach, such as the directory of its socket.
    pub own_files: Vec<PathBuf>,
    /// Programs of the server that run in sandboxes: commands may read them in any location, and not write them.
    pub programs: Vec<PathBuf>,
    /// How long a session survives without a client, unless the client sets it.
    pub linger: Option<Duration>,
}

/// The sessions of a server. Clones share them.
#[derive(Clone, Debug)]
pub struct Sessions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: SessionsOptions,
    desk: Arc<Desk>,
    /// The output kept by all sessions.
    kept: Arc<KeptOutput>,
    /// Permits for running commands of all sessions.
    places: Arc<Semaphore>,
    table: Mutex<Table>,
    /// Changes whenever a session is opened or closed.
    open: watch::Sender<usize>,
    is_shut_down: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<u64, Arc<Session>>,
    /// Names of open sessions, and of those being opened.
    names: HashSet<SessionName>,
    opening: usize,
    next: u64,
    is_closed: bool,
}

impl Sessions {
    /// An empty list of sessions.
    pub fn new(options: SessionsOptions) -> Self {
        Self(Arc::new(Shared {
            options,
            desk: Desk::new(ServerLimits::STANDARD.questions_of_all_sessions),
            kept: KeptOutput::new(ServerLimits::STANDARD.output_kept_bytes_of_all_sessions),
            places: Arc::new(Semaphore::new(ServerLimits::STANDARD.commands_of_all_sessions as usize)),
            table: Mutex::default(),
            open: watch::Sender::new(0),
            is_shut_down: watch::Sender::new(false),
        }))
    }

    /// The number of open sessions, as a watch.
    pub fn open_sessions(&self) -> watch::Receiver<usize> {
        self.0.open.subscribe()
    }

    /// Returns once a client has shut the server down and every session is closed.
    pub async fn shutdown_requested(&self) {
        let mut is_shut_down = self.0.is_shut_down.subscribe();
        is_shut_down.wait_for(|is_shut_down| *is_shut_down).await.ok();
    }

    /// Closes every session, and refuses new ones. It takes as long as commands may take to end.
    pub async fn close_all(&self, why: &str) {
        let sessions: Vec<Arc<Session>> = {
            let mut table = self.table();
            table.is_closed = true;
            table.sessions.values().cloned().collect()
        };
        let closing: Vec<_> = sessions
            .into_iter()
            .map(|session| {
                let (sessions, why) = (self.clone(), why.to_owned());
                tokio::spawn(async move { sessions.close(&session, &why, None).await })
            })
            .collect();
        for closed in closing {
            // Waiting does not help for a task that panicked.
            closed.await.ok();
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, peer: &Peer, params: SessionOpenParams) -> Result<Arc<Session>, RpcError> {
        let place = Place::reserve(self, params.name.clone())?;
        let id = place.id.clone();
        let (desk, options) = (Arc::clone(&self.0.desk), self.0.options.clone());
        let commands = Commands::new(Arc::clone(&self.0.kept), Arc::clone(&self.0.places));
        let session = Arc::new(open::open(id, peer, params, Shares { desk, commands }, options).await?);
        place.take(&session);
        self.attach(&session, peer);
        if self.table().is_closed {
            self.close(&session, ENDING, None).await;
            return Err(RpcError::new(ErrorKind::Closed, ENDING));
        }
        Ok(session)
    }

    /// Attaches a connection to a session.
    fn attach(&self, session: &Arc<Session>, peer: &Peer) {
        session.attachments.fetch_add(1, Ordering::AcqRel);
        session.questions.attach(peer);
        // A client that answers no questions may only look; its commands count by themselves.
        if peer.capabilities().answers {
            session.touched();
        }
        if peer.is_gone() {
            self.detach(session, peer);
        }
    }

    /// Detaches a connection. A session that has no client left lingers.
    fn detach(&self, session: &Arc<Session>, peer: &Peer) {
        let left = session.questions.detach(peer);
        session.commands.forget_client(peer);
        if peer.capabilities().answers {
            session.touched();
        }
        if left != Some(0) {
            return;
        }
        let before = session.attachments.load(Ordering::Acquire);
        let linger = Duration::from_millis(session.linger_ms.load(Ordering::Acquire));
        let (sessions, session) = (self.clone(), Arc::downgrade(session));
        tokio::spawn(async move {
            tokio::time::sleep(linger).await;
            let Some(session) = session.upgrade() else { return };
            let is_alone = session.questions.clients().is_empty();
            if is_alone && session.attachments.load(Ordering::Acquire) == before {
                sessions.close(&session, "no client was attached any more", None).await;
            }
        });
    }

    /// Closes a session: its questions, its commands, its memory. Returns how many commands ran.
    async fn close(&self, session: &Arc<Session>, why: &str, closed_by: Option<&Peer>) -> usize {
        if session.is_closing.swap(true, Ordering::AcqRel) {
            session.closed.subscribe().wait_for(|is_closed| *is_closed).await.ok();
            return 0;
        }
        session.questions.close(why);
        let ended = session.commands.close(why).await;
        // Dropping it waits until the workspace has no placeholder left.
        let kept = Arc::clone(session);
        tokio::task::spawn_blocking(move || kept.stockade.end_sandboxes().ok()).await.ok();
        let reason = why.to_owned();
        // The session is closed even if the trail can't be written.
        session.record(AuditEvent::SessionClosed { reason, commands: ended as u64 }).ok();
        let closed = SessionClosed { session_id: session.id.clone(), why: why.to_owned() };
        let knows: Vec<_> = closed_by.map(Peer::id).into_iter().collect();
        session.questions.tell(&ServerNotification::SessionClosed(closed), &knows);
        let mut table = self.table();
        table.sessions.retain(|_, other| !Arc::ptr_eq(other, session));
        if let Some(name) = &session.name {
            table.names.remove(name);
        }
        self.0.open.send_replace(table.sessions.len() + table.opening);
        drop(table);
        session.closed.send_replace(true);
        ended
    }

    /// A session by its id.
    fn find(&self, id: &SessionId) -> Result<Arc<Session>, RpcError> {
        let found = self.table().sessions.values().find(|session| session.id == *id).cloned();
        let session = found.ok_or_else(|| {
            RpcError::new(
                ErrorKind::UnknownSession,
                format!("there is no session `{id}`: `session/list` has all of them"),
            )
        })?;
        if session.is_closing() {
            return Err(RpcError::new(ErrorKind::Closed, format!("the session `{id}` is closed: open another one")));
        }
        Ok(session)
    }

    /// A session that a connection is a client of.
    fn attached(&self, peer: &Peer, id: &SessionId) -> Result<Arc<Session>, RpcError> {
        let session = self.find(id)?;
        if !session.questions.is_attached(peer) {
            let message = "this connection is not attached to the session: `session/attach` with its capability";
            return Err(RpcError::new(ErrorKind::NotPermitted, message));
        }
        Ok(session)
    }

    /// Every session that a connection is a client of.
    fn all_attached(&self, peer: &Peer) -> Vec<Arc<Session>> {
        let sessions: Vec<Arc<Session>> = self.table().sessions.values().cloned().collect();
        sessions.into_iter().filter(|session| session.questions.is_attached(peer)).collect()
    }
}

/// A session's handles to the shared state.
struct Shares {
    desk: Arc<Desk>,
    commands: Arc<Commands>,
}

/// A reservation for a session that is being opened, released unless the session takes it.
struct Place<'a> {
    sessions: &'a Sessions,
    number: u64,
    id: SessionId,
    name: Option<SessionName>,
    is_taken: bool,
}

impl<'a> Place<'a> {
    fn reserve(sessions: &'a Sessions, name: Option<SessionName>) -> Result<Self, RpcError> {
        let mut table = sessions.table();
        if table.is_closed {
            return Err(RpcError::new(ErrorKind::Closed, ENDING));
        }
        let most = ServerLimits::STANDARD.sessions;
        if table.sessions.len() + table.opening >= most as usize {
            return Err(RpcError::new(ErrorKind::Busy, format!("the server has {most} sessions: close one of them")));
        }
        if let Some(taken) = name.as_ref().filter(|name| table.names.contains(*name)) {
            let message =
                format!("`params.name`: a session has the name `{taken}` already: attach to it, or choose another");
            return Err(RpcError::new(ErrorKind::InvalidParams, message));
        }
        let number = table.next;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let id = format!("session-{}-{}-{number}", now.as_millis(), std::process::id());
        let id: SessionId = id.parse().map_err(|error| RpcError::failed(&error))?;
        table.next += 1;
        table.opening += 1;
        table.names.extend(name.clone());
        sessions.0.open.send_replace(table.sessions.len() + table.opening);
        Ok(Self { sessions, number, id, name, is_taken: false })
    }

    fn take(mut self, session: &Arc<Session>) {
        self.is_taken = true;
        let mut table = self.sessions.table();
        table.opening -= 1;
        table.sessions.insert(self.number, Arc::clone(session));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let mut table = self.sessions.table();
        table.opening -= 1;
        if let Some(name) = &self.name {
            table.names.remove(name);
        }
        self.sessions.0.open.send_replace(table.sessions.len() + table.opening);
    }
}
