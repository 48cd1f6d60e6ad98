//! The command line, as data.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

/// Runs commands nobody fully trusts inside an OS sandbox, with a person in charge.
#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    after_help = "Run `stockade help COMMAND` for the options and examples of one command."
)]
pub(crate) struct Args {
    /// Export spans and counters to this OpenTelemetry collector, by OTLP over HTTP
    #[arg(long, value_name = "ENDPOINT", global = true)]
    pub(crate) otlp: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what this host can enforce, and how to get more
    Doctor(Doctor),
    /// Ask the rules what happens to a command
    Execpolicy(Execpolicy),
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

/// Ask the rules what happens to a command, without running it.
#[derive(Debug, Arguments)]
pub(crate) struct Execpolicy {
    #[command(subcommand)]
    pub(crate) command: ExecpolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExecpolicyCommand {
    /// Print the rules that match a command, and the decision
    Check(Check),
}

/// Print the rules that match a command, and the decision, as JSON.
///
/// A command is matched word by word and no shell is involved; without a match there is no decision.
/// A shell line is split into the commands that it runs, also inside wrappers, nested shells and
/// substitutions; what no rule speaks of is judged by the table of known commands, and the strictest
/// answer counts.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade execpolicy check --rules team.rules git status
  stockade execpolicy check --rules team.rules --pretty -- npm test --silent
  stockade execpolicy check --rules team.rules --shell 'git status && rm -rf build'

Exit codes: 0 the answer was printed, 125 a rules file or an argument is wrong")]
pub(crate) struct Check {
    /// Read this rules file; may be given several times. Without it, the system's and the user's own
    /// files are read
    #[arg(short, long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,

    /// Indent the JSON
    #[arg(long)]
    pub(crate) pretty: bool,

    /// Let a path that `host_executable` lists stand for the bare name in rules
    #[arg(long)]
    pub(crate) resolve_host_executables: bool,

    /// Judge this bash line instead of a command
    #[arg(long, value_name = "LINE", conflicts_with = "command")]
    pub(crate) shell: Option<String>,

    /// The command and its arguments
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required_unless_present = "shell"
    )]
    pub(crate) command: Vec<OsString>,
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
