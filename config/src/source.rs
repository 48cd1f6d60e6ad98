//! The text of a file, and errors that point into it.

use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stockade_protocol::RawText;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::ConfigError;
use crate::suggest::suggest;

/// A file that is being read.
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Path,
    pub(crate) text: &'a str,
    /// The base of relative paths.
    pub(crate) base: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

impl Source<'_> {
    /// Parses the whole text as one form.
    pub(crate) fn parse<T: DeserializeOwned + JsonSchema>(&self) -> Result<T, ConfigError> {
        self.check_tables::<T>()?;
        let deserializer = toml::Deserializer::parse(self.text).map_err(|error| self.syntax(&error))?;
        serde_path_to_error::deserialize(deserializer).map_err(|error| {
            // `Spanned` adds a level to the path that the file does not have.
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

    /// Refuses type confusions that derived deserializers accept: a list as a table, field by field, a date as a table
    /// of strings, and a table as an enum word.
    fn check_tables<T: JsonSchema>(&self) -> Result<(), ConfigError> {
        let table = DeTable::parse(self.text).map_err(|error| self.syntax(&error))?;
        let schema = SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<T>();
        match misplaced(schema.as_value(), &[schema.as_value()], table.get_ref(), "") {
            Some((span, problem)) => Err(self.invalid(span, problem)),
            None => Ok(()),
        }
    }

    pub(crate) fn syntax(&self, error: &toml::de::Error) -> ConfigError {
        self.invalid(error.span().unwrap_or(0..0), format!("this is not TOML: {}", one_line(error.message())))
    }

    /// An error at a position in the text.
    pub(crate) fn invalid(&self, span: Range<usize>, problem: String) -> ConfigError {
        let (line, column) = self.position(&span);
        ConfigError::Invalid { file: PathBuf::from(self.file), line, column, problem }
    }

    /// The line and the column of a value, counted from 1.
    pub(crate) fn position(&self, span: &Range<usize>) -> (usize, usize) {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        (before.matches('\n').count() + 1, column)
    }
}

/// The first value that is not a table where the schema wants one, or a table in place of a word: its position and the
/// problem.
fn misplaced(root: &Value, schemas: &[&Value], table: &DeTable<'_>, above: &str) -> Option<(Range<usize>, String)> {
    table.iter().find_map(|(key, value)| {
        let key = key.get_ref().as_ref();
        let path = if above.is_empty() { key.to_owned() } else { format!("{above}.{key}") };
        let inner: Vec<&Value> = schemas.iter().filter_map(|schema| of_key(schema, key)).collect();
        let inner: Vec<&Value> = inner.into_iter().flat_map(|schema| branches(root, schema)).collect();
        misplaced_value(root, &inner, value, &path)
    })
}

fn misplaced_value(
    root: &Value,
    schemas: &[&Value],
    value: &Spanned<DeValue<'_>>,
    path: &str,
) -> Option<(Range<usize>, String)> {
    let shown = RawText::from(path);
    let is_table = !schemas.is_empty() && schemas.iter().all(|schema| schema["type"] == "object");
    let what = match value.get_ref() {
        DeValue::Table(table) if is_no_table(schemas, table) => {
            return Some((value.span(), format!("`{shown}` is not a table here: write a single value")));
        }
        DeValue::Table(table) => return misplaced(root, schemas, table, path),
        DeValue::Array(_) if is_table => "a list",
        DeValue::Array(values) => {
            let inner = schemas.iter().filter_map(|schema| schema.get("items"));
            let inner: Vec<&Value> = inner.flat_map(|schema| branches(root, schema)).collect();
            return values.iter().find_map(|value| misplaced_value(root, &inner, value, path));
        }
        DeValue::Datetime(_) => "a date",
        DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => "a single value",
    };
    let problem = || format!("`{shown}` is a table, not {what}: write `[{shown}]` and its keys below");
    is_table.then(|| (value.span(), problem()))
}

/// Derived deserializers accept `{ word = {} }` as a word. Whether a table stands where only words may, or has a word
/// as its key.
fn is_no_table(schemas: &[&Value], table: &DeTable<'_>) -> bool {
    let (tables, others): (Vec<&Value>, Vec<&Value>) =
        schemas.iter().partition(|schema| schema.get("type").is_none_or(|kind| kind == "object"));
    let is_known =
        |key: &str| tables.iter().any(|schema| schema.get("type").is_none() || of_key(schema, key).is_some());
    !others.is_empty() && (tables.is_empty() || !table.keys().all(|key| is_known(key.get_ref())))
}

/// The schema of a key's value.
fn of_key<'a>(schema: &'a Value, key: &str) -> Option<&'a Value> {
    schema["properties"].get(key).or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
}

/// The schemas that a value may match, with references resolved and without `null`.
fn branches<'a>(root: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    if let Some(reference) = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#')) {
        return root.pointer(reference).map(|schema| branches(root, schema)).unwrap_or_default();
    }
    let several =
        schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array()).or_else(|| schema["allOf"].as_array());
    match several {
        Some(several) => several.iter().flat_map(|schema| branches(root, schema)).collect(),
        None => Some(schema).filter(|schema| schema["type"] != "null").into_iter().collect(),
    }
}

fn one_line(message: &str) -> String {
    RawText::from(message.trim().replace('\n', ", ")).to_string()
}

/// The table that contains an unknown key.
fn parent<'a>(path: &'a str, name: &str) -> Option<&'a str> {
    let parent = path.strip_suffix(name).map_or(path, |path| path.trim_end_matches('.'));
    (!parent.is_empty() && parent != ".").then_some(parent)
}

/// Parses serde's message about an unknown field or variant.
fn unknown(message: &str) -> Option<(&str, &str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown ")?;
    let (what, rest) = rest.split_once(" `")?;
    // An unknown name may contain this text; known ones don't, so the last occurrence counts.
    let (name, rest) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once("`, there are no "))?;
    let known = rest.split('`').skip(1).step_by(2).collect();
    matches!(what, "field" | "variant").then_some((what, name, known))
}
