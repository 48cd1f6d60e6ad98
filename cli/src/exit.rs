//! The end of the program: exit codes by convention, and errors with their causes on standard error.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use stockade_protocol::{Outcome, Refusal, RefusedBy};

use stockade::terminal::{is_plain, stage};
pub(crate) use stockade::with_causes;

/// Stockade itself could not do its job. The command's own exit codes pass through unchanged, so
/// this is one that `env`, `timeout` and `docker run` use for the same purpose.
pub(crate) const FAILED: u8 = 125;
/// It took too long.
pub(crate) const TIMED_OUT: u8 = 124;
/// It was cancelled, or its session was ended: as if it had been told to end by `SIGTERM`.
pub(crate) const CANCELLED_BY: i32 = 15;
/// It was refused, or can't be executed.
pub(crate) const REFUSED: u8 = 126;
/// It was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// The exit code of a refusal.
pub(crate) fn refused(refusal: &Refusal) -> u8 {
    match refusal.by {
        RefusedBy::Sandbox | RefusedBy::Audit | RefusedBy::Usage => FAILED,
        RefusedBy::Rule
        | RefusedBy::ApprovalPolicy
        | RefusedBy::Reviewer
        | RefusedBy::Timeout
        | RefusedBy::Administrator => REFUSED,
    }
}

/// An error that ends the program.
#[derive(Debug)]
pub(crate) struct Failure(Box<dyn Error>);

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl Failure {
    /// The error with its causes, and the flag that the library does not know.
    fn text(&self) -> String {
        let text = with_causes(&*self.0);
        match self.0.downcast_ref::<stockade::Error>() {
            Some(
                stockade::Error::LeadsHome { target: path, .. } | stockade::Error::NotByAccident { here: path, .. },
            ) => {
                format!("{text} (`--workspace {path}`)")
            }
            Some(_) | None => text,
        }
    }

    /// Reports the error and its causes.
    pub(crate) fn report(&self, form: Form) -> ExitCode {
        form.say(&self.text());
        ExitCode::from(FAILED)
    }
}

/// Prints a message for the user, apart from the command's output. It may name files of an unreviewed project, so it
/// is escaped: nothing in it moves the cursor or hides.
pub(crate) fn note(text: &str) {
    let shown = |c: char| match c {
        ' ' | '\n' | '\\' => String::from(c),
        c if is_plain(c) => String::from(c),
        c => c.escape_unicode().to_string(),
    };
    let text: String = text.chars().map(shown).collect();
    stage::tell(&format!("stockade: {text}\n"));
}

/// The format of an error without a document of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A line on standard error.
    Text,
    /// `run --json`: an outcome on standard output.
    Outcome,
    /// Another command with `--json`: an object with an `error`, on standard output.
    Json,
}

impl Form {
    /// The format that arguments request, even if they are invalid otherwise. Words after `--` belong to the command.
    pub(crate) fn of(arguments: &[OsString]) -> Self {
        let own: Vec<&OsString> = arguments.iter().skip(1).take_while(|word| *word != "--").collect();
        if !own.iter().any(|word| *word == "--json") {
            return Self::Text;
        }
        if own.first().is_some_and(|word| *word == "run") { Self::Outcome } else { Self::Json }
    }

    fn say(self, reason: &str) {
        let document = match self {
            Self::Text => return note(reason),
            Self::Outcome => {
                let refusal = Refusal { by: RefusedBy::Usage, reason: reason.to_owned() };
                serde_json::to_value(Outcome::Refused(refusal)).unwrap_or_default()
            }
            Self::Json => serde_json::json!({ "error": reason }),
        };
        if print(&format!("{document:#}\n")).is_err() {
            note(reason);
        }
    }
}

/// Ends after `--help` and `--version`, or after invalid arguments.
pub(crate) fn usage(error: &clap::Error, form: Form) -> ExitCode {
    if error.use_stderr() && form != Form::Text {
        let text = error.render().to_string();
        form.say(text.trim().trim_start_matches("error: "));
        return ExitCode::from(FAILED);
    }
    // If nothing can be printed, only the exit code remains.
    let printed = error.print().is_ok();
    if printed && !error.use_stderr() { ExitCode::SUCCESS } else { ExitCode::from(FAILED) }
}

/// Standard output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("could not print the result")]
pub(crate) struct PrintError(#[from] io::Error);

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), PrintError> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        // A closed reader such as `head` is not a failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
