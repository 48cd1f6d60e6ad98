//! A small blocking client: one socket, no threads and no runtime.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::ApprovalReply;

use crate::frames::{Frame, FrameDecoder};
use crate::message::{self, Incoming, read_message};
use crate::transport::send_now;
use crate::wire::{
    ApprovalRequestParams, ClientCapabilities, ClientInfo, ErrorKind, InitializeParams, PROTOCOL_VERSION, RpcError,
    RpcId, ServerNotification,
};

/// Limit on a line from the server.
const LONGEST_LINE: usize = 64 << 20;

/// The id of the first request after `initialize`.
const FIRST_REQUEST: i64 = 2;

/// Errors of the client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The connection failed.
    #[error("the connection to the server failed")]
    Io(#[from] io::Error),
    /// The server closed the connection.
    #[error("the server closed the connection")]
    Ended,
    /// The server answered with an error.
    #[error(transparent)]
    Refused(#[from] RpcError),
    /// The server sent an invalid or unexpected message.
    #[error("the server sent something unexpected: {0}")]
    Unexpected(String),
}

/// A message from the server.
#[derive(Clone, Debug, PartialEq)]
pub enum FromServer {
    /// The response to a request.
    Response {
        /// The id of the request; `None` if the server could not read it.
        id: Option<RpcId>,
        /// The result as JSON, or the error.
        answer: Result<String, RpcError>,
    },
    /// A notification.
    Notification(ServerNotification),
    /// A question.
    Question {
        /// The id to answer with.
        id: RpcId,
        /// The question.
        params: Box<ApprovalRequestParams>,
    },
}

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    decoder: FrameDecoder,
    lines: VecDeque<Vec<u8>>,
    aside: VecDeque<FromServer>,
    next_id: i64,
    /// `initialize`, which is sent together with the first request.
    unsent: Vec<u8>,
    /// The id of an `initialize` that has no response yet.
    introduction: Option<RpcId>,
}

impl Client {
    /// Connects to a socket and prepares `initialize`.
    pub fn connect(path: &Path, name: &str, capabilities: ClientCapabilities) -> Result<Self, ClientError> {
        Self::over(UnixStream::connect(path)?, name, capabilities)
    }

    /// Uses a connected socket. `initialize` is sent together with the first request: a server that refuses
    /// `initialize` does not carry out that request, and the refusal is the error of the first message waited for.
    pub fn over(socket: UnixStream, name: &str, capabilities: ClientCapabilities) -> Result<Self, ClientError> {
        let (decoder, id) = (FrameDecoder::new(LONGEST_LINE), RpcId::Number(1));
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let params = InitializeParams {
            protocol_version: PROTOCOL_VERSION,
            client: ClientInfo { name: name.to_owned(), version },
            capabilities,
        };
        let unsent = message::request_line(&id, "initialize", &params).map_err(unexpected)?;
        Ok(Self {
            socket,
            decoder,
            lines: VecDeque::new(),
            aside: VecDeque::new(),
            next_id: FIRST_REQUEST,
            unsent,
            introduction: Some(id),
        })
    }

    /// Sends `initialize` alone, and waits for its response.
    pub fn introduce(&mut self) -> Result<(), ClientError> {
        if !self.unsent.is_empty() {
            let line = std::mem::take(&mut self.unsent);
            self.write(&line, &[])?;
        }
        while self.introduction.is_some() {
            match self.receive_any()? {
                Some(FromServer::Response { id: None, answer: Err(error) }) => return Err(error.into()),
                other => self.aside.extend(other),
            }
        }
        Ok(())
    }

    /// Whether this error proves that the server has not read the only request sent, so that it can't have been
    /// carried out: the server had no room for the connection, or closed it before. The kernel reports `ECONNRESET` if
    /// a socket is closed with unread data.
    pub fn is_unread(&self, error: &ClientError) -> bool {
        let has_no_room = matches!(error, ClientError::Refused(error) if error.kind() == Some(ErrorKind::Busy));
        let is_only_request = self.next_id <= FIRST_REQUEST + 1;
        let is_reset = cfg!(target_os = "linux") && is_only_request && is_closed(error);
        self.introduction.is_some() && (has_no_room || is_reset)
    }

    /// Sends a request and waits for its response. Other messages are kept for [`Self::next`].
    pub fn call<R: DeserializeOwned>(&mut self, method: &str, params: &impl Serialize) -> Result<R, ClientError> {
        let id = self.send(method, params, &[])?;
        self.response(&id)
    }

    /// Waits for the response to an earlier request. Other messages are kept for [`Self::next`].
    pub fn response<R: DeserializeOwned>(&mut self, id: &RpcId) -> Result<R, ClientError> {
        let is_it =
            |message: &FromServer| matches!(message, FromServer::Response { id: own, .. } if own.as_ref() == Some(id));
        if let Some(place) = self.aside.iter().position(is_it)
            && let Some(FromServer::Response { answer, .. }) = self.aside.remove(place)
        {
            return read_result(&answer?);
        }
        loop {
            match self.receive()? {
                FromServer::Response { id: own, answer } if own.as_ref() == Some(id) => {
                    return read_result(&answer?);
                }
                FromServer::Response { id: None, answer: Err(error) } => return Err(error.into()),
                other @ (FromServer::Response { .. } | FromServer::Notification(_) | FromServer::Question { .. }) => {
                    self.aside.push_back(other);
                }
            }
        }
    }

    /// Sends a request with the descriptors it refers to, and returns its id at once.
    pub fn send(
        &mut self,
        method: &str,
        params: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<RpcId, ClientError> {
        let id = RpcId::Number(self.next_id);
        self.next_id += 1;
        let mut lines = std::mem::take(&mut self.unsent);
        lines.extend(message::request_line(&id, method, params).map_err(unexpected)?);
        match self.write(&lines, descriptors) {
            Ok(()) => Ok(id),
            // A server without room for a connection sends the reason before it closes it.
            Err(error) if is_closed(&error) => match self.receive_any() {
                Ok(Some(FromServer::Response { id: None, answer: Err(refusal) })) => Err(refusal.into()),
                Ok(_) | Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Answers a question.
    pub fn answer(&mut self, id: &RpcId, reply: &Result<ApprovalReply, RpcError>) -> Result<(), ClientError> {
        let answer = match reply {
            Ok(reply) => Ok(serde_json::to_string(reply).map_err(unexpected)?),
            Err(error) => Err(error.clone()),
        };
        self.write(&message::response_line(Some(id), &answer), &[])
    }

    /// Waits for the next message of the server.
    #[expect(clippy::should_implement_trait, reason = "an iterator would end at the first error")]
    pub fn next(&mut self) -> Result<FromServer, ClientError> {
        match self.aside.pop_front() {
            Some(message) => Ok(message),
            None => self.receive(),
        }
    }

    /// The next message, once bytes have arrived; `None` for a message without meaning here, such as the response to
    /// `initialize`. For a caller that polls, and calls this when the socket is readable.
    pub fn next_arrived(&mut self) -> Result<Option<FromServer>, ClientError> {
        match self.aside.pop_front() {
            Some(message) => Ok(Some(message)),
            None => self.receive_any(),
        }
    }

    /// Whether a message is available without reading the socket.
    pub fn has_message(&self) -> bool {
        !self.aside.is_empty() || !self.lines.is_empty()
    }

    fn receive(&mut self) -> Result<FromServer, ClientError> {
        loop {
            if let Some(message) = self.receive_any()? {
                return Ok(message);
            }
        }
    }

    /// A message; `None` for one without meaning here, such as the response to `initialize`.
    fn receive_any(&mut self) -> Result<Option<FromServer>, ClientError> {
        let line = loop {
            match self.lines.pop_front() {
                Some(line) => break line,
                None => self.read()?,
            }
        };
        match understood(&line)? {
            Some(FromServer::Response { id, answer }) if id.is_some() && id == self.introduction => {
                self.introduction = None;
                answer.map(|_| None).map_err(ClientError::from)
            }
            other => Ok(other),
        }
    }

    /// Blocks for bytes and reads them.
    fn read(&mut self) -> Result<(), ClientError> {
        let mut bytes = [0; 16 << 10];
        let length = loop {
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(ClientError::Ended),
                Ok(length) => break length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        };
        let mut too_long = false;
        let lines = &mut self.lines;
        self.decoder.push(bytes.get(..length).unwrap_or_default(), |frame| match frame {
            Frame::Line(line) => lines.push_back(line),
            Frame::Oversized => too_long = true,
        });
        if too_long { Err(unexpected("a line that is too long")) } else { Ok(()) }
    }

    fn write(&mut self, line: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), ClientError> {
        let mut rest = line;
        let mut descriptors = descriptors;
        while !rest.is_empty() {
            match send_now(self.socket.as_fd(), rest, descriptors) {
                Ok(written) => {
                    rest = rest.get(written..).unwrap_or_default();
                    descriptors = &[];
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Whether the other end of the connection is closed.
fn is_closed(error: &ClientError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error, ClientError::Io(error) if matches!(error.kind(), BrokenPipe | ConnectionReset))
}

fn unexpected(what: impl ToString) -> ClientError {
    ClientError::Unexpected(what.to_string())
}

fn read_result<R: DeserializeOwned>(json: &str) -> Result<R, ClientError> {
    stockade_protocol::parse(json).map_err(unexpected)
}

/// Parses a message; `None` for a notification of a newer server.
fn understood(line: &[u8]) -> Result<Option<FromServer>, ClientError> {
    // A response without an id answers a line that the server could not read.
    #[derive(serde::Deserialize)]
    struct Unread {
        error: RpcError,
    }
    let incoming = match read_message(line) {
        Ok(incoming) => incoming,
        Err(bad) => {
            let unread: Unread = serde_json::from_slice(line).map_err(|_| unexpected(bad.error.message))?;
            return Ok(Some(FromServer::Response { id: None, answer: Err(unread.error) }));
        }
    };
    match incoming {
        Incoming::Response { id, answer } => Ok(Some(FromServer::Response { id: Some(id), answer })),
        Incoming::Request { id, method, params } if method == "approval/request" => {
            let params = Box::new(stockade_protocol::parse(&params).map_err(unexpected)?);
            Ok(Some(FromServer::Question { id, params }))
        }
        Incoming::Request { .. } => Ok(None),
        Incoming::Notification { method, params } => {
            let form = format!("{{\"method\":{},\"params\":{params}}}", serde_json::Value::String(method));
            Ok(serde_json::from_str(&form).ok().map(FromServer::Notification))
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;

    use super::*;

    fn pair() -> (tempfile::TempDir, UnixListener, Client) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let client = Client::connect(&path, "test", ClientCapabilities::default()).unwrap();
        (directory, listener, client)
    }

    fn lines(socket: &UnixStream, count: usize) -> Vec<String> {
        BufReader::new(socket).lines().take(count).map(Result::unwrap).collect()
    }

    #[test]
    fn initialize_leaves_with_the_first_request_and_its_refusal_is_heard() {
        let (_directory, listener, mut client) = pair();
        let null = std::fs::File::open("/dev/null").unwrap();
        client.send("session/list", &serde_json::json!({}), &[null.as_fd()]).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let sent = lines(&server, 2);
        assert!(sent[0].contains("\"initialize\"") && sent[1].contains("\"session/list\""), "{sent:?}");
        let refusal = RpcError::new(ErrorKind::InvalidParams, "another version");
        server.write_all(&message::response_line(Some(&RpcId::Number(1)), &Err(refusal))).unwrap();
        assert!(matches!(client.next(), Err(ClientError::Refused(error)) if error.message == "another version"));
        assert!(!client.is_unread(&io::Error::from(io::ErrorKind::ConnectionReset).into()));
    }

    /// A caller with a readable socket does not block for more.
    #[test]
    fn the_response_to_initialize_is_not_waited_behind() {
        let (_directory, listener, mut client) = pair();
        client.send("session/list", &serde_json::json!({}), &[]).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&message::response_line(Some(&RpcId::Number(1)), &Ok(String::from("{}")))).unwrap();
        assert_eq!(client.next_arrived().unwrap(), None);
    }

    /// A request may be sent again only if it was certainly not carried out.
    #[test]
    fn only_what_was_not_read_is_unread() {
        let (_directory, listener, mut client) = pair();
        client.send("session/list", &serde_json::json!({}), &[]).unwrap();
        drop(listener);
        let error = client.next().unwrap_err();
        assert!(client.is_unread(&error), "never accepted: {error:?}");

        let (_directory, listener, mut client) = pair();
        drop(listener.accept().unwrap());
        let error = client.send("session/list", &serde_json::json!({}), &[]).unwrap_err();
        assert!(client.is_unread(&error), "closed before: {error:?}");

        let (_directory, listener, mut client) = pair();
        client.send("session/list", &serde_json::json!({}), &[]).unwrap();
        let (server, _) = listener.accept().unwrap();
        lines(&server, 2);
        drop(server);
        let error = client.next().unwrap_err();
        assert!(!client.is_unread(&error), "read to its end: {error:?}");

        let (_directory, listener, mut client) = pair();
        client.send("session/list", &serde_json::json!({}), &[]).unwrap();
        let (server, _) = listener.accept().unwrap();
        lines(&server, 2);
        client.send("session/list", &serde_json::json!({}), &[]).unwrap();
        drop(server);
        let error = client.next().unwrap_err();
        assert!(!client.is_unread(&error), "the second was not read, but the first was: {error:?}");
    }
}
