//! Sessions that last longer than one command, for clients in any language.
//!
//! A client speaks JSON-RPC 2.0, one object a line, over standard input and output or a unix socket. [`wire`] has
//! every message; `schemas/StockadeServer.json` and `schemas/openrpc.json` say the same to other languages.

#![expect(dead_code, reason = "the connection that uses them follows")]

mod commands;
mod message;
mod peer;
mod questions;
pub mod wire;

pub use peer::{Caller, ConnectionId, Gone, Lane, Line, NoAnswer, Outgoing, Peer, Transport};
