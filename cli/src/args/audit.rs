//! `stockade audit`.

use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};

/// Look at the trail of what was asked, decided and done.
///
/// It is kept in `$XDG_STATE_HOME/stockade/audit.jsonl` (`~/.local/state` without that variable), for
/// its owner alone, without the secrets that can be told.
#[derive(Debug, Arguments)]
#[command(after_help = "Examples:
  stockade audit list --since 2h
  stockade audit show call-7
  stockade audit verify")]
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

    /// Only runs that ended so: exited, denied, refused, timed_out, cancelled, signaled, patched,
    /// called, failed, unfinished
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
/// A program that may write the trail's files can write a whole new trail: keep the printed hash elsewhere to
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
