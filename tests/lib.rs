//! The README's examples in Rust, as doctests, and what the tests of several crates need.

#![doc = include_str!("../README.md")]

#[cfg(unix)]
pub mod screen;

// The examples use it; nothing else does.
use stockade_protocol as _;
