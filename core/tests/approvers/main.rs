//! Approvers from outside: the laws of the combinators, the channel under load, and hooks as real
//! programs.
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
mod support;
