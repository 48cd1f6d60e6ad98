#![doc = include_str!("../README.md")]

// In reading order: text is parsed into commands (`bash`), commands are unwrapped (`inside`), and the listed commands
// are judged (`safety`).
mod bash;
mod inside;
mod safety;

pub use inside::{is_plain_shell, parse_argv, parse_bash, starts_others, works_unseen};
pub use safety::{MOST_SAFE_COMMANDS, Safety, line_safety, reads_secret, safety};
