//! JSON Schemas of every message, and all of them in one bundle.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::{
    ApprovalReply, ApprovalRequest, AskForApproval, AuditRecord, CancelRequest, ExecApprovalRequirement, ExecRequest,
    Outcome, ParsedLine, Permissions, ReviewDecision, SandboxPolicy, Violation,
};

/// The name of the schema that holds all messages.
pub const BUNDLE_NAME: &str = "StockadeProtocol";

/// A type that crosses a process boundary on its own.
pub struct Message {
    /// Its name, which is also its name in the bundle.
    pub name: &'static str,
    subschema: fn(&mut SchemaGenerator) -> Schema,
    root: fn() -> Schema,
}

impl Message {
    fn of<T: JsonSchema>(name: &'static str) -> Self {
        Self { name, subschema: SchemaGenerator::subschema_for::<T>, root: || generator().into_root_schema_for::<T>() }
    }

    /// Its schema, complete in itself.
    pub fn schema(&self) -> Schema {
        sorted((self.root)())
    }
}

/// Every message, by name.
pub fn messages() -> Vec<Message> {
    vec![
        Message::of::<ApprovalReply>("ApprovalReply"),
        Message::of::<ApprovalRequest>("ApprovalRequest"),
        Message::of::<AskForApproval>("AskForApproval"),
        Message::of::<AuditRecord>("AuditRecord"),
        Message::of::<CancelRequest>("CancelRequest"),
        Message::of::<ExecApprovalRequirement>("ExecApprovalRequirement"),
        Message::of::<ExecRequest>("ExecRequest"),
        Message::of::<Outcome>("Outcome"),
        Message::of::<ParsedLine>("ParsedLine"),
        Message::of::<Permissions>("Permissions"),
        Message::of::<ReviewDecision>("ReviewDecision"),
        Message::of::<SandboxPolicy>("SandboxPolicy"),
        Message::of::<Violation>("Violation"),
    ]
}

/// One schema that any message is valid against, with every type under `$defs`.
pub fn bundle() -> Schema {
    let mut generator = generator();
    let any_of: Vec<Schema> = messages().iter().map(|message| (message.subschema)(&mut generator)).collect();
    let definitions: Map<String, Value> = generator.take_definitions(true);
    sorted(json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": BUNDLE_NAME,
        "description": "Any message of Stockade's protocol.",
        "anyOf": any_of,
        "$defs": definitions,
    }))
}

/// Schemas say what may be sent to Stockade; what Stockade sends is valid against the same schema.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_deserialize().into_generator()
}

/// The same schema with its keys in order, so that equal types give equal files.
fn sorted(schema: Schema) -> Schema {
    fn sort(value: Value) -> Value {
        match value {
            Value::Object(object) => {
                let mut entries: Vec<(String, Value)> =
                    object.into_iter().map(|(key, value)| (key, sort(value))).collect();
                entries.sort_by(|(a, _), (b, _)| a.cmp(b));
                Value::Object(entries.into_iter().collect())
            }
            Value::Array(items) => Value::Array(items.into_iter().map(sort).collect()),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
        }
    }
    Schema::try_from(sort(schema.to_value())).unwrap_or_default()
}
