//! The README's examples in Rust, as doctests, and what the tests of several crates need.

#![doc = include_str!("../README.md")]
#![doc = include_str!("../docs/tour.md")]

#[cfg(unix)]
pub mod screen;

// The examples use them; nothing else does.
use stockade as _;
use stockade_protocol as _;
