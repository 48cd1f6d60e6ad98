//! Secrets are not shown.
//!
//! Everything that a prompt shows of a command and of its environment passes here, but for the words
//! of a rule, which are shown as they are going to be saved.

use stockade_protocol::RawText;

/// The words of a command as they may be shown.
pub(super) fn words(words: &[RawText]) -> Vec<RawText> {
    // `stockade_core::redact_argv` belongs here.
    words.to_vec()
}

/// The value of an environment variable as it may be shown.
pub(super) fn variable(_name: &str, value: &str) -> String {
    // `stockade_core::redact_variable` belongs here.
    value.to_owned()
}
