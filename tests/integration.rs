//! Tests of the whole, from the outside: the program as a user runs it, the documents as a reader
//! follows them, and clients in other languages as their authors generate them.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

/// Real coding agents over Stockade.
#[cfg(target_os = "linux")]
mod agents;
/// Every known attack has a test.
mod attacks;
/// The trail, as the program shows and checks it.
mod audit;
/// Generated TypeScript and Python clients take every golden message.
mod clients;
/// Command lines with the answer that they must get.
mod commands;
/// Rules, as the program applies them.
mod execpolicy;
/// What is published.
mod packages;
/// The program's arguments, output and exit codes.
mod program;
/// What the documents show is what happens.
mod readme;
/// Commands, run and explained by the program in a home of its own.
#[cfg(target_os = "linux")]
mod running;
/// The schemas in the repository are those of the types.
mod schemas;
/// The server, as a client speaks to it.
#[cfg(target_os = "linux")]
mod serving;
/// Running programs and finding files.
mod support;
/// Which projects' own settings and rules count.
mod trust;
