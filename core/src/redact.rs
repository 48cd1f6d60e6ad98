//! Removes secrets from logged, shown and exported texts.
//!
//! Secrets can only be guessed: by the format of an issuer's tokens, by the name before them (`--token`, `API_KEY=`,
//! `Authorization:`), and by the options of known programs. The guess errs on the side of redaction, in time linear in
//! the text. A secret of unknown format without a name is not found: see SECURITY.md.

mod event;
mod fed;
mod names;
mod programs;
mod shapes;
mod shorten;
mod text;
mod words;

use stockade_protocol::{Argv, RawText};

pub use event::redact_event;

/// The replacement of a secret.
pub const REDACTED: &str = "‹redacted›";

/// A text without recognised secrets.
///
/// ```
/// use stockade_core::redact_text;
///
/// assert_eq!(redact_text("curl -H 'Authorization: Bearer abc123' https://me:pw@host/"),
///     "curl -H 'Authorization: Bearer ‹redacted›' https://me:‹redacted›@host/");
/// ```
pub fn redact_text(text: &str) -> String {
    // The mark is UTF-8, and it replaces whole characters.
    String::from_utf8(text::redact(text.as_bytes())).unwrap_or_else(|_| REDACTED.to_owned())
}

/// A command without recognised secrets, including those that depend on its program.
///
/// ```
/// use stockade_core::redact_argv;
/// use stockade_protocol::Argv;
///
/// let argv = Argv::parse(["mysql", "-u", "root", "-phunter2", "--token", "abc"])?;
/// assert_eq!(redact_argv(&argv).to_string(), "mysql -u root '-p‹redacted›' --token '‹redacted›'");
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
pub fn redact_argv(argv: &Argv) -> Argv {
    let words: Vec<&[u8]> = argv.words().iter().map(RawText::as_bytes).collect();
    let redacted = words::redact(&words).into_iter().map(RawText::from);
    // No word is dropped or becomes empty, so this is still a command.
    Argv::parse(redacted).unwrap_or_else(|_| argv.clone())
}

/// The value of an environment variable, or the mark if its name indicates a secret.
pub fn redact_variable(name: &str, value: &str) -> String {
    if names::is_secret_variable(name) && !value.is_empty() { REDACTED.to_owned() } else { redact_text(value) }
}

/// Whether the whole value of a variable is a token of a known format, or contains a private key.
pub(crate) fn is_token(value: &RawText) -> bool {
    let bytes = value.as_bytes().trim_ascii();
    let is_whole = shapes::token_at(bytes, 0).is_some_and(|token| token.end == bytes.len());
    let begins_key = |at: usize| shapes::private_key_at(bytes, at).is_some();
    is_whole || bytes.windows(11).enumerate().any(|(at, part)| part == b"-----BEGIN " && begins_key(at))
}

fn redact_raw(text: &RawText) -> RawText {
    text::redact(text.as_bytes()).into()
}
