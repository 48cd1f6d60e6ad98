//! Real, published coding agents over Stockade, with a stand-in for the model behind them.
//!
//! The agents come from npm, in the versions of `tests/clients/package.json`; `scripts/test` installs them below `.tools`.
//! One that is missing fails the test.

#![expect(
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "JSON that is not as expected fails the test"
)]

mod anthropic;
mod claude_code;
mod codex;
mod codex_hook;
mod exec_server;
mod flood;
mod gemini;
mod google;
mod hooks;
mod hostile;
mod importing;
mod inside;
mod installing;
mod mcp;
mod openai;
mod opencode;
mod policy_request;
mod transcripts;
mod user;

use std::path::PathBuf;

use crate::support::repository;

/// A file of an agent's package.
fn agent(path: &str) -> PathBuf {
    let file = repository().join(".tools/clients/node_modules").join(path);
    assert!(file.exists(), "{} is missing: run `scripts/test tools` once", file.display());
    file
}
