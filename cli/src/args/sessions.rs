//! The arguments of `stockade session`.

use clap::{Args as Arguments, Parser, Subcommand};
use stockade_server::wire::SessionName;

/// Look at sessions, and end them.
#[derive(Debug, Arguments)]
pub(crate) struct Sessions {
    #[command(subcommand)]
    pub(crate) command: SessionCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// List the sessions
    List(SessionList),
    /// Say what a session is like, what runs in it, and what was approved
    Show(SessionShow),
    /// End sessions, with the commands that run in them
    End(SessionEnd),
}

/// List the sessions of the server, those of other programs too.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade session list
  stockade session list --json | jq -r '.sessions[].name'

Exit codes: 0 also if there is none, 125 the server can't be spoken to")]
pub(crate) struct SessionList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what a session is like, what runs in it, and what was approved.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade session show build
  stockade session show build --json | jq .approvals

Exit codes: 0, 1 there is no such session, 125 the server can't be spoken to")]
pub(crate) struct SessionShow {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) name: SessionName,
}

/// End sessions: the commands that run in them, their questions, and what was approved for them.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade session end build
  stockade session end --all

Exit codes: 0, 1 there is no such session, 125 the server can't be spoken to")]
pub(crate) struct SessionEnd {
    /// End every session of the command line
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The sessions
    #[arg(value_name = "NAME")]
    pub(crate) names: Vec<SessionName>,
}
