//! The client at the other end: the lines to it.

use std::sync::Arc;

use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::message::notification_line;

/// Lines that wait to be written. A client that does not read stops what writes more.
const WAITING_LINES: usize = 64;

/// Their bytes. A line that is longer than that waits alone.
const WAITING_BYTES: usize = 4 << 20;

/// The client. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Client {
    lines: mpsc::Sender<Line>,
    room: Arc<Semaphore>,
}

/// A line that waits to be written.
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// The client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has gone")]
pub(crate) struct Gone;

impl Client {
    /// A client, and the lines to be written to it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Line>) {
        let (lines, receiver) = mpsc::channel(WAITING_LINES);
        (Self { lines, room: Arc::new(Semaphore::new(WAITING_BYTES)) }, receiver)
    }

    /// Writes a line, once there is room for it.
    pub(crate) async fn send(&self, bytes: Vec<u8>) -> Result<(), Gone> {
        let permits = u32::try_from(bytes.len().min(WAITING_BYTES)).map_err(|_| Gone)?;
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(permits) => room.map_err(|_| Gone)?,
            () = self.lines.closed() => return Err(Gone),
        };
        self.lines.send(Line { bytes, _room: room }).await.map_err(|_| Gone)
    }

    /// Tells the client something.
    pub(crate) async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), Gone> {
        self.send(notification_line(method, params)).await
    }
}
