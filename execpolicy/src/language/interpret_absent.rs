//! Replaces the interpreter in a build without the feature `starlark`.

use super::value::Call;
use crate::source::{Problem, Source, Span};

/// Refuses the file: its meaning is unknown, and it may forbid something.
pub(super) fn run<'a>(_: &Source<'a>) -> Result<Vec<Call<'a>>, Problem> {
    let problem = String::from("this build reads rules files of plain calls with strings and lists alone");
    Err(Problem::new(Span::new(0, 0), problem, "build Stockade with the feature `rules` for all of Starlark"))
}
