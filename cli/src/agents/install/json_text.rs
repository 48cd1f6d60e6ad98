//! Edits JSON text without changing the rest: order, spaces, comments.
//!
//! Settings belong to a person. A small parser tracks the position of each value, and only added or removed text
//! changes. Comments (`//` and `/* */`) are skipped, as gemini-cli does.

use std::ops::Range;

use serde_json::Value;

/// Limit on nesting.
const DEEPEST: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TextError {
    #[error("it is not valid JSON: at byte {at}, {expected} is missing")]
    NoJson { at: usize, expected: &'static str },
    #[error("it names `{0}` twice")]
    Twice(String),
    #[error("`{key}` is not {expected} there")]
    Kind { key: String, expected: &'static str },
    #[error("`{key}` is `{value}` there: take it out, or change it by hand")]
    Taken { key: &'static str, value: String },
}

/// A value and its position.
#[derive(Debug)]
struct Spot {
    span: Range<usize>,
    inside: Inside,
}

#[derive(Debug)]
enum Inside {
    Object(Vec<(String, Spot)>),
    Array(Vec<Spot>),
    Other,
}

/// The values of the array at the path, as text. Empty if there is no such array.
pub(crate) fn elements<'t>(text: &'t str, path: &[&str]) -> Result<Vec<&'t str>, TextError> {
    let root = parse(text)?;
    let Some(spot) = find(&root, path)? else { return Ok(Vec::new()) };
    let Inside::Array(values) = &spot.inside else { return Err(kind(path, "an array")) };
    Ok(values.iter().filter_map(|value| text.get(value.span.clone())).collect())
}

/// The text without its comments.
pub(crate) fn without_comments(text: &str) -> Result<String, TextError> {
    let mut reader = Reader { text, at: 0, comments: Vec::new() };
    reader.whole()?;
    let mut plain = String::from(text);
    for comment in reader.comments.iter().rev() {
        plain.replace_range(comment.clone(), "");
    }
    Ok(plain)
}

/// Appends a value to the array at the path, creating missing parents.
pub(crate) fn append(text: &str, path: &[&str], value: &Value) -> Result<String, TextError> {
    let root = parse(if text.trim().is_empty() { "{}" } else { text })?;
    let Some(spot) = find(&root, path)? else { return put(text, path, &serde_json::json!([value])) };
    let Inside::Array(values) = &spot.inside else { return Err(kind(path, "an array")) };
    let last = values.last().map(|value| value.span.end);
    Ok(inserted(text, &spot.span, last, values.is_empty(), &shown(value, path.len() + 1), path.len() + 1))
}

/// Removes the values that satisfy `is_meant` from the array at the path.
pub(crate) fn remove(text: &str, path: &[&str], is_meant: impl Fn(&str) -> bool) -> Result<String, TextError> {
    let root = parse(text)?;
    let Some(spot) = find(&root, path)? else { return Ok(text.to_owned()) };
    let Inside::Array(values) = &spot.inside else { return Err(kind(path, "an array")) };
    let mut changed = text.to_owned();
    for (index, value) in values.iter().enumerate().rev() {
        if !text.get(value.span.clone()).is_some_and(&is_meant) {
            continue;
        }
        let before = index.checked_sub(1).and_then(|index| values.get(index));
        let range = match (before, values.get(index + 1)) {
            (Some(before), _) => before.span.end..value.span.end,
            (None, Some(after)) => value.span.start..after.span.start,
            (None, None) => spot.span.start + 1..spot.span.end.saturating_sub(1),
        };
        changed.replace_range(range, "");
    }
    Ok(changed)
}

/// The value at the path, as text.
pub(crate) fn member<'t>(text: &'t str, path: &[&str]) -> Result<Option<&'t str>, TextError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let root = parse(text)?;
    Ok(find(&root, path)?.and_then(|spot| text.get(spot.span.clone())))
}

/// Adds a value at the path, where none must be, creating missing parents.
pub(crate) fn put(text: &str, path: &[&str], value: &Value) -> Result<String, TextError> {
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    let mut spot = parse(text)?;
    for (depth, key) in path.iter().enumerate() {
        let Inside::Object(members) = spot.inside else {
            return Err(kind(path.get(..depth).unwrap_or_default(), "an object"));
        };
        let (last, is_empty) = (members.last().map(|(_, spot)| spot.span.end), members.is_empty());
        match members.into_iter().find(|(name, _)| name == key) {
            Some((_, inner)) => spot = inner,
            None => {
                let rest = path.get(depth + 1..).unwrap_or_default();
                let nested = rest.iter().rev().fold(value.clone(), |inner, key| serde_json::json!({ *key: inner }));
                let member = format!("{}: {}", Value::String((*key).to_owned()), shown(&nested, depth + 1));
                return Ok(inserted(text, &spot.span, last, is_empty, &member, depth + 1));
            }
        }
    }
    Err(kind(path, "missing"))
}

/// Removes a member of the document, with its comma.
pub(crate) fn take_out(text: &str, key: &str) -> Result<String, TextError> {
    without_member(text, &parse(text)?, key)
}

fn without_member(text: &str, object: &Spot, key: &str) -> Result<String, TextError> {
    let Inside::Object(members) = &object.inside else { return Err(kind(&[], "an object")) };
    let Some(index) = members.iter().position(|(name, _)| name == key) else { return Ok(text.to_owned()) };
    let end = |index: usize| members.get(index).map(|(_, spot)| spot.span.end);
    let range = match (index.checked_sub(1).and_then(end), end(index), end(index + 1)) {
        (Some(before), Some(own), _) => before..own,
        (None, Some(own), Some(_)) => {
            let mut behind = Reader { text, at: own, comments: Vec::new() };
            behind.take(',')?;
            object.span.start + 1..behind.at
        }
        (_, _, _) => object.span.start + 1..object.span.end.saturating_sub(1),
    };
    let mut changed = text.to_owned();
    changed.replace_range(range, "");
    Ok(changed)
}

/// Removes the value at the path, and each of its parents, as long as it is empty.
pub(crate) fn take_out_empty(text: &str, path: &[&str]) -> Result<String, TextError> {
    let Some((key, parents)) = path.split_last() else { return Ok(text.to_owned()) };
    let root = parse(text)?;
    let is_empty = match find(&root, path)?.map(|spot| &spot.inside) {
        Some(Inside::Object(members)) => members.is_empty(),
        Some(Inside::Array(values)) => values.is_empty(),
        Some(Inside::Other) | None => false,
    };
    let Some(parent) = find(&root, parents)?.filter(|_| is_empty) else { return Ok(text.to_owned()) };
    take_out_empty(&without_member(text, parent, key)?, parents)
}

fn kind(path: &[&str], expected: &'static str) -> TextError {
    TextError::Kind { key: path.join("."), expected }
}

fn find<'s>(root: &'s Spot, path: &[&str]) -> Result<Option<&'s Spot>, TextError> {
    let mut spot = root;
    for (depth, key) in path.iter().enumerate() {
        let Inside::Object(members) = &spot.inside else {
            return Err(kind(path.get(..depth).unwrap_or_default(), "an object"));
        };
        match members.iter().find(|(name, _)| name == key) {
            Some((_, inner)) => spot = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(spot))
}

/// A value with the indentation of its depth.
fn shown(value: &Value, depth: usize) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.replace('\n', &format!("\n{}", "  ".repeat(depth)))
}

/// Inserts text after the last value of an object or an array, or as its first one.
fn inserted(text: &str, span: &Range<usize>, last: Option<usize>, is_empty: bool, new: &str, depth: usize) -> String {
    let (indent, close) = ("  ".repeat(depth), "  ".repeat(depth.saturating_sub(1)));
    let mut changed = text.to_owned();
    match last.filter(|_| !is_empty) {
        Some(end) => changed.insert_str(end, &format!(",\n{indent}{new}")),
        None => changed.replace_range(span.start + 1..span.end.saturating_sub(1), &format!("\n{indent}{new}\n{close}")),
    }
    changed
}

fn parse(text: &str) -> Result<Spot, TextError> {
    Reader { text, at: 0, comments: Vec::new() }.whole()
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    comments: Vec<Range<usize>>,
}

impl Reader<'_> {
    fn whole(&mut self) -> Result<Spot, TextError> {
        let spot = self.value(0)?;
        self.space()?;
        if self.at < self.text.len() { Err(self.missing("the end")) } else { Ok(spot) }
    }

    fn missing(&self, expected: &'static str) -> TextError {
        TextError::NoJson { at: self.at, expected }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips spaces and comments.
    fn space(&mut self) -> Result<(), TextError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            let start = self.at + rest.len() - trimmed.len();
            let length = if trimmed.starts_with("//") {
                trimmed.find('\n').unwrap_or(trimmed.len())
            } else if trimmed.starts_with("/*") {
                trimmed.find("*/").map(|end| end + 2).ok_or(TextError::NoJson { at: start, expected: "`*/`" })?
            } else {
                self.at = start;
                return Ok(());
            };
            self.comments.push(start..start + length);
            self.at = start + length;
        }
    }

    fn take(&mut self, what: char) -> Result<bool, TextError> {
        self.space()?;
        let is_there = self.rest().starts_with(what);
        self.at += if is_there { what.len_utf8() } else { 0 };
        Ok(is_there)
    }

    fn value(&mut self, depth: usize) -> Result<Spot, TextError> {
        if depth > DEEPEST {
            return Err(self.missing("an end of the nesting"));
        }
        self.space()?;
        let start = self.at;
        let inside = if self.take('{')? {
            self.object(depth)?
        } else if self.take('[')? {
            self.array(depth)?
        } else if self.rest().starts_with('"') {
            self.string()?;
            Inside::Other
        } else {
            let end = self.rest().find([',', '}', ']', ' ', '\t', '\n', '\r', '/']).unwrap_or(self.rest().len());
            let word = self.rest().get(..end).unwrap_or_default();
            if serde_json::from_str::<Value>(word).is_err() {
                return Err(self.missing("a value"));
            }
            self.at += end;
            Inside::Other
        };
        Ok(Spot { span: start..self.at, inside })
    }

    fn object(&mut self, depth: usize) -> Result<Inside, TextError> {
        let mut members: Vec<(String, Spot)> = Vec::new();
        if self.take('}')? {
            return Ok(Inside::Object(members));
        }
        loop {
            self.space()?;
            let name = self.string()?;
            if !self.take(':')? {
                return Err(self.missing("`:`"));
            }
            if members.iter().any(|(other, _)| *other == name) {
                return Err(TextError::Twice(name));
            }
            members.push((name, self.value(depth + 1)?));
            if self.take('}')? {
                return Ok(Inside::Object(members));
            }
            if !self.take(',')? {
                return Err(self.missing("`,` or `}`"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Inside, TextError> {
        let mut values = Vec::new();
        if self.take(']')? {
            return Ok(Inside::Array(values));
        }
        loop {
            values.push(self.value(depth + 1)?);
            if self.take(']')? {
                return Ok(Inside::Array(values));
            }
            if !self.take(',')? {
                return Err(self.missing("`,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Result<String, TextError> {
        let rest = self.rest();
        // The first quote opens it.
        let mut is_escaped = true;
        let end = rest.char_indices().find(|(_, c)| {
            let is_end = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            is_end
        });
        let word = end.and_then(|(end, _)| rest.get(..=end)).filter(|word| word.starts_with('"'));
        let text = word.and_then(|word| Some((word.len(), serde_json::from_str::<String>(word).ok()?)));
        let (length, text) = text.ok_or_else(|| self.missing("a string"))?;
        self.at += length;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const PATH: [&str; 2] = ["hooks", "PreToolUse"];

    #[test]
    fn only_what_is_added_changes() {
        let added = json!({ "matcher": "x" });
        for (before, after) in [
            (
                "",
                "{\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"x\"\n      }\n    ]\n  }\n}\n",
            ),
            (
                "{ \"z\": 1 }",
                "{ \"z\": 1,\n  \"hooks\": {\n    \"PreToolUse\": [\n      {\n        \"matcher\": \"x\"\n      }\n    ]\n  } }",
            ),
            (
                "{\"hooks\":{\"PreToolUse\":[ 1 ]}}",
                "{\"hooks\":{\"PreToolUse\":[ 1,\n      {\n        \"matcher\": \"x\"\n      } ]}}",
            ),
        ] {
            assert_eq!(append(before, &PATH, &added).unwrap(), after);
        }
        let text = "{\n  // mine\n  \"b\": \"//no\", /* c */ \"a\": [1, {\"x\": \"\\\"}\"}]\n}";
        let changed = append(text, &["a"], &json!(2)).unwrap();
        assert!(changed.contains("// mine") && changed.contains("/* c */"), "{changed}");
        assert_eq!(elements(&changed, &["a"]).unwrap(), ["1", "{\"x\": \"\\\"}\"}", "2"]);
        let back = remove(&changed, &["a"], |value| value == "2").unwrap();
        assert_eq!(back, text);
        let plain: Value = serde_json::from_str(&without_comments(text).unwrap()).unwrap();
        assert_eq!(plain["b"], "//no");
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "{",
            "[1",
            "{\"a\" 1}",
            "{\"a\":}",
            "{a:1}",
            "{\"a\":1,}",
            "{} x",
            "\"",
            "{\"a\":1 \"b\":2}",
            "/*",
            "{\"a\":1,\"a\":2}",
        ] {
            assert!(append(text, &PATH, &json!(1)).is_err(), "{text}");
        }
        for text in ["[]", "1", "{\"hooks\":[]}", "{\"hooks\":{\"PreToolUse\":{}}}"] {
            assert!(append(text, &PATH, &json!(1)).is_err(), "{text}");
        }
        assert!(append(&"[".repeat(100_000), &PATH, &json!(1)).is_err());
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            any::<String>().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[a-c\"\\\\/]{0,4}|hooks|PreToolUse", inner, 0..5)
                    .prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        /// The text means the same with one value more, and the same again without it.
        #[test]
        fn adding_and_removing_mean_what_they_say(before in any_json(), pretty in any::<bool>()) {
            let text = if pretty { serde_json::to_string_pretty(&before).unwrap() } else { before.to_string() };
            let new = json!({ "ours": "yes" });
            let Ok(changed) = append(&text, &PATH, &new) else { return Ok(()) };
            let mut expected = before.clone();
            let hooks = expected.as_object_mut().unwrap().entry("hooks").or_insert_with(|| json!({}));
            let list = hooks.as_object_mut().unwrap().entry("PreToolUse").or_insert_with(|| json!([]));
            list.as_array_mut().unwrap().push(new.clone());
            let found: Value = serde_json::from_str(&changed).unwrap();
            prop_assert_eq!(found, expected);
            let back = remove(&changed, &PATH, |value| value.contains("ours")).unwrap();
            let back: Value = serde_json::from_str(&back).unwrap();
            let left = |value: &Value| value.pointer("/hooks/PreToolUse").and_then(Value::as_array).cloned().unwrap_or_default();
            prop_assert_eq!(left(&back), left(&before));
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _ = append(&text, &PATH, &json!(1));
            let _ = without_comments(&text);
        }
    }
}
