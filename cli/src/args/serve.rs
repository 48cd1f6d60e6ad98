//! The arguments of `stockade serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;

/// Serve sessions to other programs, in JSON-RPC 2.0, one object a line.
///
/// A client opens a session with a workspace and a policy, runs commands in it, is asked what has to be asked, and is
/// sent the output. Approvals "for this session" last as long as the session. Without options, one client is served on
/// standard input and output, and its sessions end with it. docs/server.md describes every message;
/// `stockade schema --message StockadeServer` prints their schemas.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade serve                      one client, on standard input and output
  stockade serve --socket             many clients of this user, on the usual socket
  stockade serve --socket run/s.sock  on another one, in a directory of yours alone
  stockade serve --socket --idle 10m  end after 10 minutes without session or client

The usual socket is $XDG_RUNTIME_DIR/stockade/serve.sock, else ~/.local/state/stockade/run/serve.sock. No command of a
session can reach it.

Exit codes: 0 it was ended, 125 it can't serve")]
pub(crate) struct Serve {
    /// Serve one client on standard input and output; the default
    #[arg(long, conflicts_with = "socket")]
    pub(crate) stdio: bool,

    /// Serve clients of this user on a unix socket; without PATH on the usual one
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    pub(crate) socket: Option<Option<PathBuf>>,

    /// How long a session lives on without a client, unless the client says; 0s on standard input and output, 10m on a
    /// socket
    #[arg(long, value_name = "TIME", value_parser = linger)]
    pub(crate) linger: Option<Duration>,

    /// End after this time without a session or a client
    #[arg(long, value_name = "TIME", requires = "socket", value_parser = stockade_config::parse_duration)]
    pub(crate) idle: Option<Duration>,

    /// Leave the caller's terminal, job and open files behind
    #[arg(long, hide = true)]
    pub(crate) detached: bool,
}

/// A time that may be none.
fn linger(text: &str) -> Result<Duration, String> {
    if text == "0s" || text == "0" { Ok(Duration::ZERO) } else { stockade_config::parse_duration(text) }
}
