//! Text with variables of the caller's environment: `${CARGO_HOME:-~/.cargo}/registry`.
//!
//! `${NAME}` is the variable's value, `${NAME:-text}` the text if the variable is unset or empty. The text may contain
//! variables. No other shell syntax is supported.

use std::fmt;

/// Limit on the nesting of variables.
const DEEPEST: usize = 8;
const LONGEST: usize = 4096;

/// A text with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    written: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable { name: String, otherwise: Option<Vec<Part>> },
}

/// Why a template has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoValue {
    /// This variable is not set and has no default.
    NotSet(String),
    /// The value of this variable is not UTF-8.
    NotText(String),
}

impl fmt::Display for NoValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSet(name) => write!(f, "the variable `{name}` is not set"),
            Self::NotText(name) => write!(f, "the variable `{name}` is not UTF-8"),
        }
    }
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(String::from("the text is empty"));
        }
        if text.len() > LONGEST {
            return Err(format!("the text is longer than {LONGEST} bytes"));
        }
        if text.contains(char::is_control) {
            return Err(String::from("a control character has no meaning here: leave it out"));
        }
        let (parts, rest) = parts(text, 0)?;
        if !rest.is_empty() {
            return Err(String::from("a `}` has no `${` before it"));
        }
        Ok(Self { written: text.to_owned(), parts })
    }

    /// Substitutes the variables. An empty value counts as not set.
    pub fn expand(&self, variable: &dyn Fn(&str) -> Option<std::ffi::OsString>) -> Result<String, NoValue> {
        let mut text = String::new();
        expand(&self.parts, variable, &mut text)?;
        Ok(text)
    }
}

/// As it is written.
impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

fn expand(
    parts: &[Part],
    variable: &dyn Fn(&str) -> Option<std::ffi::OsString>,
    text: &mut String,
) -> Result<(), NoValue> {
    for part in parts {
        match part {
            Part::Text(plain) => text.push_str(plain),
            Part::Variable { name, otherwise } => match (variable(name).filter(|value| !value.is_empty()), otherwise) {
                (Some(value), _) => {
                    text.push_str(value.to_str().ok_or_else(|| NoValue::NotText(name.clone()))?);
                }
                (None, Some(otherwise)) => expand(otherwise, variable, text)?,
                (None, None) => return Err(NoValue::NotSet(name.clone())),
            },
        }
    }
    Ok(())
}

/// The parts of a text, up to its end or to the `}` of the enclosing variable, and the rest.
fn parts(text: &str, depth: usize) -> Result<(Vec<Part>, &str), String> {
    let (mut found, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(next) = rest.chars().next() {
        if next == '}' && depth > 0 {
            break;
        }
        let behind = rest.get(next.len_utf8()..).unwrap_or_default();
        match (next, behind.strip_prefix('{')) {
            ('$', Some(inside)) => {
                if !plain.is_empty() {
                    found.push(Part::Text(std::mem::take(&mut plain)));
                }
                let (part, after) = variable(inside, depth + 1)?;
                found.push(part);
                rest = after;
            }
            ('$', None) => return Err(String::from("write a variable as `${NAME}` or `${NAME:-otherwise}`")),
            ('}', _) => return Err(String::from("a `}` has no `${` before it")),
            (other, _) => {
                plain.push(other);
                rest = behind;
            }
        }
    }
    if !plain.is_empty() {
        found.push(Part::Text(plain));
    }
    Ok((found, rest))
}

fn variable(text: &str, depth: usize) -> Result<(Part, &str), String> {
    if depth > DEEPEST {
        return Err(format!("more than {DEEPEST} variables stand inside of each other"));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(String::from("a variable has no name: write `${NAME}` or `${NAME:-otherwise}`"));
    }
    let name = name.to_owned();
    if let Some(after) = rest.strip_prefix('}') {
        return Ok((Part::Variable { name, otherwise: None }, after));
    }
    let Some(inside) = rest.strip_prefix(":-") else {
        return Err(format!("`${{{name}` has no end: write `${{{name}}}` or `${{{name}:-otherwise}}`"));
    };
    let (otherwise, after) = parts(inside, depth)?;
    let Some(after) = after.strip_prefix('}') else {
        return Err(format!("`${{{name}:-` has no `}}` behind it"));
    };
    Ok((Part::Variable { name, otherwise: Some(otherwise) }, after))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let variable = |name: &str| match name {
            "A" => Some("/a".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        };
        Template::parse(text)?.expand(&variable).map_err(|error| error.to_string())
    }

    #[test]
    fn variables_have_values_or_what_stands_in_their_place() {
        for (text, value) in [
            ("/x", "/x"),
            ("${A}/x", "/a/x"),
            ("${B:-~/.b}/x", "~/.b/x"),
            ("${EMPTY:-y}", "y"),
            ("${B:-${C:-${A}/c}}/x", "/a/c/x"),
            ("${B:-}/x", "/x"),
            ("${A:-${B}}", "/a"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(value), "{text}");
        }
        assert_eq!(expanded("${B}"), Err(String::from("the variable `B` is not set")));
    }

    #[test]
    fn what_is_no_template_is_refused() {
        for text in ["", "$A", "${A", "${}", "${1}", "${A-b}", "${A:-b", "a}", "$", "${A}}", "a\nb", "${A:+x}"] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
        assert!(Template::parse(&"${A:-".repeat(2000)).is_err());
        assert!(Template::parse(&"x".repeat(LONGEST + 1)).is_err());
    }

    proptest! {
        /// Any text is parsed or refused, and a template without variables expands to itself.
        #[test]
        fn any_text_is_read_or_refused(text in "[a-zA-Z${}:~/_.-]{0,40}") {
            if let Ok(template) = Template::parse(&text) {
                prop_assert_eq!(template.to_string(), text.clone());
                let none = |_: &str| None;
                if !text.contains('$') {
                    prop_assert_eq!(template.expand(&none), Ok(text));
                } else {
                    drop(template.expand(&none));
                }
            }
        }
    }
}
