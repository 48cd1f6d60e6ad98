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
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look at the trail of what was asked, decided and done
    Audit(Audit),
    /// Say what this host can enforce, and how to get more
    Doctor(Doctor),
    /// Ask the rules what happens to a command
    Execpolicy(Execpolicy),
    /// Print the JSON Schemas of the protocol
    Schema(Schema),
}

/// Look at the trail of what was asked, decided and done.
///
/// It is kept in `$XDG_STATE_HOME/stockade/audit.jsonl` (`~/.local/state` without that variable), for
/// its owner alone, without the secrets that can be told.
#[derive(Debug, Arguments)]
pub(crate) struct Audit {
    /// Read the trail in this directory instead of your own
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) trail: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List runs, the oldest first
    List(AuditList),
    /// Tell the story of one run
    Show(AuditShow),
    /// Check that no record was changed, removed or added
    Verify(AuditVerify),
}

/// List runs, the oldest first: a table on a terminal, otherwise one JSON object a line.
#[derive(Debug, Parser)]
#[command(after_help = "Times are UTC: 2026-01-31, 2026-01-31T10:00, or an age such as 90s, 30m, 2h, 7d.

Examples:
  stockade audit list --last 20
  stockade audit list --since 2h --result denied
  stockade audit list --program npm --json | jq -r .request_id")]
pub(crate) struct AuditList {
    /// Only this session's runs
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,

    /// Only this request's run
    #[arg(long, value_name = "ID")]
    pub(crate) request: Option<String>,

    /// Only runs that started then or later
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only runs that started before
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,

    /// Only runs that ended so: exited, denied, refused, timed_out, signaled, unfinished
    #[arg(long, value_name = "RESULT")]
    pub(crate) result: Option<String>,

    /// Only runs of this program, by name or path
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,

    /// Only the last so many
    #[arg(long, value_name = "COUNT")]
    pub(crate) last: Option<usize>,

    /// Print one JSON object a line, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell the story of one run: what was asked, who decided what, how it ended.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes: 0 printed, 1 no such request, 125 the trail can't be read

Examples:
  stockade audit show call-7
  stockade audit show call-7 --json | jq .event")]
pub(crate) struct AuditShow {
    /// The request, as `stockade audit list` names it
    #[arg(value_name = "REQUEST")]
    pub(crate) request: String,

    /// Print its records, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Check that no record was changed, removed, inserted, moved or cut off, and name the first that was.
///
/// Whoever may write the trail's files can write a whole new trail: keep the printed hash elsewhere to
/// notice that as well.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes: 0 whole, 1 the first bad record was named, 125 the trail can't be read

Examples:
  stockade audit verify
  stockade audit verify --trail /backup/stockade --json")]
pub(crate) struct AuditVerify {
    /// Print the verdict as JSON
    #[arg(long)]
    pub(crate) json: bool,
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
