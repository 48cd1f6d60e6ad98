//! The command line, as data.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Runs commands nobody fully trusts inside an OS sandbox, with a person in charge.
#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    after_help = "Run `stockade help COMMAND` for the options and examples of one command."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this host can enforce, and how to get more
    Doctor(Doctor),
    /// Print the JSON Schemas of the protocol
    Schema(Schema),
}

/// Say what this host can enforce, engine by engine and layer by layer, why not, and what to do.
///
/// Each engine is tried out: a sandbox is built around a program that does not exist.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  0    an engine works that can enforce every policy
  1    none does; the remedies say how to get one
  125  the answer could not be printed

Examples:
  stockade doctor
  stockade doctor --json | jq -r .chosen")]
pub(crate) struct Doctor {
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Print the JSON Schemas (draft 2020-12) of the protocol, to generate clients from.
///
/// Without options, prints one bundle that holds every message and type.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade schema > stockade.json           all messages and types in one schema
  stockade schema --message ExecRequest     one message, complete in itself
  stockade schema --out schemas             one file for each message, and the bundle
  stockade schema --out schemas --check     fail if those files are not up to date")]
pub(crate) struct Schema {
    /// Write one file for each message, and the bundle, into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "message")]
    pub(crate) out: Option<PathBuf>,

    /// Write nothing; fail if the directory's files differ from the types
    #[arg(long, requires = "out")]
    pub(crate) check: bool,

    /// Print the schema of this message alone
    #[arg(long, value_name = "NAME")]
    pub(crate) message: Option<String>,
}
