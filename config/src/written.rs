//! A value and its position in the file.

use std::borrow::Cow;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use toml::Spanned;

/// A value of a file, with its position.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct Written<T>(Spanned<T>);

impl<T> Written<T> {
    pub(crate) fn value(&self) -> &T {
        self.0.get_ref()
    }

    pub(crate) fn span(&self) -> Range<usize> {
        self.0.span()
    }
}

impl<T: JsonSchema> JsonSchema for Written<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
