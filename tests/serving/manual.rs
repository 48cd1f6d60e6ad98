use std::collections::BTreeMap;

use serde_json::Value;

use super::talk::Talk;
use crate::running::home::Home;
use crate::support::repository;

/// What `$NAMES` of the manual stand for.
struct Names(BTreeMap<String, String>);

impl Names {
    fn fill(&self, line: &str) -> String {
        self.0.iter().fold(line.to_owned(), |line, (name, value)| line.replace(name, value))
    }

    /// Whether a message is what the manual shows. A name that stands alone and is new takes what is there.
    fn fits(&mut self, shown: &Value, real: &Value) -> bool {
        match (shown, real) {
            (Value::String(text), _) if text == "…" => true,
            (Value::String(text), Value::String(value)) if text.starts_with('$') && !text.contains('/') => {
                self.0.entry(text.clone()).or_insert_with(|| value.clone()) == value
            }
            (Value::String(text), Value::String(value)) => self.fill(text) == *value,
            (Value::Object(shown), Value::Object(real)) => {
                let is_open = shown.contains_key("…");
                (is_open || shown.len() == real.len())
                    && shown
                        .iter()
                        .filter(|(key, _)| *key != "…")
                        .all(|(key, shown)| real.get(key).is_some_and(|real| self.fits(shown, real)))
            }
            (Value::Array(shown), Value::Array(real)) => {
                let is_open = shown.last().is_some_and(|last| last == "…");
                let named = if is_open { shown.len() - 1 } else { shown.len() };
                (is_open || real.len() == named)
                    && shown.iter().take(named).zip(real).all(|(shown, real)| self.fits(shown, real))
                    && real.len() >= named
            }
            (shown, real) => shown == real,
        }
    }
}

/// Every line of the manual, typed in its order to the real server.
#[test]
fn the_conversation_of_the_manual_is_what_happens() {
    let manual = std::fs::read_to_string(repository().join("docs/server.md")).unwrap();
    let home = Home::new();
    let mut talk = Talk::with(home.program().arg("serve"));
    let mut names = Names(BTreeMap::new());
    names.0.insert(String::from("$DIRECTORY"), home.path("ws").to_str().unwrap().to_owned());
    let mut lines = 0;
    for block in manual.split("```wire\n").skip(1) {
        for line in block.split("```").next().unwrap().lines() {
            lines += 1;
            match line.split_at(2) {
                ("> ", typed) => talk.line(&names.fill(typed)),
                ("< ", shown) => {
                    let shown: Value = serde_json::from_str(shown).unwrap_or_else(|error| panic!("{error}: {shown}"));
                    let real = talk.hear().unwrap_or_else(|| panic!("nothing came for {shown}"));
                    assert!(names.fits(&shown, &real), "the manual shows\n{shown}\nand this came:\n{real}");
                }
                _ => panic!("no line of the wire: {line}"),
            }
        }
    }
    assert!(lines > 25, "{lines}");
    assert_eq!(talk.hear(), None);
    assert!(talk.end().success());
}

/// The tables of the manual have every method and every error.
#[test]
fn the_manual_names_every_method_and_error() {
    let manual = std::fs::read_to_string(repository().join("docs/server.md")).unwrap();
    let document = std::fs::read_to_string(repository().join("schemas/openrpc.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    for method in document.get("methods").unwrap().as_array().unwrap() {
        let name = method.get("name").unwrap().as_str().unwrap();
        assert!(manual.contains(name), "{name} is not in docs/server.md");
    }
    for (kind, error) in document.pointer("/components/errors").unwrap().as_object().unwrap() {
        let row = format!("| {} | `{kind}` |", error.get("code").unwrap());
        assert!(manual.contains(&row), "{row} is not in docs/server.md");
    }
}
