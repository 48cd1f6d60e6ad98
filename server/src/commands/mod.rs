//! The commands of a session: running ones and, for a while, ended ones.

mod command;
mod follow;
mod kept;
mod log;
mod onlookers;
mod sent;
mod start;
mod terminal;
mod unfinished;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use stockade_protocol::Argv;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::peer::Peer;
use crate::wire::{CommandId, CommandState, ErrorKind, ListedCommand, RpcError, ServerLimits};
pub(crate) use command::Command;
pub(crate) use kept::KeptOutput;
pub(crate) use start::{Started, start};

/// How long an ended command is kept.
const KEPT_FOR: Duration = Duration::from_millis(ServerLimits::STANDARD.ended_commands_ms);

/// How much output of ended commands a session keeps in all.
const KEPT_OUTPUT: u64 = ServerLimits::STANDARD.output_kept_bytes_of_session;

/// How long commands may take to end when their session is closed.
const TIME_TO_END: Duration = Duration::from_secs(10);

/// The commands of one session.
#[derive(Debug)]
pub(crate) struct Commands {
    table: Mutex<Table>,
    /// The output kept by all sessions.
    kept: Arc<KeptOutput>,
    /// Permits for running commands of all sessions.
    places: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Table {
    running: BTreeMap<u64, (Arc<Command>, OwnedSemaphorePermit)>,
    ended: VecDeque<(Instant, Arc<Command>)>,
    next: u64,
    /// Whether new commands are refused.
    is_closed: bool,
}

impl Commands {
    pub(crate) fn new(kept: Arc<KeptOutput>, places: Arc<Semaphore>) -> Arc<Self> {
        let commands = Arc::new(Self { table: Mutex::default(), kept, places });
        commands.kept.add_session(&commands);
        commands
    }

    fn kept(&self) -> &Arc<KeptOutput> {
        &self.kept
    }

    /// The end time of the oldest ended command.
    fn oldest_end(&self) -> Option<Instant> {
        self.table().ended.front().map(|(at, _)| *at)
    }

    /// Drops the oldest ended command.
    fn forget_oldest(&self) {
        let forgotten = self.table().ended.pop_front();
        // Outside of the lock, since this releases its output.
        drop(forgotten);
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a command, under the name that its client chose or a new one.
    fn add(
        &self,
        name: Option<CommandId>,
        make: impl FnOnce(CommandId) -> Result<Arc<Command>, RpcError>,
    ) -> Result<(u64, Arc<Command>), RpcError> {
        let mut table = self.table();
        table.prune();
        if table.is_closed {
            return Err(RpcError::new(ErrorKind::Closed, "the session was closed: open another one"));
        }
        let most = ServerLimits::STANDARD.commands;
        if table.running.len() >= most as usize {
            let message = format!("{most} commands of this session run already: wait for one, or cancel one");
            return Err(RpcError::new(ErrorKind::Busy, message));
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let most = ServerLimits::STANDARD.commands_of_all_sessions;
            let message = format!("{most} commands of all sessions run already: wait for one, or cancel one");
            RpcError::new(ErrorKind::Busy, message)
        })?;
        let id = match name {
            Some(id) if table.find(&id).is_some() => {
                let message =
                    format!("`params.command_id`: the session has a command `{id}` already: choose another name");
                return Err(RpcError::new(ErrorKind::InvalidParams, message));
            }
            Some(id) => id,
            None => table.new_name()?,
        };
        let command = make(id)?;
        let number = table.next;
        table.next += 1;
        table.running.insert(number, (Arc::clone(&command), place));
        Ok((number, command))
    }

    /// Marks a command as ended; it is kept for a while.
    fn ended(self: &Arc<Self>, number: u64) {
        let mut table = self.table();
        if let Some((command, _)) = table.running.remove(&number) {
            table.ended.push_back((Instant::now(), command));
        }
        table.prune();
        drop(table);
        self.kept.make_room(0);
        let commands: Weak<Self> = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(KEPT_FOR).await;
            if let Some(commands) = commands.upgrade() {
                commands.table().prune();
            }
        });
    }

    /// A command by its name.
    pub(crate) fn find(&self, id: &CommandId) -> Result<Arc<Command>, RpcError> {
        let mut table = self.table();
        table.prune();
        table.find(id).ok_or_else(|| {
            let message = format!("the session has no command `{id}`, or does not keep it any more");
            RpcError::new(ErrorKind::UnknownCommand, message)
        })
    }

    /// The commands in order, with their words for an attached client.
    pub(crate) fn list(&self, with_words: bool) -> Vec<ListedCommand> {
        let mut table = self.table();
        table.prune();
        let ended = table.ended.iter().map(|(_, command)| (command, CommandState::Ended));
        let running = table.running.values().map(|(command, _)| (command, CommandState::Running));
        let listed = ended.chain(running).map(|(command, state)| ListedCommand {
            command_id: command.id().clone(),
            command: with_words.then(|| Argv::clone(command.words())),
            state,
        });
        listed.collect()
    }

    /// Whether a command runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.table().running.is_empty()
    }

    /// Removes a detached client: it gets no output and paces nothing.
    pub(crate) fn forget_client(&self, peer: &Peer) {
        let table = self.table();
        let running = table.running.values().map(|(command, _)| command);
        running.chain(table.ended.iter().map(|(_, command)| command)).for_each(|command| {
            command.forget_follower(peer.id());
        });
    }

    /// Cancels every command, refuses new ones, and waits for their ends up to a limit. Returns how many ran.
    pub(crate) async fn close(&self, why: &str) -> usize {
        let running: Vec<Arc<Command>> = {
            let mut table = self.table();
            table.is_closed = true;
            table.running.values().map(|(command, _)| Arc::clone(command)).collect()
        };
        let why = format!("its session was ended: {why}");
        running.iter().for_each(|command| command.cancel(&why));
        let all_ended = async {
            for command in &running {
                command.ended().await;
            }
        };
        // A command that takes longer ends with its task, which gives up by itself.
        tokio::time::timeout(TIME_TO_END, all_ended).await.ok();
        running.len()
    }
}

impl Table {
    fn find(&self, id: &CommandId) -> Option<Arc<Command>> {
        let ended = self.ended.iter().map(|(_, command)| command);
        let running = self.running.values().map(|(command, _)| command);
        running.chain(ended).find(|command| command.id() == id).cloned()
    }

    fn new_name(&mut self) -> Result<CommandId, RpcError> {
        loop {
            let name = format!("c{}", self.next);
            let id = name.parse().map_err(|error| RpcError::failed(&error))?;
            if self.find(&id).is_none() {
                return Ok(id);
            }
            self.next += 1;
        }
    }

    /// Drops the ended commands that are too old or too many.
    fn prune(&mut self) {
        let is_old = |(at, _): &(Instant, Arc<Command>)| at.elapsed() >= KEPT_FOR;
        let mut kept: u64 = self.ended.iter().map(|(_, command)| command.kept_bytes()).sum();
        while self.ended.len() > ServerLimits::STANDARD.ended_commands as usize
            || kept > KEPT_OUTPUT
            || self.ended.front().is_some_and(is_old)
        {
            let Some((_, gone)) = self.ended.pop_front() else { break };
            kept = kept.saturating_sub(gone.kept_bytes());
        }
    }
}
