//! The sandbox on the real kernel: what every engine promises, held against what happens.
//!
//! Every suite runs for every engine, as the user who started the tests and as an ordinary one. The
//! host's side decides, not what a command says of itself. See `docs/testing.md`.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

/// Random permissions and random paths: inside, each answer is the one that the permissions give.
mod conformance;
/// What listens on the host: sockets, a pipe, a terminal.
mod ears;
/// The engines, and what each of them does not claim.
mod engines;
/// Attacks, each of which works without a sandbox and has no effect in one.
mod escapes;
/// Killed callers, launchers and first processes; commands that use up everything.
mod faults;
/// Random numbers from a seed that is printed.
mod random;
/// What the `caller` program is asked, and what it answers.
#[path = "../request.rs"]
mod request;
/// Running programs and finding files.
#[path = "../support/mod.rs"]
#[expect(dead_code, reason = "the other test program uses the rest")]
mod support;
/// Everything that a test has on the host: files, processes, sockets, and the user it runs as.
mod world;
