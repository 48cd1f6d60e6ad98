//! JSON Schemas of every message, and all of them in one bundle.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::{
    ApprovalReply, ApprovalRequest, AskForApproval, AuditRecord, CancelRequest, ExecApprovalRequirement, ExecRequest,
    Outcome, ParsedLine, PatchRequest, Permissions, ReviewDecision, SandboxPolicy, ToolCallRequest, Violation,
};

/// The name of the schema that holds all messages.
pub const BUNDLE_NAME: &str = "StockadeProtocol";

/// A type that crosses a process boundary on its own.
pub struct Message {
    /// Its name, which is also its name in the bundle.
    pub name: Cow<'static, str>,
    subschema: fn(&mut SchemaGenerator) -> Schema,
    root: fn() -> Schema,
}

impl Message {
    /// A message with the name that its type has in every schema.
    pub fn named_by_type<T: JsonSchema>() -> Self {
        Self::of::<T>(T::schema_name())
    }

    fn of<T: JsonSchema>(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        Self { name, subschema: SchemaGenerator::subschema_for::<T>, root: || generator().into_root_schema_for::<T>() }
    }

    /// Its self-contained schema.
    pub fn schema(&self) -> Schema {
        tidy((self.root)())
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
        Message::of::<PatchRequest>("PatchRequest"),
        Message::of::<Permissions>("Permissions"),
        Message::of::<ReviewDecision>("ReviewDecision"),
        Message::of::<SandboxPolicy>("SandboxPolicy"),
        Message::of::<ToolCallRequest>("ToolCallRequest"),
        Message::of::<Violation>("Violation"),
    ]
}

/// One schema for all messages, with every type under `$defs`.
pub fn bundle() -> Schema {
    bundle_of(BUNDLE_NAME, "Any message of Stockade's protocol.", &messages())
}

/// Like `bundle`, for messages of another crate.
pub fn bundle_of(name: &str, description: &str, messages: &[Message]) -> Schema {
    let mut generator = generator();
    let any_of: Vec<Schema> = messages.iter().map(|message| (message.subschema)(&mut generator)).collect();
    let definitions: Map<String, Value> = generator.take_definitions(true);
    tidy(json_schema!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": description,
        "anyOf": any_of,
        "$defs": definitions,
    }))
}

/// Schemas describe input for Stockade; its output is valid against the same schema.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_deserialize().into_generator()
}

/// Adapts a schema to client generators in other languages, with sorted keys so that equal types give equal files.
fn tidy(schema: Schema) -> Schema {
    let mut value = schema.to_value();
    write_out_aliases(&mut value);
    name_variants(&mut value);
    Schema::try_from(tidy_value(value)).unwrap_or_default()
}

fn tidy_value(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<(String, Value)> =
                object.into_iter().map(|(key, value)| (key, tidy_value(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            let mut object: Map<String, Value> = entries.into_iter().collect();
            drop_examples(&mut object);
            drop_integer_format(&mut object);
            wrap_reference(&mut object);
            Value::Object(object)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(tidy_value).collect()),
        plain @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => plain,
    }
}

/// Examples in Rust are useless to readers of another language.
fn drop_examples(object: &mut Map<String, Value>) {
    if let Some(Value::String(description)) = object.get_mut("description")
        && let Some(start) = description.find("\n\n```")
    {
        description.truncate(start);
    }
}

/// `uint16` and the like are not formats of JSON Schema; the bounds beside them say the same.
fn drop_integer_format(object: &mut Map<String, Value>) {
    if object
        .get("type")
        .is_some_and(|kind| kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&"integer".into())))
    {
        object.remove("format");
    }
}

/// Expands a definition that only refers to another, under its own name and description.
fn write_out_aliases(root: &mut Value) {
    let Some(definitions) = root.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    let originals = definitions.clone();
    for definition in definitions.values_mut().filter_map(Value::as_object_mut) {
        while let Some(Value::String(reference)) = definition.remove("$ref") {
            let name = reference.strip_prefix("#/$defs/").unwrap_or(&reference);
            for (key, value) in originals.get(name).and_then(Value::as_object).into_iter().flatten() {
                definition.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

/// A description beside a reference makes generators write the type out again under a new name, and
/// a default beside one makes them narrow the type to that of the default.
fn wrap_reference(object: &mut Map<String, Value>) {
    if object.len() > 1
        && let Some(reference @ Value::String(_)) = object.remove("$ref")
    {
        object.remove("default");
        object.insert(String::from("allOf"), serde_json::json!([{ "$ref": reference }]));
    }
}

/// Gives every object among a definition's alternatives a descriptive name.
fn name_variants(root: &mut Value) {
    let own_name = root.get("title").and_then(Value::as_str).map(String::from);
    if let Some(name) = own_name {
        name_alternatives(&name, root);
    }
    let definitions = root.get_mut("$defs").and_then(Value::as_object_mut);
    for (name, definition) in definitions.into_iter().flatten() {
        name_alternatives(name, definition);
    }
}

fn name_alternatives(name: &str, schema: &mut Value) {
    let alternatives =
        ["anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array().map(|_| keyword)).next();
    let alternatives = alternatives.and_then(|keyword| schema.get_mut(keyword)?.as_array_mut());
    for alternative in alternatives.into_iter().flatten() {
        name_alternatives(name, alternative);
        let tag = alternative.pointer("/properties/type/const").or_else(|| alternative.pointer("/required/0"));
        let words = alternative.get("enum").map(|_| "word");
        let title = tag.and_then(Value::as_str).or(words).map(|tag| format!("{name}{}", camel_case(tag)));
        if let (Some(title), Some(object)) = (title, alternative.as_object_mut()) {
            name_payload(&title, object);
            object.entry("title").or_insert(Value::String(title));
        }
    }
}

/// Names the inline fields of a variant; generators would number them.
fn name_payload(title: &str, alternative: &mut Map<String, Value>) {
    let Some(fields) = alternative.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let mut payloads = fields.values_mut().filter_map(Value::as_object_mut);
    if let (Some(payload), None) = (payloads.next(), payloads.next())
        && payload.contains_key("properties")
    {
        payload.entry("title").or_insert_with(|| Value::String(format!("{title}Fields")));
    }
}

fn camel_case(tag: &str) -> String {
    let capitalised =
        |word: &str| word.chars().take(1).flat_map(char::to_uppercase).chain(word.chars().skip(1)).collect::<String>();
    tag.split(['-', '_']).map(capitalised).collect()
}
