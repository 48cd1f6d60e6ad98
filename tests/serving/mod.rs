//! `stockade serve` as a client speaks to it: lines that a person could type.

/// What holds on every connection.
mod connections;
/// A client of the real program.
mod talk;
