//! The command line, as data.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Arguments, Parser, Subcommand};
use clap_complete::Shell;
use stockade_config::LossName;
use stockade_protocol::{AskForApproval, HostRule, ResourceLimits};

use crate::flags;

/// Runs commands nobody fully trusts inside an OS sandbox, with a person in charge.
#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    after_help = "Run `stockade help COMMAND` for the options and examples of one command.

Examples:
  stockade run -- npm test              run it in the sandbox
  stockade explain -- git push          what would happen, and why
  stockade audit list --last 5          what has happened
  stockade doctor                       what this machine can enforce"
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
    /// Run a command: rules, approval, sandbox, retry, audit
    Run(Run),
    /// Say what would happen to a command, and why, without running it
    Explain(Explain),
    /// Look at the trail of what was asked, decided and done
    Audit(Audit),
    /// Say what this host can enforce, and how to get more
    Doctor(Doctor),
    /// Ask the rules what happens to a command
    Execpolicy(Execpolicy),
    /// Print the JSON Schemas of the protocol and of the settings
    Schema(Schema),
    /// Vouch for the settings and rules that a project brings along
    Trust(Trust),
    /// Print the script that completes arguments in a shell
    Completions(Completions),
    /// Print the manual, or write its pages
    Man(Man),
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

    /// Only runs that ended so: exited, denied, refused, timed_out, signaled, patched, called,
    /// failed, unfinished
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

/// Run a command in the sandbox.
///
/// The rules say whether it runs, is asked about or is refused; the sandbox says what it may touch. A
/// command that the sandbox denied something can be run again with what it needs, if you say so. Its
/// output and exit code pass through.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  the command's own, also where it was denied something, or
  124  it took too long
  125  Stockade could not do its job: usage, or the sandbox can't be enforced here
  126  it was refused, or it can't be executed
  127  it was not found
  128+n  signal n ended it, also one that the sandbox or a limit sent

Examples:
  stockade run -- npm test
  stockade run --sandbox read-only -- python3 untrusted.py
  stockade run --writable ../cache --deny-read '**/*.pem' -- make
  stockade run --limit memory=2G,pids=200 --timeout 10m -- cargo build
  stockade run --ask never --json -- ./install.sh | jq .

What the command was denied is said on standard error, one line each, with what would allow it.")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) session: SessionArgs,

    /// Capture the output and print one Outcome as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Say what would happen to a command, and why, without running it.
///
/// With `--path`, say what a command could do with a file; with `--host`, whether it could connect.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade explain -- git push
  stockade explain --path ~/.ssh/id_ed25519
  stockade explain --allow-host '*.example.com' --host api.example.com:443
  stockade explain --json -- npm install | jq .requirement

Exit codes: 0 it would run, or the question was answered; 1 it would be asked; 126 it would be refused;
125 an argument is wrong")]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) session: SessionArgs,

    /// Explain what may be done with this file; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Vec<PathBuf>,

    /// Explain what happens to a connection to this host, or with /udp to datagrams; may be given several
    /// times
    #[arg(long, value_name = "HOST[:PORT][/udp]", value_parser = flags::destination)]
    pub(crate) host: Vec<flags::Destination>,

    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present_any = ["path", "host"])]
    pub(crate) command: Vec<OsString>,
}

/// What a command may do, and when to ask.
#[derive(Debug, Arguments)]
pub(crate) struct SessionArgs {
    /// How much the command is trusted with [default: workspace-write]
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) sandbox: Option<flags::Policy>,

    /// When to ask: untrusted, on-failure, on-request, never or reject=CATEGORY,… [default: on-failure
    /// with a terminal, never without]
    #[arg(long, value_name = "WHEN", value_parser = flags::ask)]
    pub(crate) ask: Option<AskForApproval>,

    /// Where the command starts. This makes nothing writable
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,

    /// A directory that is the workspace, in place of the one you are in; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Vec<PathBuf>,

    /// A directory that may be written besides the workspace; may be given several times
    #[arg(long, value_name = "DIR")]
    pub(crate) writable: Vec<PathBuf>,

    /// A directory that may be read: nothing else may, but for what programs need to start; may be given
    /// several times
    #[arg(long, value_name = "DIR")]
    pub(crate) readable: Vec<PathBuf>,

    /// A path or glob that is out of reach, whatever anybody approves; may be given several times
    #[arg(long, value_name = "PATH|GLOB")]
    pub(crate) deny_read: Vec<String>,

    /// The network of the command [default: off]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) network: Option<flags::Network>,

    /// A host that may be reached, such as api.example.com:443 or *.example.com, or with datagrams, such
    /// as time.example.com:123/udp; may be given several times
    #[arg(long, value_name = "HOST[:PORT][/udp]", value_parser = flags::allowed_host)]
    pub(crate) allow_host: Vec<HostRule>,

    /// A unix socket that may be connected to, such as an SSH agent's; may be given several times
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_socket: Vec<PathBuf>,

    /// Pass a variable on that is dropped by default, or set it; may be given several times
    #[arg(long, value_name = "NAME[=VALUE]")]
    pub(crate) env: Vec<flags::Variable>,

    /// Limits: cpu=SECONDS, memory=SIZE (at least 4M), pids=N, fsize=SIZE, files=N (at least 4), separated by
    /// commas
    #[arg(long, value_name = "NAME=VALUE,…", value_parser = flags::limits)]
    pub(crate) limit: Option<ResourceLimits>,

    /// End the command after this time, such as 30s or 5m
    #[arg(long, value_name = "TIME", value_parser = flags::timeout)]
    pub(crate) timeout: Option<Duration>,

    /// Read this rules file instead of the system's, the user's and the project's; may be given several
    /// times
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,

    /// What builds the sandbox [default: auto]
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) engine: Option<flags::Engine>,

    /// Run the command without something that the engine can't hold, instead of refusing it; may be given
    /// several times
    #[arg(long, value_name = "NAME", value_parser = flags::losses())]
    pub(crate) accept_loss: Vec<LossName>,

    /// Use this profile of the configuration
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Ask to run without the sandbox
    #[arg(long)]
    pub(crate) unsandboxed: bool,
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

/// Print the JSON Schemas (draft 2020-12) of the protocol, to generate clients from, and of the
/// settings file (`Config`), for editors.
///
/// Without options, prints one bundle that holds every message and type.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade schema > stockade.json           all messages and types in one schema
  stockade schema --message ExecRequest     one message, complete in itself
  stockade schema --message Config          the settings file
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

/// Vouch for the settings and rules that a project brings along in `.stockade`.
///
/// They count as long as no file there changes. Look at them first: trusted rules may let commands run
/// without asking.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  0    done
  1    with --revoke: the project was not trusted
  125  the project or the list can't be read or written

Examples:
  stockade trust                 the project in this directory
  stockade trust ~/src/app
  stockade trust --revoke ~/src/app
  stockade trust --list")]
pub(crate) struct Trust {
    /// The project's directory; the current one if absent
    #[arg(value_name = "DIR", conflicts_with = "list")]
    pub(crate) directory: Option<PathBuf>,

    /// Take the project off the list
    #[arg(long, conflicts_with = "list")]
    pub(crate) revoke: bool,

    /// List trusted projects, and whether they still are as they were
    #[arg(long)]
    pub(crate) list: bool,
}

/// Print the script that completes arguments in a shell.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade completions bash > ~/.local/share/bash-completion/completions/stockade
  stockade completions zsh > ~/.zfunc/_stockade
  stockade completions fish > ~/.config/fish/completions/stockade.fish")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// Print the manual of the program, or write a page for it and for each of its commands.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade man | man -l -
  stockade man --out ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one page for each command into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
