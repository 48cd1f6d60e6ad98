//! Approvers from outside: the laws of the combinators, the channel under load, hooks as real
//! programs, and what a thread gets that nothing is configured for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test and its helpers fail by panicking"
)]

mod channel;
#[cfg(unix)]
mod hook;
mod laws;
mod registry;
mod support;
