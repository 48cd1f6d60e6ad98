//! Checks a value against the part of JSON Schema that the protocol's schemas use, and notes which
//! alternatives it takes. An unknown keyword is a panic, so that nothing is passed over.

use std::collections::BTreeSet;

use serde_json::Value;

/// The alternatives that a value takes, as `Definition/alternative`, and the fields that it has, as `Definition.field`;
/// `None` if it is not valid.
pub(crate) fn variants_used(bundle: &Value, definition: &str, value: &Value) -> Option<BTreeSet<String>> {
    let mut used = BTreeSet::new();
    walk(bundle, definition, &bundle["$defs"][definition], value, &mut used).then_some(used)
}

/// Every alternative that any definition has.
pub(crate) fn all_variants(bundle: &Value) -> BTreeSet<String> {
    let definitions = bundle["$defs"].as_object().unwrap();
    let of = |name: &String| {
        alternatives(&definitions[name]).into_iter().map(|label| format!("{name}/{label}")).collect::<Vec<_>>()
    };
    definitions.keys().flat_map(of).collect()
}

/// Every field that any definition has, but for those of its alternatives.
#[allow(dead_code, reason = "not every test that uses this file looks at fields")]
pub(crate) fn all_fields(bundle: &Value) -> BTreeSet<String> {
    let definitions = bundle["$defs"].as_object().unwrap();
    let of = |(name, schema): (&String, &Value)| {
        let fields = schema["properties"].as_object().into_iter().flat_map(|fields| fields.keys());
        fields.map(|field| format!("{name}.{field}")).collect::<Vec<_>>()
    };
    definitions.iter().flat_map(of).collect()
}

fn alternatives(schema: &Value) -> Vec<String> {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    }
    let nested = ["anyOf", "oneOf"].iter().find_map(|keyword| schema[*keyword].as_array());
    nested.map(|list| list.iter().flat_map(labels).collect()).unwrap_or_default()
}

/// What tells an alternative from its siblings.
fn labels(schema: &Value) -> Vec<String> {
    let inner = alternatives(schema);
    if !inner.is_empty() {
        return inner;
    }
    let tag = &schema["properties"]["type"]["const"];
    let required = &schema["required"][0];
    [&schema["const"], tag, required, &schema["$ref"], &schema["type"]]
        .iter()
        .find_map(|label| label.as_str())
        .map(String::from)
        .into_iter()
        .collect()
}

fn walk(bundle: &Value, name: &str, schema: &Value, value: &Value, used: &mut BTreeSet<String>) -> bool {
    let Some(schema) = schema.as_object() else { return schema.as_bool().unwrap() };
    schema.iter().all(|(keyword, rule)| match keyword.as_str() {
        "title" | "description" | "default" | "format" | "pattern" | "$schema" | "$defs" | "minLength"
        | "maxLength" | "uniqueItems" => true,
        "$ref" => {
            let target = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
            walk(bundle, target, &bundle["$defs"][target], value, used)
        }
        "type" => {
            rule.as_array().map_or_else(|| has_type(rule, value), |types| types.iter().any(|one| has_type(one, value)))
        }
        "const" => rule == value,
        "enum" => {
            used.extend(value.as_str().map(|word| format!("{name}/{word}")));
            rule.as_array().unwrap().contains(value)
        }
        "minItems" => value.as_array().is_none_or(|items| items.len() as u64 >= rule.as_u64().unwrap()),
        "minimum" => value.as_i64().is_none_or(|number| number >= rule.as_i64().unwrap()),
        "maximum" => value.as_i64().is_none_or(|number| number <= rule.as_i64().unwrap()),
        "required" => rule.as_array().unwrap().iter().all(|field| value.get(field.as_str().unwrap()).is_some()),
        "items" => value.as_array().is_none_or(|items| items.iter().all(|item| walk(bundle, name, rule, item, used))),
        "properties" => rule.as_object().unwrap().iter().all(|(field, inner)| {
            let Some(value) = value.get(field) else { return true };
            used.insert(format!("{name}.{field}"));
            walk(bundle, name, inner, value, used)
        }),
        "additionalProperties" | "patternProperties" => extra_fields(schema, value).iter().all(|extra| {
            let rule =
                if keyword == "patternProperties" { rule.as_object().unwrap().values().next().unwrap() } else { rule };
            walk(bundle, name, rule, extra, used)
        }),
        "allOf" => rule.as_array().unwrap().iter().all(|part| walk(bundle, name, part, value, used)),
        "anyOf" | "oneOf" => one_alternative(bundle, name, rule.as_array().unwrap(), value, used),
        other => panic!("the keyword `{other}` in {name} is new to this walk"),
    })
}

fn one_alternative(
    bundle: &Value,
    name: &str,
    alternatives: &[Value],
    value: &Value,
    used: &mut BTreeSet<String>,
) -> bool {
    let matching = alternatives.iter().find_map(|alternative| {
        let mut inside = BTreeSet::new();
        walk(bundle, name, alternative, value, &mut inside).then_some((alternative, inside))
    });
    let Some((alternative, inside)) = matching else { return false };
    used.extend(inside);
    if let [label] = labels(alternative).as_slice() {
        used.insert(format!("{name}/{label}"));
    }
    true
}

/// The fields that `properties` does not speak of.
fn extra_fields<'a>(schema: &serde_json::Map<String, Value>, value: &'a Value) -> Vec<&'a Value> {
    // Where both speak of the rest, the pattern covers every name that the types can write.
    let known = |field: &String| schema.get("properties").and_then(|known| known.get(field)).is_some();
    let covered =
        schema.contains_key("patternProperties") && schema.get("additionalProperties") == Some(&Value::Bool(false));
    let fields = value.as_object().into_iter().flatten().filter(|(field, _)| !known(field) && !covered);
    fields.map(|(_, value)| value).collect()
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "string" => value.is_string(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("the type `{other}` is new to this walk"),
    }
}
