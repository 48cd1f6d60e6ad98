//! One JSON Schema for every message of the server.

use schemars::Schema;
use stockade_protocol::{Message, bundle_of};

use super::{RpcError, RpcId, methods};

/// The name of the schema that holds every message of the server.
pub const SERVER_BUNDLE_NAME: &str = "StockadeServer";

/// One schema with the parameters and results of every method, and every type that they use, under `$defs`.
pub fn server_bundle() -> Schema {
    let mut messages: Vec<Message> = Vec::new();
    for method in methods() {
        messages.push(method.params);
        messages.extend(method.result);
    }
    messages.extend([Message::named_by_type::<RpcError>(), Message::named_by_type::<RpcId>()]);
    let mut seen = std::collections::BTreeSet::new();
    messages.retain(|message| seen.insert(message.name.clone()));
    bundle_of(SERVER_BUNDLE_NAME, "The parameters or the result of any method of Stockade's server.", &messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Generators number what has no name.
    #[test]
    fn every_object_among_alternatives_has_a_title() {
        let bundle = server_bundle().to_value();
        let definitions = bundle.get("$defs").and_then(|defs| defs.as_object()).unwrap();
        for (name, definition) in definitions {
            for alternatives in ["anyOf", "oneOf"].iter().filter_map(|keyword| definition.get(*keyword)) {
                for alternative in alternatives.as_array().unwrap() {
                    let is_object = alternative.get("properties").is_some();
                    assert!(!is_object || alternative.get("title").is_some(), "{name}: {alternative}");
                }
            }
        }
        assert!(definitions.contains_key("SessionOpenParams") && definitions.contains_key("ApprovalRequest"));
    }

    #[test]
    fn parameters_refuse_unknown_fields_and_are_objects() {
        let bundle = server_bundle().to_value();
        for method in methods().into_iter().filter(|method| method.direction == crate::wire::Direction::ClientRequest) {
            let params = bundle.pointer(&format!("/$defs/{}", method.params.name)).unwrap();
            assert_eq!(params.get("type").unwrap(), "object", "{}", method.name);
            assert_eq!(params.get("additionalProperties"), Some(&serde_json::Value::Bool(false)), "{}", method.name);
        }
    }
}
