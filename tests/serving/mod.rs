//! `stockade serve` as a client speaks to it: lines that a person could type.

/// Clients that die, flood and ask for much; servers that are killed.
mod abuse;
/// What holds on every connection.
mod connections;
/// What the manual shows is what happens.
mod manual;
/// No command reaches the server that runs it.
mod reach;
/// Requests that are no commands.
mod requests;
/// A client of the real program.
mod talk;
