//! The OpenRPC document: every method in the form that tools for JSON-RPC read.
//! <https://spec.open-rpc.org/>

use serde_json::{Map, Value, json};

use super::{Direction, ErrorKind, Method, PROTOCOL_VERSION, methods, server_bundle};

const DEFINITIONS: &str = "#/$defs/";
const COMPONENTS: &str = "#/components/schemas/";

/// The OpenRPC document of the server.
pub fn openrpc() -> Value {
    let mut bundle = server_bundle().to_value();
    let mut schemas = bundle.get_mut("$defs").map(Value::take).unwrap_or_default();
    refer_to_components(&mut schemas);
    let methods: Vec<Value> = methods().iter().map(|method| described(method, &schemas)).collect();
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "Stockade",
            "description": "JSON-RPC 2.0, one object a line, over standard input and output or a unix socket.",
            "version": format!("{PROTOCOL_VERSION}"),
        },
        "methods": methods,
        "components": { "schemas": schemas, "errors": errors() },
    })
}

fn described(method: &Method, schemas: &Value) -> Value {
    let params = schemas.get(method.params.name.as_ref());
    let required: Vec<&str> = params
        .and_then(|params| params.get("required")?.as_array())
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let fields = params.and_then(|params| params.get("properties")?.as_object());
    let fields = fields
        .into_iter()
        .flatten()
        .map(|(name, schema)| json!({ "name": name, "required": required.contains(&name.as_str()), "schema": schema }));
    let direction = match method.direction {
        Direction::ClientRequest | Direction::ClientNotification => "client-to-server",
        Direction::ServerRequest | Direction::ServerNotification => "server-to-client",
    };
    let mut described = json!({
        "name": method.name,
        "summary": method.summary.trim(),
        "paramStructure": "by-name",
        "params": fields.collect::<Vec<_>>(),
        "x-direction": direction,
        "x-params": { "$ref": format!("{COMPONENTS}{}", method.params.name) },
    });
    if let (Some(result), Some(object)) = (&method.result, described.as_object_mut()) {
        let schema = json!({ "$ref": format!("{COMPONENTS}{}", result.name) });
        object.insert(String::from("result"), json!({ "name": result.name, "schema": schema }));
    }
    if let (Direction::ClientRequest, Some(object)) = (method.direction, described.as_object_mut()) {
        let references = ErrorKind::ALL.map(|kind| json!({ "$ref": format!("#/components/errors/{}", word(kind)) }));
        object.insert(String::from("errors"), Value::from(references.to_vec()));
    }
    described
}

fn errors() -> Map<String, Value> {
    let error = |kind: ErrorKind| {
        let name = word(kind);
        (name.clone(), json!({ "code": kind.code(), "message": name.replace('_', " ") }))
    };
    ErrorKind::ALL.into_iter().map(error).collect()
}

fn word(kind: ErrorKind) -> String {
    serde_json::to_value(kind).ok().and_then(|value| value.as_str().map(String::from)).unwrap_or_default()
}

fn refer_to_components(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, inner) in object {
                if let (true, Some(name)) =
                    (key == "$ref", inner.as_str().and_then(|text| text.strip_prefix(DEFINITIONS)))
                {
                    *inner = Value::String(format!("{COMPONENTS}{name}"));
                } else {
                    refer_to_components(inner);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(refer_to_components),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        let document = openrpc();
        let text = document.to_string();
        assert!(!text.contains("$defs"), "a reference to the bundle is left");
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
        assert_eq!(document.get("methods").unwrap().as_array().unwrap().len(), methods().len());
    }
}
