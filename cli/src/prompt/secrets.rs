//! Secrets are not shown.
//!
//! Everything that a prompt shows of a command, of its environment and of a call passes here, but for
//! the words of a rule, which are shown as they are going to be saved, and the changes of files, which
//! nobody could approve unseen.

use stockade_core::{redact_argv, redact_text, redact_variable};
use stockade_protocol::{Argv, RawText};

/// The words of a command as they may be shown.
pub(super) fn words(words: &[RawText]) -> Vec<RawText> {
    match Argv::parse(words.iter().cloned()) {
        Ok(argv) => redact_argv(&argv).words().to_vec(),
        // Without a program the words have no meaning to each other.
        Err(_) => words
            .iter()
            .map(|word| word.as_str().map_or_else(|| word.clone(), |text| redact_text(text).into()))
            .collect(),
    }
}

/// The value of an environment variable, or something else that has a name, as it may be shown.
pub(super) fn named(name: &str, value: &str) -> String {
    redact_variable(name, value)
}

/// Whether something of this name is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    named(name, "value") != "value"
}

/// A text that may quote a command.
pub(super) fn text(text: &str) -> String {
    redact_text(text)
}
