//! Values that a profile refers to by name. They are passed beside the text and never become part of it,
//! so no path can be read as a rule.

use std::fmt::Write as _;

use serde::Serialize;
use stockade_protocol::AbsPath;
use stockade_sandboxing::Unenforceable;

/// One value, by its name in the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Parameter {
    /// The name in the text.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The values of one profile, each once.
#[derive(Debug, Default)]
pub(crate) struct Parameters(Vec<Parameter>);

impl Parameters {
    /// A path, as `(param "…")`.
    pub(crate) fn path(&mut self, path: &AbsPath) -> Result<String, Unenforceable> {
        let text = path.as_raw().as_str().ok_or_else(|| not_text(path))?;
        Ok(self.refer("PATH", text.to_owned()))
    }

    /// A pattern made from this path, as `(param "…")`.
    pub(crate) fn pattern(&mut self, path: &AbsPath, pattern: Option<String>) -> Result<String, Unenforceable> {
        Ok(self.refer("PATTERN", pattern.ok_or_else(|| not_text(path))?))
    }

    fn refer(&mut self, kind: &str, value: String) -> String {
        let known = self.0.iter().find(|known| known.value == value && known.name.starts_with(kind));
        let name = known.map(|known| known.name.clone()).unwrap_or_else(|| {
            let number = self.0.iter().filter(|known| known.name.starts_with(kind)).count();
            let mut name = kind.to_owned();
            // Writing to a string can't fail.
            write!(name, "_{number}").ok();
            self.0.push(Parameter { name: name.clone(), value });
            name
        });
        format!("(param \"{name}\")")
    }

    pub(crate) fn into_list(self) -> Vec<Parameter> {
        self.0
    }
}

fn not_text(path: &AbsPath) -> Unenforceable {
    Unenforceable {
        what: format!("the rule for `{path}`"),
        why: String::from("it is not UTF-8, and the volumes of a Mac hold no such name"),
        remedy: String::from("correct the path"),
    }
}
