//! codex's exec-server protocol, over a session of Stockade's server.
//!
//! codex runs its commands, and reads and writes the files of its workspace, through any program that speaks this protocol
//! on standard input and output. This crate is an adapter: each process is a command of one session, each operation
//! on files is one of a helper that runs as a command of the same session, and the sandbox that codex asks for is an
//! upper bound of what the session grants. What is allowed, asked and recorded is decided where every other command of
//! Stockade is decided about.
//!
//! [`serve`] speaks with one client; [`run_file_helper`] is the helper, for the program's own `main`.

mod client;
mod connection;
mod environment;
mod explain;
mod files;
mod message;
mod methods;
mod process;
mod questions;
mod sandbox;
mod session;
mod uri;

use std::path::PathBuf;
use std::sync::Arc;

use stockade_server::SessionsOptions;
use stockade_server::wire::{RpcError, SessionOpenParams};
use tokio::io::{AsyncRead, AsyncWrite};

pub use explain::Explain;
pub use files::run_file_helper;
pub use message::{ErrorBody, Incoming, read_message};

use client::Client;
use methods::Methods;
use session::{FromSession, Session};

/// What a client is served with.
pub struct ExecServerOptions {
    /// What the session is opened with.
    pub session: SessionOpenParams,
    /// This program, whose `main` calls [`run_file_helper`] first.
    pub program: PathBuf,
    /// What is said of how a command ended.
    pub explain: Explain,
    /// Takes sentences for the person who started this program.
    pub notice: Arc<dyn Fn(&str) + Send + Sync>,
}

/// Serves one client until it closes its side, or until `ending` is over. Everything that it started ends with it.
pub async fn serve(
    options: ExecServerOptions,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin + Send + 'static,
    ending: impl Future<Output = ()>,
) -> Result<(), RpcError> {
    let ExecServerOptions { mut session, program, explain, notice } = options;
    session.linger_ms = Some(0);
    let programs = SessionsOptions { programs: vec![program.clone()], ..SessionsOptions::default() };
    let (session, mut from_session) = Session::open("codex", programs, session).await?;
    let answering = session.clone();
    tokio::spawn(async move {
        while let Some(message) = from_session.recv().await {
            match message {
                FromSession::Question(question) => questions::answer(&answering, *question).await,
                FromSession::Notice(text) => notice(&text),
            }
        }
    });
    let (client, lines) = Client::new();
    let methods = Methods::new(session, client.clone(), explain, program);
    connection::speak(methods, client, lines, (reader, writer), ending).await;
    Ok(())
}
