//! Sending a command's output to one client.

use std::sync::Arc;

use stockade_core::StreamName;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::command::Command;
use super::log::{Acknowledger, LogReader, Next, UnderWay};
use crate::peer::{Lane, Peer};
use crate::wire::{
    CommandEnded, CommandLost, CommandOutput, OutputStream, ServerLimits, ServerNotification, SessionId,
};

/// The output queued for the connection: half of the limit on output in flight. The log has the other half.
const LANE_BYTES: u64 = ServerLimits::STANDARD.output_under_way_bytes / 2;

/// Sends a command's output to a client until it is dropped.
#[derive(Debug)]
pub(super) struct Follower {
    acknowledger: Acknowledger,
    task: AbortHandle,
}

impl Follower {
    pub(super) fn acknowledge(&self, seq: u64) {
        self.acknowledger.acknowledge(seq);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The role of a client that follows a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It ran the command, and gets its end as the result of that.
    Runner,
    /// It is told of the end.
    Watcher,
}

impl Command {
    /// Sends the output after this chunk to a client, replacing an earlier follower. The receiver completes when all
    /// output is queued, or when the client is sent no more.
    pub(crate) fn follow(
        self: &Arc<Self>,
        session_id: &SessionId,
        peer: &Peer,
        after_seq: u64,
        under_way: UnderWay,
        role: Role,
    ) -> oneshot::Receiver<()> {
        let reader = self.log.read_after(after_seq, under_way);
        let acknowledger = reader.acknowledger();
        let (all_queued, queued) = oneshot::channel::<()>();
        let sending = Sending {
            session_id: session_id.clone(),
            command: Arc::clone(self),
            lane: peer.lane(usize::try_from(LANE_BYTES).unwrap_or(usize::MAX)),
            role,
        };
        let mut followers = self.followers();
        let task = tokio::spawn(async move {
            sending.send_all(reader).await;
            drop(all_queued);
        });
        followers.insert(peer.id(), Follower { acknowledger, task: task.abort_handle() });
        queued
    }

    /// Follows a command that another client ran, or that this one ran on another connection.
    pub(crate) fn watch(self: &Arc<Self>, session_id: &SessionId, peer: &Peer, after_seq: u64, acknowledge: bool) {
        let under_way = if acknowledge { UnderWay::UntilAcknowledged } else { UnderWay::UntilRead };
        // The follower ends by itself.
        drop(self.follow(session_id, peer, after_seq, under_way, Role::Watcher));
    }
}

struct Sending {
    session_id: SessionId,
    command: Arc<Command>,
    lane: Lane,
    role: Role,
}

impl Sending {
    async fn send_all(&self, mut reader: LogReader) {
        loop {
            let next = tokio::select! {
                next = reader.next() => next,
                () = self.lane.peer().gone() => return,
            };
            let Some(notification) = self.notification(next) else { break };
            if self.lane.send(&notification).await.is_err() {
                return;
            }
        }
        drop(reader);
        if self.role == Role::Watcher {
            let end = self.command.ended().await;
            let ended = CommandEnded {
                session_id: self.session_id.clone(),
                command_id: self.command.id.clone(),
                outcome: end.outcome(),
                last_seq: end.last_seq,
            };
            self.lane.send(&ServerNotification::CommandEnded(Box::new(ended))).await.ok();
        }
    }

    /// The notification for the client; `None` at the end.
    fn notification(&self, next: Next) -> Option<ServerNotification> {
        let (session_id, command_id) = (self.session_id.clone(), self.command.id.clone());
        match next {
            Next::Chunk(chunk) => Some(ServerNotification::CommandOutput(CommandOutput {
                session_id,
                command_id,
                seq: chunk.seq,
                stream: match chunk.stream {
                    StreamName::Stdout => OutputStream::Stdout,
                    StreamName::Stderr => OutputStream::Stderr,
                },
                data: chunk.data,
            })),
            Next::Lost { first_seq } => {
                Some(ServerNotification::CommandLost(CommandLost { session_id, command_id, first_seq }))
            }
            Next::End { .. } => None,
        }
    }
}
