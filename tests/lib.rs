//! The README's examples in Rust, as doctests.

#![doc = include_str!("../README.md")]

// The examples use it; nothing else does.
use stockade_protocol as _;
