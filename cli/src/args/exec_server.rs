//! The arguments of `stockade exec-server`.

use clap::Parser;

use super::SessionArgs;

/// Run codex's commands: its exec-server protocol, on standard input and output.
///
/// codex starts this program if its `environments.toml` says so, and runs every command and reads and writes every
/// file of its workspace through it: in a session of Stockade, in the directory that codex was started in. The sandbox that
/// codex asks for and the session's own both hold. What codex's user approves lifts codex's sandbox, never this one.
#[derive(Debug, Parser)]
#[command(mut_arg("ask", |ask| ask.help(
    "When to ask: untrusted, on-failure, on-request, never or reject=CATEGORY,… What is asked is declined, but for a hook of \
     the settings that answers [default: on-request]"
)))]
#[command(after_help = "Examples:
  # ~/.codex/environments.toml
  default = \"stockade\"
  include_local = false
  [[environments]]
  id = \"stockade\"
  program = \"stockade\"
  args = [\"exec-server\"]

  # the same with more
  args = [\"exec-server\", \"--writable\", \"/var/cache/build\", \"--allow-host\", \"crates.io:443\"]

  stockade install codex                              write that file
  stockade exec-server --network off < messages       by hand: it reads and writes JSON-RPC, one message a line

With `include_local = false` codex has no other way to run a command. Questions of Stockade are declined, since codex can't
ask them: allow commands with rules, or name a program that answers in the settings. docs/agents.md says more.

Exit codes: 0 codex has gone, 125 it can't serve")]
pub(crate) struct ExecServer {
    #[command(flatten)]
    pub(crate) session: SessionArgs,
}
