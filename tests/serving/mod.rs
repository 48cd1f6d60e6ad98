//! `stockade serve` as a client speaks to it: lines that a person could type.

/// Clients that die, flood and ask for much; servers that are killed.
pub(crate) mod abuse;
/// What the server holds on to, and what it does at its bounds.
mod bounds;
/// Commands: their output, input, terminals, signals and ends.
mod commands;
/// What holds on every connection.
mod connections;
/// What the manual shows is what happens.
mod manual;
/// Who is asked, and whose answer counts.
mod questions;
/// No command reaches the server that runs it.
mod reach;
/// Requests that are no commands.
mod requests;
/// Sessions: opened, joined, changed, left alone and closed.
mod sessions;
/// A client of the real program.
pub(crate) mod talk;
/// Connections of other users.
mod users;
