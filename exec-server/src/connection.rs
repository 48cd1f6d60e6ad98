//! One client: its lines are read, its requests carried out side by side, and what is for it is written.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde_json::value::RawValue;
use stockade_server::wire::RpcId;
use stockade_server::{Frame, FrameDecoder};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::client::{Client, Line};
use crate::message::{ErrorBody, Incoming, read_message, response_line};
use crate::methods::{Called, Methods};

/// The longest line of a client.
const LONGEST_LINE: usize = 32 << 20;
/// Requests of a client at a time.
const MOST_REQUESTS: usize = 256;
/// Bytes of the requests at a time.
const MOST_BYTES: usize = 64 << 20;
/// Lines in a row that are no messages, after which the connection is ended.
const MOST_BAD_LINES: usize = 64;
/// How long the last lines may take to be written.
const TIME_TO_FINISH: Duration = Duration::from_secs(2);

/// Speaks with a client until it closes its side, or until `ending` is over.
pub(crate) async fn speak(
    methods: Methods,
    client: Client,
    lines: mpsc::Receiver<Line>,
    (reader, writer): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin + Send + 'static),
    ending: impl Future<Output = ()>,
) {
    let mut writing = tokio::spawn(write_lines(lines, writer));
    let connection = Connection {
        methods,
        client,
        ids: Arc::default(),
        requests: Arc::new(Semaphore::new(MOST_REQUESTS)),
        bytes: Arc::new(Semaphore::new(MOST_BYTES)),
    };
    tokio::select! {
        () = connection.read_lines(reader) => {}
        () = ending => {}
        // It can't be written to any more.
        _ = &mut writing => {}
    }
    connection.methods.end().await;
    // What the requests still say is written as far as the client reads it.
    drop(connection);
    if !writing.is_finished() && tokio::time::timeout(TIME_TO_FINISH, &mut writing).await.is_err() {
        writing.abort();
    }
}

struct Connection {
    methods: Methods,
    client: Client,
    /// The ids of requests that are not answered yet.
    ids: Arc<Mutex<HashSet<RpcId>>>,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

/// A request counts as under way until this is dropped.
struct UnderWay {
    id: RpcId,
    ids: Arc<Mutex<HashSet<RpcId>>>,
    _room: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

fn locked(ids: &Mutex<HashSet<RpcId>>) -> MutexGuard<'_, HashSet<RpcId>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        locked(&self.ids).remove(&self.id);
    }
}

impl Connection {
    async fn read_lines(&self, mut reader: impl AsyncRead + Unpin) {
        let mut decoder = FrameDecoder::new(LONGEST_LINE);
        let mut bytes = vec![0; 64 << 10];
        let mut bad_lines = 0;
        loop {
            let Ok(length @ 1..) = reader.read(&mut bytes).await else { return };
            let mut frames = Vec::new();
            decoder.push(bytes.get(..length).unwrap_or_default(), |frame| frames.push(frame));
            for frame in frames {
                let incoming = match frame {
                    Frame::Line(line) => read_message(&line).map(|incoming| (incoming, line.len())),
                    Frame::Oversized => {
                        Err(ErrorBody::invalid_request(format!("a line is longer than {LONGEST_LINE} bytes")))
                    }
                };
                match incoming {
                    Ok((incoming, length)) => {
                        bad_lines = 0;
                        self.take(incoming, length).await;
                    }
                    Err(error) => {
                        bad_lines += 1;
                        self.respond(None, &Err(error)).await;
                    }
                }
                if bad_lines >= MOST_BAD_LINES {
                    return;
                }
            }
        }
    }

    async fn take(&self, incoming: Incoming, length: usize) {
        match incoming {
            Incoming::Request { id, method, params } => match self.under_way(&id, length) {
                Ok(under_way) => self.begin(under_way, method, params).await,
                Err((id, error)) => self.respond(id.as_ref(), &Err(error)).await,
            },
            Incoming::Notification { method } => self.methods.notified(&method),
            Incoming::Response => {}
        }
    }

    /// Room for a request.
    fn under_way(&self, id: &RpcId, length: usize) -> Result<UnderWay, (Option<RpcId>, ErrorBody)> {
        let busy = |what: String| (Some(id.clone()), ErrorBody::invalid_request(format!("{what}: wait for an answer")));
        let request = Arc::clone(&self.requests)
            .try_acquire_owned()
            .map_err(|_| busy(format!("{MOST_REQUESTS} requests are under way")))?;
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let bytes = Arc::clone(&self.bytes)
            .try_acquire_many_owned(length)
            .map_err(|_| busy(format!("{MOST_BYTES} bytes of requests are under way")))?;
        if !locked(&self.ids).insert(id.clone()) {
            // With its id, the answer could be taken for the first one's.
            return Err((None, ErrorBody::invalid_request(format!("a request with the id {id} is under way"))));
        }
        Ok(UnderWay { id: id.clone(), ids: Arc::clone(&self.ids), _room: (request, bytes) })
    }

    /// Carries out a request beside the others. Each takes its first step here, in the order of the lines, so that input
    /// keeps its order and what is sent right behind a start finds the process.
    async fn begin(&self, under_way: UnderWay, method: String, params: Box<RawValue>) {
        let (methods, client) = (self.methods.clone(), self.client.clone());
        let mut request = Box::pin(async move {
            let Called { answer, starting, room } = methods.call(&method, &params).await;
            drop(params);
            let line = response_line(Some(&under_way.id), &answer);
            drop(answer);
            let told = client.send(line).await;
            drop((under_way, room));
            match (starting, told) {
                (Some(starting), Ok(())) => starting.follow().await,
                (Some(starting), Err(_)) => starting.give_up(),
                (None, _) => {}
            }
        });
        if poll_fn(|context| Poll::Ready(request.as_mut().poll(context).is_ready())).await {
            return;
        }
        tokio::spawn(request);
    }

    async fn respond(&self, id: Option<&RpcId>, answer: &Result<Box<RawValue>, ErrorBody>) {
        // A client that has gone reads no answer.
        self.client.send(response_line(id, answer)).await.ok();
    }
}

/// Writes lines until there are no more, or they can't be written.
async fn write_lines(mut lines: mpsc::Receiver<Line>, mut writer: impl AsyncWrite + Unpin) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line.bytes).await.is_err() || (lines.is_empty() && writer.flush().await.is_err()) {
            return;
        }
    }
}
