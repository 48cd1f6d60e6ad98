//! The client at the other end: the lines to it.

use serde::Serialize;
use tokio::sync::mpsc;

use crate::message::notification_line;

/// Lines that wait to be written. A client that does not read stops what writes more.
const WAITING_LINES: usize = 64;

/// The client. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Client(mpsc::Sender<Vec<u8>>);

/// The client has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the client has gone")]
pub(crate) struct Gone;

impl Client {
    /// A client, and the lines to be written to it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (lines, receiver) = mpsc::channel(WAITING_LINES);
        (Self(lines), receiver)
    }

    /// Writes a line, once there is room for it.
    pub(crate) async fn send(&self, line: Vec<u8>) -> Result<(), Gone> {
        self.0.send(line).await.map_err(|_| Gone)
    }

    /// Tells the client something.
    pub(crate) async fn notify(&self, method: &str, params: &impl Serialize) -> Result<(), Gone> {
        self.send(notification_line(method, params)).await
    }
}
