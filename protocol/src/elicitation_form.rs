//! The form of an MCP elicitation, parsed from the server's schema.
//!
//! Forms are flat: texts, numbers, booleans and choices. A schema with anything else is refused, since a partial
//! answer would be invalid. <https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation>

mod answer;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::Invalid;

/// Limit on fields, and on choices of a field, that a person can be expected to read.
const MOST_FIELDS: usize = 50;
const MOST_CHOICES: usize = 100;

/// A form, field by field.
#[derive(Clone, Debug, PartialEq)]
pub struct ElicitationForm {
    fields: Vec<FormField>,
}

/// One field.
#[derive(Clone, Debug, PartialEq)]
pub struct FormField {
    /// Its name in the answer.
    pub name: String,
    /// Its name for a person.
    pub title: Option<String>,
    /// What it is for, in the server's words.
    pub description: Option<String>,
    /// The type of the answer.
    pub kind: FieldKind,
    /// Whether an answer is required.
    pub required: bool,
    /// The value without an answer.
    pub default: Option<Value>,
}

/// The type of the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldKind {
    /// A text.
    Text {
        /// The minimum number of characters.
        min_length: Option<u64>,
        /// The maximum number of characters.
        max_length: Option<u64>,
        /// The required format.
        format: Option<TextFormat>,
    },
    /// A number.
    Number {
        /// Whether it has to be an integer.
        shape: NumberShape,
        /// The minimum.
        minimum: Option<f64>,
        /// The maximum.
        maximum: Option<f64>,
    },
    /// Yes or no.
    Truth,
    /// One of these.
    Choice(Vec<FormChoice>),
}

/// The format of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFormat {
    /// `name@host`.
    Email,
    /// `scheme:rest`.
    Uri,
    /// `2026-01-31`.
    Date,
    /// `2026-01-31T12:00:00Z`.
    DateTime,
}

/// Whether a number has to be an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberShape {
    /// An integer.
    Whole,
    /// Any number.
    Any,
}

/// One of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormChoice {
    /// The answer.
    pub value: String,
    /// Its name for a person.
    pub title: Option<String>,
}

impl ElicitationForm {
    /// Reads the schema of a form.
    ///
    /// ```
    /// use stockade_protocol::ElicitationForm;
    ///
    /// let schema = r#"{"type": "object", "properties": {"age": {"type": "integer", "minimum": 0}}}"#;
    /// let form = ElicitationForm::parse(&serde_json::from_str(schema)?)?;
    /// let [age] = form.fields() else { panic!("one field") };
    /// assert_eq!(age.read("42"), Ok(Some(42.into())));
    /// assert!(age.read("-1").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(schema: &BTreeMap<String, Value>) -> Result<Self, Invalid> {
        Self::read(schema).map_err(|why| Invalid::Form { why })
    }

    fn read(schema: &BTreeMap<String, Value>) -> Result<Self, String> {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err(String::from("it is not a form, whose `type` is `object`"));
        }
        let nothing = Map::new();
        let properties = match schema.get("properties") {
            None => &nothing,
            Some(Value::Object(properties)) => properties,
            Some(_) => return Err(String::from("its `properties` are no fields")),
        };
        if properties.len() > MOST_FIELDS {
            return Err(format!("it has {} fields, more than {MOST_FIELDS}", properties.len()));
        }
        let required = match schema.get("required") {
            None => Vec::new(),
            Some(names) => texts(names).ok_or("its `required` is no list of names")?,
        };
        if let Some(missing) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(format!("it requires `{missing}`, which is none of its fields"));
        }
        let fields = properties.iter().map(|(name, field)| {
            FormField::parse(name, field, required.contains(&name.as_str()))
                .map_err(|why| format!("its field `{name}` {why}"))
        });
        Ok(Self { fields: fields.collect::<Result<_, _>>()? })
    }

    /// The fields, in the order in which they are asked.
    pub fn fields(&self) -> &[FormField] {
        &self.fields
    }
}

fn texts(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

impl FormField {
    fn parse(name: &str, field: &Value, required: bool) -> Result<Self, String> {
        let Value::Object(field) = field else { return Err(String::from("says nothing of its type")) };
        let text = |key: &str| field.get(key).and_then(Value::as_str).map(str::to_owned);
        let parsed = Self {
            name: name.to_owned(),
            title: text("title"),
            description: text("description"),
            kind: FieldKind::parse(field)?,
            required,
            default: field.get("default").filter(|value| !value.is_null()).cloned(),
        };
        if let Some(default) = &parsed.default {
            parsed.check(default).map_err(|why| format!("has a default that is no answer: {why}"))?;
        }
        Ok(parsed)
    }
}

impl FieldKind {
    fn parse(field: &Map<String, Value>) -> Result<Self, String> {
        let number = |key: &str| field.get(key).and_then(Value::as_f64);
        let length = |key: &str| field.get(key).and_then(Value::as_u64);
        match field.get("type").and_then(Value::as_str) {
            Some("string") if field.contains_key("enum") || field.contains_key("oneOf") => choices(field),
            Some("string") => Ok(Self::Text {
                min_length: length("minLength"),
                max_length: length("maxLength"),
                format: field.get("format").and_then(Value::as_str).and_then(TextFormat::named),
            }),
            Some(name @ ("number" | "integer")) => Ok(Self::Number {
                shape: if name == "integer" { NumberShape::Whole } else { NumberShape::Any },
                minimum: number("minimum"),
                maximum: number("maximum"),
            }),
            Some("boolean") => Ok(Self::Truth),
            Some(other) => Err(format!("is of the type `{other}`, which has no place in a form")),
            None => Err(String::from("says nothing of its type")),
        }
    }

    /// A noun for the answer, for messages.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Text { format, .. } => match format {
                None => "text",
                Some(TextFormat::Email) => "e-mail address",
                Some(TextFormat::Uri) => "URI",
                Some(TextFormat::Date) => "date such as 2026-01-31",
                Some(TextFormat::DateTime) => "time such as 2026-01-31T12:00:00Z",
            },
            Self::Number { shape: NumberShape::Whole, .. } => "whole number",
            Self::Number { shape: NumberShape::Any, .. } => "number",
            Self::Truth => "yes or no",
            Self::Choice(_) => "choice",
        }
    }
}

/// `enum`, perhaps with `enumNames`, or `oneOf` with a `const` and a `title` each.
fn choices(field: &Map<String, Value>) -> Result<FieldKind, String> {
    let unreadable = "has choices that are no texts";
    let choices: Vec<FormChoice> = match (field.get("enum"), field.get("oneOf")) {
        (Some(values), _) => {
            let values = texts(values).ok_or(unreadable)?;
            let titles = field.get("enumNames").and_then(texts).unwrap_or_default();
            let title = |index: usize| titles.get(index).map(|title| (*title).to_owned());
            let choice = |(index, value): (usize, &str)| FormChoice { value: value.to_owned(), title: title(index) };
            values.into_iter().enumerate().map(choice).collect()
        }
        (None, Some(Value::Array(options))) => {
            let text = |option: &Value, key: &str| option.get(key).and_then(Value::as_str).map(str::to_owned);
            let choice = |option| Some(FormChoice { value: text(option, "const")?, title: text(option, "title") });
            options.iter().map(choice).collect::<Option<_>>().ok_or(unreadable)?
        }
        (None, _) => return Err(unreadable.to_owned()),
    };
    match choices.len() {
        0 => Err(String::from("has no choices")),
        count if count > MOST_CHOICES => Err(format!("has {count} choices, more than {MOST_CHOICES}")),
        _ => Ok(FieldKind::Choice(choices)),
    }
}

impl TextFormat {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "email" => Self::Email,
            "uri" => Self::Uri,
            "date" => Self::Date,
            "date-time" => Self::DateTime,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(schema: &str) -> Result<ElicitationForm, Invalid> {
        ElicitationForm::parse(&serde_json::from_str(schema).unwrap())
    }

    fn field(schema: &str) -> FormField {
        let form = form(&format!(r#"{{"type":"object","properties":{{"x":{schema}}},"required":["x"]}}"#)).unwrap();
        form.fields()[0].clone()
    }

    #[test]
    fn each_kind_reads_its_answers_and_no_others() {
        for (schema, good, bad) in [
            (r#"{"type":"string"}"#, &["a", " b "][..], &["", "  "][..]),
            (r#"{"type":"string","minLength":2,"maxLength":3}"#, &["ab", "äöü"], &["a", "abcd"]),
            (r#"{"type":"string","format":"email"}"#, &["a@b.test"], &["a", "@b", "a@", "a b@c"]),
            (r#"{"type":"string","format":"uri"}"#, &["https://a.test/x", "mailto:a"], &["a.test", ":x", "1a:b"]),
            (r#"{"type":"string","format":"date"}"#, &["2026-01-31"], &["2026-1-31", "31.01.2026", "2026-01-31T"]),
            (
                r#"{"type":"string","format":"date-time"}"#,
                &["2026-01-31T12:00:00Z", "2026-01-31t12:00:00.5+01:00"],
                &["2026-01-31", "2026-01-31T12:00Z", "2026-01-31T12:00:00", "2026-01-31T12:00:00é"],
            ),
            (r#"{"type":"integer","minimum":0,"maximum":10}"#, &["0", "10", " 7 "], &["-1", "11", "1.5", "x", "1e999"]),
            (r#"{"type":"number"}"#, &["1.5", "-2", "1e3"], &["x", "1e999", "NaN", "0x10"]),
            (r#"{"type":"boolean"}"#, &["y", "No", "TRUE"], &["maybe", "1"]),
            (r#"{"type":"string","enum":["2","1"],"enumNames":["two","one"]}"#, &["1", "2"], &["0", "3", "two", "-1"]),
            (r#"{"type":"string","oneOf":[{"const":"a","title":"A"}]}"#, &["1"], &["2", "a"]),
        ] {
            let field = field(schema);
            for line in good {
                assert!(
                    matches!(field.read(line), Ok(Some(_))),
                    "{schema} does not take {line:?}: {:?}",
                    field.read(line)
                );
            }
            for line in bad {
                assert!(field.read(line).is_err(), "{schema} takes {line:?}");
            }
        }
        assert_eq!(field(r#"{"type":"string","enum":["2","1"]}"#).read("1"), Ok(Some("2".into())));
        assert_eq!(field(r#"{"type":"string","default":"me"}"#).read(""), Ok(Some("me".into())));
    }

    #[test]
    fn what_is_no_flat_form_is_refused_with_the_field() {
        for (schema, words) in [
            (r#"{}"#, "`type` is `object`"),
            (r#"{"type":"array"}"#, "`type` is `object`"),
            (r#"{"type":"object","properties":[]}"#, "no fields"),
            (r#"{"type":"object","properties":{"a":{"type":"object"}}}"#, "its field `a` is of the type `object`"),
            (r#"{"type":"object","properties":{"a":{"type":["string","null"]}}}"#, "`a` says nothing of its type"),
            (r#"{"type":"object","properties":{"a":true}}"#, "`a` says nothing"),
            (r#"{"type":"object","properties":{"a":{"type":"string","enum":[]}}}"#, "`a` has no choices"),
            (r#"{"type":"object","properties":{"a":{"type":"string","enum":[1]}}}"#, "no texts"),
            (r#"{"type":"object","properties":{"a":{"type":"integer","default":"x"}}}"#, "default that is no answer"),
            (r#"{"type":"object","required":["a"]}"#, "it requires `a`"),
            (r#"{"type":"object","required":"a"}"#, "no list of names"),
        ] {
            let error = form(schema).unwrap_err().to_string();
            assert!(error.contains(words), "{schema}: {error}");
        }
        let many: Vec<String> = (0..51).map(|number| format!(r#""f{number}":{{"type":"boolean"}}"#)).collect();
        assert!(form(&format!(r#"{{"type":"object","properties":{{{}}}}}"#, many.join(","))).is_err());
    }

    #[test]
    fn an_answer_is_held_against_the_form() {
        let form =
            form(r#"{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"integer"}}}"#)
                .unwrap();
        let check = |answer: &str| form.check(&serde_json::from_str(answer).unwrap());
        assert_eq!(check(r#"{"a":"x"}"#), Ok(()));
        assert_eq!(check(r#"{"a":"x","b":3}"#), Ok(()));
        for (answer, words) in [
            ("{}", "`a` is missing"),
            (r#"{"a":1}"#, "`a`: this is no text"),
            (r#"{"a":"x","b":1.5}"#, "`b`: this is no whole number"),
            (r#"{"a":"x","c":1}"#, "`c` is none of the fields"),
        ] {
            assert_eq!(check(answer), Err(words.to_owned()));
        }
    }

    fn json() -> impl Strategy<Value = Value> {
        let word = prop::sample::select(vec![
            "object",
            "string",
            "integer",
            "number",
            "boolean",
            "a",
            "b",
            "email",
            "uri",
            "date",
            "date-time",
        ]);
        let leaf = prop_oneof![
            word.prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<bool>().prop_map(Value::from),
            Just(Value::Null)
        ];
        let key = prop::sample::select(vec![
            "type",
            "properties",
            "required",
            "enum",
            "oneOf",
            "const",
            "title",
            "default",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "format",
            "a",
            "b",
        ]);
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect()))
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Any schema is a form or refused, and any typed line is an answer or refused: the form accepts every value
        /// that its fields accept.
        #[test]
        fn what_is_read_is_an_answer(
            fields in prop::collection::btree_map("[ab]", json(), 0..3),
            lines in prop::collection::vec(prop_oneof![any::<String>(), "[0-9.yn-]{1,3}"], 1..6),
        ) {
            let required: Vec<&String> = fields.keys().take(1).collect();
            let schema = serde_json::json!({ "type": "object", "properties": fields, "required": required });
            let Ok(form) = ElicitationForm::parse(&serde_json::from_value(schema).unwrap()) else { return Ok(()) };
            let mut answer = BTreeMap::new();
            for field in form.fields() {
                let read = lines.iter().find_map(|line| field.read(line).ok());
                let Some(value) = read else { return Ok(()) };
                answer.extend(value.map(|value| (field.name.clone(), value)));
            }
            prop_assert_eq!(form.check(&answer), Ok(()));
        }
    }
}
