//! A small client that waits: one socket, no threads and no runtime.

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
    ApprovalRequestParams, ClientCapabilities, ClientInfo, InitializeParams, InitializeResult, PROTOCOL_VERSION,
    RpcError, RpcId, ServerNotification,
};

/// The longest line of a server that is read.
const LONGEST_LINE: usize = 64 << 20;

/// Why a server could not be spoken to.
#[derive(Debug, thiserror::Error)]
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
    /// The server sent something that is no message, or not the one that was due.
    #[error("the server sent something unexpected: {0}")]
    Unexpected(String),
}

/// What a server sends.
#[derive(Clone, Debug, PartialEq)]
pub enum FromServer {
    /// The response to a request.
    Response {
        /// The id of the request; none if the server could not tell.
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
}

impl Client {
    /// Connects to a socket and says who it is.
    pub fn connect(path: &Path, name: &str, capabilities: ClientCapabilities) -> Result<Self, ClientError> {
        let mut client = Self::over(UnixStream::connect(path)?);
        let version = Some(env!("CARGO_PKG_VERSION").to_owned());
        let params = InitializeParams {
            protocol_version: PROTOCOL_VERSION,
            client: ClientInfo { name: name.to_owned(), version },
            capabilities,
        };
        let _: InitializeResult = client.call("initialize", &params)?;
        Ok(client)
    }

    /// A connection over a socket that is open already, before `initialize`.
    pub fn over(socket: UnixStream) -> Self {
        let decoder = FrameDecoder::new(LONGEST_LINE);
        Self { socket, decoder, lines: VecDeque::new(), aside: VecDeque::new(), next_id: 1 }
    }

    /// Sends a request and waits for its response. What else arrives is kept for [`Self::next`].
    pub fn call<R: DeserializeOwned>(&mut self, method: &str, params: &impl Serialize) -> Result<R, ClientError> {
        let id = self.send(method, params, &[])?;
        loop {
            match self.receive()? {
                FromServer::Response { id: own, answer } if own.as_ref() == Some(&id) => {
                    return read_result(&answer?);
                }
                FromServer::Response { id: None, answer: Err(error) } => return Err(error.into()),
                other @ (FromServer::Response { .. } | FromServer::Notification(_) | FromServer::Question { .. }) => {
                    self.aside.push_back(other);
                }
            }
        }
    }

    /// Sends a request, with descriptors for it to name, and returns its id at once.
    pub fn send(
        &mut self,
        method: &str,
        params: &impl Serialize,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<RpcId, ClientError> {
        let id = RpcId::Number(self.next_id);
        self.next_id += 1;
        let line = message::request_line(&id, method, params).map_err(unexpected)?;
        self.write(&line, descriptors)?;
        Ok(id)
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

    /// Whether a message can be had without waiting for the socket.
    pub fn has_message(&self) -> bool {
        !self.aside.is_empty() || !self.lines.is_empty()
    }

    fn receive(&mut self) -> Result<FromServer, ClientError> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                if let Some(message) = understood(&line)? {
                    return Ok(message);
                }
                continue;
            }
            let mut bytes = [0; 16 << 10];
            let length = match self.socket.read(&mut bytes) {
                Ok(0) => return Err(ClientError::Ended),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            };
            let mut too_long = false;
            let lines = &mut self.lines;
            self.decoder.push(bytes.get(..length).unwrap_or_default(), |frame| match frame {
                Frame::Line(line) => lines.push_back(line),
                Frame::Oversized => too_long = true,
            });
            if too_long {
                return Err(unexpected("a line that is too long"));
            }
        }
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

fn unexpected(what: impl ToString) -> ClientError {
    ClientError::Unexpected(what.to_string())
}

fn read_result<R: DeserializeOwned>(json: &str) -> Result<R, ClientError> {
    stockade_protocol::parse(json).map_err(unexpected)
}

/// A message of the server; none for a notification of a newer one.
fn understood(line: &[u8]) -> Result<Option<FromServer>, ClientError> {
    // Only a server answers with no id, and only to a line that it could not read.
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
