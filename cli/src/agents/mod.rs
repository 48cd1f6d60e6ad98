//! Coding agents that run their commands in Stockade: answers to their hooks, and their settings.
//!
//! An agent is an adapter over a session of the server, as `stockade run --session` is: a hook asks the session what it
//! would decide about a command, and puts `stockade hook run` in the command's place, which runs it there.

pub(crate) mod doctor;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod install;
