//! Lines to and from a client, within bounds that rmcp's own transport does not have: a line has a longest length, an id is
//! under way once, calls are limited in number, and a client that does not read what is for it is not read from either.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use stockade_server::{Frame, FrameDecoder};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};

use crate::message::{ClientMessage, UnreadMessage, read_message};

/// The longest line of a client.
const LONGEST_LINE: usize = 8 << 20;
/// Calls of tools at a time.
const MOST_CALLS: usize = 32;
/// Requests of a client at a time. All but calls are over at once, so the next one waits.
const MOST_REQUESTS: usize = 128;
/// Bytes that wait to be written, before nothing more is read.
const MOST_UNWRITTEN: usize = 4 << 20;
/// Lines in a row that are no messages, after which the connection is ended.
const MOST_BAD_LINES: usize = 64;

/// The connection to a client.
pub(crate) struct Lines {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    buffer: Vec<u8>,
    decoder: FrameDecoder,
    frames: VecDeque<Frame>,
    bad_lines: usize,
    writer: mpsc::UnboundedSender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    unwritten: AtomicUsize,
    under_way: Mutex<UnderWay>,
    changed: Notify,
}

#[derive(Default)]
struct UnderWay {
    ids: HashSet<RequestId>,
    calls: usize,
}

/// A request is under way until the last clone of this is dropped, which its context holds.
struct Request {
    id: RequestId,
    is_call: bool,
    shared: Arc<Shared>,
}

impl Shared {
    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self) -> bool {
        self.unwritten.load(Ordering::Acquire) < MOST_UNWRITTEN && self.under_way().ids.len() < MOST_REQUESTS
    }

    /// Waits until there is room for another request and its answer.
    async fn room(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the look, so that a change in between is not missed.
            changed.as_mut().enable();
            if self.has_room() {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        let mut under_way = self.shared.under_way();
        under_way.ids.remove(&self.id);
        under_way.calls -= usize::from(self.is_call);
        drop(under_way);
        self.shared.changed.notify_waiters();
    }
}

impl Lines {
    pub(crate) fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let shared = Arc::<Shared>::default();
        let (sender, lines) = mpsc::unbounded_channel();
        tokio::spawn(write_lines(lines, writer, Arc::clone(&shared)));
        Self {
            reader: Box::new(reader),
            buffer: vec![0; 64 << 10],
            decoder: FrameDecoder::new(LONGEST_LINE),
            frames: VecDeque::new(),
            bad_lines: 0,
            writer: sender,
            shared,
        }
    }

    fn write(&self, message: &TxJsonRpcMessage<RoleServer>) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.shared.unwritten.fetch_add(line.len(), Ordering::AcqRel);
        self.writer.send(line).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// The next message, if a line that was read is one. The client is told what is wrong with the others.
    fn take(&mut self) -> Option<ClientMessage> {
        while let Some(frame) = self.frames.pop_front() {
            let read = match frame {
                Frame::Line(line) => read_message(&line),
                Frame::Oversized => {
                    let message = format!("a line is longer than {LONGEST_LINE} bytes");
                    Err(UnreadMessage::new(None, ErrorData::invalid_request(message, None)))
                }
            };
            let refused = match read {
                Ok(message) => {
                    self.bad_lines = 0;
                    match self.admit(message) {
                        Ok(message) => return Some(message),
                        Err(refused) => refused,
                    }
                }
                Err(unread) => {
                    self.bad_lines += 1;
                    unread
                }
            };
            if self.write(&refused.response()).is_err() || self.bad_lines >= MOST_BAD_LINES {
                return None;
            }
            // What is refused has an answer, too, and waits for its room.
            if !self.shared.has_room() {
                return None;
            }
        }
        None
    }

    /// Takes a request on, within the bounds.
    fn admit(&self, message: ClientMessage) -> Result<ClientMessage, UnreadMessage> {
        let JsonRpcMessage::Request(mut request) = message else { return Ok(message) };
        let is_call = matches!(request.request, ClientRequest::CallToolRequest(_));
        let mut under_way = self.shared.under_way();
        if is_call && under_way.calls >= MOST_CALLS {
            let message = format!("{MOST_CALLS} calls are under way: wait for a result, or cancel one");
            return Err(UnreadMessage::new(Some(request.id), ErrorData::invalid_request(message, None)));
        }
        if !under_way.ids.insert(request.id.clone()) {
            // With its id, the answer could be taken for the first one's.
            let message = format!("a request with the id {} is under way", request.id);
            return Err(UnreadMessage::new(None, ErrorData::invalid_request(message, None)));
        }
        under_way.calls += usize::from(is_call);
        drop(under_way);
        let held = Request { id: request.id.clone(), is_call, shared: Arc::clone(&self.shared) };
        request.request.extensions_mut().insert(Arc::new(held));
        Ok(JsonRpcMessage::Request(request))
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        // In the order of the calls, and without waiting: what is read is bounded by what is not written yet.
        std::future::ready(self.write(&item))
    }

    async fn receive(&mut self) -> Option<ClientMessage> {
        loop {
            tokio::select! {
                () = self.shared.room() => {}
                () = self.writer.closed() => return None,
            }
            if let Some(message) = self.take() {
                return Some(message);
            }
            if self.bad_lines >= MOST_BAD_LINES || self.writer.is_closed() {
                return None;
            }
            if !self.frames.is_empty() {
                continue;
            }
            let length = tokio::select! {
                read = self.reader.read(&mut self.buffer) => match read {
                    Ok(length @ 1..) => length,
                    Ok(_) | Err(_) => return None,
                },
                () = self.writer.closed() => return None,
            };
            let frames = &mut self.frames;
            self.decoder.push(self.buffer.get(..length).unwrap_or_default(), |frame| frames.push_back(frame));
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        Ok(())
    }
}

/// Writes lines until there are no more, or they can't be written.
async fn write_lines(
    mut lines: mpsc::UnboundedReceiver<Vec<u8>>,
    mut writer: impl AsyncWrite + Unpin,
    shared: Arc<Shared>,
) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line).await.is_err() || (lines.is_empty() && writer.flush().await.is_err()) {
            break;
        }
        shared.unwritten.fetch_sub(line.len(), Ordering::AcqRel);
        shared.changed.notify_waiters();
    }
    shared.changed.notify_waiters();
}
