//! The arguments of `stockade session`.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};
use stockade_server::wire::SessionName;

/// Look at sessions, and end them.
#[derive(Debug, Arguments)]
#[command(after_help = "Examples:
  stockade run --session build -- make     open the session, or use it
  stockade session list
  stockade session show build
  stockade session end build")]
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
    /// Watch a session, and answer its questions at this terminal
    Attend(SessionAttend),
}

/// List the sessions of the server, those of other programs too.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade session list
  stockade session list --json | jq -r '.sessions[].name'

Exit codes: 0 also if there is none, 125 the server does not answer")]
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

Exit codes: 0, 1 there is no such session, 125 the server does not answer")]
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

Exit codes: 0, 1 there is no such session, 125 the server does not answer")]
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

/// Watch a session, and answer its questions at this terminal, whichever client they are about: commands, patches, tool
/// calls, permissions and forms. Questions that are open already are asked first. Ctrl-C leaves; a question that is open
/// stays open for the other clients. A session lives as long as it is attended.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade session attend build
  stockade session attend agent --socket run/s.sock --capability-file capability

A session of `stockade run --session` is attended by its name. One that another program opened is attended by its name or
its id (`session/list`), with the capability that `session/open` gave to the program.

Exit codes: 0 left with Ctrl-C, or the session was ended; 1 there is no such session; 125 there is no terminal, or the server
does not answer")]
pub(crate) struct SessionAttend {
    /// The socket of another server
    #[arg(long, value_name = "PATH", requires = "capability_file")]
    pub(crate) socket: Option<PathBuf>,

    /// The file with the capability of a session that another program opened
    #[arg(long, value_name = "FILE")]
    pub(crate) capability_file: Option<PathBuf>,

    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) name: SessionName,
}
