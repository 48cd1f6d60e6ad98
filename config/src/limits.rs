//! Limits in a file, each with its position: one under which nothing can start is refused there.

use std::borrow::Cow;
use std::num::NonZeroU64;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use stockade_protocol::ResourceLimits;

use crate::ConfigError;
use crate::source::Source;
use crate::written::Written;

/// How much of the machine a command may use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsForm {
    cpu_seconds: Option<Written<NonZeroU64>>,
    memory_bytes: Option<Written<NonZeroU64>>,
    processes: Option<Written<NonZeroU64>>,
    file_size_bytes: Option<Written<NonZeroU64>>,
    open_files: Option<Written<NonZeroU64>>,
}

impl LimitsForm {
    pub(crate) fn read(&self, source: &Source<'_>) -> Result<ResourceLimits, ConfigError> {
        let value = |written: &Option<Written<NonZeroU64>>| written.as_ref().map(|written| *written.value());
        let at_least = |written: &Option<Written<NonZeroU64>>, key: &str, least: NonZeroU64| match written {
            Some(written) if *written.value() < least => {
                let problem = format!(
                    "`limits.{key}`: no command can be started with so little: write at least {least}, or leave it out"
                );
                Err(source.invalid(written.span(), problem))
            }
            other => Ok(value(other)),
        };
        Ok(ResourceLimits {
            cpu_seconds: value(&self.cpu_seconds),
            memory_bytes: at_least(&self.memory_bytes, "memory_bytes", ResourceLimits::LEAST_MEMORY_BYTES)?,
            processes: value(&self.processes),
            file_size_bytes: value(&self.file_size_bytes),
            open_files: at_least(&self.open_files, "open_files", ResourceLimits::FEWEST_OPEN_FILES)?,
        })
    }
}

impl JsonSchema for LimitsForm {
    fn inline_schema() -> bool {
        ResourceLimits::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        ResourceLimits::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ResourceLimits::json_schema(generator)
    }
}
