//! The JSON Schema of a settings file, for editors.

use schemars::Schema;
use schemars::generate::SchemaSettings;

use crate::form::ConfigForm;

/// The name of the schema.
pub const CONFIG_SCHEMA_NAME: &str = "Config";

/// The JSON Schema (draft 2020-12) of `config.toml`.
pub fn config_schema() -> Schema {
    SchemaSettings::draft2020_12().for_deserialize().into_generator().into_root_schema_for::<ConfigForm>()
}
