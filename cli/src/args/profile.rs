//! The arguments of `stockade profile`.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Look at permission profiles: named sets of additional permissions, each line with its reason.
///
/// A profile grants the caches and registries of a tool, never secrets. Those that are built in can be replaced by files in
/// `~/.config/stockade/profiles` and `/etc/stockade/profiles`; a project may bring its own along in `.stockade/profiles`,
/// which count once it is trusted. A profile is named with `--with`, in `with` of the settings, or by a rule. The
/// administrator's maximum holds for all of them.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade profile list
  stockade profile show npm
  stockade profile check team.toml")]
pub(crate) struct Profile {
    #[command(subcommand)]
    pub(crate) command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// List the profiles
    List(ProfileList),
    /// Say what a profile grants here, and why
    Show(ProfileShow),
    /// Say whether profiles can be granted
    Check(ProfileCheck),
}

/// List the profiles that are built in, the administrator's, yours, and those of the project if it is trusted.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade profile list
  stockade profile list --json | jq -r '.[].name'

Exit codes: 0, 125 a file can't be read")]
pub(crate) struct ProfileList {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Say what a profile grants in this environment, line by line with its reason.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade profile show npm
  CARGO_HOME=/opt/cargo stockade profile show cargo
  stockade profile show npm --json | jq .permissions

Exit codes: 0, 1 it can't be granted here, 125 there is no such profile")]
pub(crate) struct ProfileShow {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// The profile
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
}

/// Say whether profiles can be granted in this environment: files that are written by hand, or those that are known.
///
/// Refused are lines that would open a masked credential, Stockade's own files or protected metadata, and paths that lead
/// to the root or to a home directory.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:
  stockade profile check
  stockade profile check npm cargo
  stockade profile check ~/.config/stockade/profiles/company.toml

Exit codes: 0 all can be granted, or only those that need a running agent can't; 1 another one can't; 125 an argument is
wrong")]
pub(crate) struct ProfileCheck {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// A file (it has `/` or ends in `.toml`), or the name of a profile; all profiles if absent
    #[arg(value_name = "FILE|NAME")]
    pub(crate) profiles: Vec<PathBuf>,
}
