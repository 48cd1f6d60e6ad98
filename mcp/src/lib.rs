//! An MCP server over a session of Stockade's server.
//!
//! Agents that speak the Model Context Protocol get tools that run commands, explain decisions, change files and ask for
//! permissions. This crate is an adapter: it is one more client of a session, and what is allowed, asked and recorded is
//! decided there. Questions of the session go to the MCP client as elicitations, where it has them, and else to the
//! session's other clients.
//!
//! [`serve`] speaks with one client.

#![cfg(unix)]

mod arguments;
mod asking;
mod call;
mod link;
mod message;
mod output;
mod parked;
mod progress;
mod report;
mod tools;
mod transport;

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use stockade_core::Explanation;
use stockade_protocol::{ApprovalRequest, Argv, Outcome, Violation};
use stockade_server::wire::{Capability, ErrorKind, RpcError, SessionId, SessionParams};
use stockade_server::{Client, ClientError};
use tokio::io::{AsyncRead, AsyncWrite};

pub use arguments::{ArgumentsError, Tool};
pub use asking::Answer;
pub use message::{ClientMessage, UnreadMessage, read_message};

use link::Link;
use tools::Tools;
use transport::Lines;

/// What a client is served with.
pub struct McpOptions {
    /// A connection to the server of the session. It is not attached yet.
    pub socket: UnixStream,
    /// The connection that opened the session. It is closed once the other one is attached.
    pub opener: Client,
    /// The session.
    pub session_id: SessionId,
    /// Its secret.
    pub capability: Capability,
    /// Its name, for `stockade session attend`.
    pub session_name: String,
    /// Who answers the questions of this client's commands.
    pub questions: QuestionsTo,
    /// What is said, and how lines are run.
    pub wording: Arc<dyn Wording>,
    /// Takes sentences for the person who started this program.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Who answers the questions of this client's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuestionsTo {
    /// The person behind the MCP client, where the client has elicitation; and every other client of the session.
    Client,
    /// The other clients of the session alone.
    Others,
}

/// What the program that serves says in its own words.
pub trait Wording: Send + Sync {
    /// The sentences of an outcome, with what would allow what was denied.
    fn outcome(&self, outcome: &Outcome) -> Vec<String>;
    /// What a person can write to allow a denied act.
    fn remedy(&self, violation: &Violation) -> Option<String>;
    /// What would happen to a command.
    fn explanation(&self, explanation: &Explanation) -> String;
    /// A question, with all that it is about.
    fn question(&self, request: &ApprovalRequest) -> String;
    /// The command that runs a shell line.
    fn line(&self, line: &str) -> Result<Argv, stockade_protocol::Invalid>;
}

/// Why a client is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The session can't be joined.
    #[error(transparent)]
    Session(#[from] RpcError),
    /// The connection to the server failed.
    #[error("the connection to the server of sessions failed")]
    Io(#[from] std::io::Error),
    /// The client did not begin as MCP clients do.
    #[error("the client sent no usable `initialize` or `server/discover`: {0}")]
    Beginning(String),
}

/// Serves one client until it closes its side, or until `ending` is over. Every command that it started ends with it.
pub async fn serve(
    options: McpOptions,
    reader: impl AsyncRead + Send + Unpin + 'static,
    writer: impl AsyncWrite + Send + Unpin + 'static,
    ending: impl Future<Output = ()>,
) -> Result<(), McpError> {
    let McpOptions { socket, opener, session_id, capability, session_name, questions, wording, notice } = options;
    let link = Link::join(socket, session_id, capability, notice).await?;
    let leaving = SessionParams { session_id: link.session_id().clone() };
    // It answers no question, so it must not be asked any.
    let left = tokio::task::spawn_blocking(move || detach(opener, &leaving)).await;
    left.map_err(std::io::Error::other)??;
    let lines = Lines::new(reader, writer);
    let tools = Tools::new(link.clone(), session_name, questions, wording);
    tokio::select! {
        served = speak(tools, lines) => served?,
        () = link.ended() => return Err(RpcError::new(ErrorKind::Closed, "the session was ended").into()),
        () = ending => {}
    }
    Ok(())
}

fn detach(mut opener: Client, session: &SessionParams) -> Result<(), McpError> {
    match opener.call::<serde_json::Value>("session/detach", session) {
        Ok(_) => Ok(()),
        Err(ClientError::Refused(error)) => Err(error.into()),
        Err(error) => Err(std::io::Error::other(error).into()),
    }
}

async fn speak(tools: Tools, lines: Lines) -> Result<(), McpError> {
    match tools.serve(lines).await {
        Ok(running) => {
            // However it ended, the client has gone.
            running.waiting().await.ok();
            Ok(())
        }
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(McpError::Beginning(error.to_string())),
    }
}
