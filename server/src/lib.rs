//! Sessions that last longer than one command, for clients in any language.
//!
//! A client speaks JSON-RPC 2.0, one object a line, over standard input and output or a unix socket. [`wire`] has
//! every message; `schemas/StockadeServer.json` and `schemas/openrpc.json` describe them for other languages.
//!
//! A [`Server`] accepts connections and calls [`wire::Methods`] for each request. Messages to a client go through its
//! [`Peer`]: a bounded queue, so that a client that does not read slows its own commands and nothing else.

#[cfg(unix)]
mod client;
mod commands;
mod connection;
mod frames;
mod lines;
mod message;
mod peer;
mod questions;
mod server;
mod sessions;
mod transport;
mod under_way;
pub mod wire;

#[cfg(unix)]
pub use client::{Client, ClientError, FromServer};
pub use frames::{Frame, FrameDecoder};
pub use message::{BadMessage, Incoming, read_message, request_line, response_line};
pub use peer::{AskedQuestion, Caller, ConnectionId, Gone, Lane, Line, NoAnswer, Outgoing, Peer, Transport};
pub use server::Server;
pub use sessions::{Sessions, SessionsOptions};
pub use transport::Descriptor;
#[cfg(unix)]
pub use transport::{BoundSocket, SocketError, standard_socket};
