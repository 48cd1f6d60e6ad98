//! Coding agents that run their commands in Stockade: answers to their hooks, and their settings.
//!
//! An agent uses a session of the server, as `stockade run --session` does: a hook asks the session for its decision
//! on a command, and replaces the command by `stockade hook run`, which runs it there.

pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod install;
pub(crate) mod opencode;
