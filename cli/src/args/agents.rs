//! The arguments of `stockade hook`, `stockade install` and `stockade import`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as Arguments, Parser, Subcommand, ValueEnum};
use stockade_server::wire::SessionName;

use crate::flags;

/// Answer the hook of a coding agent.
///
/// The agent starts this program before each use of a tool, with a JSON document on standard input; `stockade install`
/// puts it into the agent's settings. Commands are judged by the rules and run in a session of their own, which lasts as
/// long as the agent's.
#[derive(Debug, Arguments)]
#[command(after_help = "Examples:
  stockade install claude-code
  echo '{\"hook_event_name\":\"PreToolUse\",…}' | stockade hook claude-code

Exit codes: 0 the answer is on standard output, or there is none to give; 2 the tool must not be used, and standard error
says why")]
pub(crate) struct Hook {
    #[command(subcommand)]
    pub(crate) command: HookCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Answer a hook of Claude Code: PreToolUse and PermissionRequest
    ClaudeCode(HookAnswer),
    /// Answer a hook of codex: PreToolUse and PermissionRequest
    Codex(HookAnswer),
    /// Answer a hook of gemini-cli: BeforeTool
    Gemini(HookAnswer),
    /// Run a line in the session of an agent. Hooks put this in the place of a command
    Run(HookRun),
}

#[derive(Debug, Arguments)]
pub(crate) struct HookAnswer {
    /// Answer within this time: the person is to be asked if nothing is decided by then
    #[arg(long, value_name = "TIME", value_parser = flags::timeout, default_value = "20s")]
    pub(crate) limit: Duration,
}

/// Run a line in the session that a hook has opened. Nothing is asked here: the agent has no terminal to lend.
#[derive(Debug, Parser)]
pub(crate) struct HookRun {
    /// The session
    #[arg(value_name = "SESSION")]
    pub(crate) session: SessionName,

    /// The person has said yes to this command, in the agent's own dialog
    #[arg(long)]
    pub(crate) asked: bool,

    /// Write the directory in which the line ended to descriptor 3
    #[arg(long)]
    pub(crate) tell_directory: bool,

    /// The line, for `bash`
    #[arg(short = 'c', value_name = "LINE", allow_hyphen_values = true)]
    pub(crate) line: OsString,
}

/// Let a coding agent run its commands in Stockade.
///
/// Merges a hook into the agent's settings file (for codex: an environment, which runs its commands) and shows what changes. The file as it was is kept beside it, with
/// `.before-stockade` at the end of its name.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade install claude-code --dry-run      show what would change
  stockade install claude-code                for this user, in ~/.claude/settings.json
  stockade install claude-code --project      for this project, in .claude/settings.json
  stockade install claude-code --undo

Exit codes: 0 done, or nothing to do; 125 the settings can't be read or written, and nothing was changed")]
pub(crate) struct Install {
    /// The agent
    #[arg(value_enum, value_name = "AGENT")]
    pub(crate) agent: AgentName,

    /// Change the settings of the user (the default)
    #[arg(long, conflicts_with = "project")]
    pub(crate) user: bool,

    /// Change the settings of the project in the current directory
    #[arg(long)]
    pub(crate) project: bool,

    /// Take it out again
    #[arg(long)]
    pub(crate) undo: bool,

    /// Show what would change, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Turn the permissions of a coding agent into rules and settings of Stockade.
///
/// Says of each line what becomes of it. Nothing is allowed that the agent would refuse or ask about: what can't be said in
/// rules is left out where it allows; where it denies or asks, a stricter rule takes its place, or the import stops.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade import claude-code .claude/settings.json             print rules and settings
  stockade import claude-code ~/.claude/settings.json --out ~/.config/stockade --dry-run
  stockade import codex ~/.codex/config.toml --json
  stockade import codex ~/.codex/rules/default.rules
  stockade import gemini ~/.gemini/policies/mine.toml

Exit codes: 0 done, 125 it can't be read or written, 126 a line that denies or asks can't be carried over, and nothing was
written")]
pub(crate) struct Import {
    /// The agent
    #[arg(value_enum, value_name = "AGENT")]
    pub(crate) agent: AgentName,

    /// Its settings (claude-code, gemini), configuration or rules (codex), or policies (gemini, `.toml`)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Write `rules/AGENT.rules` and `config.toml` below this directory. Files that are there are not overwritten
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// The project that relative paths are in [default: the one whose settings these are]
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,

    /// Show what would be written, and write nothing
    #[arg(long, requires = "out")]
    pub(crate) dry_run: bool,

    /// Go on where a line that denies or asks can't be carried over: no command is allowed by the import then
    #[arg(long)]
    pub(crate) partial: bool,

    /// Print one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// A coding agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentName {
    /// Anthropic's Claude Code
    ClaudeCode,
    /// OpenAI's codex
    Codex,
    /// Google's gemini-cli
    Gemini,
    /// opencode
    Opencode,
}

impl AgentName {
    /// Whether its hooks can always have the person asked.
    pub(crate) fn asks_for_hooks(self) -> bool {
        match self {
            Self::ClaudeCode => true,
            Self::Codex | Self::Gemini | Self::Opencode => false,
        }
    }

    /// The name, as it is typed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Opencode => "opencode",
        }
    }
}
