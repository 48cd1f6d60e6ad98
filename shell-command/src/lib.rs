#![doc = include_str!("../README.md")]

// In reading order: a text becomes commands (`bash`), commands are looked into (`inside`), and what
// is listed is judged (`safety`).
mod bash;
mod inside;
mod safety;

pub use inside::{parse_argv, parse_bash};
pub use safety::{MOST_SAFE_COMMANDS, Safety, line_safety, reads_secret, safety};
