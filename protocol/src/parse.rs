//! Parses messages from text, with errors that name the field.

use serde::de::DeserializeOwned;
use serde_path_to_error::Track;

use crate::RawText;
use crate::only_objects::OnlyObjects;

/// A message that was refused.
#[derive(Debug, thiserror::Error)]
#[error("{}{source} (line {line}, column {column})", field_prefix(.field))]
pub struct ParseError {
    /// The field that is wrong, such as `writable_roots[0]`; empty for the message as a whole.
    pub field: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1.
    pub column: usize,
    /// What is wrong with it.
    pub source: Problem,
}

/// What is wrong with a message, without the position that the parser would add.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

fn field_prefix(field: &str) -> String {
    if field.is_empty() { String::new() } else { format!("`{}`: ", RawText::from(field)) }
}

/// Parses one message. Unlike plain `serde_json`, the error names the wrong field, and a struct is not accepted in the
/// form of a list.
///
/// ```
/// use stockade_protocol::{SandboxPolicy, parse};
///
/// let error = parse::<SandboxPolicy>(r#"{"type":"workspace-write","writable_roots":["/a","b"]}"#).unwrap_err();
/// assert_eq!(error.field, "writable_roots[1]");
/// assert!(error.to_string().starts_with("`writable_roots[1]`: path `b` is not absolute"));
/// ```
pub fn parse<T: DeserializeOwned>(json: &str) -> Result<T, ParseError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let mut track = Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let message = T::deserialize(OnlyObjects(tracked)).map_err(|error| {
        let field = match track.path().to_string() {
            whole if whole == "." => String::new(),
            field => field,
        };
        refuse(field, &error)
    })?;
    deserializer.end().map_err(|error| refuse(String::new(), &error))?;
    Ok(message)
}

fn refuse(field: String, error: &serde_json::Error) -> ParseError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let position = format!(" at line {line} column {column}");
    ParseError { field, line, column, source: Problem(text.strip_suffix(&position).unwrap_or(&text).to_owned()) }
}
