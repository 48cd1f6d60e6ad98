//! The text of a file, and errors that point into it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use stockade_protocol::RawText;

use crate::ConfigError;
use crate::suggest::suggest;

/// A file that is being read.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
    /// What relative paths are relative to.
    pub(crate) base: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

impl Source<'_> {
    /// Reads the whole text as one form.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let deserializer = toml::Deserializer::parse(self.text).map_err(|error| self.syntax(&error))?;
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            // A value that knows its place is one level deeper for the reader, not for whoever wrote it.
            let path = error.path().to_string().replace(".$__serde_spanned_private_value", "");
            let error = error.into_inner();
            let message = error.message();
            let span = error.span().unwrap_or(0..0);
            match unknown(message) {
                Some((what, name, known)) => {
                    let key = if what == "field" { "unknown key" } else { "unknown value" };
                    let place = parent(&path, name).map(|path| format!(" in `{}`", RawText::from(path)));
                    let place = place.unwrap_or_default();
                    let place =
                        if what == "field" { place } else { format!(" for `{}`", RawText::from(path.as_str())) };
                    let name = RawText::from(name);
                    self.invalid(span, format!("{key} `{name}`{place}{}", suggest(&name.to_string(), &known)))
                }
                None => self.invalid(span, format!("`{}`: {}", RawText::from(path.as_str()), one_line(message))),
            }
        })
    }

    fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        self.invalid(error.span().unwrap_or(0..0), format!("this is not TOML: {}", one_line(error.message())))
    }

    /// An error at a place in the text.
    pub(crate) fn invalid(&self, span: Range<usize>, problem: String) -> ConfigError {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        ConfigError::Invalid { file: PathBuf::from(self.file), line, column, problem }
    }
}

fn one_line(message: &str) -> String {
    RawText::from(message.trim().replace('\n', ", ")).to_string()
}

/// The directory of keys that an unknown key stands in.
fn parent<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let parent = path.strip_suffix(name).map_or(path, |path| path.trim_end_matches('.'));
    (!parent.is_empty() && parent != ".").then_some(parent)
}

/// Takes serde's message about an unknown field or variant apart.
fn unknown(message: &str) -> Option<(&str, &str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown ")?;
    let (what, rest) = rest.split_once(" `")?;
    // A name may have anything in it, also this; those that are known have not, so the last one counts.
    let (name, rest) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "))?;
    let known = rest.split('`').skip(1).step_by(2).collect();
    matches!(what, "field" | "variant").then_some((what, name, known))
}
