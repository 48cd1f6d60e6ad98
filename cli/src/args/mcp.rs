//! The arguments of `stockade mcp`.

use clap::Parser;
use stockade_server::wire::SessionName;

use super::SessionArgs;

/// Serve tools that run in the sandbox to agents: an MCP server, on standard input and output.
///
/// Its tools are `run`, `explain`, `apply_patch`, `request_permissions` and `read_output`. They work in a session of Stockade
/// whose workspace is the directory that the client starts this program in. Questions are put to the person by the client, if it has
/// elicitation, and to everyone who attends the session.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  claude mcp add stockade -- stockade mcp             Claude Code
  codex mcp add stockade -- stockade mcp              codex, or in ~/.codex/config.toml:
    [mcp_servers.stockade]
    command = \"stockade\"
    args = [\"mcp\"]

  stockade mcp --with npm --allow-host api.example.com:443
  stockade mcp --session work                         share a session, also with `stockade run --session work`
  stockade mcp --no-elicitation                       only `stockade session attend` answers

`stockade session list` names the session of each client, and `stockade session attend NAME` answers its questions. An answer by
elicitation is what the client says that a person chose: trust it as far as you trust the client. docs/agents.md says more.

Exit codes: 0 the client has gone, 125 it can't serve")]
pub(crate) struct Mcp {
    /// Work in this session, which is opened if there is none of the name [default: one of its own]
    #[arg(long = "session", value_name = "NAME")]
    pub(crate) session_name: Option<SessionName>,

    /// Ask nothing through the client, even if it has elicitation
    #[arg(long)]
    pub(crate) no_elicitation: bool,

    #[command(flatten)]
    pub(crate) session: SessionArgs,
}
