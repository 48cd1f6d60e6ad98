//! The command line, as data.

#[cfg(unix)]
mod agents;
mod audit;
#[cfg(unix)]
mod exec_server;
#[cfg(unix)]
mod mcp;
mod one_command;
mod plain;
mod profile;
mod repeated;
mod serve;
mod session;
#[cfg(unix)]
mod sessions;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Args as Arguments, Parser, Subcommand};
use clap_complete::Shell;

#[cfg(unix)]
pub(crate) use self::agents::{AgentName, Hook, HookAnswer, HookCommand, HookRun, Import, Install};
pub(crate) use self::audit::{Audit, AuditCommand, AuditList, AuditShow, AuditVerify};
#[cfg(unix)]
pub(crate) use self::exec_server::ExecServer;
#[cfg(unix)]
pub(crate) use self::mcp::Mcp;
pub(crate) use self::profile::{Profile, ProfileCheck, ProfileCommand, ProfileList, ProfileShow};
pub(crate) use self::repeated::parse;
pub(crate) use self::serve::Serve;
pub(crate) use self::session::SessionArgs;
#[cfg(unix)]
pub(crate) use self::sessions::{SessionAttend, SessionCommand, SessionEnd, SessionList, SessionShow, Sessions};
use crate::{flags, shell};

/// Runs commands that are not fully trusted inside an OS sandbox, with a person in charge.
#[derive(Debug, Parser)]
#[command(
    name = "stockade",
    version,
    after_help = "Run `stockade help COMMAND` for the options and examples of one command.

Examples:
  stockade run -- npm test              run it in the sandbox
  stockade explain -- git push          what would happen, and why
  stockade install claude-code          let a coding agent run its commands in it
  stockade audit list --last 5          what has happened
  stockade doctor                       what this machine can enforce"
)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) everywhere: Everywhere,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Arguments)]
pub(crate) struct Everywhere {
    /// Export spans and counters to this OpenTelemetry collector, by OTLP over HTTP
    #[arg(long, value_name = "ENDPOINT", global = true)]
    pub(crate) otlp: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command: rules, approval, sandbox, retry, audit
    Run(Run),
    /// Say what would happen to a command, and why, without running it
    Explain(Explain),
    /// Apply a patch where the policy allows it; ask first where it does not
    Patch(Patch),
    /// Serve sessions to other programs, in JSON-RPC 2.0
    Serve(Serve),
    /// Run codex's commands: its exec-server protocol, on standard input and output
    #[cfg(unix)]
    ExecServer(Box<ExecServer>),
    /// Serve tools that run in the sandbox to agents: an MCP server
    #[cfg(unix)]
    Mcp(Box<Mcp>),
    /// Look at sessions, and end them
    #[cfg(unix)]
    Session(Sessions),
    /// Let a coding agent run its commands in Stockade
    #[cfg(unix)]
    Install(Install),
    /// Turn the permissions of a coding agent into rules and settings
    #[cfg(unix)]
    Import(Import),
    /// Answer the hook of a coding agent
    #[cfg(unix)]
    Hook(Hook),
    /// Look at permission profiles: what `--with` grants, and why
    Profile(Profile),
    /// Look at the trail of what was asked, decided and done
    Audit(Audit),
    /// Say what this host can enforce, and how to get more
    Doctor(Doctor),
    /// Take the marks of the sandbox off directories that commands could write
    #[cfg(windows)]
    Unmark(Unmark),
    /// Ask the rules what happens to a command
    Execpolicy(Execpolicy),
    /// Print the JSON Schemas of the protocol and of the settings
    Schema(Schema),
    /// Trust the settings and rules of a project
    Trust(Trust),
    /// Print the script that completes arguments in a shell
    Completions(Completions),
    /// Print the manual, or write its pages
    Man(Man),
}

/// Run a command in the sandbox.
///
/// The rules say whether it runs, is asked about or is refused; the sandbox says what it may touch. A rule
/// that allows spares the question; the command runs in the session's sandbox, unless the rule says `outside = True`
/// and no flag names the sandbox. A command that the sandbox denied something can be run again with what it
/// needs, if you say so. Its output and exit code pass through.
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
  stockade run -c 'npm ci && npm test'
  stockade run --session work -- npm test
  stockade run --with npm -- npm ci
  stockade run --sandbox read-only -- python3 untrusted.py
  stockade run --writable ../cache --deny-read '**/*.pem' -- make
  stockade run --limit memory=2G,pids=200 --timeout 10m -- cargo build
  stockade run --ask never --json -- ./install.sh | jq .

If a command fails, each denial is a line on standard error, with the flag that would allow it.")]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) session: SessionArgs,

    /// Run it in this session, which is opened if there is none: approvals for the session, the private /tmp and loopback last
    /// from command to command. Also STOCKADE_SESSION
    #[arg(long = "session", value_name = "NAME")]
    pub(crate) name: Option<stockade_server::wire::SessionName>,

    /// Capture the output and print one Outcome as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Also print the denials of a command that succeeded
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    /// Run this line with `bash`, or with `sh` where there is no `bash`; words behind it are its `$0`, `$1` and so on
    #[arg(short = 'c', value_name = "LINE", allow_hyphen_values = true)]
    pub(crate) line: Option<OsString>,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present = "line")]
    pub(crate) command: Vec<OsString>,
}

impl Run {
    /// What is run.
    pub(crate) fn words(&self) -> Cow<'_, [OsString]> {
        words(self.line.as_deref(), &self.command)
    }
}

fn words<'a>(line: Option<&OsStr>, command: &'a [OsString]) -> Cow<'a, [OsString]> {
    match line {
        Some(line) => Cow::Owned(shell::with_line(line, command)),
        None => Cow::Borrowed(command),
    }
}

/// Say what would happen to a command, and why, without running it.
///
/// With `--path`, say what a command could do with a file; with `--host`, whether it could connect.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade explain -- git push
  stockade explain -c 'npm ci && npm test'
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

    /// Explain this line, as `run -c` runs it
    #[arg(short = 'c', value_name = "LINE", allow_hyphen_values = true)]
    pub(crate) line: Option<OsString>,

    /// The command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, required_unless_present_any = ["path", "host", "line"])]
    pub(crate) command: Vec<OsString>,
}

impl Explain {
    /// What is explained; nothing if only paths and hosts are.
    pub(crate) fn words(&self) -> Cow<'_, [OsString]> {
        words(self.line.as_deref(), &self.command)
    }
}

/// Change files by a patch.
///
/// A unified diff of any number of files (also as `git diff` and `git format-patch` write it), or the envelope that
/// codex's `apply_patch` takes (`*** Begin Patch`). Inside the workspace it is written unasked, unless the policy is
/// `untrusted`; outside of it you are asked first. All of it is written or nothing, and never through a link.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  0    it was written; with --check: it would be, unasked
  1    with --check: you would be asked first
  125  it can't be read, does not fit the files, or can't be written
  126  it was refused

Examples:
  stockade patch fix.diff
  git diff main topic | stockade patch -
  stockade patch --ask untrusted fix.diff      show it and ask, wherever it writes
  stockade patch --check --json fix.diff | jq .requirement
  stockade patch --session work fix.diff       `s` holds for the next patch of these files

Names are taken from the current directory, or from --cwd. Refused: `..` in names, changed modes, executable files,
links, copies and binary hunks, and patches of more than 64 MiB.")]
pub(crate) struct Patch {
    #[command(flatten)]
    pub(crate) session: SessionArgs,

    /// Change the files in this session, in which answers last; it is opened if there is none of this name
    #[arg(long = "session", value_name = "NAME", conflicts_with = "check")]
    pub(crate) name: Option<stockade_server::wire::SessionName>,

    /// Say what would happen, and write nothing
    #[arg(long)]
    pub(crate) check: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The file with the patch; `-` is standard input
    #[arg(value_name = "FILE|-")]
    pub(crate) file: PathBuf,
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

/// Take the marks of the sandbox off directories that commands could write.
///
/// A directory that a command may write bears an entry in its access control list and a low integrity label. Both stay,
/// so that the next command need not wait. The label has an effect outside as well: Windows starts a program at the level
/// of its file, so what is built there can't write elsewhere. Without an argument, the directories are listed. The next
/// command that may write a directory marks it again.
#[cfg(windows)]
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  0    no marks are left there
  1    objects that could not be opened may still bear marks; they are named
  125  a command that may write there is running, or the records can't be used

Examples:
  stockade unmark                       list the directories that bear marks
  stockade unmark C:\\src\\app
  stockade unmark --all
  stockade unmark --all --json")]
pub(crate) struct Unmark {
    /// Take the marks off every directory that bears them
    #[arg(long, conflicts_with = "directories")]
    pub(crate) all: bool,

    /// Print what was done as JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// A directory; everything in it is meant, too
    #[arg(value_name = "DIR")]
    pub(crate) directories: Vec<PathBuf>,
}

/// Ask the rules what happens to a command, without running it.
#[derive(Debug, Arguments)]
#[command(after_help = "Examples:
  stockade execpolicy check --rules team.rules git status")]
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
  stockade schema --message StockadeServer  every message of `stockade serve`
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
/// Prints each rule and each setting, in the words of what it does. They count as long as no file there
/// changes. Rules of a project may let commands run without asking, never without the sandbox.
#[derive(Debug, Parser)]
#[command(after_help = "Exit codes:
  0    done
  1    with --revoke: the project was not trusted
  125  the project or the list can't be read or written

Examples:
  stockade trust --show          what the project in this directory would have
  stockade trust                 vouch for it
  stockade trust ~/src/app
  stockade trust --revoke ~/src/app
  stockade trust --list")]
pub(crate) struct Trust {
    /// The project's directory; the current one if absent
    #[arg(value_name = "DIR", conflicts_with = "list")]
    pub(crate) directory: Option<PathBuf>,

    /// Print what the project's rules and settings do, and vouch for nothing
    #[arg(long, conflicts_with_all = ["list", "revoke"])]
    pub(crate) show: bool,

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
