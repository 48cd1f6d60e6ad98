//! Answers to a form: parsed from typed lines, and checked against the form.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::{ElicitationForm, FieldKind, FormField, NumberShape, TextFormat};

impl ElicitationForm {
    /// Checks an answer against the form.
    pub fn check(&self, answer: &BTreeMap<String, Value>) -> Result<(), String> {
        let known = |name: &&String| self.fields.iter().any(|field| field.name == **name);
        if let Some(name) = answer.keys().find(|name| !known(name)) {
            return Err(format!("`{name}` is none of the fields"));
        }
        for field in &self.fields {
            match answer.get(&field.name) {
                Some(value) => field.check(value).map_err(|why| format!("`{}`: {why}", field.name))?,
                None if field.required => return Err(format!("`{}` is missing", field.name)),
                None => {}
            }
        }
        Ok(())
    }
}

impl FormField {
    /// Parses a typed line; `None` if it is empty and no answer is required.
    pub fn read(&self, line: &str) -> Result<Option<Value>, String> {
        let word = line.trim();
        if word.is_empty() {
            return match (&self.default, self.required) {
                (Some(default), _) => Ok(Some(default.clone())),
                (None, true) => Err(String::from("an answer is needed")),
                (None, false) => Ok(None),
            };
        }
        let value = match &self.kind {
            FieldKind::Text { .. } => Value::from(line),
            FieldKind::Number { .. } => {
                let number = serde_json::from_str::<Number>(word);
                Value::Number(number.map_err(|_| format!("this is no {}", self.kind.noun()))?)
            }
            FieldKind::Truth => match word.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                _ => return Err(String::from("answer y or n")),
            },
            // Chosen by number only, since a value may look like a number itself.
            FieldKind::Choice(choices) => {
                let number = word.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let chosen = number.and_then(|index| choices.get(index));
                let chosen = chosen.ok_or_else(|| format!("answer a number from 1 to {}", choices.len()))?;
                Value::from(chosen.value.as_str())
            }
        };
        self.check(&value)?;
        Ok(Some(value))
    }

    /// Checks a value against the field.
    pub(super) fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (FieldKind::Text { min_length, max_length, format }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                match (min_length, max_length, format) {
                    (Some(least), ..) if length < *least => Err(format!("at least {least} characters are needed")),
                    (_, Some(most), _) if length > *most => Err(format!("at most {most} characters are taken")),
                    (.., Some(format)) if !format.is_met_by(text) => Err(format!("this is no {}", self.kind.noun())),
                    _ => Ok(()),
                }
            }
            (FieldKind::Number { shape, minimum, maximum }, Value::Number(number)) => {
                let whole = number.is_i64() || number.is_u64();
                let size = number.as_f64().filter(|size| size.is_finite()).ok_or("this number is too large")?;
                match (minimum, maximum) {
                    _ if *shape == NumberShape::Whole && !whole => Err(String::from("this is no whole number")),
                    (Some(least), _) if size < *least => Err(format!("the least is {least}")),
                    (_, Some(most)) if size > *most => Err(format!("the most is {most}")),
                    _ => Ok(()),
                }
            }
            (FieldKind::Truth, Value::Bool(_)) => Ok(()),
            (FieldKind::Choice(choices), Value::String(text)) if choices.iter().any(|choice| choice.value == *text) => {
                Ok(())
            }
            (FieldKind::Choice(_), _) => Err(String::from("this is none of the choices")),
            (FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Truth, _) => {
                Err(format!("this is no {}", self.kind.noun()))
            }
        }
    }
}

impl TextFormat {
    /// Finds typing errors. Whether the address or day exists is for the server to decide.
    fn is_met_by(self, text: &str) -> bool {
        let is_word = |text: &str| !text.is_empty() && !text.contains(char::is_whitespace);
        match self {
            Self::Email => text.rsplit_once('@').is_some_and(|(name, host)| is_word(name) && is_word(host)),
            Self::Uri => text.split_once(':').is_some_and(|(scheme, rest)| {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
                scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(plain) && is_word(rest)
            }),
            Self::Date => has_form(text, "0000-00-00"),
            Self::DateTime => text.split_once(['T', 't']).is_some_and(|(date, time)| {
                let clock = time.get(..8).is_some_and(|clock| has_form(clock, "00:00:00"));
                let zone = time.get(8..).unwrap_or_default();
                let zone = zone.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
                let offset = zone.strip_prefix(['+', '-']).is_some_and(|offset| has_form(offset, "00:00"));
                has_form(date, "0000-00-00") && clock && (zone.eq_ignore_ascii_case("z") || offset)
            }),
        }
    }
}

/// Whether a text has a digit at each `0` of the form, and is equal to it otherwise.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text
            .bytes()
            .zip(form.bytes())
            .all(|(own, form)| if form == b'0' { own.is_ascii_digit() } else { own == form })
}
